"""Our requests and our reading against the provider's own package, where it is installed: extra `sdk`.

Its types are the published shape of requests, and its client the published reading of streams. The streams were
constructed after the published format, never recorded.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, cast

import pytest
import trio
from pydantic import TypeAdapter, ValidationError
from tests.agent.llm.recording import RICH, Recorder, without_number
from tests.agent.samples import prices, served_model, tool_result, user

from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.provider import AnthropicMessagesProvider
from pinnace_agent.llm.anthropic.request import http_request
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_spec.records.messages import (
    THINKING_LEVELS,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    ThinkingLevel,
    ToolCall,
    zero_usage,
)
from pinnace_spec.rules.errors import EMPTY_ANSWER

KEY = "sk-ant-api03-0123456789abcdef"
IMAGE: ImageContent = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
TOOL = ToolSpec("bash", "Runs.", {"type": "object", "properties": {"command": {"type": "string"}}})


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def model_at(base_url: str = "http://127.0.0.1:1") -> Model:
    return served_model(
        api="anthropic-messages",
        provider="anthropic",
        baseUrl=base_url,
        reasoning=True,
        input=["text", "image"],
        cost=prices(1, 2),
        maxTokens=30_000,
        thinkingLevelMap={"xhigh": "xhigh", "max": "max"},
    )


def history(model: Model) -> list[Message]:
    """Return a conversation with a block of every kind."""
    call: ToolCall = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    answer: AssistantMessage = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
            {"type": "thinking", "thinking": "[hidden]", "thinkingSignature": "ZGF0YQ==", "redacted": True},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "text", "text": "so"},
            call,
            {**call, "id": "c2"},
            {**call, "id": "c3"},
        ],
        "api": model["api"],
        "provider": model["provider"],
        "model": model["id"],
        "usage": zero_usage(),
        "stopReason": "toolUse",
        "timestamp": 0,
    }
    result = tool_result("c1", "ok", name="bash")
    return [
        user({"type": "text", "text": "hi"}, IMAGE),
        answer,
        result,
        {**result, "toolCallId": "c2", "content": [IMAGE]},
        {**result, "toolCallId": "c3", "content": [IMAGE], "isError": True},
        {"role": "user", "content": "go on", "timestamp": 0},
    ]


# Requests


def exhausted(value: object) -> object:
    """Read out what the package's types check only when it is read."""
    if isinstance(value, str | bytes) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: exhausted(member) for key, member in cast("Mapping[str, object]", value).items()}
    if isinstance(value, Iterable):
        return [exhausted(item) for item in cast("Iterable[object]", value)]
    return value


def package() -> Any:
    """Import the package: here, since that takes a second, which no test that is only collected needs."""
    return pytest.importorskip("anthropic", reason="needs the extra `sdk`")


@cache
def published() -> TypeAdapter[Any]:
    """Return its type of a request. Kept: what it gives is checked when it is read, and panics in Rust without it."""
    return TypeAdapter(package().types.message_create_params.MessageCreateParamsStreaming)


def accepted(body: object) -> object:
    """Return what the package's types make of a body: what they do not know is missing, what is wrong raises."""
    return exhausted(published().validate_python(body))


@pytest.mark.parametrize("level", THINKING_LEVELS)
@pytest.mark.parametrize("retention", ["none", "short", "long"])
@pytest.mark.parametrize(
    "compat",
    [
        {},
        {"forceAdaptiveThinking": True},
        {"allowEmptySignature": True, "supportsEagerToolInputStreaming": False, "supportsCacheControlOnTools": False},
    ],
)
def test_the_packages_types_take_our_requests_and_know_every_field(
    level: ThinkingLevel, retention: str, compat: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CACHE_RETENTION", retention)
    model: Model = {**model_at(), "compat": dict(compat)}
    for key in (KEY, KEY.replace("api03", "oat01")):
        request = LlmRequest(model, "Be brief.", history(model), (TOOL,), level, key, {}, "s1")
        body = json.loads(http_request(request, compat_of(model)).body)

        assert accepted(body) == body


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": ""}},
        {"type": "tool_result", "content": "x"},
        {"type": "text", "text": "a", "cache_control": {"type": "persistent"}},
        {"type": "text", "text": "a", "signature": "unknown here"},
    ],
)
def test_the_packages_types_are_really_asked(block: Mapping[str, object]) -> None:
    body = {
        "model": "m1",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": [block]}],
        "stream": True,
    }
    with suppress(ValidationError):
        assert accepted(body) != body


# Streams

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
EVENTS: list[Mapping[str, object]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m1-2026",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 12,
                "output_tokens": 1,
                "cache_read_input_tokens": 40,
                "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
            },
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": "ZGF0YQ=="}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": SEARCH},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"query":'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"x"}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Hé"}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "llo\u2028 😀"}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 7}},
    },
    {"type": "message_stop"},
]
REFUSAL = {"type": "refusal", "category": "cyber", "explanation": "Not that."}
STREAMS: dict[str, Mapping[str, object]] = {
    "everything": {**RICH, "usage": {"input": 100, "output": 20, "cacheRead": 40, "cacheWrite": 3, "reasoning": 7}},
    "a plain text": {"text": "Hello"},
    "nothing": {"chunks": []},
    "cut everywhere": {"text": ["a", "b"], "cut_bytes": 1},
    "out of tokens": {"text": "Hel", "finish": "length"},
    "a pause": {"text": "Hel", "finish": "pause_turn"},
    "a call without arguments": {"tool_calls": [{"name": "bash", "args": "", "id": "c1"}]},
    "a refusal": {
        "chunks": [
            {"text": "I"},
            {
                "event": {
                    "type": "message_delta",
                    "delta": {"stop_reason": "refusal", "stop_sequence": None, "stop_details": REFUSAL},
                    "usage": {"output_tokens": 3},
                }
            },
        ],
        "finish": None,
        "usage": None,
    },
}
STOPS = {"end_turn": "stop", "pause_turn": "stop", "max_tokens": "length", "tool_use": "toolUse", "refusal": "error"}


def read_by_us(base_url: str) -> AssistantMessage:
    async def ask() -> AssistantMessage:
        model = model_at(base_url)
        request = LlmRequest(model, "Be brief.", [user({"type": "text", "text": "hi"})], (), "off", KEY, {}, "s1")
        builder = MessageBuilder(model, Recorder(), 0)
        await AnthropicMessagesProvider().stream(request, builder)
        await close_clients()
        return builder.message

    return trio.run(ask)


def read_by_them(base_url: str) -> Any:
    question: Any = [{"role": "user", "content": "hi"}]
    with (
        package().Anthropic(base_url=base_url, api_key=KEY, max_retries=0) as client,
        client.messages.stream(model="m1", max_tokens=10, messages=question) as stream,
    ):
        return stream.get_final_message()


def both(response: Scripted) -> tuple[AssistantMessage, Any]:
    with FakeLlm([response, response]) as llm:
        return read_by_us(llm.base_url), read_by_them(llm.base_url)


def our_blocks(message: AssistantMessage) -> Iterator[Sequence[object]]:
    for block in message["content"]:
        match block["type"]:
            case "text":
                yield "text", block["text"]
            case "thinking" if block.get("redacted"):
                yield "redacted_thinking", block.get("thinkingSignature")
            case "thinking":
                yield "thinking", block["thinking"], block.get("thinkingSignature")
            case "toolCall":
                yield "tool_use", block["id"], block["name"], block["arguments"]


def their_blocks(message: Any) -> Iterator[Sequence[object]]:
    for block in message.content:
        match block.type:
            case "text":
                yield "text", block.text
            case "redacted_thinking":
                yield "redacted_thinking", block.data
            case "thinking":
                yield "thinking", block.thinking, block.signature
            case "tool_use":
                yield "tool_use", block.id, block.name, block.input
            case "server_tool_use":
                pass  # not ours to answer
            case _:
                raise AssertionError(block)


def assert_same(ours: AssistantMessage, theirs: Any) -> None:
    assert list(our_blocks(ours)) == list(their_blocks(theirs))
    assert without_number(ours.get("responseId")) == without_number(theirs.id)
    assert ours.get("responseModel", "m1") == theirs.model
    # The package takes an answer with nothing in it for one; we ask again (R-RTY-04).
    assert ours["stopReason"] == (STOPS[theirs.stop_reason] if theirs.content else "error")
    usage, counted = ours["usage"], theirs.usage
    assert (usage["input"], usage["output"]) == (counted.input_tokens, counted.output_tokens)
    assert usage["cacheRead"] == (counted.cache_read_input_tokens or 0)
    assert usage["cacheWrite"] == (counted.cache_creation_input_tokens or 0)
    hour = counted.cache_creation.ephemeral_1h_input_tokens if counted.cache_creation else 0
    assert usage.get("cacheWrite1h", 0) == hour
    thoughts = counted.output_tokens_details.thinking_tokens if counted.output_tokens_details else 0
    assert usage.get("reasoning", 0) == thoughts


@pytest.mark.parametrize("name", STREAMS)
def test_the_packages_client_reads_the_same_from_a_stream_as_we_do(name: str) -> None:
    ours, theirs = both(STREAMS[name])

    assert_same(ours, theirs)
    said = theirs.stop_details.explanation if theirs.stop_details else None
    assert ours.get("errorMessage") == (said if theirs.content or said else EMPTY_ANSWER)


def test_kinds_of_blocks_that_are_not_for_us_are_all_that_the_package_reads_more() -> None:
    raw = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
    response = {"error": {"status": 200, "headers": {"Content-Type": "text/event-stream"}, "body": raw.encode()}}
    ours, theirs = both(response)

    assert_same(ours, theirs)
    assert ours.get("responseModel") == "m1-2026"
    assert ours["usage"].get("cacheWrite1h") == 20


def test_what_we_call_an_error_inside_of_a_stream_the_package_does_too() -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    response = {"chunks": [{"text": "a"}, {"event": event}], "finish": None, "usage": None, "done": False}
    with FakeLlm([response, response]) as llm:
        ours = read_by_us(llm.base_url)
        with pytest.raises(package().APIStatusError) as caught:
            read_by_them(llm.base_url)

    assert json.loads(ours.get("errorMessage", "")) == caught.value.body == event


@pytest.mark.parametrize("status", [400, 401, 413, 429, 529])
def test_a_refusal_holds_what_the_package_holds_of_it(status: int) -> None:
    body = {"type": "error", "error": {"type": "some_error", "message": "no"}, "request_id": "req_1"}
    response = {"error": {"status": status, "body": body}}
    with FakeLlm([response, response]) as llm:
        ours = read_by_us(llm.base_url)
        with pytest.raises(package().APIStatusError) as caught:
            read_by_them(llm.base_url)

    code, _, rest = ours.get("errorMessage", "").partition(" ")
    assert (int(code), json.loads(rest)) == (caught.value.status_code, caught.value.body)
