"""However modes text and json end: brackets are closed, nothing is left behind, and the exit code says what it was."""

import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_campaigns.trials.one_shot import OneShot, OneShotStarter, Printed
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import record_faults

ENDLESS: Scripted = {"chunks": [{"text": "one"}, {"gate": "g"}, {"hang": True}]}
CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: -signal.SIGINT}
SIGNALS = pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
MODES = pytest.mark.parametrize("mode", ["text", "json"])
COMMANDING = """
import trio
from pathlib import Path

def extension(pi):
    @pi.tool
    async def send(ctx) -> str:
        "Send a command."
        pi.send_user_message("/late", deliver_as="follow_up")
        return "sent"

    @pi.command("late")
    async def late(ctx, arguments):
        (Path(ctx.cwd) / "begun").touch()
        await trio.sleep(1)
        (Path(ctx.cwd) / "done").touch()
"""
STUBBORN = "trap '' TERM HUP INT; sleep 600 & "


def in_stream(print_agent: OneShotStarter, mode: str) -> OneShot:
    one_shot = print_agent(["--mode", mode, "hello", "never sent"], [ENDLESS])
    one_shot.close_stdin()
    one_shot.llm.wait_reached("g")
    return one_shot


def is_closed(ended: Printed) -> bool:
    """Tell whether every bracket of its records is."""
    return record_faults(ended.events) == [] and ended.events[-1]["type"] == "agent_settled"


@MODES
@SIGNALS
def test_a_signal_ends_it_as_it_ends_mode_rpc(number: signal.Signals, mode: str, print_agent: OneShotStarter) -> None:
    """R-SIG-01."""
    one_shot = in_stream(print_agent, mode)
    one_shot.signal(number)
    ended = one_shot.end()

    assert (CODES[number], "") == (ended.code, ended.err)
    assert is_closed(ended) if mode == "json" else ended.out == ""
    assert 1 == len(one_shot.llm.requests)
    assert [] == one_shot.left_behind()


def test_a_signal_ends_a_tool_with_everything_it_has_started(
    print_agent: OneShotStarter, gates: Callable[[], ShellGate]
) -> None:
    gate = gates()
    call = {"name": "bash", "args": {"command": STUBBORN + gate.reading}}
    one_shot = print_agent(["--mode", "json", "hello"], [{"tool_calls": [call]}])
    one_shot.close_stdin()
    gate.wait_reached()
    one_shot.signal(signal.SIGTERM)
    ended = one_shot.end()

    assert 143 == ended.code
    assert is_closed(ended)
    assert [] == one_shot.left_behind()


@SIGNALS
def test_a_signal_ends_it_while_it_reads_stdin(number: signal.Signals, print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["--mode", "json", "hello"])
    assert one_shot.process.stdin is not None
    one_shot.process.stdin.write(b"x" * 200_000)  # more than a pipe holds: it reads by now
    one_shot.process.stdin.flush()
    one_shot.signal(number)

    assert CODES[number] == one_shot.process.wait(timeout=60)
    assert [] == one_shot.llm.requests


def test_a_second_signal_ends_it_at_once(print_agent: OneShotStarter) -> None:
    one_shot = in_stream(print_agent, "json")
    one_shot.signal(signal.SIGSTOP)
    one_shot.signal(signal.SIGHUP)
    one_shot.signal(signal.SIGTERM)
    one_shot.signal(signal.SIGCONT)
    ended = one_shot.end()

    assert ended.code in (143, 129)
    assert [] == one_shot.left_behind()


@MODES
def test_a_reader_that_is_gone_ends_it_quietly(mode: str, print_agent: OneShotStarter) -> None:
    """As `| head -1`: nobody can be told, so the exit code has to."""
    reader, writer = os.pipe()
    answer: Scripted = {"chunks": [{"gate": "g"}, {"text": "one"}]}
    one_shot = print_agent(["--mode", mode, "hello"], [answer], stdout=writer)
    os.close(writer)
    one_shot.close_stdin()
    one_shot.llm.wait_reached("g")
    os.close(reader)
    one_shot.llm.release("g")
    _, err = one_shot.process.communicate(timeout=60)

    assert (1, b"") == (one_shot.process.returncode, err)
    assert [] == one_shot.left_behind()


def test_a_reader_that_is_gone_ends_a_tool(print_agent: OneShotStarter, gates: Callable[[], ShellGate]) -> None:
    gate = gates()
    call = {"name": "bash", "args": {"command": f"{gate.reading}; while echo y; do sleep 0.05; done"}}
    reader, writer = os.pipe()
    one_shot = print_agent(["--mode", "json", "hello"], [{"tool_calls": [call]}], stdout=writer)
    os.close(writer)
    one_shot.close_stdin()
    gate.wait_reached()
    os.close(reader)
    gate.release("go")

    assert 1 == one_shot.process.wait(timeout=60)
    assert [] == one_shot.left_behind()


def at_terminal(command: list[str], one_shot: OneShot, *, has_stdout: bool) -> tuple[int, str]:
    """Run a command with a terminal for its stdin, and for its stdout if it is to have one."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command,
        cwd=one_shot.home.work,
        env=one_shot.home.env,
        stdin=theirs,
        stdout=theirs if has_stdout else subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        os.close(theirs)
        if process.stdout is not None:
            shown = process.stdout.read()
        else:
            shown = b""
            try:
                while chunk := os.read(ours, 65536):
                    shown += chunk
            except OSError:  # so a terminal ends
                pass
        code = process.wait(timeout=60)
    os.close(ours)
    return code, shown.decode().replace("\r\n", "\n")


def words_of(one_shot: OneShot, *words: str) -> list[str]:
    """The command of a start that is over, with other words at its end."""
    command = [str(word) for word in one_shot.process.args]  # type: ignore[union-attr]  # a list, as we made it
    return [*command[: command.index("m1") + 1], *words]


def test_at_a_terminal_stdin_is_not_waited_for(print_agent: OneShotStarter) -> None:
    started = print_agent(["-p"], [{"text": "one"}, {"text": "two"}])
    started.end()

    assert (0, "one\n") == at_terminal(words_of(started, "-p", "hello"), started, has_stdout=True)
    assert (0, "two\n") == at_terminal(words_of(started, "hello"), started, has_stdout=False)


def test_an_answer_does_nothing_to_a_terminal(print_agent: OneShotStarter) -> None:
    started = print_agent(["-p"], [{"text": "\x1b]0;title\x07\x1b[31mred\x1b[0m"}])
    started.end()

    assert (0, "red\n") == at_terminal(words_of(started, "-p", "hello"), started, has_stdout=True)


def test_it_waits_for_a_command_that_an_extension_has_sent(print_agent: OneShotStarter, tmp_path: Path) -> None:
    extension = tmp_path / "commanding.py"
    extension.write_text(COMMANDING, encoding="utf-8")
    script: list[Scripted] = [{"tool_calls": [{"name": "send", "args": {}}]}, {"text": "fine"}]
    one_shot = print_agent(["-e", str(extension), "-p", "hello"], script)
    ended = one_shot.end()

    assert ended.err == ""
    assert (0, "fine\n") == (ended.code, ended.out)
    assert ["begun", "done"] == sorted(path.name for path in one_shot.home.work.iterdir())
