"""Programs that extensions run."""

import signal
import sys
import time
from pathlib import Path

import pytest
import trio

from pinnace_agent.extensions.services.programs import ExecResult, run_program
from pinnace_agent.shell.child_processes import CHILDREN
from pinnace_fuzz.process_tree import is_alive

# An interpreter has to start before the time is over: on a busy machine it does within one of the later ones.
LIMITS_S = (1.5, 6.0, 25.0)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def until(condition: Path) -> str:
    with trio.fail_after(60):
        while not condition.exists() or not condition.read_text():  # noqa: ASYNC110  # a file has no event to wait for
            await trio.sleep(0.01)
    return condition.read_text()


async def test_both_outputs_and_the_code_come_back(tmp_path: Path) -> None:
    code = "import sys, os; print(os.getcwd()); print(sys.stdin.read() == '', file=sys.stderr); sys.exit(3)"
    result = await run_program(python(code), cwd=str(tmp_path))
    assert ExecResult(f"{tmp_path}\n", "True\n", 3) == result


async def test_there_is_no_shell(tmp_path: Path) -> None:
    result = await run_program(["echo", "$HOME; exit 1"], cwd=str(tmp_path))
    assert ExecResult("$HOME; exit 1\n", "", 0) == result


@pytest.mark.parametrize("command", [["no-such-program-anywhere"], ["/"], ["a\0b"], [""]])
async def test_a_failed_start_is_a_result(tmp_path: Path, command: list[str]) -> None:
    result = await run_program(command, cwd=str(tmp_path))
    assert (1, "", False) == (result.code, result.stdout, result.killed)
    assert result.stderr.startswith("Cannot start ")


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    result = await run_program(["echo"], cwd=str(tmp_path / "none"))
    assert (1, f"Cannot start echo: there is no folder {tmp_path / 'none'}") == (result.code, result.stderr)


async def test_the_time_limit_ends_it(tmp_path: Path) -> None:
    code = "import time; print('begun', flush=True); time.sleep(60)"
    for limit_s in LIMITS_S:
        result = await run_program(python(code), cwd=str(tmp_path), timeout_s=limit_s)
        if result.stdout:
            break
    assert ExecResult("begun\n", "", 128 + signal.SIGTERM, killed=True) == result


async def test_one_that_will_not_end_is_killed(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    for limit_s in LIMITS_S:
        started = time.monotonic()
        result = await run_program(python(code), cwd=str(tmp_path), timeout_s=limit_s, grace_s=0.3)
        if result.stdout:
            break
    assert (128 + signal.SIGKILL, True, "deaf\n") == (result.code, result.killed, result.stdout)
    assert time.monotonic() - started < 40  # it would sleep for longer


async def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    child = "import os, time; open('child', 'w').write(str(os.getpid())); time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await run_program(python(code), cwd=str(tmp_path))

        nursery.start_soon(run)
        pid = int(await until(tmp_path / "child"))
        assert CHILDREN.pids
        nursery.cancel_scope.cancel()
    assert not CHILDREN.pids
    with trio.fail_after(60):
        while is_alive(pid):  # noqa: ASYNC110  # it was killed; to die takes a moment
            await trio.sleep(0.01)


async def test_all_of_the_group_are_asked_before_they_are_killed(tmp_path: Path) -> None:
    """What they say then still comes."""
    child = (
        "import signal, sys, time\n"
        "def end(*_):\n    print('asked', flush=True)\n    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    # It ends behind its child: when it has ended, no more than a moment of silence is waited for.
    code = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, lambda *_: None)\n"
        f"subprocess.run([sys.executable, '-c', {child!r}])"
    )
    for limit_s in LIMITS_S:
        result = await run_program(python(code), cwd=str(tmp_path), timeout_s=limit_s, grace_s=60)
        if result.stdout:
            break
    assert ("ready\nasked\n", True) == (result.stdout, result.killed)


async def test_a_remaining_child_process_does_not_delay_the_result(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)']); print('done')"
    )
    with trio.fail_after(60):
        result = await run_program(python(code), cwd=str(tmp_path))
    assert ("done\n", 0, False) == (result.stdout, result.code, result.killed)


async def test_output_over_the_limit_is_dropped(tmp_path: Path) -> None:
    result = await run_program(python("print('x' * 1_000_000)"), cwd=str(tmp_path), max_buffer=1000)
    assert ("x" * 1000, 0, True, False) == (result.stdout, result.code, result.truncated, result.killed)


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    result = await run_program(python("import sys; sys.stdout.buffer.write(b'\\xff')"), cwd=str(tmp_path))
    assert "\ufffd" == result.stdout


async def test_the_environment_can_be_given(tmp_path: Path) -> None:
    """The mark of the command comes with it: by that its descendants are found."""
    result = await run_program(["/usr/bin/env"], cwd=str(tmp_path), env={"ONLY": "this"})
    assert ["ONLY", "PINNACE_COMMAND"] == [line.partition("=")[0] for line in result.stdout.splitlines()]
    assert result.stdout.startswith("ONLY=this\n")
