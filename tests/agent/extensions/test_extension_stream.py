"""Events that `stream_simple` of a provider yields: what becomes of good ones, and what of wrong ones."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.extensions.hooks.request_hooks import ProviderHooks
from pinnace_agent.extensions.providers.stream import ExtensionProvider
from pinnace_agent.extensions.providers.stream_events import StreamReader, WrongEvent
from pinnace_agent.extensions.registration.registrations import Function
from pinnace_agent.extensions.registration.stream_requests import StreamContext, StreamOptions
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import AssistantMessage, Model

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

MODEL: Model = {**OFFLINE_MODEL, "cost": {"input": 1_000_000, "output": 2_000_000, "cacheRead": 0, "cacheWrite": 0}}
Event = Mapping[str, object]


class Sink:
    """Keeps what a builder reports."""

    def __init__(self) -> None:
        self.updates: list[Mapping[str, Any]] = []

    def started(self, message: AssistantMessage) -> None:
        self.updates.append({"type": "start"})

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        self.updates.append(event)

    async def room(self) -> None:
        """There always is."""
        await trio.lowlevel.checkpoint()


def read(*events: object) -> tuple[MessageBuilder, list[Mapping[str, Any]]]:
    sink = Sink()
    builder = MessageBuilder(MODEL, sink, 0)
    reader = StreamReader(builder)
    for event in events:
        reader.read(event)
    return builder, sink.updates


def at(kind: str, index: int = 0, **fields: object) -> Event:
    return {"type": kind, "contentIndex": index, **fields}


DONE: Event = {"type": "done", "reason": "stop"}
CALL: Event = at("toolcall_start", id="c1", toolName="read")


def test_blocks_of_every_kind_become_the_message() -> None:
    builder, updates = read(
        {"type": "start"},
        at("thinking_start"),
        at("thinking_delta", delta="Hm"),
        at("thinking_end", signature="s"),
        at("text_start", 1),
        at("text_delta", 1, delta="Hel"),
        at("text_delta", 1, delta="lo"),
        at("text_end", 1, content="Hello."),
        at("toolcall_start", 2, id="c1", toolName="read"),
        at("toolcall_delta", 2, delta='{"path":'),
        at("toolcall_delta", 2, delta='"a"}'),
        at("toolcall_end", 2),
        {"type": "done", "reason": "toolUse", "usage": {"input": 3, "output": 2, "cacheRead": 1}},
    )
    message = builder.message
    assert [
        {"type": "thinking", "thinking": "Hm", "thinkingSignature": "s"},
        {"type": "text", "text": "Hello."},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
    ] == message["content"]
    assert ("toolUse", 6, 3, 4) == (
        message["stopReason"],
        message["usage"]["totalTokens"],
        message["usage"]["cost"]["input"],
        message["usage"]["cost"]["output"],
    )
    assert ["start", "thinking_start", "thinking_delta", "thinking_end"] == [each["type"] for each in updates[:4]]
    assert {"id": "c1", "toolName": "read"}.items() <= updates[9].items()


def test_a_message_without_deltas_is_taken_from_its_end() -> None:
    call = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {"path": "."}}
    content = [{"type": "text", "text": "Hi"}, call]
    message = {"content": content, "usage": {"input": 1, "output": 1, "cost": {"total": 7}}, "responseId": "r"}
    builder, updates = read({"type": "done", "reason": "toolUse", "message": message})

    assert content == builder.message["content"]
    assert (7, "r") == (builder.message["usage"]["cost"]["total"], builder.message.get("responseId"))
    assert ["start", "text_start", "text_delta", "text_end", "toolcall_start", "toolcall_delta", "toolcall_end"] == [
        each["type"] for each in updates
    ]


def test_arguments_of_a_call_are_copied() -> None:
    arguments: dict[str, object] = {"a": [1]}
    builder, _ = read(CALL, at("toolcall_end", toolCall={"id": "c1", "name": "read", "arguments": arguments}), DONE)
    arguments["a"] = "changed"
    [call] = builder.message["content"]
    assert {"a": [1]} == call.get("arguments")


def test_a_call_as_the_original_begins_it() -> None:
    partial = {"content": [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}]}
    builder, _ = read(at("toolcall_start", partial=partial), at("toolcall_end"), DONE)
    [call] = builder.message["content"]
    assert ("c1", "read") == (call.get("id"), call.get("name"))


@pytest.mark.parametrize("error", ["429 too many requests", {"errorMessage": "429 too many requests"}])
def test_an_error_ends_the_message_with_its_text(error: object) -> None:
    builder, _ = read(at("text_start"), {"type": "error", "reason": "error", "error": error})
    assert ("error", "429 too many requests") == (builder.message["stopReason"], builder.message.get("errorMessage"))


TEXT = (at("text_start"),)
WRONG: list[tuple[Sequence[Event], object, Sequence[str]]] = [
    ((), None, ["event 1", "dict", "None"]),
    ((), "text", ["event 1", "dict", "'text'"]),
    ((), {1: 2}, ["event 1", "dict"]),
    ((), {}, ['"type"', "a string", "is missing"]),
    ((), {"type": 3}, ['"type"', "a string", "3"]),
    ((), {"type": "txt_delta"}, ['"type"', "text_delta", "'txt_delta'"]),
    (({"type": "start"},), {"type": "start"}, ["event 2 (start)", "once"]),
    (TEXT, {"type": "start"}, ["event 2 (start)", "once"]),
    ((), {"type": "text_start"}, ["text_start", '"contentIndex"', "is missing"]),
    ((), at("text_start", 1), ['"contentIndex"', "must be 0"]),
    ((), at("text_start", -1), ['"contentIndex"', "not negative"]),
    ((), {"type": "text_start", "contentIndex": True}, ['"contentIndex"', "whole number"]),
    ((), at("text_delta", delta="x"), ['"contentIndex"', "open block", "text_start"]),
    (TEXT, at("text_delta"), ['"delta"', "a string", "is missing"]),
    (TEXT, at("text_delta", delta=b"x"), ['"delta"', "a string", "b'x'"]),
    (TEXT, at("thinking_delta", delta="x"), ['"contentIndex"', "thinking_start"]),
    (TEXT, at("text_end", content=7), ['"content"', "a string"]),
    ((*TEXT, at("text_end")), at("text_delta", delta="x"), ['"contentIndex"', "open block"]),
    ((), at("toolcall_start"), ['"id"', "a string", "is missing"]),
    ((), at("toolcall_start", id="c"), ['"toolName"', "is missing"]),
    ((CALL,), at("toolcall_end", toolCall={"id": "other"}), ["toolCall", '"id"', "'c1'"]),
    ((CALL,), at("toolcall_end", toolCall={"arguments": [1]}), ['"arguments"', "a dict"]),
    ((CALL,), at("toolcall_end", toolCall={"arguments": {"a": {1, 2}}}), ['"arguments"', "JSON"]),
    ((), {"type": "done"}, ['"reason"', "is missing"]),
    ((), {"type": "done", "reason": "finished"}, ['"reason"', "toolUse", "'finished'"]),
    ((), {**DONE, "usage": 3}, ['"usage"', "a dict"]),
    ((), {**DONE, "usage": {"input": 1.5}}, ["usage", '"input"', "whole number"]),
    ((), {**DONE, "usage": {"output": -1}}, ["usage", '"output"', "not negative"]),
    ((), {**DONE, "usage": {"cost": {"total": float("nan")}}}, ["usage", "cost", '"total"', "dollars"]),
    ((), {**DONE, "message": []}, ['"message"', "a dict"]),
    ((), {**DONE, "message": {"content": "x"}}, ["message", '"content"', "list"]),
    ((), {**DONE, "message": {"content": ["x"]}}, ["content[0]", "block"]),
    ((), {**DONE, "message": {"content": [{"type": "image"}]}}, ["content[0]", "toolCall"]),
    (TEXT, {**DONE, "message": {"content": []}}, ['"content"', "at least 1"]),
    (TEXT, {**DONE, "message": {"content": [{"type": "thinking", "thinking": ""}]}}, ["content[0]", '"type"']),
    ((), {"type": "error", "reason": "error"}, ['"error"', "errorMessage", "is missing"]),
    ((), {"type": "error", "error": {}}, ['"errorMessage"', "a string"]),
]


@pytest.mark.parametrize(("before", "event", "words"), WRONG)
def test_a_wrong_event_is_named_and_changes_nothing(
    before: Sequence[Event], event: object, words: Sequence[str]
) -> None:
    sink = Sink()
    builder = MessageBuilder(MODEL, sink, 0)
    reader = StreamReader(builder)
    for each in before:
        reader.read(each)
    reported = len(sink.updates)
    with pytest.raises(WrongEvent) as raised:
        reader.read(event)

    assert all(word in str(raised.value) for word in words), str(raised.value)
    assert (reported, False) == (len(sink.updates), builder.is_finished)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=2),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(
    ["start", "done", "error"]
    + [f"{kind}_{edge}" for kind in ("text", "thinking", "toolcall") for edge in ("start", "delta", "end")]
)
EVENTS = st.fixed_dictionaries(
    {"type": TYPES},
    optional={
        "contentIndex": st.integers(0, 2) | JSON,
        "delta": st.text(max_size=4) | JSON,
        "id": st.text(max_size=3),
        "toolName": st.text(max_size=3),
        "content": JSON,
        "toolCall": JSON,
        "reason": st.sampled_from(["stop", "toolUse", "length"]) | JSON,
        "message": JSON,
        "usage": JSON,
        "error": st.text(max_size=3) | JSON,
    },
)


@given(st.lists(EVENTS | JSON, max_size=8))
def test_no_event_raises_anything_but_its_error(events: list[object]) -> None:
    """Whatever a provider yields, the builder stays able to end the message."""
    builder = MessageBuilder(MODEL, Sink(), 0)
    reader = StreamReader(builder)
    with suppress(WrongEvent):
        for event in events:
            if reader.read(event):
                break
    if not builder.is_finished:
        builder.fail("ended")
    assert builder.message["stopReason"] in {"stop", "length", "toolUse", "error"}


# The calls: how fast events are taken, how long one may take, and what others see of a request.


class Gated(Sink):
    """Has room for nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let_go = trio.Event(), trio.Event()

    async def room(self) -> None:
        self.asked.set()
        await self.let_go.wait()


def gated(rig: "Rig", stream: Function) -> tuple[Gated, MessageBuilder, ExtensionProvider]:
    """Return a sink without room, a builder into it, and the provider of a stream."""
    sink = Gated()
    return sink, MessageBuilder(MODEL, sink, 0), rig.runner().provider("/ext/a.py", "x", stream)


def asked(**fields: Any) -> LlmRequest:
    usual: dict[str, Any] = {
        "model": MODEL,
        "system_prompt": "",
        "messages": (),
        "tools": (),
        "thinking_level": "off",
        "api_key": "k",
        "headers": {},
        "session_id": "s",
    }
    return LlmRequest(**{**usual, **fields})


async def test_no_event_is_taken_while_the_reader_has_no_room(rig: "Rig") -> None:
    taken: list[int] = []

    async def stream(model: Model, context: StreamContext, options: StreamOptions) -> AsyncIterator[Event]:
        for number, event in enumerate([at("text_start"), at("text_delta", delta="a"), DONE]):
            taken.append(number)
            yield event

    sink, builder, provider = gated(rig, stream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(provider.stream, asked(), builder)
        await sink.asked.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert [0] == taken
        sink.let_go.set()
    assert ([0, 1, 2], "stop") == (taken, builder.message["stopReason"])


async def test_a_cancelled_request_closes_the_generator_and_leaves_the_message(rig: "Rig") -> None:
    closed: list[str] = []

    async def stream(model: Model, context: StreamContext, options: StreamOptions) -> AsyncIterator[Event]:
        try:
            yield at("text_start")
            yield DONE
        finally:
            closed.append("closed")

    sink, builder, provider = gated(rig, stream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(provider.stream, asked(), builder)
        await sink.asked.wait()
        nursery.cancel_scope.cancel()
    assert (["closed"], False) == (closed, builder.is_finished)


async def test_a_stream_that_is_silent_for_too_long_is_given_up(rig: "Rig", autojump_clock: object) -> None:
    async def stream(model: Model, context: StreamContext, options: StreamOptions) -> AsyncIterator[Event]:
        yield at("text_start")
        await trio.sleep_forever()

    builder = MessageBuilder(MODEL, Sink(), 0)
    await rig.runner().provider("/ext/a.py", "x", stream).stream(asked(idle_timeout_s=30), builder)
    assert 'provider "x": Request timed out: no event came for 30 s' in str(builder.message.get("errorMessage"))


async def test_other_extensions_see_a_request_and_its_answer(rig: "Rig") -> None:
    seen: list[object] = []

    def sends(_ctx: object, event: Any) -> object:
        seen.append(event.payload)
        return {"payload": "other"}

    rig.on("before_provider_request", sends)
    rig.on("before_provider_headers", lambda _ctx, event: event.headers.update({"x-more": "1"}))
    rig.on("after_provider_response", lambda _ctx, event: seen.append(event.status))
    rig.on("provider_stream_event", lambda _ctx, event: seen.append(event.data))

    async def stream(model: Model, context: StreamContext, options: StreamOptions) -> AsyncIterator[Event]:
        seen.append(dict(options.headers))
        seen.append(await options.on_payload({"mine": 1}))
        await options.on_response(200, {})
        await options.on_stream_event({"n": 1})
        yield at("text_start")
        yield at("text_delta", delta="a")
        yield at("text_end")
        yield DONE

    builder = MessageBuilder(MODEL, Sink(), 0)
    async with rig.running() as runner:
        hooks = ProviderHooks(runner, MODEL)
        await runner.provider("/ext/a.py", "x", stream).stream(asked(hooks=hooks), builder)
    assert "stop" == builder.message["stopReason"]
    assert [{"x-more": "1"}, {"mine": 1}, {"payload": "other"}, 200, {"n": 1}] == seen


async def test_a_generator_that_catches_everything_is_still_ended_by_an_abort(rig: "Rig") -> None:
    began = trio.Event()

    async def stream(model: Model, context: StreamContext, options: StreamOptions) -> AsyncIterator[Event]:
        yield at("text_start")
        while True:
            try:
                began.set()
                await trio.sleep_forever()
            except BaseException:  # as a careless author does
                yield at("text_delta", delta="still here")

    builder = MessageBuilder(MODEL, Sink(), 0)
    provider = rig.runner().provider("/ext/a.py", "x", stream)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(provider.stream, asked(), builder)
            await began.wait()
            nursery.cancel_scope.cancel()
    assert not builder.is_finished
