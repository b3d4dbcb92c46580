"""Commands and searches on another machine: what the tools ask for, and what they make of the answers."""

import errno
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

from pinnace_agent.tools.base import Tool, ToolContext, ToolError, ToolResult
from pinnace_agent.tools.bash import BashTool
from pinnace_agent.tools.find import FindTool
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.operations import CommandTimedOut, GlobSearch, SearchEnd
from pinnace_agent.tools.validation import validate_arguments

ENV = {"HERE": "local"}
MATCH = (
    b'{"type":"match","data":{"path":{"text":"./a/b"},"lines":{"text":"%s\\n"},"line_number":%d,'
    b'"absolute_offset":0,"submatches":[]}}\n'
)


def failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Asked(NamedTuple):
    """One command or search that the machine was asked for."""

    what: str
    cwd: str
    env: Mapping[str, str]
    timeout_s: float | None = None


class RemoteMachine:
    """Another machine: the operations of bash, grep and find, by a script. It has a folder `/far` with a file `f`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.calls: list[str] = []
        self.failures: dict[str, Exception] = {}
        """What an operation raises, by its name."""
        self.between: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        """Awaited in each operation: the way to the machine and back."""
        self.script: Callable[[Callable[[bytes], object]], Awaitable[int | None]] | None = None
        """What a program does."""
        self.found: Sequence[str] = ()

    async def _begin(self, name: str) -> None:
        self.calls.append(name)
        await self.between()
        if name in self.failures:
            raise self.failures[name]

    async def exec(
        self,
        command: str,
        *,
        cwd: str,
        on_data: Callable[[bytes], None],
        timeout_s: float | None,
        env: Mapping[str, str],
        shell_path: str | None,
    ) -> int | None:
        self.asked.append(Asked(command, cwd, env, timeout_s))
        await self._begin("exec")
        assert self.script is not None
        return await self.script(on_data)

    async def is_folder(self, path: str) -> bool:
        await self._begin("is_folder")
        if path not in ("/far", "/far/f"):
            raise failure(errno.ENOENT)
        return path == "/far"

    async def search(
        self, arguments: Sequence[str], *, cwd: str, env: Mapping[str, str], take: Callable[[bytes], bool]
    ) -> SearchEnd:
        self.asked.append(Asked(" ".join(arguments), cwd, env))
        await self._begin("search")
        assert self.script is not None
        return SearchEnd(await self.script(take), "complaints", was_stopped=False)

    async def exists(self, path: str) -> bool:
        await self._begin("exists")
        return path in ("/far", "/far/f")

    async def glob(self, search: GlobSearch, take: Callable[[str], bool]) -> None:
        self.asked.append(Asked(f"{search.pattern} {search.limit} {search.ignore}", search.folder, search.env))
        await self._begin("glob")
        if search.folder != "/far":
            raise failure(errno.ENOTDIR)
        any(take(path) for path in self.found)


def context() -> ToolContext:
    return ToolContext("/far", "c1", lambda _: None, ENV)


async def call(tool: Tool, ctx: ToolContext | None = None, **arguments: Any) -> ToolResult:
    return await tool.execute(validate_arguments(tool, arguments), ctx or context())


async def refusal(tool: Tool, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await call(tool, **arguments)
    return str(caught.value)


def shown(text: str, *, is_error: bool = False, has_details: bool = True) -> ToolResult:
    return ToolResult([{"type": "text", "text": text}], {} if is_error and has_details else None, is_error)


def machine_that(*pieces: bytes, end: int | Exception | None = 0) -> RemoteMachine:
    """A machine on which a program writes these pieces, and ends."""
    machine = RemoteMachine()

    async def script(write: Callable[[bytes], object]) -> int | None:
        for piece in pieces:
            await trio.lowlevel.checkpoint()
            if write(piece):
                break
        if isinstance(end, Exception):
            raise end
        return end

    machine.script = script
    return machine


@pytest.mark.parametrize(
    ("pieces", "end", "result"),
    [
        ([b"caf\xc3", b"\xa9\n"], 0, shown("café\n")),
        ([], 0, shown("(no output)")),
        ([b"out"], 3, shown("out\n\nCommand exited with code 3", is_error=True, has_details=False)),
        (
            [],
            None,
            shown("(no output)\n\nCommand was killed and its exit status is unknown", is_error=True, has_details=False),
        ),
        ([b"out"], CommandTimedOut(), shown("out\n\nCommand timed out after 5 seconds", is_error=True)),
        ([b"out"], OSError("the line is dead"), shown("out\n\nthe line is dead", is_error=True)),
        ([b"\xc3"], 0, shown("\ufffd")),
    ],
)
async def test_a_command_there_ends_as_one_here(pieces: list[bytes], end: int | Exception, result: ToolResult) -> None:
    tool = BashTool(operations=machine_that(*pieces, end=end))

    assert await call(tool, command="x", timeout=5) == result


async def test_the_machine_gets_all_that_a_command_needs() -> None:
    machine = machine_that()
    ctx = context()
    ctx.command_prefix = "set -u"
    await call(BashTool(operations=machine), ctx, command="x", timeout=2.5)

    assert machine.asked == [Asked("set -u\nx", "/far", ENV, 2.5)]


async def test_a_shell_that_left_processes_behind_is_reported() -> None:
    end = CommandTimedOut(exit_code=3, exited_after_s=0.25)

    result = await call(BashTool(operations=machine_that(end=end)), command="x", timeout=5)
    assert result.content[0]["type"] == "text"
    assert "(the shell itself exited with code 3 after 0.2 seconds" in result.content[0]["text"]


@pytest.mark.parametrize("error", [OSError("no such machine"), ToolError("no such machine")])
async def test_a_command_that_was_not_started_is_an_error(error: Exception) -> None:
    assert await refusal(BashTool(operations=machine_that(end=error)), command="x") == "no such machine"


async def test_a_timeout_that_makes_no_sense_does_not_reach_the_machine() -> None:
    machine = machine_that()

    assert await refusal(BashTool(operations=machine), command="x", timeout=0) == (
        "Invalid timeout: must be a finite number of seconds"
    )
    assert machine.calls == []


async def test_a_cancelled_command_keeps_what_was_written() -> None:
    machine = RemoteMachine()

    async def script(write: Callable[[bytes], object]) -> int:
        write(b"so far")
        try:
            await trio.sleep(float("inf"))
        finally:
            write(b", and on")
        return 0

    machine.script = script
    ctx = context()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: call(BashTool(operations=machine), ctx, command="x"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert ctx.aborted_result == shown("so far, and on\n\nCommand aborted", is_error=True)


async def test_output_that_is_too_long_is_kept_on_this_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("output")
    machine = machine_that(*[b"x" * 1023 + b"\n"] * 100)
    result = await call(BashTool(str(folder), machine), command="x")

    (kept,) = folder.iterdir()
    assert result.details is not None
    assert result.details["fullOutputPath"] == str(kept)
    assert kept.read_bytes() == (b"x" * 1023 + b"\n") * 100


async def test_ripgrep_runs_there() -> None:
    machine = machine_that(MATCH % (b"hit", 7), b'{"type":"end"}\n')

    assert await call(GrepTool(machine), pattern="h.t", glob="*.c") == shown("a/b:7: hit")
    assert machine.calls == ["is_folder", "search"]
    options = "--no-config --json --line-number --color=never --hidden --glob=*.c --glob=!.git -- h.t ."
    assert machine.asked == [Asked(options, "/far", ENV)]


async def test_a_file_there_is_searched_in_its_folder() -> None:
    machine = machine_that(MATCH % (b"hit", 7))

    assert await call(GrepTool(machine), pattern="hit", path="f") == shown("f:7: hit")
    assert machine.asked[0].what.endswith("-- hit /far/f")
    assert machine.asked[0].cwd == "/far"


async def test_remote_ripgrep_is_stopped_when_enough_was_read() -> None:
    machine = machine_that(*(MATCH % (b"hit", number) for number in range(1, 100)))
    result = await call(GrepTool(machine), pattern="hit", limit=2)

    assert result.details == {"matchLimitReached": 2}


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (2, "complaints"),
        (OSError("the line is dead"), "Failed to run ripgrep: the line is dead"),
        (ToolError("no ripgrep there"), "no ripgrep there"),
    ],
)
async def test_a_search_there_that_fails_is_an_error(end: int | Exception, text: str) -> None:
    assert await refusal(GrepTool(machine_that(end=end)), pattern="x") == text


async def test_names_are_searched_there() -> None:
    machine = RemoteMachine()
    machine.found = ["a/", "a/b\udcff", "c"]

    assert await call(FindTool(machine), pattern="*", limit=3) == shown("a/\na/b\ufffd\nc")
    assert machine.calls == ["exists", "glob"]
    assert machine.asked == [Asked("* 3 ('.git',)", "/far", ENV)]
    assert await call(FindTool(machine), pattern="*", limit=2) == ToolResult(
        [
            {
                "type": "text",
                "text": "a/\na/b\ufffd\n\n[2 results limit reached. Use limit=4 for more, or refine pattern]",
            }
        ],
        {"resultLimitReached": 2},
    )


async def test_nothing_found_there_says_so() -> None:
    assert await call(FindTool(RemoteMachine()), pattern="*") == shown("No files found matching pattern")


async def test_a_remote_path_that_is_no_folder_is_reported() -> None:
    machine = RemoteMachine()

    assert await refusal(FindTool(machine), pattern="*", path="gone") == "Path not found: /far/gone"
    assert await refusal(FindTool(machine), pattern="*", path="f") == "Not a directory: /far/f"
    assert await refusal(GrepTool(machine), pattern="x", path="gone") == "Path not found: /far/gone"
    machine.failures["glob"] = failure(errno.EIO)
    assert await refusal(FindTool(machine), pattern="*") == "EIO: i/o error, glob '/far'"


@pytest.mark.parametrize("name", ["grep", "find"])
async def test_a_cancelled_search_there_ends(name: str) -> None:
    machine = RemoteMachine()
    machine.between = trio.sleep_forever
    tool: Tool = GrepTool(machine) if name == "grep" else FindTool(machine)
    with trio.move_on_after(0) as scope:
        await call(tool, pattern="x")

    assert scope.cancelled_caught
