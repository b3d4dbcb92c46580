"""`--tool-approval`: what is asked, what is blocked, and that every failure blocks."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.builtin.tool_approval import APPROVAL_MODES, ApprovalMode, tool_approval
from pinnace_agent.extensions.host_view import ToolInfo
from pinnace_agent.extensions.loading import Inline, Loader
from pinnace_agent.extensions.results import Block
from pinnace_agent.extensions.runner import Runner

if TYPE_CHECKING:
    from tests.agent.conftest import Rig

BUILT_IN = ("read", "bash", "edit", "write", "grep", "find", "ls")
Open = Callable[..., AbstractAsyncContextManager[Runner]]


def tool(name: str, source: str = "local", *, is_read_only: bool = False) -> ToolInfo:
    return ToolInfo(name, "does it", {}, {"path": f"<{source}>", "source": source}, is_read_only=is_read_only)


@pytest.fixture
def gate(rig: "Rig") -> Open:
    """Runs the extension of a mode."""
    rig.host.tools = [tool(name, "builtin") for name in BUILT_IN]

    @asynccontextmanager
    async def run(mode: ApprovalMode, timeout_s: float | None = None) -> AsyncIterator[Runner]:
        loader = Loader(rig.generation, cwd="/")
        report = await loader.load([], [Inline("builtin:tool-approval", tool_approval(mode, timeout_s))])
        assert [] == report.failures
        apis = {each.extension: each.api for each in report.loaded}
        async with rig.running(Runner(report.extensions, rig.generation, rig.host.port, apis=apis)) as runner:
            await runner.start("startup")
            yield runner

    return run


async def asked(runner: Runner, rig: "Rig", name: str, answer: object, **arguments: object) -> Block | None:
    """Let the gate ask about a call, and give an answer."""
    outcome: list[Block | None] = []
    before = len(rig.host.frames)

    async def call() -> None:
        outcome.append(await runner.gates.tool_call(name, "call-7", arguments))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        if len(rig.host.frames) > before:
            runner.dialogs.answer({"id": rig.host.frames[-1]["id"], "value": answer})
    return outcome[0]


async def test_never_has_no_gate(rig: "Rig", gate: Open) -> None:
    async with gate("never") as runner:
        assert not runner.has_handlers("tool_call")
        assert None is await runner.gates.tool_call("bash", "1", {"command": "true"})


@pytest.mark.parametrize("name", ["read", "grep", "find", "ls"])
@pytest.mark.parametrize("mode", ["ask", "read-only"])
async def test_what_changes_nothing_is_run_unasked(rig: "Rig", gate: Open, mode: ApprovalMode, name: str) -> None:
    async with gate(mode) as runner:
        assert None is await runner.gates.tool_call(name, "1", {})
    assert [] == rig.host.frames


@pytest.mark.parametrize("name", ["bash", "edit", "write", "of_an_extension", "not_there"])
async def test_read_only_blocks_everything_else_and_says_why(rig: "Rig", gate: Open, name: str) -> None:
    rig.host.tools.append(tool("of_an_extension"))
    async with gate("read-only") as runner:
        block = await runner.gates.tool_call(name, "1", {})

    assert block is not None
    assert (block.reason or "").startswith(f"{name} was not run: this session is read-only")
    assert not block.terminate


async def test_a_tool_that_says_it_changes_nothing_is_run(rig: "Rig", gate: Open) -> None:
    rig.host.tools.append(tool("look", is_read_only=True))
    async with gate("read-only") as runner:
        assert None is await runner.gates.tool_call("look", "1", {})


async def test_a_tool_that_only_bears_the_name_of_a_harmless_one_is_not(rig: "Rig", gate: Open) -> None:
    rig.host.tools[0] = tool("read")
    async with gate("read-only") as runner:
        assert isinstance(await runner.gates.tool_call("read", "1", {}), Block)


async def test_the_question_names_the_call_and_shows_what_it_would_do(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "bash", "Yes", command="rm -rf build")
        assert None is await asked(runner, rig, "write", "Yes", content="new\x1b[2J", path="a.txt")

    first, second = rig.host.frames
    assert ("select", "Let the model use bash?\n\nrm -rf build") == (first["method"], first["title"])
    assert (["Yes", "Yes for this session", "No"], "call-7") == (first["options"], first["toolCallId"])
    assert "timeout" not in first
    assert "Let the model use write?\n\npath: a.txt\ncontent: new\\x1b[2J" == second["title"]


async def test_a_long_command_shows_its_beginning_and_its_end(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        await asked(runner, rig, "bash", "No", command=f"true {'x' * 9000}; rm -rf /")

    title = str(rig.host.frames[0]["title"])
    assert title.endswith("; rm -rf /")
    assert "characters are not shown" in title
    assert len(title) < 4100


@pytest.mark.parametrize("answer", ["No", "yes", None, 7, ["Yes"]])
async def test_nothing_but_yes_is_yes(rig: "Rig", gate: Open, answer: object) -> None:
    async with gate("ask") as runner:
        block = await asked(runner, rig, "bash", answer, command="true")

    assert isinstance(block, Block)
    assert "the user has not approved this call" in str(block.reason)


async def test_yes_is_for_one_call(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "bash", "Yes", command="one")
        assert isinstance(await asked(runner, rig, "bash", "No", command="two"), Block)


async def test_yes_for_this_session_is_for_one_tool(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "bash", "Yes for this session", command="one")
        assert None is await asked(runner, rig, "bash", "nobody is asked", command="two")
        assert isinstance(await asked(runner, rig, "write", "No", path="a", content=""), Block)
    assert 2 == len(rig.host.frames)


@pytest.mark.parametrize("mode", ["print", "json"])
async def test_with_nobody_to_ask_it_blocks(rig: "Rig", gate: Open, mode: str) -> None:
    async with gate("ask") as runner:
        rig.host.mode = "print" if mode == "print" else "json"
        block = await runner.gates.tool_call("bash", "1", {"command": "true"})

    assert "nobody can be asked" in str(block)
    assert [] == rig.host.frames


async def test_silence_blocks(rig: "Rig", gate: Open, autojump_clock: trio.testing.MockClock) -> None:
    async with gate("ask", 30) as runner:
        assert isinstance(await runner.gates.tool_call("bash", "1", {"command": "true"}), Block)
    assert 30_000 == rig.host.frames[0]["timeout"]


@pytest.mark.parametrize("ending", ["abort", "end of input", "replaced"])
async def test_an_open_question_that_is_ended_blocks(rig: "Rig", gate: Open, ending: str) -> None:
    outcome: list[Block | None] = []

    async with gate("ask") as runner, trio.open_nursery() as nursery:

        async def call() -> None:
            outcome.append(await runner.gates.tool_call("bash", "1", {"command": "true"}))

        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        if ending == "abort":
            runner.abort()
        elif ending == "end of input":
            runner.dialogs.close_all(for_good="the client is gone")
        else:
            await runner.shutdown("new")
    assert isinstance(outcome[0], Block)


async def test_a_host_that_can_not_say_what_a_tool_is_blocks(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        rig.host.tools = [None]  # type: ignore[list-item]
        assert isinstance(await runner.gates.tool_call("read", "1", {}), Block)
    assert ["tool_call"] == [event for _, event, _ in rig.host.told]


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no tool approval 'always'; there are never, ask, read-only"):
        tool_approval("always")  # type: ignore[arg-type]
    assert ("never", "ask", "read-only") == APPROVAL_MODES
