"""The runner: from the start of a session instance to its end, its commands and its tools; and chaos."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.registration.registrations import Function, ProviderRegistration, StaleContextError
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_spec.records.messages import ImageContent, TextContent

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

    from pinnace_agent.extensions.api.contexts import CommandContext, Context
    from pinnace_agent.extensions.api.contexts import ToolContext as AuthorsContext
    from pinnace_agent.extensions.runtime.runner import Runner


async def test_a_session_begins_with_providers_then_session_start_then_resources(rig: "Rig") -> None:
    order: list[object] = []
    extension = rig.extension()
    extension.providers += [
        ProviderRegistration("bad", {}),
        ProviderRegistration("good", {}),
        ProviderRegistration("former", None),
    ]

    def start(_ctx: object, event: ev.SessionStart) -> None:
        order.append((len(rig.host.asked), event.reason, event.previous_session_file))

    def discover(_ctx: object, event: ev.ResourcesDiscover) -> rs.Resources:
        order.append((event.reason, event.cwd))
        return rs.Resources(skills=["s"])

    rig.on("session_start", start, extension=extension)
    rig.on("resources_discover", discover, extension=extension)
    async with rig.running() as runner:
        found = await runner.start("startup")

    assert [(2, "startup", None), ("startup", "/work/place")] == order
    assert [rs.Resources(skills=["s"])] == [each.resources for each in found]
    assert [("/ext/a.py", "register_provider", "ValueError: no baseUrl")] == rig.host.reported
    assert [("register_provider", "/ext/a.py", "good"), ("unregister_provider", "former")] == rig.host.asked
    assert [] == extension.providers


@pytest.mark.parametrize(
    ("reason", "legacy"), [("new", "session_switch"), ("resume", "session_switch"), ("fork", "session_fork")]
)
async def test_events_of_an_older_generation_follow_session_start(rig: "Rig", reason: str, legacy: str) -> None:
    seen: list[str] = []
    for name in ("session_fork", "session_switch", "session_start", "resources_discover"):
        rig.on(name, lambda _ctx, event: seen.append(event.type))
    async with rig.running() as runner:
        await runner.start(reason, "/old.jsonl")  # type: ignore[arg-type]
    assert ["session_start", legacy, "resources_discover"] == seen


class Api:
    """The `pi` of an extension."""

    def __init__(self) -> None:
        self.bound: list[object] = []

    def bind(self, actions: object, background: object) -> None:
        self.bound += [actions, background]


async def test_the_api_of_each_extension_is_bound_before_session_start(rig: "Rig") -> None:
    from pinnace_agent.extensions.runtime.runner import Runner

    api, seen = Api(), list[int]()
    rig.on("session_start", lambda _ctx, _event: seen.append(len(api.bound)))
    [extension] = rig.extensions
    runner = Runner(rig.extensions, rig.generation, rig.host.port, apis={extension: api})
    async with rig.running(runner):
        await runner.start("startup")
    assert [2] == seen
    assert [runner.actions, runner.instances[extension]] == api.bound


async def test_requests_while_settling_start_after_the_last_handler(rig: "Rig") -> None:
    seen: list[object] = []
    actions = rig.host.port.actions

    def speak(_ctx: object, _event: object) -> None:
        actions.send_user_message("more", deliver_as=None, expands=False)

    def look(_ctx: object, event: ev.AgentSettled) -> None:
        seen.append((event.aborted, list(rig.host.asked)))

    rig.on("agent_settled", speak)
    rig.on("agent_settled", look)
    from pinnace_agent.extensions.runtime.runner import Runner

    runner = Runner(rig.extensions, rig.generation, rig.host.port._replace(actions=actions))
    await runner.settled(aborted=True)
    assert [(True, [])] == seen
    assert [("send_user_message", "more")] == rig.host.asked


async def test_shutdown_calls_handlers_ends_tasks_and_makes_contexts_stale(rig: "Rig") -> None:
    order: list[str] = []
    extension = rig.extension()

    async def live() -> None:
        try:
            await trio.sleep_forever()
        finally:
            order.append("background ended")

    async def on_shutdown(ctx: "Context", event: ev.SessionShutdown) -> None:
        await trio.lowlevel.checkpoint()
        order.append(f"{event.reason} {event.target_session_file} {ctx.mode}")

    rig.on("session_shutdown", on_shutdown, extension=extension)
    async with rig.running() as runner:
        runner.instances[extension].start_soon(live)
        await trio.testing.wait_all_tasks_blocked()
        await runner.shutdown("resume", "/other.jsonl")
        await runner.shutdown("quit")

    assert ["resume /other.jsonl rpc", "background ended"] == order
    assert rig.generation.is_stale
    assert "replaced" in rig.generation.reason
    assert ("stale", {}) == (extension.state, extension.handlers)
    assert not runner.has_handlers("session_shutdown")


async def test_a_hanging_shutdown_handler_is_cancelled_and_reported(
    rig: "Rig", autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:

    async def hangs(_ctx: object, _event: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)

    rig.on("session_shutdown", hangs)
    async with rig.running() as runner:
        runner.instances[rig.extensions[0]].start_soon(trio.sleep_forever)
        await runner.shutdown("quit")
        assert 4.5 == trio.current_time()

    assert [("/ext/x0.py", "session_shutdown", "the handler took too long and was cancelled")] == rig.host.reported
    assert rig.generation.is_stale
    assert "still ending" not in caplog.text


async def test_a_shutdown_is_complete_even_when_it_is_cancelled(rig: "Rig") -> None:
    seen: list[str] = []

    async def on_shutdown(_ctx: object, _event: object) -> None:
        await trio.lowlevel.checkpoint()
        seen.append("expected_text")

    rig.on("session_shutdown", on_shutdown)
    async with rig.running() as runner:
        with trio.CancelScope() as scope:
            scope.cancel()
            await runner.shutdown("quit")
        assert ["expected_text"] == seen
        assert rig.generation.is_stale
    assert [] == rig.host.reported


async def test_a_stuck_background_task_delays_the_shutdown_up_to_its_limit(
    rig: "Rig", autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(60)

    extension = rig.extension()
    async with rig.running() as runner:
        runner.instances[extension].start_soon(stubborn)
        await trio.testing.wait_all_tasks_blocked()
        begun = trio.current_time()
        await runner.shutdown("quit")
        assert 5 == trio.current_time() - begun
    assert "still ending" in caplog.text


# Commands.


async def test_a_command_gets_the_rest_of_its_text_verbatim(rig: "Rig") -> None:
    seen: list[str] = []
    rig.command("say", lambda _ctx, args: seen.append(args))
    runner = rig.runner()
    for text in ("/say hello  world ", "/say", "/say /say x"):
        call = runner.commands.find(text)
        assert call is not None
        await runner.commands.run(call)

    assert ["hello  world ", "", "/say x"] == seen
    for text in ("say hello", "/sayhello", "/", "", " /say"):
        assert runner.commands.find(text) is None


async def test_commands_with_a_shared_name_are_numbered(rig: "Rig") -> None:
    for name in ("deploy", "test", "deploy:1", "deploy"):
        rig.command(name, lambda _ctx, _args: None)
    runner = rig.runner()
    assert runner.commands.find("/deploy") is None
    names = [(info.name, info.source_info["path"]) for info in runner.commands.infos()]
    expected = [("deploy:2", "x0"), ("test", "x1"), ("deploy:1", "x2"), ("deploy:3", "x3")]
    assert [(name, f"/ext/{path}.py") for name, path in expected] == names


def fails(_ctx: object, _args: str) -> None:
    raise ValueError("no good")


def takes_nothing() -> None:
    """Has no parameters."""


async def exits(_ctx: object, _args: str) -> None:
    sys.exit(1)


@pytest.mark.parametrize(
    ("function", "text"),
    [(fails, "no good"), (exits, "ctx.shutdown()"), (takes_nothing, "it is called as (ctx, args)")],
)
async def test_a_failing_command_is_reported(rig: "Rig", function: Function, text: str) -> None:
    runner, call = rig.called_command(function)
    await runner.commands.run(call)
    [(path, event, error)] = rig.host.reported
    assert ("command:go", "command") == (path, event)
    assert text in error
    assert 0 == len(runner.commands)


@pytest.mark.parametrize("line", ["raise ValueError('no good')", "raise SystemExit(3)", "json.loads('{')"])
async def test_the_error_of_a_command_has_the_file_and_line(rig: "Rig", tmp_path: Path, line: str) -> None:
    """Of the extension, which the record's path does not name."""
    file = tmp_path / "tally.py"
    file.write_text(f"import json\n\nasync def go(ctx, args):\n    {line}\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    runner, call = rig.called_command(names["go"])
    call.command.extension.path = str(file)
    await runner.commands.run(call)
    [(path, _, error)] = rig.host.reported
    assert ("command:go", True) == (path, error.endswith("(tally.py, line 4)"))


async def test_a_command_sees_an_abort_and_is_cancelled_by_the_second(rig: "Rig") -> None:
    seen: list[bool] = []

    async def command(ctx: "CommandContext", _args: str) -> None:
        seen.append(ctx.aborted)
        try:
            await trio.sleep_forever()
        finally:
            seen.append(ctx.aborted)

    runner, call = rig.called_command(command)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.commands.run, call)
        await trio.testing.wait_all_tasks_blocked()
        runner.abort()
        await trio.testing.wait_all_tasks_blocked()
        assert [False] == seen
        runner.abort()

    assert [False, True] == seen
    assert [] == rig.host.reported


async def test_an_abort_answers_the_dialogs_of_a_command_with_their_defaults(rig: "Rig") -> None:
    answers: list[object] = []

    async def command(ctx: "CommandContext", _args: str) -> None:
        answers.append(await ctx.ui.confirm("Sure?"))
        answers.append(ctx.aborted)

    runner, call = rig.called_command(command)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.commands.run, call)
        await trio.testing.wait_all_tasks_blocked()
        runner.abort()

    assert [False, True] == answers
    assert 0 == len(runner.dialogs)


# Tools.


def context_of_call(updates: list[ToolResult]) -> ToolContext:
    return ToolContext("/work/place", "call-1", updates.append, {})


def text(value: str) -> list[TextContent | ImageContent]:
    return [{"type": "text", "text": value}]


async def test_a_tool_is_called_with_a_context_of_its_call(rig: "Rig") -> None:
    updates: list[ToolResult] = []

    async def greet(ctx: "AuthorsContext", params: Mapping[str, object]) -> str:
        _ = ctx.update("so far")
        await ctx.update("further")
        return f"{ctx.tool_call_id} {params['name']} {ctx.aborted} {ctx.tools}"

    rig.tool("greet", greet)
    tool = rig.runner().tools()["greet"]
    result = await tool.execute({"name": "Ann"}, context_of_call(updates))

    assert ToolResult(text("call-1 Ann False ('bash',)")) == result
    assert [text("so far"), text("further")] == [update.content for update in updates]
    expected_text = (tool.name, tool.label, tool.description, tool.snippet, tool.guidelines, tool.is_sequential)
    assert ("greet", "greet", "does it", "", (), False) == expected_text


async def test_all_parts_of_a_result_reach_the_host(rig: "Rig") -> None:
    result = rs.ToolResult("done", {"d": 1}, structured={"s": 2}, terminate=True)
    rig.tool("t", lambda _ctx, _params: result)
    tool = rig.runner().tools()["t"]
    expected = ToolResult(text("done"), {"d": 1}, structured={"s": 2}, terminate=True)
    assert expected == await tool.execute({}, context_of_call([]))


def expected_failure(_ctx: object, _params: object) -> None:
    raise ToolError("not today")


def defect(_ctx: object, _params: object) -> None:
    raise KeyError("x")


async def tool_exits(_ctx: object, _params: object) -> None:
    sys.exit(1)


@pytest.mark.parametrize(
    ("function", "expected_text"),
    [
        (expected_failure, "not today"),
        (defect, "KeyError: 'x'"),
        (tool_exits, "tried to exit the process"),
        (lambda _ctx, _params: 3, "t returned what can't be used: a tool can't return int"),
    ],
)
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_tool_that_fails_is_a_result_and_no_error_of_the_extension(
    rig: "Rig", function: Function, expected_text: str, in_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """2.3"""
    rig.tool("t", function, in_thread=in_thread and function is not tool_exits)
    with pytest.raises(ToolError) as raised:
        await rig.runner().tools()["t"].execute({}, context_of_call([]))
    assert str(raised.value).startswith(expected_text)
    assert (function is expected_failure) == (not caplog.records)
    assert [] == rig.host.errors


async def test_a_tool_is_cancelled_with_its_call(rig: "Rig") -> None:
    async def waits(_ctx: object, _params: object) -> None:
        await trio.sleep_forever()

    rig.tool("t", waits)
    with trio.CancelScope() as scope:
        scope.cancel()
        await rig.runner().tools()["t"].execute({}, context_of_call([]))
    assert scope.cancelled_caught


async def test_of_several_tools_with_one_name_the_first_loaded_counts(rig: "Rig") -> None:
    for number in (1, 2):
        rig.tool("t", lambda _ctx, _params, number=number: str(number))
    runner = rig.runner()
    assert ToolResult(text("1")) == await runner.tools()["t"].execute({}, context_of_call([]))
    assert runner.tools()["t"] is runner.tools()["t"]


# Chaos: the session goes on.


def raises(_ctx: object, _event: object) -> None:
    raise RuntimeError("chaos")


async def hangs(_ctx: object, _event: object) -> None:
    await trio.sleep_forever()


def blocks(_ctx: object, _event: object) -> None:
    time.sleep(0.2)


async def cancels(ctx: "Context", _event: object) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.sleep_forever()
    assert ctx.cancel_scope is not None
    ctx.cancel_scope.cancel()


def prints(_ctx: object, _event: object) -> None:
    print("to the protocol?")


async def calls_back(ctx: "Context", _event: object) -> None:
    ctx.abort()
    ctx.compact()
    ctx.session_manager.get_entries()
    ctx.ui.notify("hello")


async def leaves(_ctx: object, _event: object) -> None:
    raise SystemExit(0)


async def one_turn(runner: "Runner", rig: "Rig") -> list[str]:
    """Do what a run does, and return what happened."""
    happened: list[str] = []
    chains = runner.chains
    await chains.notify("agent_start", rig.started)
    await chains.notify("turn_start", lambda: ev.TurnStart(turn_index=0, timestamp=1))
    for _ in range(3):
        await chains.notify("message_update", lambda: ev.MessageUpdate(message=None, assistant_message_event={}))  # type: ignore[arg-type]
    block = await runner.gates.tool_call("bash", "1", {"command": "rm"})
    happened.append("blocked" if block else "executed")
    await runner.settle_hooks(
        "turn_end",
        lambda: ev.TurnEnd(turn_index=0, message=None, tool_results=()),  # type: ignore[arg-type]
    )
    await runner.settled(aborted=False)
    happened.append("settled")
    return happened


@pytest.mark.parametrize("chaos", [raises, hangs, blocks, cancels, prints, calls_back, leaves])
async def test_the_session_continues_whatever_a_handler_does(
    rig: "Rig", chaos: Function, autojump_clock: trio.testing.MockClock
) -> None:
    rig.host.run_scope = trio.CancelScope()
    seen: list[str] = []
    for name in ("session_start", "agent_start", "turn_start", "message_update", "turn_end", "agent_settled"):
        rig.on(name, chaos)
        rig.on(name, lambda _ctx, event: seen.append(event.type))
    rig.on("session_shutdown", chaos)
    async with rig.running() as runner:
        with trio.move_on_after(60):
            await runner.start("startup")
        with trio.move_on_after(60) as run:
            assert ["executed", "settled"] == await one_turn(runner, rig)
        assert (chaos is hangs) == run.cancelled_caught  # a run that hangs is one that can be aborted
        await runner.shutdown("quit")

    if chaos is not hangs:
        deltas = ["message_update"] * 3
        assert ["session_start", "agent_start", "turn_start", *deltas, "turn_end", "agent_settled"] == seen
    assert rig.generation.is_stale


@pytest.mark.parametrize("chaos", [raises, leaves])
async def test_a_misbehaving_approval_hook_denies_and_the_session_continues(rig: "Rig", chaos: Function) -> None:
    rig.on("tool_call", chaos)
    async with rig.running() as runner:
        await runner.start("startup")
        assert ["blocked", "settled"] == await one_turn(runner, rig)


async def test_a_stale_context_after_a_reload_raises_with_advice(rig: "Rig") -> None:
    kept: list[Context] = []
    rig.on("agent_start", lambda ctx, _event: kept.append(ctx))
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)
        await runner.shutdown("reload")
    with pytest.raises(StaleContextError, match="reloaded"):
        kept[0].ui.notify("late")
