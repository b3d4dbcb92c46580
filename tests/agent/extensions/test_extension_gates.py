"""Gates fail closed: whatever a handler of tool_call or user_bash does but return nothing, the call is not made."""

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.handlers.gates import CallResult
from pinnace_agent.extensions.registration.registrations import Function

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

    from pinnace_agent.extensions.api.contexts import Context


def answering(value: object) -> Function:
    return lambda _ctx, _event: value


def raises(_ctx: object, _event: object) -> None:
    raise ValueError("rm is not allowed")


def raises_without_text(_ctx: object, _event: object) -> None:
    raise AssertionError


async def exits(_ctx: object, _event: object) -> None:
    sys.exit("bye")


async def group(_ctx: object, _event: object) -> None:
    raise ExceptionGroup("several", [ValueError("inside"), OSError("disk")])


async def forgotten_yield(_ctx: object, _event: object) -> object:
    yield rs.Block()


def wrong_signature(_event: object) -> None:
    """Takes too little."""


def reassigns(_ctx: object, event: ev.ToolCall) -> None:
    event.input = []  # type: ignore[assignment]


def stops_iteration(_ctx: object, _event: object) -> None:
    raise StopIteration


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words for it")


def raises_what_can_not_be_said(_ctx: object, _event: object) -> None:
    raise SpeechlessError


async def closes(_ctx: object, _event: object) -> None:
    raise GeneratorExit


def takes_a_call_for_an_answer(ctx: "Context", _event: object) -> object:
    return None if ctx.ui.confirm("Run it?") else rs.Block()  # type: ignore[truthy-bool]


def compares_a_call(ctx: "Context", _event: object) -> object:
    return rs.Block() if ctx.ui.confirm("Run it?") is False else None  # type: ignore[comparison-overlap]


async def drops_a_call(ctx: "Context", _event: object) -> None:
    await trio.lowlevel.checkpoint()
    ctx.ui.select("Run it?", ["yes", "no"])  # type: ignore[unused-coroutine]


def keeps_a_call(ctx: "Context", _event: object) -> None:
    answer = ctx.ui.input("Why?")
    assert answer is not None


def swallows_the_hint(ctx: "Context", _event: object) -> None:
    with suppress(TypeError):
        assert ctx.ui.confirm("Run it?")  # type: ignore[truthy-bool]


BAD_GATES = [
    takes_a_call_for_an_answer,
    compares_a_call,
    drops_a_call,
    keeps_a_call,
    swallows_the_hint,
    raises,
    raises_what_can_not_be_said,
    closes,
    raises_without_text,
    exits,
    group,
    forgotten_yield,
    wrong_signature,
    stops_iteration,
    answering(True),
    answering("block"),
    answering({"block": "yes"}),
    answering({"blocked": True}),
    answering(rs.Block(3)),  # type: ignore[arg-type]
    answering(rs.Cancel()),
]


@pytest.mark.parametrize("gate", [*BAD_GATES, reassigns])
async def test_every_failure_of_an_approval_hook_denies_and_is_reported(rig: "Rig", gate: Function) -> None:
    later: list[object] = []
    rig.on("tool_call", gate)
    rig.on("tool_call", lambda _ctx, event: later.append(event))
    block = await rig.runner().gates.tool_call("bash", "call-1", {"command": "rm -rf /"})

    assert isinstance(block, rs.Block)
    assert block.reason
    assert 1 == len(rig.host.errors)
    assert [] == later


@pytest.mark.parametrize("gate", [*BAD_GATES, answering({}), answering({"operations": None})])
async def test_a_gate_of_the_shell_that_fails_in_any_way_refuses_the_command(rig: "Rig", gate: Function) -> None:
    rig.on("user_bash", gate)
    answer = await rig.runner().gates.user_bash(
        lambda: ev.UserBash(command="rm -rf /", exclude_from_context=False, cwd="/")
    )
    assert isinstance(answer, rs.Block)
    assert 1 == len(rig.host.errors)


async def test_the_model_reads_the_message_of_an_exception(rig: "Rig") -> None:
    rig.on("tool_call", raises)
    assert rs.Block("rm is not allowed") == await rig.runner().gates.tool_call("bash", "1", {})


async def test_an_unawaited_call_is_named_with_what_to_write(rig: "Rig") -> None:
    rig.on("tool_call", takes_a_call_for_an_answer)
    block = await rig.runner().gates.tool_call("bash", "1", {})
    assert block is not None
    assert "confirm() must be awaited: write `await ...confirm(...)`" in (block.reason or "")


async def test_a_call_that_is_handed_to_a_task_is_not_dropped(rig: "Rig") -> None:
    """It is awaited there, also after the handler has returned; or it is returned, and awaited by the caller."""
    asked = trio.Event()

    async def hands_over(ctx: "Context", _event: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.ui.custom, print)
        asked.set()

    rig.on("tool_call", hands_over)
    rig.on("tool_call", lambda ctx, _event: ctx.ui.custom(print))
    assert await rig.runner().gates.tool_call("bash", "1", {}) is None
    assert (asked.is_set(), []) == (True, rig.host.errors)


async def test_a_failure_without_a_message_names_the_extension(rig: "Rig") -> None:
    rig.on("tool_call", exits)
    block = await rig.runner().gates.tool_call("bash", "1", {})
    assert block is not None
    assert "An extension that checks tool_call failed" in (block.reason or "")


async def test_a_hanging_approval_hook_delays_the_call_until_an_abort(
    rig: "Rig", autojump_clock: trio.testing.MockClock
) -> None:
    """There is no hard limit: a human may be asked."""
    verdicts: list[object] = []

    async def hangs(_ctx: object, _event: object) -> None:
        await trio.sleep_forever()

    rig.on("tool_call", hangs)
    with trio.move_on_after(3600) as run:
        verdicts.append(await rig.runner().gates.tool_call("bash", "1", {}))

    assert run.cancelled_caught
    assert [] == verdicts == rig.host.errors


async def test_a_gate_that_swallows_the_cancellation_lets_nothing_through(rig: "Rig") -> None:
    verdicts: list[object] = []

    async def swallows(_ctx: object, _event: object) -> None:
        try:
            run.cancel()
            await trio.sleep_forever()
        except BaseException:
            return

    rig.on("tool_call", swallows)
    with trio.CancelScope() as run:
        verdicts.append(await rig.runner().gates.tool_call("bash", "1", {}))

    assert run.cancelled_caught
    assert [] == verdicts


async def test_a_gate_in_a_thread_that_never_returns_is_left_behind_at_an_abort(rig: "Rig") -> None:
    begun, released = threading.Event(), threading.Event()
    verdicts: list[object] = []

    def blocks(_ctx: object, _event: object) -> None:
        begun.set()
        released.wait()

    async def abort() -> None:
        await trio.to_thread.run_sync(begun.wait)
        run.cancel()

    rig.on("tool_call", blocks, in_thread=True)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as run:
            nursery.start_soon(abort)
            verdicts.append(await rig.runner().gates.tool_call("bash", "1", {}))
    released.set()

    assert run.cancelled_caught
    assert [] == verdicts


async def test_a_gate_that_fails_in_a_thread_blocks(rig: "Rig") -> None:
    rig.on("tool_call", raises, in_thread=True)
    assert rs.Block("rm is not allowed") == await rig.runner().gates.tool_call("bash", "1", {})


async def test_a_gate_whose_session_ended_while_it_decided_blocks(rig: "Rig") -> None:
    rig.on("tool_call", lambda _ctx, _event: rig.generation.end("the extensions were reloaded"))
    assert isinstance(await rig.runner().gates.tool_call("bash", "1", {}), rs.Block)


async def test_the_first_denial_counts(rig: "Rig") -> None:
    rig.on("tool_call", answering(None))
    rig.on("tool_call", answering(rs.Block("declined", terminate=True)))
    rig.on("tool_call", raises)
    block = await rig.runner().gates.tool_call("bash", "1", {})
    assert rs.Block("declined", terminate=True) == block
    assert [] == rig.host.errors


async def test_a_call_that_every_gate_lets_through_is_made(rig: "Rig") -> None:
    rig.on("tool_call", answering(None))
    rig.on("tool_call", answering({"block": False}))
    assert (await rig.runner().gates.tool_call("bash", "1", {})) is None


async def test_gates_see_and_change_the_very_arguments(rig: "Rig") -> None:
    seen: list[object] = []

    def change(_ctx: object, event: ev.ToolCall) -> None:
        event.input["command"] = "ls"

    def replace(_ctx: object, event: ev.ToolCall) -> None:
        seen.append((type(event), event.tool_name, event.tool_call_id, dict(event.input)))
        event.input = {"command": "pwd"}

    arguments: dict[str, object] = {"command": "rm"}
    rig.on("tool_call", change)
    rig.on("tool_call", replace)
    assert (await rig.runner().gates.tool_call("bash", "1", arguments)) is None
    assert {"command": "pwd"} == arguments
    assert [(ev.BashCall, "bash", "1", {"command": "ls"})] == seen


async def test_a_handler_for_one_tool_is_not_called_for_others(rig: "Rig") -> None:
    rig.on("tool_call", answering(rs.Block()), tool="bash")
    gates = rig.runner().gates
    assert (await gates.tool_call("read", "1", {})) is None
    assert (await gates.tool_call("bash", "2", {})) is not None


async def test_an_approval_hook_can_ask_and_reads_no_without_an_answer(rig: "Rig", autojump_clock: object) -> None:
    async def gate(ctx: "Context", event: ev.ToolCall) -> rs.Block | None:
        sure = await ctx.ui.confirm("Run it?", timeout=30, tool_call_id=event.tool_call_id)
        return None if sure else rs.Block("declined")

    rig.on("tool_call", gate)
    assert rs.Block("declined") == await rig.runner().gates.tool_call("bash", "call-9", {})
    assert ("call-9", 30000) == (rig.host.frames[0]["toolCallId"], rig.host.frames[0]["timeout"])


async def test_the_first_result_about_a_command_counts(rig: "Rig") -> None:
    output: rs.BashOutput = {"output": "done", "exitCode": 0, "cancelled": False, "truncated": False}
    rig.on("user_bash", answering(None))
    rig.on("user_bash", answering({"result": output}))
    rig.on("user_bash", raises)
    answer = await rig.runner().gates.user_bash(lambda: ev.UserBash(command="x", exclude_from_context=True, cwd="/"))
    assert rs.UserBash(result=output) == answer


def text(value: str) -> rs.Blocks:
    return [{"type": "text", "text": value}]


async def test_patches_of_a_result_chain_and_absent_fields_stay(rig: "Rig") -> None:
    rig.on("tool_result", answering({"isError": True}))
    rig.on("tool_result", raises)
    rig.on("tool_result", lambda _ctx, event: rs.ResultPatch(details={"was_error": event.is_error}))
    result = CallResult(text("out"), {"a": 1}, structured={"n": 1})
    patched = await rig.runner().gates.tool_result("bash", "1", {}, result)
    assert CallResult(text("out"), {"was_error": True}, is_error=True, structured={"n": 1}) == patched
    assert 1 == len(rig.host.errors)


async def test_new_content_takes_the_structured_content_away_unless_that_is_new_too(rig: "Rig") -> None:
    remove = rig.on("tool_result", answering({"content": text("new")}))
    gates = rig.runner().gates
    result = CallResult(text("out"), structured={"n": 1})
    assert CallResult(text("new")) == await gates.tool_result("bash", "1", {}, result)
    remove()
    rig.on("tool_result", answering({"content": text("new"), "structuredContent": 2}))
    assert CallResult(text("new"), structured=2) == await rig.runner().gates.tool_result("bash", "1", {}, result)


async def test_a_result_is_changed_by_patches_and_not_behind_our_back(rig: "Rig") -> None:
    kept: list[rs.Blocks] = []

    def patch(_ctx: object, _event: object) -> rs.ResultPatch:
        kept.append(text("new"))
        return rs.ResultPatch(content=kept[0])

    original = CallResult(text("out"), {"a": [1]})
    rig.on("tool_result", lambda _ctx, event: event.content.clear())
    rig.on("tool_result", patch)
    patched = await rig.runner().gates.tool_result("bash", "1", {}, original)
    kept[0].clear()
    assert CallResult(text("out"), {"a": [1]}) == original
    assert CallResult(text("new"), {"a": [1]}) == patched


async def test_without_a_handler_a_result_is_handed_on_as_it_is(rig: "Rig") -> None:
    result = CallResult(text("out"))
    assert (await rig.runner().gates.tool_result("bash", "1", {}, result)) is result


@pytest.mark.parametrize("has_gate", [False, True])
async def test_nothing_is_carried_out_when_the_session_of_the_gates_is_over(rig: "Rig", has_gate: bool) -> None:
    """R-EXT-12: what was guarded is not known any more, since no handler is left."""
    if has_gate:
        rig.on("tool_call", answering(None))
        rig.on("user_bash", answering(None))
    async with rig.running() as runner:
        await runner.start("startup")
        await runner.shutdown("new")

        assert runner.gates.guards("tool_call")
        assert isinstance(await runner.gates.tool_call("bash", "1", {}), rs.Block)
        assert isinstance(
            await runner.gates.user_bash(lambda: ev.UserBash(command="ls", exclude_from_context=False, cwd="/")),
            rs.Block,
        )
