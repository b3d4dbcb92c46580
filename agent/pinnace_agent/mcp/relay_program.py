"""The program that an agent starts for an MCP server of the editor: joins its standard streams to a socket.

The adapter of editors is at the other end. It passes bytes on in both directions, and ends when either side does. Runs
in an interpreter of its own (`shell.own_programs`), so it imports little; it closes itself first, since what passes
through may be secret.
"""

import os
import socket
import threading
from collections.abc import Sequence
from typing import Final

from pinnace_agent.shell.protection import protect

_CHUNK_BYTES: Final = 64 * 1024


def main(arguments: Sequence[str]) -> int:
    """Pass bytes on until one side ends; return the exit code.

    Args:
        arguments: The path of the socket.
    """
    protect()
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # which a sandbox may forbid
        connection.connect(arguments[0])
    except OSError as error:
        os.write(2, f"the editor that serves this MCP server can't be reached: {error.strerror}\n".encode())
        return 1
    threading.Thread(target=_pass_input_on, args=(connection,), daemon=True).start()
    with connection:
        while data := connection.recv(_CHUNK_BYTES):
            while data:
                data = data[os.write(1, data) :]
    return 0


def _pass_input_on(connection: socket.socket) -> None:
    try:
        while data := os.read(0, _CHUNK_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        os._exit(1)
