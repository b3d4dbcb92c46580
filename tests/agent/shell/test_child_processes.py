"""The registry of child processes: whose exit status is taken by whom, and what a kill finds."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import trio

from pinnace_agent.shell.child_processes import CHILDREN, ChildProcesses
from pinnace_agent.shell.descendants import Descendants
from pinnace_agent.shell.output import OutputTail
from pinnace_agent.shell.process import run_shell
from pinnace_agent.shell.process_table import children_of, status_of, variable_of
from pinnace_agent.shell.protection import adopt_orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def beside_extensions() -> Descendants:
    """Other code of the process may start programs, too."""
    return Descendants("PINNACE_COMMAND", "of a test", tuple, lambda: False)


def await_zombie(pid: int) -> None:
    """Wait until a child has ended, and leave it unreaped."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("own_session", [True, False])
def test_the_status_of_a_program_that_other_code_started_is_left_to_that(own_session: bool) -> None:
    """An extension may use subprocess."""
    with subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=own_session) as foreign:
        await_zombie(foreign.pid)
        beside_extensions().reap()

        assert 7 == foreign.wait()


async def test_the_status_of_a_command_is_left_to_its_waiter() -> None:
    children = ChildProcesses()
    children.owns_all = True
    child = await children.start(["sh", "-c", "exit 7"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await child.exited()
    children.reap()
    child.release()
    children.reap()

    assert 7 == await child.reap(10)


def test_an_orphan_in_a_session_of_another_is_reaped_even_where_extensions_start_programs() -> None:
    adopt_orphans()
    script = "setsid sh -c 'sleep 0 & echo $!; exec >&-'"
    orphan = int(subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout)
    deadline_s = time.monotonic() + 60
    while Path(f"/proc/{orphan}").exists() and time.monotonic() < deadline_s:
        beside_extensions().reap()
        time.sleep(0.001)

    assert not Path(f"/proc/{orphan}").exists()


async def test_a_kill_leaves_programs_of_other_code_alone(tmp_path: Path) -> None:
    """Whether they are in a session of their own or not."""
    foreign = [subprocess.Popen(["sleep", "600"], start_new_session=each) for each in (True, False)]
    try:
        output = OutputTail(temp_dir=str(tmp_path))
        await run_shell("sleep 600", cwd=str(tmp_path), output=output, timeout_s=0.05)

        assert [None, None] == [each.poll() for each in foreign]
    finally:
        for each in foreign:
            each.kill()
            each.wait()


async def test_a_kill_needs_no_free_descriptor(tmp_path: Path) -> None:
    """Also what has left the process group is found then."""
    children = ChildProcesses()
    command = ["sh", "-c", "setsid sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 600' & wait"]
    child = await children.start(command, cwd=str(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists():  # noqa: ASYNC110  # no event tells of it
        await trio.sleep(0.001)
    pid = int((tmp_path / "pid").read_text())
    taken: list[int] = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        child.kill()
    finally:
        for each in taken:
            os.close(each)
    await child.reap(10)

    deadline_s = time.monotonic() + 60
    while (status := status_of(pid)) is not None and not status.is_zombie and time.monotonic() < deadline_s:
        time.sleep(0.001)  # noqa: ASYNC251
    assert status is None or status.is_zombie


async def test_processes_are_described_as_they_are() -> None:
    child = await CHILDREN.start(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status = status_of(child.pid)

    assert status is not None
    assert (os.getpid(), child.pid, False) == (status.parent, status.session, status.is_zombie)
    assert child.pid in children_of(os.getpid())
    assert child.mark.encode() == variable_of(child.pid, "PINNACE_COMMAND")
    child.kill()
    await child.exited()
    status = status_of(child.pid)
    assert status is not None
    assert status.is_zombie
    assert -signal.SIGKILL == await child.reap(10)
    assert status_of(child.pid) is None
    assert [] == children_of(child.pid)


def test_exits_of_children_are_heard_of_as_long_as_trio_runs_and_not_after() -> None:
    """A signal that Python handled while trio closes its wakeup descriptor would be reported on stderr."""
    heard: list[bool] = []

    async def run_a_command() -> None:
        children = ChildProcesses()
        child = await children.start(["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        heard.append(getattr(signal.getsignal(signal.SIGCHLD), "__self__", None) is children)
        await child.exited()
        child.release()
        await child.reap(10)

    for _ in range(2):
        trio.run(run_a_command)
        assert heard.pop()
        os.kill(os.getpid(), signal.SIGCHLD)
        assert -1 == signal.set_wakeup_fd(-1)


@pytest.mark.parametrize("is_closed", [False, True], ids=["without a reader", "closed"])
def test_a_signal_that_is_written_after_the_end_of_a_run_fails_no_test(
    is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may do that at any time (`filterwarnings` of pyproject.toml)."""
    reported: list[int | None] = []
    report = sys.unraisablehook

    def seen(unraisable: "sys.UnraisableHookArgs") -> None:
        assert isinstance(unraisable.exc_value, OSError)
        reported.append(unraisable.exc_value.errno)
        report(unraisable)

    monkeypatch.setattr(sys, "unraisablehook", seen)
    reading, writing = socket.socketpair()
    former = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    try:
        writing.setblocking(False)
        signal.set_wakeup_fd(writing.fileno())
        reading.close()
        if is_closed:
            writing.close()
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.set_wakeup_fd(-1)
        writing.close()
        signal.signal(signal.SIGUSR1, former)
    assert [errno.EBADF if is_closed else errno.EPIPE] == reported


def test_an_exit_that_is_noted_after_its_handler_has_gone_fails_no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may do that at any time, too: here the handler of a signal that comes first takes it away."""
    reported: list[str] = []
    report = sys.unraisablehook

    def seen(unraisable: "sys.UnraisableHookArgs") -> None:
        reported.append(str(unraisable.exc_value))
        report(unraisable)

    def take_away(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    monkeypatch.setattr(sys, "unraisablehook", seen)
    both = {signal.SIGUSR1, signal.SIGCHLD}
    former = {number: signal.signal(number, take_away) for number in both}
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, both)
        for number in both:
            signal.pthread_kill(threading.get_ident(), number)  # another thread would take it at once
        signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    assert ["Signal 17 ignored due to race condition"] == reported
