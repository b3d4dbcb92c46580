"""The program that an agent starts for an MCP server of the editor: joins its standard streams to a socket.

Run as a file by a bare interpreter, so that it starts at once: imports nothing of this project. `mcp_bridge.py` is at
the other end. It ends when either side does.
"""

import os
import socket
import sys
import threading

_CHUNK_BYTES = 64 * 1024


def _pass_input_on(connection: socket.socket) -> None:
    try:
        while data := os.read(0, _CHUNK_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        os._exit(1)


def main() -> int:
    """Pass bytes on, in both directions; return the exit code."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(sys.argv[1])
    except OSError as error:
        os.write(2, f"the editor that serves this MCP server is gone: {error.strerror}\n".encode())
        return 1
    threading.Thread(target=_pass_input_on, args=(connection,), daemon=True).start()
    with connection:
        while data := connection.recv(_CHUNK_BYTES):
            while data:
                data = data[os.write(1, data) :]
    return 0


if __name__ == "__main__":
    sys.exit(main())
