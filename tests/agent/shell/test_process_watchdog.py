"""The watchdog kills what runs when its process is killed: whatever has started it, and nothing else."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from tests.source_tree import PYTHONPATH

from pinnace_agent.shell.child_processes import ChildProcesses
from pinnace_agent.shell.watchdog import CommandWatchdog

END_S = 60.0
UNUSED = 2**22 + 2  # larger than any process number
# Each starts a program that writes its number to the file `pid`, and never ends.
PROGRAM = "echo $$ > pid.new; mv pid.new pid; sleep 600; true"
WAYS = {
    "shell": f"run_shell({PROGRAM!r}, cwd='.', output=OutputTail())",
    "exec": f"run_program(['sh', '-c', {PROGRAM!r}], cwd='.')",
    "search": f"run_search(['/bin/sh', '-c', {PROGRAM!r}], cwd='.', env=dict(os.environ), take=lambda _: False)",
    # A command of a configuration file runs in the agent folder.
    "value": f"output_of({PROGRAM!r}, {{**os.environ, 'PI_CODING_AGENT_DIR': os.getcwd()}}, 600)",
}
SCRIPT = """
import os, trio
from pinnace_agent.extensions.services.programs import run_program
from pinnace_agent.shell.output import OutputTail
from pinnace_agent.shell.value_command import output_of
from pinnace_agent.shell.child_processes import CHILDREN
from pinnace_agent.shell.process import run_shell
from pinnace_agent.tools.local.search_program import run_search
async def mark():
    while not CHILDREN.pids:
        await trio.sleep(0)
    open("registered", "w").close()
async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mark)
        await {call}
trio.run(main)
"""


def await_end(pid: int) -> bool:
    """Wait until a process that is not ours has ended."""
    deadline_s = time.monotonic() + END_S
    while time.monotonic() < deadline_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.005)
    return False


@pytest.mark.parametrize("way", WAYS)
def test_what_a_killed_process_has_started_dies_with_it(tmp_path: Path, way: str) -> None:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-c", SCRIPT.format(call=WAYS[way])]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        while not ((tmp_path / "pid").exists() and (tmp_path / "registered").exists()):
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()

    assert await_end(int((tmp_path / "pid").read_text()))


# What a busy machine does: the program runs, and the thread that has started it has not come back.
UNKNOWN = """
import os, trio
from pinnace_agent.shell.child_processes import CHILDREN
async def held(*arguments, **options):
    process = await start(*arguments, **options)
    await trio.sleep_forever()
start, trio.lowlevel.open_process = trio.lowlevel.open_process, held
async def main():
    await CHILDREN.start(["sh", "-c", {program!r}], stdout=None, stderr=None)
trio.run(main)
"""


def test_a_program_dies_with_the_process_that_has_not_learnt_of_its_start(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    program = UNKNOWN.format(program=PROGRAM)
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment) as process:
        while not (tmp_path / "pid").exists():
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()

    assert await_end(int((tmp_path / "pid").read_text()))


class Recorded(CommandWatchdog):
    """Keeps the marks that are registered."""

    marks: list[str]

    def add(self, mark: str, pid: int) -> None:
        self.marks = [mark]
        super().add(mark, pid)

    def discard(self, mark: str) -> None:
        self.marks.remove(mark)
        super().discard(mark)


@pytest.mark.parametrize("program", ["/nonexistent", "nul\0"])
def test_a_program_that_could_not_be_started_is_forgotten(program: str) -> None:
    watchdog = Recorded()
    children = ChildProcesses(watchdog)

    async def start() -> None:
        await children.start([program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with pytest.raises((OSError, ValueError)):
        trio.run(start)
    watchdog.leave_to_the_parent()

    assert [] == watchdog.marks


SLEEPERS = """
import os, signal, subprocess, sys
from pinnace_agent.shell.watchdog import WATCHDOG
pids = [subprocess.Popen(["sleep", "600"], start_new_session=True).pid for _ in range(3)]
for pid in pids:
    WATCHDOG.add(str(pid) + ".mark", pid)
WATCHDOG.discard(str(pids[1]) + ".mark")
WATCHDOG.discard(str(pids[1]) + ".mark")
print(*pids, flush=True)
{last}
os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def sleepers(last: str) -> Iterator[list[int]]:
    """Let a process start three sleepers, forget the second, and be killed; give their numbers.

    What it has forked reads stdin, which ends with the context.
    """
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPERS.format(last=last)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        yield [int(word) for word in process.stdout.readline().split()]


def test_a_group_that_was_forgotten_is_left_alone() -> None:
    with sleepers("") as (first, forgotten, last):
        try:
            assert await_end(first)
            assert await_end(last)
            assert Path(f"/proc/{forgotten}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        finally:
            os.kill(forgotten, signal.SIGKILL)


def test_a_forked_child_does_not_keep_the_watchdog_from_seeing_the_end() -> None:
    """An extension may use multiprocessing."""
    with sleepers("if os.fork() == 0: os.close(1); os.read(0, 1); os._exit(0)") as (first, forgotten, last):
        os.kill(forgotten, signal.SIGKILL)

        assert await_end(first)
        assert await_end(last)


def test_a_watchdog_that_is_stopped_holds_nothing_up() -> None:
    """What it could not take is sent when it runs again."""
    watchdog = CommandWatchdog()
    watchdog.prepare()
    (number,) = (
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and _reads_from(entry, watchdog.pipe)
    )
    os.kill(number, signal.SIGSTOP)
    for _ in range(20_000):  # more than a pipe holds
        watchdog.add("0.mark", UNUSED)
        watchdog.discard("0.mark")
    os.kill(number, signal.SIGCONT)
    watchdog.leave_to_the_parent()

    assert await_end(number)


def _reads_from(entry: Path, pipe: int | None) -> bool:
    try:
        return os.getpid() != int(entry.name) and os.readlink(entry / "fd/0") == os.readlink(f"/proc/self/fd/{pipe}")
    except OSError:
        return False
