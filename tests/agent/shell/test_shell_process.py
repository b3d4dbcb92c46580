"""Shell commands: real processes, real signals. Time is a clock that only the test moves where it matters."""

import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from tests.forked_agents import open_descriptors

from pinnace_agent.shell.child_processes import ChildProcesses
from pinnace_agent.shell.output import OutputTail
from pinnace_agent.shell.process import ShellStatus, ShellUnavailable, run_shell
from pinnace_fuzz.process_tree import is_alive

PATIENCE_S = 60.0


def living(group: int) -> list[int]:
    """The processes of a group that still run; a zombie does not."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(int(entry))
    return found


async def survivors(group: int) -> list[int]:
    """The processes of a killed group that run on; a signal that was sent takes a moment to arrive."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := living(group)) and time.monotonic() < deadline_s:
        await trio.to_thread.run_sync(time.sleep, 0.001)
    return found


async def wait_exit(pid: int) -> None:
    """Wait until a child has exited; leave it to its owner to reap it."""
    await trio.to_thread.run_sync(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    # What comes from a thread after the exit is noticed after the exit is.
    await trio.to_thread.run_sync(bool)
    await trio.testing.wait_all_tasks_blocked()


class Command:
    """A command that runs beside the test, and what is known of it."""

    def __init__(self, tmp_path: Path, children: ChildProcesses | None = None) -> None:
        self.output = OutputTail(temp_dir=str(tmp_path))
        self.children = children or ChildProcesses()
        self.cwd = str(tmp_path)
        self.scope = trio.CancelScope()
        self.has_spoken = trio.Event()
        self.has_ended = trio.Event()
        self.status: ShellStatus | None = None
        self.raised: BaseException | None = None
        self.pid = 0

    @property
    def text(self) -> str:
        return self.output.snapshot().text

    async def run(self, command: str, timeout_s: float | None = None) -> None:
        def note(_text: str) -> None:
            self.pid = next(iter(self.children.pids), self.pid)
            self.has_spoken.set()

        with self.scope:
            try:
                self.status = await run_shell(
                    command,
                    cwd=self.cwd,
                    output=self.output,
                    timeout_s=timeout_s,
                    on_output=note,
                    children=self.children,
                )
            except BaseException as error:
                self.raised = error
                raise
        self.has_ended.set()


async def run(command: str, tmp_path: Path, **options: object) -> tuple[ShellStatus, str]:
    output = OutputTail(temp_dir=str(tmp_path))
    status = await run_shell(command, cwd=str(tmp_path), output=output, **options)  # type: ignore[arg-type]
    return status, output.result().text


async def test_stdout_and_stderr_are_one_text_in_the_order_of_writing(tmp_path: Path) -> None:
    status, text = await run("for i in 1 2 3; do echo out$i; echo err$i >&2; done", tmp_path)

    assert (status.exit_code, status.timed_out) == (0, False)
    assert text == "out1\nerr1\nout2\nerr2\nout3\nerr3\n"


@pytest.mark.parametrize("shell_path", [None, "/bin/sh"])
async def test_a_command_may_be_longer_than_an_argument_of_a_program(shell_path: str | None, tmp_path: Path) -> None:
    """R-BSH-04: its stdin is empty all the same, and it ends as any other."""
    text = "x" * 150_000
    command = f"wc -c <<'END'\n{text}\nEND\ncat; echo \"$0\" '$' $((1 + 1)); exit 3\n"
    status, shown = await run(command, tmp_path, shell_path=shell_path, command_prefix="cd /")

    assert status.exit_code == 3
    assert shown.split("\n") == ["150001", f"{shell_path or '/bin/bash'} $ 2", ""]
    with pytest.raises(ShellUnavailable, match="embedded null byte"):
        await run(f"{text}\0", tmp_path)


async def test_a_command_reads_nothing(tmp_path: Path) -> None:
    assert (await run("cat; echo end", tmp_path))[1] == "end\n"


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -KILL $$", 137), ("kill -TERM $$", 143)])
async def test_the_exit_code_of_a_killed_shell_is_128_and_the_signal(command: str, code: int, tmp_path: Path) -> None:
    assert (await run(command, tmp_path))[0].exit_code == code


async def test_a_command_leads_a_session_of_its_own(tmp_path: Path) -> None:
    _, text = await run("echo $$; cut -d' ' -f5,6 /proc/$$/stat", tmp_path)

    pid, group, session = text.split()
    assert pid == group == session != str(os.getpgrp())


async def test_the_prefix_is_a_line_of_the_same_shell(tmp_path: Path) -> None:
    assert (await run("echo $X", tmp_path, command_prefix="X=5"))[1] == "5\n"


async def test_the_environment_is_the_one_that_is_given(tmp_path: Path) -> None:
    assert (await run("echo $ONE$HOME", tmp_path, env={"ONE": "1"}))[1] == "1\n"


async def test_the_environment_is_ours_if_none_is_given(tmp_path: Path) -> None:
    assert (await run("echo $PATH", tmp_path))[1] == os.environ["PATH"] + "\n"


async def test_a_custom_shell_runs_the_command(tmp_path: Path) -> None:
    shell = tmp_path / "myshell"
    shell.write_text('#!/bin/sh\necho "$@"\n')
    shell.chmod(0o755)

    assert (await run("hello", tmp_path, shell_path=str(shell)))[1] == "-c hello\n"


async def test_a_custom_shell_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShellUnavailable, match=r"^Custom shell path not found: /no/shell$"):
        await run("true", tmp_path, shell_path="/no/shell")


async def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShellUnavailable) as caught:
        await run_shell("true", cwd="/no/folder", output=OutputTail())

    assert str(caught.value) == ("Working directory does not exist: /no/folder\nCannot execute bash commands.")


async def test_a_command_that_no_process_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShellUnavailable, match="null byte"):
        await run("a\0b", tmp_path)


async def test_a_shell_that_can_not_be_executed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")

    with pytest.raises(ShellUnavailable, match="Permission denied"):
        await run("true", tmp_path, shell_path=str(tmp_path / "text"))


async def test_cancelling_kills_everything_that_the_command_started(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "sleep 300 & (sleep 300; true) & echo begun; wait")
        await command.has_spoken.wait()
        assert living(command.pid)

        command.scope.cancel()
        await command.has_ended.wait()

    assert await survivors(command.pid) == []
    assert not Path(f"/proc/{command.pid}").exists(), "reaped"
    assert command.children.pids == frozenset()
    assert command.text == "begun\n"


async def test_a_cancelled_command_raises_the_plain_exception(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "echo begun; sleep 300")
        await command.has_spoken.wait()
        command.scope.cancel()

    assert type(command.raised) is trio.Cancelled


async def test_cancelling_kills_a_command_that_ignores_signals(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done")
        await command.has_spoken.wait()
        command.scope.cancel()

    assert await survivors(command.pid) == []


async def test_cancelling_before_the_start_starts_nothing(tmp_path: Path) -> None:
    command = Command(tmp_path)
    command.scope.cancel()
    await command.run("touch file")

    assert os.listdir(tmp_path) == []


async def test_a_descendant_that_holds_the_pipe_does_not_hold_the_result(tmp_path: Path) -> None:
    status, text = await run("sleep 300 & echo $!", tmp_path)

    assert status.exit_code == 0
    os.kill(int(text), signal.SIGKILL)  # it lives on, so this raises nothing


async def test_what_a_descendant_says_after_the_shells_exit_is_kept(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    os.mkfifo(tmp_path / "gate")
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "(read line < gate; echo late) & echo early")
        await command.has_spoken.wait()
        await wait_exit(command.pid)
        mock_clock.jump(0.09)
        await trio.testing.wait_all_tasks_blocked()
        assert not command.has_ended.is_set()

        (tmp_path / "gate").write_text("go\n")
        await command.has_ended.wait()

    assert command.text == "early\nlate\n"


async def test_silence_counts_from_the_last_output(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    os.mkfifo(tmp_path / "gate")
    command = Command(tmp_path)
    script = "(read line < gate; echo late; exec sleep 300) & echo early"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, script)
        await command.has_spoken.wait()
        await wait_exit(command.pid)
        mock_clock.jump(0.09)
        command.has_spoken = trio.Event()
        (tmp_path / "gate").write_text("go\n")
        await command.has_spoken.wait()

        mock_clock.jump(0.09)
        await trio.testing.wait_all_tasks_blocked()
        assert not command.has_ended.is_set()
        mock_clock.jump(0.02)
        await command.has_ended.wait()

    assert command.status is not None
    assert command.status.exit_code == 0
    os.killpg(command.pid, signal.SIGKILL)  # the descendant was let live


async def test_cancelling_kills_descendants_when_the_shell_has_exited(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "sleep 300 & echo begun")
        await command.has_spoken.wait()
        await wait_exit(command.pid)
        assert living(command.pid)

        command.scope.cancel()
        await command.has_ended.wait()

    assert await survivors(command.pid) == []


async def test_the_time_limit_kills_the_group(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "echo begun; sleep 300 & sleep 300", 5)
        await command.has_spoken.wait()
        mock_clock.jump(4.9)
        await trio.testing.wait_all_tasks_blocked()
        assert not command.has_ended.is_set()
        mock_clock.jump(0.2)

    assert command.status == ShellStatus(exit_code=None, timed_out=True)
    assert command.text == "begun\n"
    assert await survivors(command.pid) == []


async def test_a_time_limit_after_the_shells_exit_includes_its_exit_code(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "sleep 300 & echo begun; exit 3", 0.05)
        await command.has_spoken.wait()
        await wait_exit(command.pid)
        mock_clock.jump(0.06)

    assert command.status == ShellStatus(exit_code=3, timed_out=True, exited_after_s=0.0)
    assert await survivors(command.pid) == []


async def test_a_shell_that_closed_its_output_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "echo begun; exec >&- 2>&-; read line < gate; exit 4")
        await command.has_spoken.wait()
        await trio.to_thread.run_sync((tmp_path / "gate").write_text, "go\n")

    assert command.status is not None
    assert command.status.exit_code == 4


async def test_all_commands_can_be_killed_without_waiting(tmp_path: Path) -> None:
    children = ChildProcesses()
    commands = [Command(tmp_path, children) for _ in range(3)]
    async with trio.open_nursery() as nursery:
        for command in commands:
            nursery.start_soon(command.run, "sleep 300 & echo begun; wait; true")
            await command.has_spoken.wait()
        pids = children.pids
        children.kill_all()

    assert [command.status and command.status.exit_code for command in commands] == [137] * 3
    assert len(pids) == 3
    assert [await survivors(pid) for pid in pids] == [[]] * 3


async def test_what_was_written_until_the_kill_is_kept(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "echo begun; seq 1 9000; touch written; sleep 300")
        await command.has_spoken.wait()
        # Nothing is read from here on until the kill, since the test does not yield.
        deadline_s = time.monotonic() + PATIENCE_S
        while not (tmp_path / "written").exists() and time.monotonic() < deadline_s:
            time.sleep(0.001)  # noqa: ASYNC251
        command.scope.cancel()

    assert command.text.endswith("8999\n9000")


async def test_a_process_that_left_the_group_is_killed_too(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "setsid sh -c 'echo $$; exec sleep 300' & wait")
        await command.has_spoken.wait()
        command.scope.cancel()
        with trio.fail_after(30):
            await command.has_ended.wait()

    assert [] == await survivors(int(command.text))


async def test_a_process_that_dies_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process lives on until it has its turn, and this one holds no pipe that shows its end."""
    command = Command(tmp_path)
    monkeypatch.setattr("pinnace_agent.shell.process.REAP_S", PATIENCE_S)

    def kill_late(pid: int, number: int, kill: Callable[[int, int], None] = os.kill) -> None:
        if pid == int(command.text):
            threading.Thread(target=kill_behind_the_shell, args=(kill, pid, number)).start()
        else:
            kill(pid, number)

    def kill_behind_the_shell(kill: Callable[[int, int], None], pid: int, number: int) -> None:
        while is_alive(command.pid):
            time.sleep(0.001)
        time.sleep(0.05)  # more than an end that does not wait for it would need
        kill(pid, number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.run, "setsid sh -c 'echo $$; exec sleep 300 > /dev/null 2>&1' & wait")
        await command.has_spoken.wait()
        monkeypatch.setattr("pinnace_agent.shell.descendants.os.kill", kill_late)
        command.scope.cancel()
        await command.has_ended.wait()

        assert not is_alive(int(command.text))


async def test_a_closed_registry_kills_what_starts_later(tmp_path: Path) -> None:
    command = Command(tmp_path)
    command.children.close()
    await command.run("sleep 300")

    assert command.status is not None
    assert command.status.exit_code == 137


async def descriptors_after(times: int, action: Callable[[], Awaitable[object]]) -> set[int]:
    for _ in range(times):
        await action()
    return open_descriptors()


async def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    async def one_of_each() -> None:
        await run("echo x", tmp_path)
        with pytest.raises(ShellUnavailable):
            await run("a\0b", tmp_path)
        command = Command(tmp_path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(command.run, "echo x; seq 1 3000; sleep 300")
            await command.has_spoken.wait()
            command.scope.cancel()

    before = await descriptors_after(2, one_of_each)

    assert set() == await descriptors_after(5, one_of_each) - before


async def test_much_output_is_read_whole(tmp_path: Path) -> None:
    output = OutputTail(temp_dir=str(tmp_path))
    pieces: list[int] = []
    command = "yes 0123456789012345678901234567890123456789 | head -c 20000000"
    await run_shell(command, cwd=str(tmp_path), output=output, on_output=lambda text: pieces.append(len(text)))

    shown = output.result()
    assert sum(pieces) == 20_000_000
    assert shown.full_output_path is not None
    assert Path(shown.full_output_path).stat().st_size == 20_000_000
    assert max(pieces) <= 64 * 1024
