"""What authors use beside `pi` and `ctx`: built-in tools elsewhere, one line for a file, texts, models."""

import dataclasses
import importlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import trio
import trio.testing

import pinnace.extensions as facade
from pinnace.extensions import (
    CONFIG_DIR_NAME,
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_LINES,
    Context,
    ModelError,
    Spawn,
    ToolDefinition,
    agent_dir,
    builtin,
    complete,
    file_mutation,
    format_size,
    message_text,
    operations,
    serialize_conversation,
    truncate_head,
    truncate_line,
    truncate_tail,
)
from pinnace_agent.extensions.api.contexts import ToolContext as OwnContext
from pinnace_agent.extensions.registration.registrations import ToolRegistration
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.tools import base
from pinnace_agent.tools.edit import EditTool

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

Call = Callable[..., Awaitable[base.ToolResult]]


@pytest.fixture
def call(rig: "Rig", tmp_path: Path) -> Call:
    """Registers a definition, and calls it as the agent does."""

    async def run(
        definition: ToolDefinition, context: base.ToolContext | None = None, /, **arguments: object
    ) -> base.ToolResult:
        extension = rig.extension(f"x{len(rig.extensions)}")
        extension.tools[definition.name] = ToolRegistration(definition, extension.source)
        runner = rig.runner()
        return await runner.tools()[definition.name].execute(arguments, context or made(tmp_path))

    return run


def made(folder: Path) -> base.ToolContext:
    """What the agent gives a call."""
    return base.ToolContext(str(folder), "call-1", lambda _: None, {"PATH": "/usr/bin:/bin", "MARK": "of the agent"})


def text(result: base.ToolResult) -> str:
    return "".join(block["text"] for block in result.content if block["type"] == "text")


# The facade.


def test_every_name_that_authors_may_import_is_there() -> None:
    assert [] == [name for name in facade.__all__ if getattr(facade, name, None) is None]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'truncate'"):
        importlib.import_module("pinnace.extensions").truncate  # noqa: B018


# Tools of the agent, made by an extension.


async def test_a_built_in_tool_works_in_another_folder(call: Call, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "a.txt").write_text("from there")

    assert "from there" == text(await call(builtin.read(there), path="a.txt"))


async def test_a_built_in_tool_works_in_the_sessions_folder_by_default(call: Call, tmp_path: Path) -> None:
    await call(builtin.write(), path="a.txt", content="written")

    assert "written" == (tmp_path / "a.txt").read_text()


async def test_operations_stand_in_for_this_machine(call: Call) -> None:
    class Elsewhere:
        async def access(self, path: str) -> None:
            if path != "/srv/a.txt":
                raise FileNotFoundError(2, "No such file")

        async def read_file(self, path: str) -> bytes:
            return b"far away"

    definition = builtin.read("/srv", operations=Elsewhere())

    assert "far away" == text(await call(definition, path="a.txt"))
    with pytest.raises(base.ToolError, match="ENOENT"):
        await call(definition, path="b.txt")


async def test_a_spawn_hook_changes_the_command_of_bash(call: Call, tmp_path: Path) -> None:
    def hook(spawn: Spawn) -> Spawn:
        return spawn._replace(command=f"{spawn.command}; echo $MARK; pwd", env={**spawn.env, "MARK": "changed"})

    result = await call(builtin.bash(spawn_hook=hook), command="echo one")

    assert ["one", "changed", str(tmp_path)] == text(result).splitlines()


async def test_bash_gets_the_environment_that_the_agent_gives_its_calls(call: Call) -> None:
    assert "of the agent" in text(await call(builtin.bash(), command="echo $MARK"))


async def test_the_output_of_an_aborted_command_is_read_from_its_call(call: Call, tmp_path: Path) -> None:
    has_begun = trio.Event()
    context = dataclasses.replace(made(tmp_path), on_update=lambda update: has_begun.set() if text(update) else None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: call(builtin.bash(tmp_path), context, command="echo begun; sleep 60"))
        await has_begun.wait()
        nursery.cancel_scope.cancel()

    assert context.aborted_result is not None
    assert "begun" in text(context.aborted_result)


async def test_a_definition_can_be_wrapped(call: Call, tmp_path: Path) -> None:
    first = builtin.read()

    async def execute(ctx: OwnContext, params: Mapping[str, object]) -> str:
        result = cast("base.ToolResult", await cast("Awaitable[object]", first.execute(ctx, params)))
        return f"<{text(result)}>"

    (tmp_path / "a.txt").write_text("inside")

    assert "<inside>" == text(await call(dataclasses.replace(first, execute=execute), path="a.txt"))


@pytest.mark.parametrize("name", ["read", "grep", "find", "ls", "write", "edit", "bash"])
def test_a_definition_is_the_built_in_tool_under_its_own_name(name: str) -> None:
    from pinnace_agent.tools import builtin_tools

    definition, tool = getattr(builtin, name)(), builtin_tools()[name]

    assert (tool.name, tool.description, tool.parameters) == (
        definition.name,
        definition.description,
        definition.parameters,
    )
    assert (tool.snippet, tool.guidelines) == (definition.prompt_snippet, definition.prompt_guidelines)
    assert (name in {"read", "grep", "find", "ls"}) is definition.is_read_only


async def test_operations_of_this_machine_can_be_used_by_others() -> None:
    received: list[bytes] = []
    exit_code = await builtin.local_bash().exec(
        "echo hello", cwd="/", on_data=received.append, timeout_s=None, env={}, shell_path=None
    )
    assert (0, b"hello\n") == (exit_code, b"".join(received))
    assert issubclass(operations.CommandTimedOut, Exception)


# One line for a file.


async def test_a_tool_and_edit_change_one_file_after_each_other(tmp_path: Path, rig: "Rig") -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    (tmp_path / "link.txt").symlink_to(path)
    inside = trio.Event()
    go_on = trio.Event()

    async def slowly(ctx: OwnContext, params: Mapping[str, object]) -> None:
        async with file_mutation("link.txt"):  # relative to where tools work, and the same file by another name
            before = path.read_text()
            inside.set()
            await go_on.wait()
            path.write_text(f"{before} two")

    rig.tool("slowly", slowly)
    tool = rig.runner().tools()["slowly"]
    edit = {"path": "a.txt", "edits": [{"oldText": "two", "newText": "three"}]}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tool.execute, {}, made(tmp_path))
        await inside.wait()
        nursery.start_soon(EditTool().execute, edit, made(tmp_path))
        await trio.testing.wait_all_tasks_blocked(0.05)
        go_on.set()

    assert "one three" == path.read_text()


async def test_calls_of_one_turn_get_a_file_in_their_order(tmp_path: Path, rig: "Rig") -> None:
    order: list[str] = []

    async def note(ctx: OwnContext, params: Mapping[str, object]) -> None:
        async with file_mutation("a.txt"):
            order.append(ctx.tool_call_id)
            await trio.lowlevel.checkpoint()

    rig.tool("note", note)
    tool = rig.runner().tools()["note"]
    contexts = [dataclasses.replace(made(tmp_path), call_id=str(number), order=10**9 + number) for number in range(8)]
    async with trio.open_nursery() as nursery:
        for context in reversed(contexts):
            nursery.start_soon(tool.execute, {}, context)

    assert [str(number) for number in range(8)] == order


async def test_a_file_can_be_locked_outside_of_a_call(tmp_path: Path) -> None:
    holders: list[int] = []

    async def hold(number: int) -> None:
        async with file_mutation(tmp_path / "a.txt"):
            holders.append(number)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, 1)
        nursery.start_soon(hold, 2)
        with trio.move_on_after(0.05):
            await trio.sleep_forever()
        nursery.cancel_scope.cancel()

    assert 1 == len(holders)


# Texts.


def test_text_is_truncated_as_by_the_built_in_tools() -> None:
    lines = "".join(f"{number}\n" for number in range(DEFAULT_MAX_LINES + 10))

    assert truncate_head(lines).content.startswith("0\n1\n")
    assert truncate_tail(lines).content.endswith(f"\n{DEFAULT_MAX_LINES + 9}")
    assert DEFAULT_MAX_LINES == truncate_head(lines).output_lines
    assert DEFAULT_MAX_BYTES == len(truncate_tail("x" * 100_000).content)
    assert "50.0KB" == format_size(DEFAULT_MAX_BYTES)


@pytest.mark.parametrize(("line", "shown"), [("short", "short"), ("x" * 12, "xxxxxxxxxx... [truncated]"), ("", "")])
def test_a_truncated_line_is_marked(line: str, shown: str) -> None:
    assert shown == truncate_line(line, 10)


def test_message_text_returns_the_text_blocks() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert "a\nb" == message_text({"role": "assistant", "content": blocks})
    assert "hello" == message_text({"role": "user", "content": "hello"})
    assert "" == message_text({"role": "bashExecution", "output": "x"})


def test_a_conversation_is_written_down_as_one_text() -> None:
    text = serialize_conversation(
        [{"role": "user", "content": "hello", "timestamp": 1}, {"role": "user", "content": "more", "timestamp": 2}]
    )
    assert "[User]: hello\n\n[User]: more" == text


def test_the_users_folder_is_that_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))

    assert (tmp_path, ".pi") == (agent_dir(), CONFIG_DIR_NAME)


# Asking a model.


async def context_of(rig: "Rig") -> Context:
    contexts: list[Context] = []
    rig.on("agent_start", lambda ctx, event: contexts.append(ctx))
    await rig.runner().chains.notify("agent_start", rig.started)
    return contexts[0]


async def test_a_model_is_asked_beside_the_conversation(rig: "Rig") -> None:
    rig.host.model = OFFLINE_MODEL

    answer = await complete(await context_of(rig), "count to 3")

    assert "1 2 3" == message_text(answer).strip()
    assert [] == rig.host.asked


async def test_a_model_that_fails_is_an_error_with_its_words(rig: "Rig") -> None:
    rig.host.model = OFFLINE_MODEL

    with pytest.raises(ModelError, match="400"):
        await complete(await context_of(rig), "fail with 400")


async def test_complete_without_a_model_is_an_error(rig: "Rig") -> None:
    rig.host.model = None

    with pytest.raises(ModelError, match="there is no model"):
        await complete(await context_of(rig), "hello")


async def test_a_model_of_an_api_that_is_not_spoken_is_an_error(rig: "Rig") -> None:
    with pytest.raises(ModelError, match="API sign-language is not supported"):
        await complete(await context_of(rig), "hello", model={**OFFLINE_MODEL, "api": "sign-language"})
