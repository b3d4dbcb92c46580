"""Chains: what becomes of an event, and of the failures of its handlers."""

import re
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import trio

from pinnace_agent.extensions.api.contexts import TrustContext
from pinnace_agent.extensions.api.user_interface import UserInterface
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.handlers.chains import InputOutcome, UnusableResultError
from pinnace_agent.extensions.handlers.settle_hooks import NOTHING, Proposal
from pinnace_agent.extensions.handlers.trust_question import ask_for_trust
from pinnace_agent.extensions.registration.registrations import Function

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

    from pinnace_agent.extensions.api.contexts import Context


def answering(value: object) -> Function:
    return lambda _ctx, _event: value


def refuses(_ctx: object, _event: object) -> NoReturn:
    raise ValueError("no good")


async def test_without_a_handler_not_even_the_event_is_made(rig: "Rig") -> None:
    rig.on("agent_end", answering(None))
    chains = rig.runner().chains

    def make() -> NoReturn:
        raise AssertionError("created without a handler")

    assert not chains.has_handlers("agent_start")
    await chains.notify("agent_start", make)
    assert (await chains.decide("session_before_switch", make)) is None
    assert (await chains.input(make)) is None
    assert (await chains.before_agent_start(make)) is None
    assert [] == await chains.resources(make)
    assert (await rig.runner().settle_hooks("turn_end", make)) == NOTHING


async def test_handlers_run_one_after_another_by_extension_and_then_by_registration(rig: "Rig") -> None:
    order: list[str] = []

    def noting(name: str) -> Function:
        async def handler(_ctx: object, _event: object) -> None:
            await trio.lowlevel.checkpoint()
            order.append(name)

        return handler

    first, second = rig.extension("1"), rig.extension("2")
    rig.on("agent_start", noting("2a"), extension=second)
    rig.on("agent_start", noting("1a"), extension=first)
    rig.on("agent_start", noting("1b"), extension=first)
    await rig.runner().chains.notify("agent_start", rig.started)

    assert ["1a", "1b", "2a"] == order


async def test_a_handler_that_is_added_or_taken_away_meanwhile_changes_the_next_dispatch(rig: "Rig") -> None:
    calls: list[str] = []
    extension = rig.extension()

    def first(_ctx: object, _event: object) -> None:
        calls.append("first")
        remove()
        rig.on("agent_start", lambda _ctx, _event: calls.append("added"), extension=extension)

    rig.on("agent_start", first, extension=extension)
    remove = rig.on("agent_start", lambda _ctx, _event: calls.append("second"), extension=extension)
    chains = rig.runner().chains
    await chains.notify("agent_start", rig.started)
    assert ["first", "second"] == calls
    calls.clear()
    await chains.notify("agent_start", rig.started)
    assert ["first", "added"] == calls


async def exits(_ctx: object, _event: object) -> None:
    sys.exit(3)


async def fails_in_a_group(_ctx: object, _event: object) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise ValueError("inside")


def wrong_signature(_event: object) -> None:
    """Takes one parameter."""


def wrong_order(event: object, ctx: object) -> object:
    return ctx.tool_name  # type: ignore[attr-defined]


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def mute(_ctx: object, _event: object) -> None:
    raise _Mute


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (refuses, "no good"),
        (exits, "tried to exit the process (SystemExit: 3); use ctx.shutdown() instead"),
        (fails_in_a_group, "inside"),
        (wrong_signature, "it is called as (ctx, event), but is wrong_signature(_event: object) -> None"),
        (wrong_order, "takes its parameters in the wrong order: it is called as (ctx, event)"),
        (mute, "_Mute"),
    ],
)
async def test_a_failing_handler_is_reported_and_the_chain_continues(rig: "Rig", handler: Function, text: str) -> None:
    called: list[object] = []
    rig.on("agent_start", handler)
    rig.on("agent_start", lambda _ctx, event: called.append(event))
    await rig.runner().chains.notify("agent_start", rig.started)

    assert 1 == len(called)
    [(path, event, error)] = rig.host.reported
    assert ("/ext/x0.py", "agent_start") == (path, event)
    assert text in error
    assert "Traceback" in (rig.host.errors[0].stack or "")


async def test_an_interrupt_that_a_handler_raises_is_its_failure(rig: "Rig") -> None:
    """The agent takes SIGINT itself."""

    def interrupt(_ctx: object, _event: object) -> None:
        raise KeyboardInterrupt

    rig.on("agent_start", interrupt)
    await rig.runner().chains.notify("agent_start", rig.started)

    assert ["KeyboardInterrupt"] == [error for _, _, error in rig.host.reported]


async def test_a_cancellation_ends_the_chain_without_an_error(rig: "Rig") -> None:
    called: list[object] = []

    async def waits(_ctx: object, _event: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            scope.cancel()

    rig.on("agent_start", waits)
    rig.on("agent_start", lambda _ctx, event: called.append(event))
    with trio.CancelScope() as scope:
        await rig.runner().chains.notify("agent_start", rig.started)

    assert scope.cancelled_caught
    assert [] == called == rig.host.errors


async def test_the_cancellation_of_a_group_passes_and_the_rest_is_reported(rig: "Rig") -> None:

    async def fails_while_cancelled(_ctx: object, _event: object) -> None:
        async def clean_up_badly() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("disk")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_up_badly)
            nursery.start_soon(trio.sleep_forever)
            await trio.lowlevel.checkpoint()
            scope.cancel()

    rig.on("agent_start", fails_while_cancelled)
    with trio.CancelScope() as scope:
        await rig.runner().chains.notify("agent_start", rig.started)

    assert scope.cancelled_caught
    assert ["OSError: disk"] == [error for *_, error in rig.host.reported]


async def test_a_scope_of_the_handlers_own_is_its_own_matter(rig: "Rig") -> None:
    async def limited(_ctx: object, _event: object) -> None:
        with trio.CancelScope() as own:
            own.cancel()
            await trio.lowlevel.checkpoint()

    rig.on("agent_start", limited)
    await rig.runner().chains.notify("agent_start", rig.started)
    assert [] == rig.host.errors


async def test_a_sync_handler_may_run_in_a_thread(rig: "Rig") -> None:
    import threading

    threads: list[object] = []
    rig.on("agent_start", lambda _ctx, _event: threads.append(threading.get_ident()), in_thread=True)
    await rig.runner().chains.notify("agent_start", rig.started)
    assert [threading.get_ident()] != threads
    assert 1 == len(threads)


def switch() -> ev.SessionBeforeSwitch:
    return ev.SessionBeforeSwitch(reason="new")


async def test_the_first_cancel_ends_the_chain(rig: "Rig") -> None:
    called: list[object] = []
    rig.on("session_before_switch", refuses)
    rig.on("session_before_switch", answering({"cancel": True}))
    rig.on("session_before_switch", lambda _ctx, event: called.append(event))

    assert rs.Cancel() == await rig.runner().chains.decide("session_before_switch", switch)
    assert [] == called
    assert ["ValueError: no good"] == [error for *_, error in rig.host.reported]


async def test_a_handler_that_fails_cancels_nothing(rig: "Rig") -> None:
    rig.on("session_before_switch", refuses)
    assert (await rig.runner().chains.decide("session_before_switch", switch)) is None
    assert 1 == len(rig.host.errors)


async def test_an_answer_that_can_not_be_used_cancels(rig: "Rig") -> None:
    """It may have been meant to."""
    rig.on("session_before_switch", answering({"cancel": "yes"}))
    assert rs.Cancel() == await rig.runner().chains.decide("session_before_switch", switch)
    assert 1 == len(rig.host.errors)


async def test_the_last_compaction_counts(rig: "Rig") -> None:
    for number in (1, 2):
        rig.on("session_before_compact", answering(rs.Compaction(f"summary {number}", "e1", 10)))
    rig.on("session_before_compact", answering(None))

    def make() -> ev.SessionBeforeCompact:
        return ev.SessionBeforeCompact(preparation={}, branch_entries=(), reason="manual")

    decision = await rig.runner().chains.decide("session_before_compact", make)
    assert rs.Compaction("summary 2", "e1", 10) == decision


async def test_resources_of_all_are_found_each_with_its_extension(rig: "Rig") -> None:
    rig.on("resources_discover", answering({"skillPaths": ["s"]}))
    rig.on("resources_discover", answering(rs.Resources(prompts=["p"])))
    make = ev.ResourcesDiscover
    found = await rig.runner().chains.resources(lambda: make(cwd="/", reason="startup"))
    expected = [("/ext/x0.py", rs.Resources(skills=["s"])), ("/ext/x1.py", rs.Resources(prompts=["p"]))]
    assert expected == [(each.extension.path, each.resources) for each in found]


def said() -> ev.Input:
    return ev.Input(text="hello", images=[{"type": "image", "data": "", "mimeType": "image/png"}], source="rpc")


async def test_transformations_of_a_text_chain_and_images_stay(rig: "Rig") -> None:
    rig.on("input", lambda _ctx, event: rs.Transform(event.text + "!"))
    rig.on("input", refuses)
    rig.on("input", lambda _ctx, event: {"action": "transform", "text": event.text.upper()})
    rig.on("input", answering({"action": "continue"}))
    result = await rig.runner().chains.input(said)
    assert InputOutcome("HELLO!", said().images) == result


async def test_a_handled_message_ends_the_chain(rig: "Rig") -> None:
    rig.on("input", answering(rs.Handled()))
    rig.on("input", refuses)
    result = await rig.runner().chains.input(said)
    assert result is not None
    assert result.is_handled
    assert [] == rig.host.errors


async def test_messages_before_a_run_are_collected_and_the_prompt_chains(rig: "Rig") -> None:
    seen: list[tuple[str, str]] = []
    kept: list[Context] = []

    def adding(text: str) -> Function:
        def handler(ctx: "Context", event: ev.BeforeAgentStart) -> object:
            kept.append(ctx)
            seen.append((event.system_prompt, ctx.get_system_prompt()))
            message = {"customType": "t", "content": text, "display": True}
            return {"systemPrompt": f"{event.system_prompt} {text}", "message": message}

        return handler

    rig.on("before_agent_start", adding("1"))
    rig.on("before_agent_start", adding("2"))
    chains = rig.runner().chains
    start = await chains.before_agent_start(lambda: ev.BeforeAgentStart(prompt="hi", system_prompt="base"))

    assert start is not None
    assert "base 1 2" == start.system_prompt
    assert ["1", "2"] == [message["content"] for message in start.messages]
    assert [("base", "base"), ("base 1", "base 1")] == seen
    assert "the prompt" == kept[0].get_system_prompt()


async def test_a_message_can_be_replaced_by_one_of_the_same_role(rig: "Rig") -> None:
    rig.on("message_end", answering({"message": {"role": "assistant", "content": []}}))
    rig.on("message_end", lambda _ctx, event: {"message": {**event.message, "content": "two"}})
    message = await rig.runner().chains.message_end({"role": "user", "content": "one", "timestamp": 1})
    assert {"role": "user", "content": "two", "timestamp": 1} == message
    assert "can't become 'assistant'" in rig.host.reported[0][2]


async def test_a_message_in_the_transcript_cannot_be_changed_in_place(rig: "Rig") -> None:
    rig.on("message_end", lambda _ctx, event: event.message.update(content="changed"))
    message: dict[str, object] = {"role": "user", "content": "one", "timestamp": 1}
    assert {"role": "user", "content": "one", "timestamp": 1} == await rig.runner().chains.message_end(message)  # type: ignore[arg-type]


async def test_a_returned_value_is_copied(rig: "Rig") -> None:
    mine: dict[str, object] = {"role": "user", "content": [], "timestamp": 1}
    entry: dict[str, object] = {**NOTE}
    rig.on("message_end", answering({"message": mine}))
    rig.on("turn_end", answering({"entries": [entry]}))
    runner = rig.runner()
    message = await runner.chains.message_end({"role": "user", "content": "one", "timestamp": 1})
    proposal = await runner.settle_hooks("turn_end", turn_end)
    mine["content"] = entry["customType"] = "changed later"

    assert {"role": "user", "content": [], "timestamp": 1} == message
    assert Proposal((NOTE,)) == proposal


async def test_the_context_is_a_copy_and_both_ways_of_changing_it_count(rig: "Rig") -> None:
    rig.on("context", lambda _ctx, event: event.messages[0].update(content="in place"))
    rig.on("context", lambda _ctx, event: [*event.messages, {"role": "user", "content": "more", "timestamp": 2}])
    original = {"role": "user", "content": "one", "timestamp": 1}
    shown = await rig.runner().chains.context([original])  # type: ignore[list-item]

    assert shown is not None
    assert ["in place", "more"] == [each["content"] for each in shown]  # type: ignore[typeddict-item]
    assert "one" == original["content"]
    assert [] == rig.host.errors


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda _ctx, event: event.messages.append("nonsense"), "context: messages must be a list of messages"),
        (lambda _ctx, event: event.messages[0].update(file=b""), "context: messages[0].file: bytes is not JSON"),
        (lambda *_: {"messages": "none"}, "context: messages must be a list of messages, not a string"),
        (lambda *_: {"mesages": []}, "context: there is no field 'mesages'"),
        (lambda *_: [{"role": "user", "content": {1}}], "context: messages[0].content: set is not JSON"),
    ],
)
async def test_a_context_that_can_not_be_used_is_not_sent(rig: "Rig", function: Any, text: str) -> None:
    """A handler that was to take something out must not be passed over."""
    rig.on("context", function)
    rig.on("context", lambda *_: pytest.fail("the chain is over"))
    message: Any = {"role": "user", "content": "secret", "timestamp": 1}
    with pytest.raises(UnusableResultError, match=re.escape(text)):
        await rig.runner().chains.context([message])
    assert 1 == len(rig.host.errors)


async def test_keys_that_are_not_known_are_reported_once_and_the_others_count(rig: "Rig") -> None:
    message = {"role": "user", "content": "kept", "timestamp": 1}
    rig.on("context", answering({"messages": [message], "note": 1}))
    runner = rig.runner()
    for _ in range(3):
        assert [message] == await runner.chains.context([])
    [(path, event, text)] = rig.host.reported
    assert ("/ext/x0.py", "context") == (path, event)
    assert "there is no field 'note', which is left out" in text


async def test_changing_a_returned_value_later_has_no_effect(rig: "Rig") -> None:
    """What crosses the border is copied."""
    answer = [{"role": "user", "content": [{"type": "text", "text": "said"}], "timestamp": 1}]
    shown: list[Any] = []

    def later(_ctx: object, event: Any) -> None:
        shown.append(event.messages)

    rig.on("context", answering(answer))
    rig.on("context", later)
    made = await rig.runner().chains.context([])
    answer[0]["content"] = "changed"
    shown[0].clear()
    assert made is not None
    assert [{"type": "text", "text": "said"}] == made[0]["content"]  # type: ignore[typeddict-item]


async def test_headers_are_changed_in_place_and_none_takes_one_out(rig: "Rig") -> None:
    rig.on("before_provider_headers", lambda _ctx, event: event.headers.update(b="2", a=None))
    assert {"b": "2"} == await rig.runner().chains.headers({"a": "1"})
    assert [] == rig.host.errors


async def test_a_payload_is_replaced_by_anything_but_nothing(rig: "Rig") -> None:
    rig.on("before_provider_request", lambda _ctx, event: {**event.payload, "a": 1})
    rig.on("before_provider_request", refuses)
    rig.on("before_provider_request", answering(None))
    assert {"m": "x", "a": 1} == await rig.runner().chains.payload({"m": "x"})


def turn_end() -> ev.TurnEnd:
    message: dict[str, object] = {"role": "assistant", "content": []}
    return ev.TurnEnd(turn_index=0, message=message, tool_results=())  # type: ignore[arg-type]


NOTE = {"type": "custom", "customType": "note", "data": 1}


async def test_unset_fields_keep_the_proposal_so_far(rig: "Rig") -> None:
    seen: list[object] = []

    def last(_ctx: object, event: ev.TurnEnd) -> object:
        seen.append((list(event.entries), event.continue_, list(event.context)))
        return None

    rig.on("turn_end", answering({"entries": [NOTE]}))
    rig.on("turn_end", answering(rs.Boundary(continue_=True)))
    rig.on("turn_end", last)
    proposal = await rig.runner().settle_hooks("turn_end", turn_end, list)  # type: ignore[arg-type]

    assert Proposal((NOTE,), continues=True) == proposal
    assert [([NOTE], True, [NOTE])] == seen


@pytest.mark.parametrize(
    "draft",
    [
        {"type": "message"},
        {"type": "custom"},
        {"type": "custom_message", "customType": "c", "content": 1, "display": True},
        {"type": "context_edit", "targetId": "e", "replacement": 4},
        {"type": "compaction", "summary": "s", "firstKeptEntryId": "e", "tokensBefore": True},
    ],
)
async def test_an_invalid_proposal_is_reported_and_dropped(rig: "Rig", draft: object) -> None:
    rig.on("turn_end", answering({"entries": [NOTE, draft], "continue": True}))
    assert NOTHING == await rig.runner().settle_hooks("turn_end", turn_end)
    assert "entry 1" in rig.host.reported[0][2]


async def test_an_invalid_proposal_may_be_repaired_by_a_later_handler(rig: "Rig") -> None:
    rig.on("turn_end", answering({"entries": [{"type": "nonsense"}]}))
    rig.on("turn_end", lambda _ctx, event: {"entries": [NOTE, *event.entries[1:]]})
    assert Proposal((NOTE,)) == await rig.runner().settle_hooks("turn_end", turn_end)


@pytest.mark.parametrize("outcome", ["aborted", "error"])
async def test_a_proposal_does_not_continue_after_an_abort_or_an_error(
    rig: "Rig", outcome: ev.AgentBeforeSettle
) -> None:
    rig.on("agent_before_settle", answering({"continue": True}))

    def make() -> ev.AgentBeforeSettle:
        return ev.AgentBeforeSettle(outcome=outcome)  # type: ignore[arg-type]

    assert not (await rig.runner().settle_hooks("agent_before_settle", make)).continues


async def test_the_first_decision_about_trust_counts(rig: "Rig") -> None:
    rig.on("project_trust", answering(None))
    rig.on("project_trust", answering({"trusted": "undecided"}))
    rig.on("project_trust", lambda ctx, _event: rs.Trust("yes" if str(ctx.cwd) == "/p" else "no", remember=True))
    rig.on("project_trust", refuses)
    context = TrustContext("/p", "print", UserInterface(rig.generation))
    answer = await ask_for_trust(rig.extensions, rig.generation, context, rig.host.errors.append)

    assert rs.Trust("yes", remember=True) == answer
    assert 1 == len(rig.host.errors)


async def test_after_the_end_of_the_session_no_further_handler_is_called(rig: "Rig") -> None:
    called: list[object] = []
    rig.on("agent_start", lambda _ctx, _event: rig.generation.end("over"))
    rig.on("agent_start", lambda _ctx, event: called.append(event))
    await rig.runner().chains.notify("agent_start", rig.started)
    assert [] == called


async def test_a_handler_may_be_entered_again_while_it_waits(rig: "Rig") -> None:
    inside = 0
    most = 0

    async def handler(_ctx: object, _event: object) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        inside -= 1

    rig.on("agent_start", handler)
    chains = rig.runner().chains
    notify: Callable[[], Awaitable[None]] = lambda: chains.notify("agent_start", rig.started)  # noqa: E731
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notify)
        nursery.start_soon(notify)
    assert 2 == most
