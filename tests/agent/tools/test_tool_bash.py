"""The bash tool: results, notices, progress and aborts, in the words that models know."""

import os
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_agent.tools.bash import BashTool
from pinnace_agent.tools.validation import validate_arguments


class Call:
    """One call of the tool, with its progress."""

    def __init__(self, tmp_path: Path) -> None:
        self.updates: list[ToolResult] = []
        self.has_spoken = trio.Event()
        self.context = ToolContext(str(tmp_path), "c1", self._note, dict(os.environ))
        self.tool = BashTool(temp_dir=str(tmp_path))
        self.result: ToolResult | None = None

    def _note(self, partial: ToolResult) -> None:
        self.updates.append(partial)
        if partial.content:
            self.has_spoken.set()

    async def run(self, command: str, timeout_s: object = None) -> ToolResult:
        raw: dict[str, object] = {"command": command, "timeout": timeout_s}
        self.result = await self.tool.execute(validate_arguments(self.tool, raw), self.context)
        return self.result

    async def aborted(self, command: str) -> ToolResult:
        """Run until the first output, or to the start of a command without any, and abort."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run, command)
            await self.has_spoken.wait()
            nursery.cancel_scope.cancel()
        assert self.context.aborted_result is not None
        return self.context.aborted_result


def reply(text: str, *, is_error: bool = False, has_details: bool = False) -> ToolResult:
    return ToolResult([{"type": "text", "text": text}], {} if is_error or has_details else None, is_error)


async def test_a_success_is_what_was_written(tmp_path: Path) -> None:
    assert await Call(tmp_path).run("echo hi; echo err >&2") == reply("hi\nerr\n")


async def test_a_success_without_output_says_so(tmp_path: Path) -> None:
    assert await Call(tmp_path).run("true") == reply("(no output)")


async def test_a_failure_ends_with_the_code(tmp_path: Path) -> None:
    for command, text in (
        ("echo out; exit 3", "out\n\n\nCommand exited with code 3"),
        ("kill -9 $$", "(no output)\n\nCommand exited with code 137"),
    ):
        result = await Call(tmp_path).run(command)
        assert result == ToolResult([{"type": "text", "text": text}], None, is_error=True)


async def test_escape_sequences_and_controls_are_removed(tmp_path: Path) -> None:
    """R-TOL-11: strict providers refuse them, in every later request."""
    result = await Call(tmp_path).run(r"printf '\033[31mred\033[0m\r\n\a\377\0 10%%\r100%%'")

    assert result == reply("red\n100%")


async def test_the_first_update_is_empty_and_the_last_is_complete(tmp_path: Path) -> None:
    call = Call(tmp_path)
    await call.run("echo out; exit 3")

    assert call.updates == [ToolResult([]), reply("out\n", has_details=True)]


async def test_a_command_without_output_has_no_further_update(tmp_path: Path) -> None:
    call = Call(tmp_path)
    await call.run("true")

    assert call.updates == [ToolResult([])]


async def test_updates_come_at_once_and_then_in_intervals(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    os.mkfifo(tmp_path / "gate")
    call = Call(tmp_path)
    script = "exec 3<gate; echo begun; while read line <&3; do echo $line; touch $line; done"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, script)
        with await trio.to_thread.run_sync(open, tmp_path / "gate", "w") as gate:

            async def let_through(line: str) -> None:
                call.has_spoken = trio.Event()
                print(line, file=gate, flush=True)
                while not (tmp_path / line).exists():
                    await trio.to_thread.run_sync(time.sleep, 0.001)
                # The line is in the pipe; what comes from a thread after that is noticed after the pipe is.
                await trio.to_thread.run_sync(bool)
                await trio.testing.wait_all_tasks_blocked()

            await call.has_spoken.wait()
            assert len(call.updates) == 2

            mock_clock.jump(0.1)
            await let_through("one")
            assert call.updates[2:] == [reply("begun\none\n", has_details=True)]

            await let_through("two")
            assert len(call.updates) == 3, "too soon after the last one"
            mock_clock.jump(0.1)
            await call.has_spoken.wait()
            assert call.updates[3:] == [reply("begun\none\ntwo\n", has_details=True)]

            await let_through("end")

    assert call.updates[4:] == [reply("begun\none\ntwo\nend\n", has_details=True)]


async def test_many_lines_are_cut_to_the_last_ones(tmp_path: Path) -> None:
    call = Call(tmp_path)
    result = await call.run("seq 1 3000")

    (name,) = (name for name in os.listdir(tmp_path) if name.startswith("pi-bash-"))
    file = str(tmp_path / name)
    shown = "\n".join(str(number) for number in range(1001, 3001))
    assert result.content == [
        {"type": "text", "text": f"{shown}\n\n[Showing lines 1001-3000 of 3000. Full output: {file}]"}
    ]
    assert result.details is not None
    assert result.details["fullOutputPath"] == file
    truncation = result.details["truncation"]
    assert isinstance(truncation, dict)
    assert truncation["content"] == shown
    assert call.updates[-1].details == result.details


async def test_long_lines_are_cut_by_bytes(tmp_path: Path) -> None:
    result = await Call(tmp_path).run("for i in $(seq 100); do printf '%01023d\\n' $i; done; exit 1")

    assert result.is_error
    (block,) = result.content
    assert block["type"] == "text"
    ending = block["text"].split("\n\n")[1:]
    assert ending[0].startswith("[Showing lines 51-100 of 100 (50.0KB limit). Full output: /")
    assert ending[1] == "Command exited with code 1"
    assert result.details is not None
    assert "fullOutputPath" in result.details


async def test_one_long_line_is_cut_at_its_beginning(tmp_path: Path) -> None:
    result = await Call(tmp_path).run("echo first; head -c 102400 /dev/zero | tr '\\0' x")

    (block,) = result.content
    assert block["type"] == "text"
    assert "[Showing last 50.0KB of line 2 (line is 100.0KB). Full output: /" in block["text"]
    assert block["text"].startswith("x" * 51_200 + "\n\n[")


async def test_an_abort_keeps_what_was_written(tmp_path: Path) -> None:
    call = Call(tmp_path)

    assert await call.aborted("echo begun; sleep 300") == reply("begun\n\n\nCommand aborted", is_error=True)
    assert call.updates == [ToolResult([]), reply("begun\n", has_details=True)]


async def test_an_abort_before_any_output_says_only_that(tmp_path: Path) -> None:
    call = Call(tmp_path)
    with trio.CancelScope() as scope:
        scope.cancel()
        await call.run("sleep 300")

    assert scope.cancelled_caught
    assert call.context.aborted_result == reply("Command aborted", is_error=True)


async def test_an_abort_leaves_as_the_plain_exception(tmp_path: Path) -> None:
    call = Call(tmp_path)
    raised: list[type[BaseException]] = []

    async def watched() -> None:
        try:
            await call.run("echo begun; sleep 300")
        except BaseException as error:
            raised.append(type(error))
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched)
        await call.has_spoken.wait()
        nursery.cancel_scope.cancel()

    assert raised == [trio.Cancelled]


@pytest.mark.parametrize(
    ("timeout_s", "seconds"), [(5, "5"), (5.0, "5"), (1.5, "1.5"), ("2", "2"), (2_147_483.647, "2147483.647")]
)
async def test_a_timeout_is_reported_with_its_length(
    timeout_s: object, seconds: str, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    call = Call(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, "echo a; sleep 300", timeout_s)
        await call.has_spoken.wait()
        mock_clock.jump(2_147_484)

    assert call.result == reply(f"a\n\n\nCommand timed out after {seconds} seconds", is_error=True)


async def test_a_timeout_after_the_shells_exit_includes_its_exit_code(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    call = Call(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, "sleep 300 & echo $$; exit 3", 0.05)
        await call.has_spoken.wait()
        (block,) = call.updates[-1].content
        assert block["type"] == "text"
        pid = int(block["text"])
        await trio.to_thread.run_sync(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        await trio.to_thread.run_sync(bool)  # comes back after the exit was noticed
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(0.06)

    assert call.result is not None
    (block,) = call.result.content
    assert block["type"] == "text"
    assert "\n\nCommand timed out after 0.05 seconds (the shell itself exited with code 3" in block["text"]


@pytest.mark.parametrize(
    ("timeout_s", "text"),
    [
        (0, "Invalid timeout: must be a finite number of seconds"),
        (-1, "Invalid timeout: must be a finite number of seconds"),
        (float("inf"), "Invalid timeout: must be a finite number of seconds"),
        (float("nan"), "Invalid timeout: must be a finite number of seconds"),
        (2_147_483.648, "Invalid timeout: maximum is 2147483.647 seconds"),
    ],
)
async def test_a_timeout_that_makes_no_sense_is_refused(timeout_s: float, text: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await Call(tmp_path).run("touch made", timeout_s)

    assert str(caught.value) == text
    assert os.listdir(tmp_path) == []


async def test_a_shell_that_can_not_be_started_is_a_failure(tmp_path: Path) -> None:
    call = Call(tmp_path)
    call.context.shell_path = "/no/shell"

    with pytest.raises(ToolError, match=r"^Custom shell path not found: /no/shell$"):
        await call.run("true")


async def test_the_prefix_and_the_environment_are_those_of_the_context(tmp_path: Path) -> None:
    call = Call(tmp_path)
    call.context.command_prefix = "A=1"
    call.context.env = {"B": "2"}

    assert await call.run("echo $A$B") == reply("12\n")
