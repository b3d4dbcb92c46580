"""A command of a model gets nothing of the host of its agent, however it was started. R-HST-07."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.rpc.host.attached import OFFLINE, PROGRAM, TIMEOUT_S, Connection, HostProcess

from pinnace_rpc.host import peers
from pinnace_rpc.host.locations import LocationError
from pinnace_rpc.host.protocol import (
    AgentAction,
    AskStatus,
    ListAgents,
    Request,
    StopHost,
    encode_data,
    encode_request,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel says which process has connected")

INTRUDER = '''\
import os, signal, socket, sys, time
way, path, sent, answer = sys.argv[1:]

def leave():
    """Continue in a child whose parent has ended."""
    former = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == former:
        time.sleep(0.001)

if way != "plain":
    leave()
    os.setsid()
    leave()
if way == "kills its agent":
    agent = os.getppid()
    os.kill(agent, signal.SIGKILL)
    while os.getppid() == agent:
        time.sleep(0.001)
connection = socket.socket(socket.AF_UNIX)
connection.connect(path)
if way == "hands over":
    leave()
connection.settimeout(20)
received = b""
with open(sent, "rb") as file:
    wanted = file.read()
try:
    connection.sendall(wanted)
except OSError:
    pass
try:
    while b"set_tool_approval" not in received and (data := connection.recv(65536)):
        received += data
except OSError:
    pass
with open(answer + ".new", "wb") as file:
    file.write(received)
os.rename(answer + ".new", answer)
'''
"""Connects to a host, writes there what a file has, and keeps what comes back."""
ASKS = (*OFFLINE, "--tool-approval", "ask")
LOWERED = b'"command":"set_tool_approval","success":true'


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def begin(client: Connection, command: str) -> None:
    """Have the model call bash, and approve that once."""
    client.send({"id": "p", "type": "prompt", "message": f"run `{command}`"})
    (*_, question) = client.until(type="extension_ui_request", method="select")
    assert "Allow once" in question["options"]
    client.send({"type": "extension_ui_response", "id": question["id"], "value": "Allow once"})


def call(client: Connection, command: str) -> str:
    """Have the model call bash, approve that once, and return the records up to its end."""
    begin(client, command)
    return json.dumps(client.until(type="tool_execution_end"))


def intrusion(host: HostProcess, way: str, request: Request) -> tuple[str, Path]:
    """Return a command that makes a request, and the file that gets what is answered."""
    folder = host.folder
    program, sent, answer = folder / "intruder.py", folder / "sent", folder / "answer"
    program.write_text(INTRUDER)
    lowering = b'{"id":"x","type":"set_tool_approval","mode":"never"}\n'
    sent.write_bytes(encode_request(request) + b"".join(encode_data(lowering)))
    # Without its environment the watchdog of the agent does not know it.
    words = ("env", "-i", sys.executable, "-I", str(program), way, host.socket_path, str(sent), str(answer))
    return shlex.join(words), answer


def approval(client: Connection) -> str:
    mode: str = client.ask({"id": "s", "type": "get_state"})["data"]["toolApproval"]
    return mode


@pytest.mark.parametrize("way", ["plain", "daemon", "hands over", "kills its agent"])
def test_an_approved_command_cannot_turn_approval_off(host: HostProcess, way: str) -> None:
    with host.attach(start=ASKS) as client:
        command, answer = intrusion(host, way, host.request(agent="main", start=()))
        begin(client, command)
        eventually(answer.exists)
        if way == "kills its agent":
            while client.pump():  # the host ends it with the agent, and each client that attaches before that
                pass

    received = answer.read_bytes()
    assert LOWERED not in received
    assert b"was started by an agent of this host" in received or (way == "hands over" and b"has ended" in received)
    with host.attach(start=()) as client:
        assert approval(client) == "ask"


@pytest.mark.parametrize("request_", [AskStatus(), ListAgents(watches=False), StopHost(), AgentAction("stop", "main")])
def test_no_request_of_a_command_is_answered(host: HostProcess, request_: Request) -> None:
    """Not even one that only asks."""
    with host.attach(start=ASKS) as client:
        command, answer = intrusion(host, "plain", request_)
        call(client, command)
        assert b"was started by an agent of this host" in answer.read_bytes()
        assert approval(client) == "ask"


def test_attach_in_a_command_says_why_it_is_refused(host: HostProcess) -> None:
    with host.attach(start=ASKS) as client:
        shown = call(client, shlex.join([*PROGRAM, "attach", "main"]))
        assert "was started by an agent of this host" in shown
        assert "code 2" in shown
    assert host.attach_program("main").returncode == 0


def test_a_host_reaps_what_it_adopts(host: HostProcess) -> None:
    """A process that has left its killed agent becomes a child of the host, and is gone when it has ended."""
    with host.attach(start=ASKS) as client:
        command, answer = intrusion(host, "kills its agent", AskStatus())
        begin(client, command)
        eventually(answer.exists)
    found = re.search(rb"process (\d+) was started by an agent", answer.read_bytes())
    assert found is not None
    eventually(lambda: not Path(f"/proc/{int(found[1])}").exists())


@contextmanager
def connected() -> Generator[tuple[socket.socket, "subprocess.Popen[bytes]"]]:
    """A connection of a process that was started here, which does nothing more until its stdin ends."""
    code = (
        "import socket, sys; one = socket.socket(socket.AF_UNIX); one.connect('\\0' + sys.argv[1]);"
        "print(flush=True); sys.stdin.read()"
    )
    name = f"pinnace-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        argv = [sys.executable, "-I", "-c", code, name]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            accepted, _ = listener.accept()
            with accepted:
                yield accepted, process


@pytest.mark.parametrize("is_old", [False, True])
def test_an_old_kernel_is_asked_for_the_process_by_its_number(monkeypatch: pytest.MonkeyPatch, *, is_old: bool) -> None:
    if is_old:
        monkeypatch.setattr(peers, "_SO_PEERPIDFD", 9999)  # ENOPROTOOPT
    with connected() as (accepted, process):
        with pytest.raises(LocationError, match=f"process {process.pid} was started by an agent"):
            peers.check_origin(accepted, [])
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(LocationError, match=f"{process.pid}.* has ended"):
            peers.check_origin(accepted, [])


def test_parents_that_change_between_two_readings_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a parent that has ended may be that of another process when its own parent is read."""
    own = os.getpid()
    readings = [[(9, 5, 7), (7, 1, 1)], [(9, 5, own)], [(9, 5, own)]]

    def changed(_pid: int) -> list[tuple[int, int, int]]:
        return readings.pop(0)

    monkeypatch.setattr(peers, "_walk", changed)
    with connected() as (accepted, _), pytest.raises(LocationError, match="was started by an agent"):
        peers.check_origin(accepted, [])
    endless = iter(range(1000))

    def changing(pid: int) -> list[tuple[int, int, int]]:
        return [(pid, 1, next(endless))]

    monkeypatch.setattr(peers, "_walk", changing)
    with connected() as (accepted, _), pytest.raises(LocationError, match="they change"):
        peers.check_origin(accepted, [])


def test_a_process_that_the_host_does_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives it no number in the container of the host."""

    def unseen(_connection: socket.socket) -> int:
        return 0

    monkeypatch.setattr(peers, "peer_pid", unseen)
    with connected() as (accepted, _), pytest.raises(LocationError, match="in another container"):
        peers.check_origin(accepted, [])
