"""Messages between a host and its zygote: JSON objects, one a packet, with descriptors.

From the host: `fork` (a number) with four descriptors: stdin, stdout, stderr and a socket with the start. To the host:
`ready` (the version of these messages), `forked` (the number) with `pid` and a pidfd, `refused` (the number) with
`reason`, `exited` (the number) with `status`. Standard library only: the zygote has no event loop.
"""

import array
import json
import os
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

VERSION: Final = 1
"""A zygote of a later release may not understand this host."""
LARGEST_MESSAGE: Final = 4096
"""In bytes: a number, a process id, a reason."""
DESCRIPTOR_SPACE: Final = socket.CMSG_SPACE(4 * array.array("i").itemsize)
"""For as many descriptors as a message may have."""


def send(connection: socket.socket, message: Mapping[str, object], descriptors: Iterable[int] = ()) -> None:
    """Send a message with descriptors, which stay open here."""
    connection.sendmsg([json.dumps(message).encode()], rights(descriptors))


def rights(descriptors: Iterable[int]) -> "list[tuple[int, int, array.array[int]]]":
    """Return what passes descriptors along with a message."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive a message and its descriptors, which become ours; None: the other end is closed."""
    try:
        data, ancillary, *_ = connection.recvmsg(LARGEST_MESSAGE, DESCRIPTOR_SPACE)
    except ConnectionResetError:
        return None, []
    return (json.loads(data) if data else None), received_descriptors(ancillary)


def received_descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a message; none is inherited by programs."""
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    for each in found:
        os.set_inheritable(each, False)
    return list(found)
