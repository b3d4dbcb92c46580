"""Google's own package as a second opinion: it takes our requests for its own, and reads a stream as we do.

Skipped where the package is not installed: nothing but these tests needs it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.google.provider import GoogleGenerativeAIProvider
from pinnace_agent.llm.google.request import http_request
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_campaigns.trials.model_streams import STREAMS, TEXT
from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Reply
from pinnace_spec.records.messages import AssistantMessage, Message, ThinkingLevel, zero_usage

KEY = "AIzaSy0123456789abcdef"
OLD, NEW = "gemini-2.5-flash", "gemini-3.1-pro-preview"
SIGNATURE = "c2lnbmVk"
(STREAM,) = (stream for stream in STREAMS if stream.api == "google-generative-ai")
TOOLS = (
    ToolSpec("bash", "Runs.", {"type": "object", "properties": {"command": {"type": "string"}}}),
    ToolSpec("read", "Reads.", {"type": "object", "properties": {"kind": {"const": "a"}}}),
)


def history(model_id: str) -> list[Message]:
    """Return one of everything: images, thoughts, signatures, calls, results good and bad, another model's answer."""
    image: Any = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    text: Any = {"type": "text", "text": "é\U0001f600"}
    arguments = {"command": "ls", "n": [1.5, None]}
    call: Any = {"type": "toolCall", "name": "bash", "arguments": arguments}
    first: Any = {**call, "id": "c1", "thoughtSignature": SIGNATURE}
    second: Any = {**call, "id": "c2"}
    answer: AssistantMessage = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": SIGNATURE},
            {"type": "text", "text": "", "textSignature": SIGNATURE},
            first,
            second,
        ],
        "api": "google-generative-ai",
        "provider": "google",
        "model": model_id,
        "usage": zero_usage(),
        "stopReason": "toolUse",
        "timestamp": 0,
    }
    result: Any = {"role": "toolResult", "toolName": "bash", "timestamp": 0, "isError": False, "content": [text, image]}
    good: Any = {**result, "toolCallId": "c1"}
    bad: Any = {**result, "toolCallId": "c2", "isError": True, "content": [text]}
    return [
        {"role": "user", "content": [text, image], "timestamp": 0},
        answer,
        good,
        bad,
        {**answer, "model": "another"},
        {"role": "user", "content": "go on", "timestamp": 0},
    ]


def request_to(model_id: str, level: ThinkingLevel, base_url: str = "http://127.0.0.1:1") -> LlmRequest:
    model = served_model(
        id=model_id,
        api="google-generative-ai",
        provider="google",
        baseUrl=f"{base_url}/v1beta",
        reasoning=True,
        input=["text", "image"],
        cost=prices(1, 2),
        contextWindow=1_000_000,
        maxTokens=65_536,
        samplingParams={"temperature": 0.5, "topK": 3},
    )
    return LlmRequest(model, "Be brief.", history(model_id), TOOLS, level, KEY, {}, "s1")


def types() -> Any:
    """Import the package's types: here, since that takes a second, which no test that is only collected needs."""
    return pytest.importorskip("google.genai.types", reason="needs the extra `sdk`")


def streaming(*events: bytes) -> Answer:
    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(*events)
        reply.end()

    return answer


def chunks_of_theirs(server: RawServer, model_id: str, body: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Ask with the package: either a word, or what `body` says in its own terms."""
    options = types().HttpOptions(base_url=server.url, api_version="v1beta")
    contents: Any = "hi"
    config = None
    if body is not None:
        contents = [types().Content.model_validate(each) for each in body["contents"]]
        config = types().GenerateContentConfig.model_validate(
            {
                **body["generationConfig"],
                "systemInstruction": body["systemInstruction"],
                "tools": [types().Tool.model_validate(tool) for tool in body["tools"]],
                "automaticFunctionCalling": {"disable": True},
            }
        )
    with pytest.importorskip("google.genai").Client(api_key=KEY, http_options=options) as client:
        yield from client.models.generate_content_stream(model=model_id, contents=contents, config=config)


def plain(model: Any) -> object:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize("model_id", [OLD, NEW, "gemma-4-31b-it", "gemini-flash-latest"])
@pytest.mark.parametrize("level", ["off", "minimal", "high"])
def test_the_packages_types_take_our_requests_and_lose_nothing(model_id: str, level: ThinkingLevel) -> None:
    body = json.loads(http_request(request_to(model_id, level)).body)

    assert [plain(types().Content.model_validate(content)) for content in body["contents"]] == body["contents"]
    assert plain(types().Content.model_validate(body["systemInstruction"])) == body["systemInstruction"]
    assert plain(types().GenerationConfig.model_validate(body["generationConfig"])) == body["generationConfig"]
    assert [plain(types().Tool.model_validate(tool)) for tool in body["tools"]] == body["tools"]


def in_its_words(body: bytes) -> dict[str, object]:
    """Return a body in the package's own spelling: it writes some names in either way, as the server takes them."""
    sent = json.loads(body)
    read = {
        "contents": [plain(types().Content.model_validate(content)) for content in sent.pop("contents")],
        "tools": [plain(types().Tool.model_validate(tool)) for tool in sent.pop("tools")],
        "generationConfig": plain(types().GenerationConfig.model_validate(sent.pop("generationConfig"))),
    }
    sent["systemInstruction"].pop("role", None)  # says nothing: there is only one that speaks there
    return {**read, **sent}


@pytest.mark.parametrize("model_id", [OLD, NEW])
async def test_the_package_sends_what_we_send(model_id: str) -> None:
    with RawServer(streaming(*STREAM.events(TEXT))) as server:
        request = request_to(model_id, "low", server.url)
        await GoogleGenerativeAIProvider().stream(request, MessageBuilder(request.model, StreamWitness(), 0))
        await close_clients()
        body = json.loads(server.requests[0].body)
        list(chunks_of_theirs(server, model_id, body))
        ours, theirs = server.requests

    assert in_its_words(theirs.body) == in_its_words(ours.body)
    assert theirs.path == ours.path
    assert theirs.headers["x-goog-api-key"] == ours.headers["x-goog-api-key"] == KEY


MANY_CALLS = [
    {"candidates": [{"content": {"parts": [{"text": "a", "thought": True, "thoughtSignature": "AAAA"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "b"}, {"functionCall": {"name": "read", "args": {"n": [1]}}}]}}]},
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "bash", "id": "x"}}]}, "finishReason": "STOP"}]},
    {"usageMetadata": {"promptTokenCount": 7, "thoughtsTokenCount": 2}, "responseId": "r", "modelVersion": "other"},
]
TOO_LONG = [{"candidates": [{"content": {"parts": [{"text": "half"}]}, "finishReason": "MAX_TOKENS"}]}]
BLOCKED = [{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}}]


def summary_of_theirs(chunks: Sequence[Any]) -> dict[str, object]:
    """Put the chunks together: parts of a kind in a row are one block, and the last word of each kind counts."""
    blocks: list[list[object]] = []
    summary: dict[str, object] = {"blocks": blocks, "stop": None, "input": 0, "output": 0}
    for chunk in chunks:
        for candidate in chunk.candidates or []:
            for part in (candidate.content and candidate.content.parts) or []:
                if part.function_call is not None:
                    blocks.append(["toolCall", part.function_call.name, part.function_call.args or {}])
                elif part.text:
                    kind = "thinking" if part.thought else "text"
                    if not blocks or blocks[-1][0] != kind:
                        blocks.append([kind, ""])
                    blocks[-1][1] = f"{blocks[-1][1]}{part.text}"
            if candidate.finish_reason:
                summary["stop"] = candidate.finish_reason.name
        if chunk.prompt_feedback:
            summary["stop"] = chunk.prompt_feedback.block_reason.name
        if usage := chunk.usage_metadata:
            summary["input"] = usage.prompt_token_count or 0
            summary["output"] = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return summary


def summary_of_ours(builder: MessageBuilder) -> dict[str, object]:
    blocks: list[list[object]] = []
    for block in builder.message["content"]:
        match block["type"]:
            case "text":
                blocks.append(["text", block["text"]])
            case "thinking":
                blocks.append(["thinking", block["thinking"]])
            case "toolCall":
                blocks.append(["toolCall", block["name"], block["arguments"]])
    usage = builder.message["usage"]
    return {"blocks": blocks, "stop": builder.raw_stop_reason, "input": usage["input"], "output": usage["output"]}


@pytest.mark.parametrize(
    "events",
    [
        STREAM.events(TEXT),
        STREAM.events("x" * 100_000),
        *([f"data: {json.dumps(chunk)}\n\n".encode() for chunk in each] for each in (MANY_CALLS, TOO_LONG, BLOCKED)),
    ],
    ids=["an answer", "a long one", "several calls", "too long", "blocked"],
)
async def test_the_package_reads_a_stream_as_we_do(events: Sequence[bytes]) -> None:
    with RawServer(streaming(*events)) as server:
        request = request_to("m1", "low", server.url)
        witness = StreamWitness()
        builder = MessageBuilder(request.model, witness, 0)
        await GoogleGenerativeAIProvider().stream(request, builder)
        await close_clients()
        theirs = list(chunks_of_theirs(server, "m1"))

    assert witness.judge(builder.message) == []
    assert summary_of_ours(builder) == summary_of_theirs(theirs)
