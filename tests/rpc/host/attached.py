"""A host as a process of its own, and a client that speaks to its socket, for tests."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_rpc.host.protocol import (
    Accepted,
    Answer,
    Attach,
    Detach,
    EndAgent,
    Ended,
    FrameDecoder,
    HostControl,
    Refused,
    Request,
    encode_client_control,
    encode_data,
    encode_request,
    parse_cursor,
    parse_host_control,
)
from pinnace_spec.host.records import HOST_RECORDS

TIMEOUT_S = 60.0
PROGRAM = (sys.executable, "-P", "-m", "pinnace_rpc")
OFFLINE = ("--provider", "offline")
_NO_RESTART = """
import sys
from pinnace_rpc.host.agents import supervisor
supervisor.RESTART_DELAYS_S = (3600.0,)
from pinnace_rpc.cli.main import main
sys.exit(main())
"""
WITHOUT_RESTART = (sys.executable, "-P", "-c", _NO_RESTART)
"""The program of a host whose agents stay ended after a crash, until they are restarted by a request."""
Record = dict[str, Any]  # Any: JSON


class Connection:
    """One connection to a host."""

    def __init__(self, path: str, request: Request | bytes) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_S)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        with suppress(BrokenPipeError):  # refused before it was read
            self.socket.sendall(request if isinstance(request, bytes) else encode_request(request))
        self.controls: list[HostControl] = []
        self.received = b""
        """Data that is not taken yet."""
        self.is_closed = False
        self._decoder = FrameDecoder()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def pump(self) -> bool:
        """Receive once; return whether there was something."""
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        for frame in self._decoder.receive_data(data):
            if frame.kind == "d":
                self.received += frame.payload
            else:
                self.controls.append(parse_host_control(frame.payload))
        self.is_closed = not data
        return bool(data)

    def control(self) -> HostControl:
        """Return the next control message."""
        while not self.controls:
            assert self.pump(), "closed"
        return self.controls.pop(0)

    def send(self, *records: Mapping[str, object] | bytes) -> None:
        lines = [each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in records]
        for frame in encode_data(b"".join(lines)):
            self.socket.sendall(frame)

    def send_together(self, *records: Mapping[str, object]) -> None:
        """Send each record in a frame of its own, all in one piece."""
        frames = [frame for each in records for frame in encode_data(json.dumps(each).encode() + b"\n")]
        self.socket.sendall(b"".join(frames))

    def leave(self, control: Detach | EndAgent) -> None:
        self.socket.sendall(encode_client_control(control))

    def record(self) -> Record:
        """Return the next record; one of the host's own is as published (R-HST-05)."""
        while b"\n" not in self.received:
            assert self.pump(), f"closed: {self.controls}"
        line, _, self.received = self.received.partition(b"\n")
        record: Record = json.loads(line)
        is_host_record = "seq" in record or record["type"] != "extension_ui_resolved"  # else it is one of the profile
        if is_host_record and (model := HOST_RECORDS.get(record["type"])) is not None:
            model.model_validate(record)
        return record

    def until(self, **fields: object) -> list[Record]:
        """Return the records up to the first one that has these fields."""
        found: list[Record] = []
        while True:
            found.append(self.record())
            if all(found[-1].get(name) == value for name, value in fields.items()):
                return found

    def ask(self, record: Record) -> Record:
        """Send a command and return its response, and nothing of what came before."""
        self.send(record)
        return self.until(type="response", id=record["id"])[-1]

    def ended(self) -> Ended:
        """Return the last message, after everything that was written before."""
        while self.pump():
            pass
        (ended,) = (each for each in self.controls if isinstance(each, Ended))
        return ended

    def rest(self) -> list[Record]:
        """Return the records that are left, after the end."""
        return [json.loads(line) for line in self.received.splitlines()]


class HostProcess:
    """A host, started by `host_process`."""

    def __init__(self, folder: Path, process: "subprocess.Popen[str]", environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.process = process
        self.environment = environment
        self.socket_path = f"{environment['XDG_RUNTIME_DIR']}/pinnace/host.sock"

    def request(self, **fields: Any) -> Attach:  # Any: of each field its own type
        since: str | None = fields.pop("since", None)
        plain = Attach(
            versions=(1,),
            release="test",
            is_new=False,
            agent=None,
            session=None,
            since=None if since is None else parse_cursor(since),
            has_cursors=since is not None,
            client=None,
            on_eof="detach",
            start=OFFLINE,
            cwd=str(self.folder),
            environment=dict(self.environment),
            umask=0o022,
            profile=None,
        )
        return plain._replace(**fields)

    def connect(self, request: Request | bytes) -> Connection:
        return Connection(self.socket_path, request)

    def attach(self, agent: str | None = "main", **fields: Any) -> Connection:  # Any: of each field its own type
        connection = self.connect(self.request(agent=agent, **fields))
        accepted = connection.control()
        assert isinstance(accepted, Accepted), accepted
        return connection

    def refusal(self, request: Request | bytes) -> Refused:
        with self.connect(request) as connection:
            refused = connection.control()
        assert isinstance(refused, Refused), refused
        return refused

    def ask(self, request: Request) -> Record:
        with self.connect(request) as connection:
            answer = connection.control()
        assert isinstance(answer, Answer), answer
        return dict(answer.record)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run `pinnace host` with these words."""
        return subprocess.run(command(*words), env=dict(self.environment), capture_output=True, text=True, check=False)

    def attach_program(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run `pinnace attach` with these words; its stdin has ended."""
        program = [sys.executable, "-P", "-m", "pinnace_rpc", "attach", *words]
        return subprocess.run(
            program,
            stdin=subprocess.DEVNULL,
            env=dict(self.environment),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def end(self) -> str:
        """End it as a supervisor of services does; return its stderr."""
        self.process.terminate()
        return self.process.communicate(timeout=TIMEOUT_S)[1]


def command(*words: str) -> list[str]:
    return [*PROGRAM, "host", *words]


def wait_for_socket(process: "subprocess.Popen[str]", path: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(path) == 0:
                return
        time.sleep(0.01)
    raise AssertionError("the host does not listen")


@contextmanager
def started(
    folder: Path, environment: Mapping[str, str], *words: str, program: Sequence[str] = PROGRAM
) -> Generator[HostProcess]:
    """Start a host; it is killed at the end unless it has ended."""
    argv = [*program, "host", *words]
    with subprocess.Popen(argv, env=dict(environment), stderr=subprocess.PIPE, text=True) as process:
        host = HostProcess(folder, process, environment)
        try:
            wait_for_socket(process, host.socket_path)
            yield host
        finally:
            if process.poll() is None:
                host.end()


@contextmanager
def short_folder() -> Generator[Path]:
    """Make a folder whose path fits into that of a socket."""
    folder = make_short_folder("ph")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment_of(folder: Path) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PI_CODING_AGENT_DIR": str(folder / "agent"),
        "XDG_RUNTIME_DIR": str(folder),
        "PYTHONPATH": PYTHONPATH,
    }
