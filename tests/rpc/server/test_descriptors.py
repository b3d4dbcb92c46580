"""What the process does to the descriptors that it shares with its parent."""

import os
import pty
import signal
import socket
import subprocess
import sys
import tty
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = [sys.executable, "-P", "-m", "pinnace_rpc"]
COMMAND = [*PROGRAM, "--mode", "rpc", "--no-session"]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PYTHONPATH, "HOME": str(home)}


def make_pipes() -> tuple[int, int, int, int]:
    stdin, to_agent = os.pipe()
    from_agent, stdout = os.pipe()
    return stdin, to_agent, from_agent, stdout


def make_terminal() -> tuple[int, int, int, int]:
    controller, terminal = pty.openpty()
    tty.setraw(terminal)
    return terminal, controller, os.dup(controller), os.dup(terminal)


def make_sockets() -> tuple[int, int, int, int]:
    stdin, to_agent = socket.socketpair()
    stdout, from_agent = socket.socketpair()
    return stdin.detach(), to_agent.detach(), from_agent.detach(), stdout.detach()


ENDS = {"EOF": (), "TERM": (signal.SIGTERM,), "INT twice": (signal.SIGINT,) * 2, "KILL": (signal.SIGKILL,)}
CASES = [(make, end) for make in (make_pipes, make_terminal, make_sockets) for end in ENDS]
# The end of input of a terminal is no end of what was opened; of a socket that was shared, nothing gives back a kill.
CASES = [each for each in CASES if each not in ((make_terminal, "EOF"), (make_sockets, "KILL"))]


@pytest.mark.parametrize(("make", "end"), CASES)
def test_a_parent_finds_its_descriptors_blocking_however_the_process_ends(
    tmp_path: Path, make: Callable[[], tuple[int, int, int, int]], end: str
) -> None:
    """The blocking mode is that of what was opened, which a parent shares: a shell must find its terminal as it was."""
    stdin, to_agent, from_agent, stdout = make()
    with subprocess.Popen(COMMAND, stdin=stdin, stdout=stdout, env=environment(tmp_path)) as agent:
        os.write(to_agent, b'{"type":"get_state"}\n')
        os.read(from_agent, 65536)
        during = (os.get_blocking(stdin), os.get_blocking(stdout))
        if not ENDS[end]:
            os.close(to_agent)
        for each in ENDS[end]:
            agent.send_signal(each)
        agent.wait(60)

    assert make is make_sockets or during == (True, True)
    assert (True, True) == (os.get_blocking(stdin), os.get_blocking(stdout))
    for descriptor in (stdin, from_agent, stdout):
        os.close(descriptor)


@pytest.mark.parametrize("words", [["--mode", "rpc"], ["-p", "hello"]])
@pytest.mark.parametrize("wrong", ["stdin", "stdout"])
def test_a_stream_that_is_open_the_wrong_way_is_refused_by_name(tmp_path: Path, words: list[str], wrong: str) -> None:
    (tmp_path / "file").touch()
    way = os.O_WRONLY if wrong == "stdin" else os.O_RDONLY
    file = os.open(tmp_path / "file", way)
    done = subprocess.run(
        [*PROGRAM, *words, "--no-session", "--provider", "offline"],
        stdin=file if wrong == "stdin" else subprocess.DEVNULL,
        stdout=file if wrong == "stdout" else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        timeout=60,
        check=False,
    )
    os.close(file)
    assert 1 == done.returncode
    assert done.stderr.startswith(f"pinnace: {wrong} can't be".encode())
    assert b"Traceback" not in done.stderr


def test_a_stray_write_to_descriptor_1_is_no_part_of_the_protocol(tmp_path: Path) -> None:
    """A child that inherits descriptor 1, or a print inside the process, lands on stderr."""
    script = (
        "import os, sys\n"
        "from pinnace_rpc.server import dispatch\n"
        "receive = dispatch.Dispatcher.receive\n"
        "def noisy(self, line):\n"
        "    print('stray', flush=True)\n"
        "    os.system('echo child')\n"
        "    receive(self, line)\n"
        "dispatch.Dispatcher.receive = noisy\n"
        "from pinnace_rpc.cli.main import main\n"
        "sys.exit(main(['--mode', 'rpc', '--no-session']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=b'{"id":"a","type":"get_state"}\n',
        capture_output=True,
        env=environment(tmp_path),
        timeout=60,
        check=True,
    )

    assert b"stray\n" in done.stderr
    assert b"child\n" in done.stderr
    assert done.stdout.startswith(b'{"id":"a"')
    assert 1 == done.stdout.count(b"\n")
