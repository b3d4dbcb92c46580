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
    ProtocolError,
    Refused,
    Request,
    encode_request,
    parse_host_control,
)

_READ_BYTES: Final = 64 * 1024


class NoAnswer(Exception):
    """The host refuses, or the connection to it is lost. The text is for the user."""


def answers(environment: Mapping[str, str], request: Request) -> Iterator[Mapping[str, object]]:
    """Yield the answers of the host to one request, until it ends the connection.

    Args:
        environment: Names the agent folder, whose host is meant.
        request: Any but an attach.

    Raises:
        NoHost: There is none.
        NoAnswer: It refuses, or is lost.
    """
    with connect(environment, starts=False) as connection:
        try:
            connection.sendall(encode_request(request))
            yield from _read(connection)
        except (OSError, ProtocolError) as error:
            raise NoAnswer(f"the connection to the host is lost: {error}") from None


def _read(connection: socket.socket) -> Iterator[Mapping[str, object]]:
    decoder = FrameDecoder()
    while data := connection.recv(_READ_BYTES):
        for frame in decoder.receive_data(data):
            match parse_host_control(frame.payload):
                case Answer(record):
                    yield record
                case Refused(_, error):
                    raise NoAnswer(error)
                case _:
                    raise ProtocolError("the host wrote what is no answer")
