"""Our requests and our reading of both OpenAI APIs against OpenAI's own package, where it is installed: extra `sdk`.

Its types are the published shape of requests, and its client the published reading of streams. The streams were
constructed after the published format, never recorded.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

import pytest
import trio
from pydantic import TypeAdapter, ValidationError
from tests.agent.llm.recording import RICH, Recorder, without_number
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.openai_chat import compat as openai_compat
from pinnace_agent.llm.openai_chat import request as openai_request
from pinnace_agent.llm.openai_chat.provider import OpenAICompletionsProvider
from pinnace_agent.llm.openai_responses import compat as responses_compat
from pinnace_agent.llm.openai_responses import request as responses_request
from pinnace_agent.llm.openai_responses.provider import OpenAIResponsesProvider
from pinnace_agent.llm.providers import Provider
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.llm.transport.request import Retention
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import (
    THINKING_LEVELS,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    ThinkingLevel,
    ToolResultMessage,
    UserMessage,
    zero_usage,
)

KEY = "sk-0123456789abcdef"
IMAGE: ImageContent = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
TOOL = ToolSpec("bash", "Runs.", {"type": "object", "properties": {"command": {"type": "string"}}})
APIS = ("openai-completions", "openai-responses")
PROVIDERS: Mapping[str, Provider] = {
    "openai-completions": OpenAICompletionsProvider(),
    "openai-responses": OpenAIResponsesProvider(),
}


def model_of(api: str, base_url: str = "https://api.openai.com/v1", **fields: object) -> Model:
    return served_model(
        id="gpt-1",
        api=api,
        provider="openai",
        baseUrl=base_url,
        reasoning=True,
        input=["text", "image"],
        cost=prices(1, 2, 0.5, 1),
        **fields,
    )


def history_of(model: Model) -> list[Message]:
    """Return a conversation with everything in it that a request can hold."""
    question: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}, IMAGE], "timestamp": 0}
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    answer: AssistantMessage = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "é", "textSignature": '{"v":1,"id":"msg_1","phase":"commentary"}'},
            {"type": "toolCall", "id": "call_1|fc_1", "name": "bash", "arguments": {"command": "ls"}},
            {"type": "toolCall", "id": "call_2|fc_2", "name": "bash", "arguments": {}},
        ],
        "api": model["api"],
        "provider": model["provider"],
        "model": model["id"],
        "usage": zero_usage(),
        "stopReason": "toolUse",
        "timestamp": 0,
    }
    if model["api"] == "openai-responses":
        answer["content"].insert(0, {"type": "thinking", "thinking": "", "thinkingSignature": json.dumps(item)})
    results: list[ToolResultMessage] = [
        {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": "bash",
            "content": [{"type": "text", "text": "ok"}, IMAGE],
            "isError": False,
            "timestamp": 0,
        }
        for call_id in ("call_1|fc_1", "call_2|fc_2")
    ]
    foreign: AssistantMessage = {**answer, "provider": "anthropic", "api": "anthropic-messages", "model": "claude"}
    return [question, answer, *results, question, foreign, *results]


def body_of(request: LlmRequest, retention: Retention = "short") -> dict[str, Any]:
    model = request.model
    if model["api"] == "openai-responses":
        body = responses_request.request_body(request, responses_compat.compat_of(model), retention)
    else:
        body = openai_request.request_body(request, openai_compat.compat_of(model), retention)
    return cast("dict[str, Any]", json.loads(json.dumps(body)))


def request_of(model: Model, *messages: Message, level: ThinkingLevel = "off") -> LlmRequest:
    return LlmRequest(model, "Be brief.", messages or history_of(model), [TOOL], level, KEY, {}, "s1")


def package() -> Any:
    """Import the package: here, since that takes a second, which no test that is only collected needs."""
    return pytest.importorskip("openai", reason="needs the extra `sdk`")


@cache
def published(api: str) -> TypeAdapter[Any]:
    """Return the package's type of a streamed request. Kept: what it gives is checked only when it is read."""
    package()
    if api == "openai-responses":
        params = import_module("openai.types.responses.response_create_params")
        return TypeAdapter(params.ResponseCreateParamsStreaming)
    params = import_module("openai.types.chat.completion_create_params")
    return TypeAdapter(params.CompletionCreateParamsStreaming)


def whole(value: object) -> object:
    """Return a value whose lazy lists have been read: only then are their items checked."""
    if isinstance(value, Mapping):
        return {name: whole(item) for name, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [whole(item) for item in cast("Iterable[object]", value)]
    return value


def check(api: str, body: dict[str, Any]) -> None:
    """Hold a body to the package's types.

    They let members pass that they do not know; what they return shows which, since it has only the known ones.
    """
    assert whole(published(api).validate_python(body)) == body


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("level", THINKING_LEVELS)
def test_a_request_is_what_the_package_would_send(api: str, level: ThinkingLevel) -> None:
    check(api, body_of(request_of(model_of(api), level=level)))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("compat", [{}, {"supportsStrictMode": True, "supportsExplicitPromptCacheMode": True}])
@pytest.mark.parametrize("retention", ["none", "short", "long"])
def test_a_request_is_so_for_every_retention(api: str, retention: Retention, compat: dict[str, object]) -> None:
    check(api, body_of(request_of(model_of(api, compat=compat)), retention))


@pytest.mark.parametrize(
    ("api", "wrong"),
    [
        ("openai-responses", {"input": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}),
        ("openai-responses", {"tools": [{"type": "function", "function": {"name": "a"}}]}),
        ("openai-responses", {"max_completion_tokens": 5}),
        ("openai-completions", {"messages": [{"role": "tool", "content": "a"}]}),
        ("openai-completions", {"reasoning_effort": "ultra"}),
        ("openai-completions", {"max_output_tokens": 5}),
    ],
)
def test_the_packages_types_refuse_what_is_wrong(api: str, wrong: dict[str, Any]) -> None:
    body = body_of(request_of(model_of(api)))

    with pytest.raises((ValidationError, AssertionError)):
        check(api, {**body, **wrong})


class Answered(NamedTuple):
    """What a reader makes of a stream."""

    text: str
    calls: list[tuple[str, str, object]]
    counts: tuple[int, int, int, int]
    """Input with everything cached, of it read from a cache, output, of it thoughts."""
    ending: str
    response_id: str | None


def ours(api: str, base_url: str) -> Answered:
    """Ask with our provider."""
    request = request_of(model_of(api, base_url))
    builder = MessageBuilder(request.model, Recorder(), 0)

    async def ask() -> None:
        try:
            await PROVIDERS[api].stream(request, builder)
        finally:
            await close_clients()

    trio.run(ask)
    message = builder.message
    usage = message["usage"]
    whole_input = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
    return Answered(
        "".join(block["text"] for block in message["content"] if block["type"] == "text"),
        [
            (block["id"].partition("|")[0], block["name"], block["arguments"])
            for block in message["content"]
            if block["type"] == "toolCall"
        ],
        (whole_input, usage["cacheRead"], usage["output"], usage.get("reasoning", 0)),
        builder.raw_stop_reason or "",
        without_number(message.get("responseId")),
    )


def theirs_of_completions(client: Any) -> Answered:
    stream = client.chat.completions.create(**body_of(request_of(model_of("openai-completions"))))
    text, ending, response_id, counts = "", "", None, (0, 0, 0, 0)
    calls: dict[int, list[str]] = {}
    for chunk in stream:
        response_id = without_number(chunk.id)
        if chunk.usage is not None:
            details = chunk.usage.completion_tokens_details
            thoughts = details.reasoning_tokens if details else 0
            cached = chunk.usage.prompt_tokens_details.cached_tokens
            counts = (chunk.usage.prompt_tokens, cached, chunk.usage.completion_tokens, thoughts)
        for choice in chunk.choices:
            ending = choice.finish_reason or ending
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                known = calls.setdefault(call.index, ["", "", ""])
                known[0] += call.id or ""
                known[1] += call.function.name or ""
                known[2] += call.function.arguments or ""
    return Answered(
        text, [(each[0], each[1], json.loads(each[2])) for each in calls.values()], counts, ending, response_id
    )


def theirs_of_responses(client: Any) -> Answered:
    stream = client.responses.create(**body_of(request_of(model_of("openai-responses"))))
    response = [event for event in stream if event.type in {"response.completed", "response.incomplete"}][-1].response
    calls = [item for item in response.output if item.type == "function_call"]
    usage = response.usage
    reason = response.incomplete_details.reason if response.incomplete_details else None
    return Answered(
        response.output_text,
        [(call.call_id, call.name, json.loads(call.arguments)) for call in calls],
        (
            usage.input_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens,
            usage.output_tokens_details.reasoning_tokens,
        ),
        reason or response.status,
        without_number(response.id),
    )


def theirs(api: str, base_url: str) -> Answered:
    """Ask with the package's client."""
    with package().OpenAI(api_key=KEY, base_url=base_url, max_retries=0) as client:
        return theirs_of_responses(client) if api == "openai-responses" else theirs_of_completions(client)


STREAMS: Mapping[str, Mapping[str, object]] = {
    "text": {"text": ["Hé", "llo\u2028wo\u0085rld ", "😀"]},
    "everything": {**RICH, "usage": {"input": 100, "output": 20, "cacheRead": 40, "cacheWrite": 5, "reasoning": 7}},
    "interleaved": {
        "chunks": [
            {"tool": {"index": 0, "id": "c1", "name": "bash"}},
            {"tool": {"index": 1, "id": "c2", "name": "bash"}},
            {"args": '{"a"', "index": 0},
            {"args": '{"b"', "index": 1},
            {"args": ":1}", "index": 0},
            {"args": ":2}", "index": 1},
        ],
        "cut_bytes": 7,
    },
    "cut off": {"text": "half an ans", "finish": "length"},
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", STREAMS)
def test_we_read_from_a_stream_what_the_package_reads(name: str, api: str) -> None:
    with FakeLlm([{**STREAMS[name], "repeat": 2}]) as llm:
        base_url = f"{llm.base_url}/v1"

        assert ours(api, base_url) == theirs(api, base_url)
        assert llm.requests[0].body["stream"] == llm.requests[1].body["stream"] is True


@pytest.mark.parametrize("api", APIS)
def test_both_send_the_key_and_the_body_to_the_same_place(api: str) -> None:
    with FakeLlm([{"text": "a", "repeat": 2}]) as llm:
        ours(api, f"{llm.base_url}/v1")
        theirs(api, f"{llm.base_url}/v1")
        first, second = llm.requests

    assert first.path == second.path
    for header in ("authorization", "content-type"):
        assert first.headers[header] == second.headers[header]
