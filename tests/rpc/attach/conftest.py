"""A host for attaches under test: a real socket under a real lock, whose side of the conversation a test plays."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_rpc.host.locations import HostLock, default_socket, make_folder
from pinnace_rpc.host.protocol import (
    Accepted,
    Attach,
    ClientControl,
    Ended,
    FrameDecoder,
    HostControl,
    Refused,
    Request,
    encode_data,
    encode_host_control,
    parse_client_control,
    parse_request,
)

TIMEOUT_S = 60.0


class Requested:
    """One connection, seen from the host."""

    def __init__(self, connection: socket.socket) -> None:
        """Take it over and read its first message."""
        connection.settimeout(TIMEOUT_S)
        self.socket = connection
        self.data = b""
        self.controls: list[ClientControl] = []
        self._decoder = FrameDecoder()
        self._first = b""
        while not self._first:
            assert self._take(), "the attach wrote no first message"
        self.asked: Request = parse_request(self._first)

    def control(self, message: HostControl) -> None:
        self.socket.sendall(encode_host_control(message))

    def close(self) -> None:
        self.socket.close()

    def _take(self) -> bool:
        data = self.socket.recv(65536)
        for kind, payload in self._decoder.receive_data(data):
            if kind == "d":
                self.data += payload
            elif not self._first:
                self._first = payload
            else:
                self.controls.append(parse_client_control(payload))
        return bool(data)


class Connection(Requested):
    """One attach."""

    def __init__(self, connection: socket.socket) -> None:
        """Take it over and read its first message."""
        super().__init__(connection)
        assert isinstance(self.asked, Attach)
        self.request: Attach = self.asked

    def accept(self) -> None:
        self.control(Accepted(1, "0.1.0", "x"))

    def write(self, data: bytes) -> None:
        for frame in encode_data(data):
            self.socket.sendall(frame)

    def end(self, exit_code: int = 0, error: str | None = None) -> None:
        self.control(Ended(exit_code, error))
        self.close()

    def refuse(self, exit_code: int, error: str) -> None:
        self.control(Refused(exit_code, error))
        self.close()

    def read(self, size: int) -> bytes:
        """Return that many bytes of the stream."""
        while len(self.data) < size:
            assert self._take(), self.data
        found, self.data = self.data[:size], self.data[size:]
        return found

    def next_control(self) -> ClientControl:
        """Return the next message beside the data."""
        while not self.controls:
            assert self._take(), "the connection ended without a message"
        return self.controls.pop(0)


class Host:
    """The stand-in, and the folder and environment of its user."""

    def __init__(self, folder: Path) -> None:
        """Hold the lock and listen."""
        self.folder = folder
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": PYTHONPATH,
            "HOME": str(folder),
            "PI_CODING_AGENT_DIR": str(folder / "agent"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }
        self.path = Path(default_socket(self.environment))
        make_folder(str(self.path.parent))
        self._lock = HostLock.take(str(folder / "agent"), str(self.path), "0.1.0")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._listener.settimeout(TIMEOUT_S)
        self._stack = ExitStack()
        self.connection: Connection | None = None
        """The last one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._listener.close()
        self._lock.release()

    def attach(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start an attach; it is killed at the end of the test."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given: dict[str, Any] = {"env": self.environment, "cwd": self.folder, **pipes, **options}
        command = [sys.executable, "-P", "-m", "pinnace_rpc", "attach", *words]
        process = subprocess.Popen[bytes](command, **given)
        self._stack.callback(_end, process)
        return process

    def accept(self) -> Connection:
        """Wait for the next attach."""
        self.connection = Connection(self._next())
        return self.connection

    def accept_request(self) -> Requested:
        """Wait for the next connection."""
        return Requested(self._next())

    def is_asked(self) -> bool:
        """Return whether a connection waits to be accepted."""
        return bool(select.select([self._listener], [], [], 0)[0])

    def _next(self) -> socket.socket:
        connection, _ = self._listener.accept()
        self._stack.callback(connection.close)
        return connection

    def attached(self, *words: str, **options: Any) -> tuple[subprocess.Popen[bytes], Connection]:
        """Start an attach and accept it."""
        process = self.attach(*words, **options)
        connection = self.accept()
        connection.accept()
        return process, connection


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(TIMEOUT_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        close_quietly(stream)


def close_quietly(stream: IO[bytes] | None) -> None:
    """Close a pipe, whatever is still to be written to it."""
    try:
        if stream is not None:
            stream.close()
    except BrokenPipeError:
        pass


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket in it."""
    path = make_short_folder("pinnace-")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def host(folder: Path) -> Iterator[Host]:
    """A host that a test plays."""
    with Host(folder) as standing_in:
        yield standing_in
