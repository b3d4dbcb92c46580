"""Asks the host something, or gives it an order, without being attached to an agent: one request and its answers.

Starts no host. Blocks, so a running event loop calls it from a thread. Must not know what answers are used for.
"""

import socket
from collections.abc import Iterator, Mapping
from typing import Final

from pinnace_rpc.attach.finding import connect
from pinnace_rpc.host.protocol import (
    Answer,
    FrameDecoder,
    HostProtocolError,
    Refused,
    Request,
    encode_request,
    parse_host_control,
)

ANSWER_S: Final = 30.0
"""How long a host may take for its first answer: it waits for an agent that ends, and starts another."""
_READ_BYTES: Final = 64 * 1024


class NoAnswer(Exception):
    """The host refuses or is silent, or the connection to it is lost. The text is for the user."""


def answers(
    environment: Mapping[str, str], request: Request, *, within_s: float = ANSWER_S
) -> Iterator[Mapping[str, object]]:
    """Yield the answers of the host to one request, until it ends the connection.

    Args:
        environment: Names the agent folder, whose host is meant.
        request: Any but an attach.
        within_s: The limit for the first answer.

    Raises:
        NoHost: There is none.
        NoAnswer: It refuses, is silent, or is lost.
    """
    with connect(environment, starts=False) as connection:
        connection.settimeout(within_s)
        try:
            connection.sendall(encode_request(request))
            for answer in _read(connection):
                connection.settimeout(None)
                yield answer
        except TimeoutError:
            raise NoAnswer(f"the host has not answered within {within_s:g} seconds") from None
        except (OSError, HostProtocolError) as error:
            raise NoAnswer(f"the connection to the host is lost: {error}") from None


def _read(connection: socket.socket) -> Iterator[Mapping[str, object]]:
    decoder = FrameDecoder()
    while data := connection.recv(_READ_BYTES):
        for frame in decoder.receive_data(data):
            yield answer_in(frame.payload)


def answer_in(payload: bytes) -> Mapping[str, object]:
    """Return the answer in a frame of the host.

    Raises:
        NoAnswer: It refuses.
        HostProtocolError: It is none.
    """
    match parse_host_control(payload):
        case Answer(record):
            return record
        case Refused(_, error):
            raise NoAnswer(error)
        case _:
            raise HostProtocolError("the host wrote what is no answer")
