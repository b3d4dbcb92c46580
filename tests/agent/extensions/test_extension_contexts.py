"""Contexts: views of the agent that are looked up at access, and that end with their session."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.core.frozen import FrozenValueError
from pinnace_agent.extensions.api.contexts import CommandContext, Context, ControlError, ReplacedContext, TrustContext
from pinnace_agent.extensions.api.user_interface import UserInterface
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.ports.host_view import TreeMove
from pinnace_agent.extensions.registration.registrations import StaleContextError
from pinnace_agent.extensions.runtime.commands import CommandCall
from pinnace_agent.extensions.runtime.runner import Runner

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

MODEL_ID = "m"


@pytest.fixture
async def ctx(rig: "Rig") -> Context:
    """A context as handlers get it."""
    kept: list[Context] = []
    rig.on("agent_start", lambda ctx, _event: kept.append(ctx))
    await rig.runner().chains.notify("agent_start", rig.started)
    return kept[0]


async def test_a_context_that_was_kept_sees_changes(rig: "Rig", ctx: Context) -> None:
    assert MODEL_ID == (ctx.model["id"] if ctx.model else None)
    rig.host.model, rig.host.level, rig.host.is_idle = None, "high", False
    rig.host.has_pending_messages = True

    assert ctx.model is None
    assert ("high", False, True) == (ctx.thinking_level, ctx.is_idle(), ctx.has_pending_messages())


async def test_the_values_of_a_context(rig: "Rig", ctx: Context) -> None:
    assert ("rpc", True, "/work/place") == (ctx.mode, ctx.has_ui, str(ctx.cwd))
    assert ((), True, "the prompt") == (ctx.scoped_models, ctx.is_project_trusted(), ctx.get_system_prompt())
    assert 1.0 == (ctx.get_context_usage() or (0, 0, 0))[2]
    assert 1 == len(ctx.model_registry.all())
    ctx.abort()
    ctx.shutdown()
    assert [("abort",), ("shutdown",)] == rig.host.asked
    rig.host.mode = "print"
    assert not ctx.has_ui


async def test_the_open_run_can_be_seen_and_ended(rig: "Rig", ctx: Context) -> None:
    assert [None] == [ctx.cancel_scope]
    rig.host.run_scope = trio.CancelScope()
    assert ctx.cancel_scope is not None
    ctx.cancel_scope.cancel()
    assert [("abort",)] == rig.host.asked  # so that clients receive the events of an abort
    before = ctx.aborted
    rig.host.run_scope.cancel()
    assert [False, True] == [before, ctx.aborted]


async def test_everything_raises_when_the_session_is_over(rig: "Rig", ctx: Context) -> None:
    reader = ctx.session_manager
    rig.generation.end("the session was replaced by a new one")
    calls: list[Callable[[], object]] = [
        lambda: ctx.ui,
        lambda: ctx.has_ui,
        lambda: ctx.mode,
        lambda: ctx.cwd,
        lambda: ctx.session_manager,
        lambda: ctx.session,
        lambda: ctx.model_registry,
        lambda: ctx.model,
        lambda: ctx.thinking_level,
        lambda: ctx.scoped_models,
        lambda: ctx.cancel_scope,
        lambda: ctx.aborted,
        ctx.is_idle,
        ctx.abort,
        ctx.has_pending_messages,
        ctx.shutdown,
        ctx.get_context_usage,
        ctx.compact,
        ctx.get_system_prompt,
        ctx.is_project_trusted,
        reader.get_entries,
        reader.get_cwd,
        reader.build_session_context,
    ]
    for call in calls:
        with pytest.raises(StaleContextError, match=r"replaced by a new one.*with_session.*reload"):
            call()
    assert [] == rig.host.asked


async def test_the_transcript_is_read_as_snapshots_that_cannot_be_changed(rig: "Rig", ctx: Context) -> None:
    rig.host.session.append("one")
    [entry] = ctx.session_manager.get_branch()
    message = entry["message"]
    assert isinstance(entry, dict)
    assert isinstance(message, dict)
    for change in (
        lambda: entry.update(id="x"),
        lambda: message.__setitem__("role", "assistant"),
        lambda: message["content"].append("x"),
        lambda: message["content"][0].pop("text"),
        message["content"].sort,
    ):
        with pytest.raises(FrozenValueError, match=r"copy\.deepcopy"):
            change()
    assert rig.host.session.lines[0] == entry == json.loads(json.dumps(entry))
    changed = copy.deepcopy(entry)
    changed["message"]["content"].append("mine")  # type: ignore[index]
    assert 1 == len(rig.host.session.lines[0]["message"]["content"])  # type: ignore[index]


async def test_a_snapshot_stays_when_the_session_grows_and_is_made_once(rig: "Rig", ctx: Context) -> None:
    rig.host.session.append("one")
    first = ctx.session.get_entries()
    rig.host.session.append("two")
    second = ctx.session.get_entries()

    assert (1, 2) == (len(first), len(second))
    assert first[0] is second[0] is ctx.session.get_entry("e0")


async def test_the_reader_of_the_session(rig: "Rig", ctx: Context) -> None:
    session = ctx.session_manager
    assert session.get_leaf_entry() is None
    rig.host.session.append("one")
    rig.host.session.append("two")
    reported = (session.get_session_id(), session.get_session_file(), session.get_session_dir(), session.get_cwd())
    assert ("session-1", "/sessions/1.jsonl", "/sessions", "/work/place") == reported
    assert (None, "e1", None) == (session.get_session_name(), session.get_leaf_id(), session.get_label("e0"))
    assert session.get_entry("e1") is session.get_leaf_entry()
    assert ["e0"] == [entry["id"] for entry in session.get_branch("e0")]
    assert 3 == session.get_header()["version"]
    assert () == session.get_tree()
    assert ({"role": "user", "content": "hello", "timestamp": 1},) == session.build_session_context()["messages"]
    assert session.get_entry("nothing") is None
    with pytest.raises(KeyError, match="nothing"):
        session.get_branch("nothing")


async def test_compact_calls_back_with_its_result(rig: "Rig") -> None:
    results: list[object] = []

    async def note(result: object) -> None:
        await trio.lowlevel.checkpoint()
        results.append(result)

    rig.on("agent_start", lambda ctx, _event: ctx.compact("look at x", note))
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)
        assert [] == results
        await trio.testing.wait_all_tasks_blocked()
        assert [{"summary": "short"}] == results


@pytest.mark.parametrize("has_callback", [True, False])
async def test_a_failed_compaction_calls_back_or_is_reported(rig: "Rig", has_callback: bool) -> None:
    failures: list[Exception] = []

    def fail() -> dict[str, object]:
        raise RuntimeError("nothing to compact")

    rig.host.compacts = fail
    on_error = failures.append if has_callback else None
    rig.on("agent_start", lambda ctx, _event: ctx.compact(on_error=on_error))
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)
        await trio.testing.wait_all_tasks_blocked()

    assert has_callback == bool(failures)
    reported = [] if has_callback else [("/ext/x0.py", "compact", "RuntimeError: nothing to compact")]
    assert reported == rig.host.reported


def call_of(runner: Runner, text: str) -> CommandCall:
    call = runner.commands.find(text)
    assert call is not None
    return call


async def test_a_command_controls_the_session(rig: "Rig") -> None:
    results: list[object] = []

    async def command(ctx: CommandContext, _args: str) -> None:
        await ctx.wait_for_idle()
        results.append(await ctx.new_session("/parent"))
        results.append(await ctx.fork("e1", "at"))
        results.append(await ctx.navigate_tree("e2", summarize=True, label="L"))
        results.append(await ctx.switch_session("/other.jsonl"))
        results.append(await ctx.compact_and_wait())
        results.append(ctx.get_system_prompt_options())
        await ctx.reload()

    rig.command("go", command)
    runner = rig.runner()
    await runner.commands.run(call_of(runner, "/go"))

    assert [] == rig.host.reported
    assert rig.host.asked == [
        ("wait_for_idle",),
        ("new_session", "/parent"),
        ("fork", "e1", "at"),
        ("navigate_tree", "e2", TreeMove(summarize=True, label="L")),
        ("switch_session", "/other.jsonl"),
        ("reload",),
    ]
    assert [False, False, False, False] == [result.cancelled for result in results[:4]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "method",
    ["wait_for_idle", "new_session", "fork", "navigate_tree", "switch_session", "reload", "compact_and_wait"],
)
@pytest.mark.parametrize("is_in_a_child", [True, False])
async def test_a_task_that_the_session_waits_for_may_not_control_it(
    rig: "Rig", method: str, is_in_a_child: bool
) -> None:
    """It raises where it would wait for itself."""
    kept: list[CommandContext] = []
    rig.command("keep", lambda ctx, _args: kept.append(ctx))

    async def control() -> None:
        arguments = ["e1"] if method in ("fork", "navigate_tree", "switch_session") else []
        await getattr(kept[0], method)(*arguments)

    async def handler(_ctx: Context, _event: object) -> None:
        if not is_in_a_child:
            await control()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(control)

    rig.on("turn_start", handler)
    runner = rig.runner()
    await runner.commands.run(call_of(runner, "/keep"))
    await runner.chains.notify("turn_start", lambda: ev.TurnStart(turn_index=0, timestamp=1))

    assert [] == rig.host.asked
    [(_, _, error)] = rig.host.reported
    assert f"ctx.{method}() was called from turn_start" in error
    assert not hasattr(Context, method)


async def test_a_background_task_may_wait_for_idle_and_may_not_replace_the_session(rig: "Rig") -> None:
    """It ends with the session, so it can't be the one that waits for the end."""
    kept: list[CommandContext] = []
    rig.command("keep", lambda ctx, _args: kept.append(ctx))
    seen: list[str] = []

    async def work() -> None:
        await kept[0].wait_for_idle()
        with pytest.raises(ControlError, match="a background task"):
            await kept[0].new_session()
        seen.append("done")

    def handler(_ctx: Context, _event: object) -> None:
        runner.instances[rig.extensions[1]].start_soon(work)

    rig.on("agent_start", handler)
    async with rig.running() as runner:
        await runner.commands.run(call_of(runner, "/keep"))
        await runner.chains.notify("agent_start", rig.started)
        await trio.testing.wait_all_tasks_blocked()
    assert ["done"] == seen
    assert [] == rig.host.reported


async def test_a_command_continues_in_the_new_session_and_its_context_is_stale(rig: "Rig") -> None:
    seen: list[object] = []
    next_runner = type(rig)().runner()

    async def replace(with_session: Callable[..., object] | None) -> None:
        await old.shutdown("new")
        assert with_session is not None
        await next_runner.commands.run_with_session(with_session)  # type: ignore[arg-type]

    async def command(ctx: CommandContext, _args: str) -> None:
        async def go_on(new: ReplacedContext) -> None:
            await new.send_user_message("hello")
            await new.send_message("note", "text")
            seen.append(new.is_idle())

        await ctx.new_session(with_session=go_on)
        seen.append(ctx.aborted)
        with pytest.raises(StaleContextError):
            _ = ctx.model

    rig.host.replaces = replace
    rig.command("go", command)
    async with rig.running() as old:
        await old.commands.run(call_of(old, "/go"))

    assert [True, False] == seen
    assert [] == rig.host.reported


async def test_a_failure_in_the_new_session_is_the_commands(rig: "Rig") -> None:
    next_runner = type(rig)().runner()

    async def replace(with_session: Callable[..., object] | None) -> None:
        assert with_session is not None
        await next_runner.commands.run_with_session(with_session)  # type: ignore[arg-type]

    def go_on(_new: object) -> None:
        raise ValueError("too late")

    async def command(ctx: CommandContext, _args: str) -> None:
        await ctx.new_session(with_session=go_on)

    rig.host.replaces = replace
    rig.command("go", command)
    runner = rig.runner()
    await runner.commands.run(call_of(runner, "/go"))
    assert [("command:go", "command", "ValueError: too late")] == rig.host.reported


async def test_a_context_in_a_thread_reads_acts_and_asks_in_the_trio_thread(rig: "Rig") -> None:
    import threading

    seen: list[object] = []
    home = threading.get_ident()
    places: set[bool] = set()

    class View(type(rig.host)):  # type: ignore[misc]
        """Notes in which thread it is read."""

        @property
        def mode(self) -> str:
            places.add(threading.get_ident() == home)
            return "rpc"

        @mode.setter
        def mode(self, _mode: str) -> None:
            """It is always the same."""

    view = View()

    asked = trio.Event()

    def send(frame: Mapping[str, object]) -> None:
        rig.host.frames.append(frame)
        asked.set()

    def handler(ctx: Context, _event: object) -> None:
        seen.append(len(ctx.session_manager.get_entries()))
        seen.append(ctx.ui.confirm("Sure?"))
        ctx.ui.notify("done")
        seen.append(str(ctx.cwd))
        seen.append(ctx.mode)
        seen.append(ctx.model_registry.api_key_and_headers(ctx.model_registry.all()[0]))

    rig.on("agent_start", handler, in_thread=True)
    threaded = Runner(rig.extensions, rig.generation, rig.host.port._replace(view=view, send=send))
    async with rig.running(threaded) as runner, trio.open_nursery() as nursery:
        nursery.start_soon(runner.chains.notify, "agent_start", rig.started)
        await asked.wait()
        runner.dialogs.answer({"id": rig.host.frames[0]["id"], "confirmed": True})

    assert [0, True, "/work/place", "rpc", ("key", {})] == seen
    assert {True} == places
    assert "notify" == rig.host.frames[1]["method"]
    assert [] == rig.host.reported


def test_before_there_is_a_session_a_context_knows_little(rig: "Rig") -> None:
    context = TrustContext("/p", "print", UserInterface(rig.generation))
    assert ("/p", "print", False) == (str(context.cwd), context.mode, context.has_ui)
    assert not hasattr(context, "session_manager")
