"""Responses over real connections: one that succeeds, refusals, streams that break, and what the user stops."""

import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
import trio
from tests.agent.llm.recording import Recorder
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.openai_responses.provider import OpenAIResponsesProvider
from pinnace_agent.llm.outcomes import OutcomeKind, classify_failure
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import Message, UserMessage

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "openai-responses-request.schema.json").read_text())
KEY = "sk-0123456789abcdef"
PROVIDER = OpenAIResponsesProvider()
QUESTION: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
TOOL = ToolSpec("bash", "Runs.", {"type": "object"})


@pytest.fixture(autouse=True)
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PI_CACHE_RETENTION", raising=False)


def request_at(llm: FakeLlm, *messages: Message, provider: str = "openai") -> LlmRequest:
    model = served_model(
        api="openai-responses", provider=provider, baseUrl=f"{llm.base_url}/v1", reasoning=True, cost=prices(1, 2)
    )
    return LlmRequest(model, "Be brief.", messages or (QUESTION,), (TOOL,), "low", KEY, {}, "s1")


async def ask(request: LlmRequest, recorder: Recorder | None = None) -> MessageBuilder:
    builder = MessageBuilder(request.model, recorder or Recorder(), 0)
    try:
        await PROVIDER.stream(request, builder)
    finally:
        await close_clients()
    assert builder.is_finished
    return builder


async def answer_to(response: Mapping[str, object], *, provider: str = "openai") -> MessageBuilder:
    with FakeLlm([response]) as llm:
        return await ask(request_at(llm, provider=provider))


RICH = {
    "reasoning": ["I th", "ink 𝄞"],
    "text": ["Hé", "llo\u2028wo\u0085rld 😀"],
    "tool_calls": [{"name": "bash", "args": {"command": "ls\n", "n": 3}, "pieces": 5, "id": "c1"}],
    "usage": {"input": 100, "output": 20, "cacheRead": 40, "reasoning": 7},
    "cut_bytes": 3,
    "gzip": True,
}


async def test_a_whole_conversation() -> None:
    """The answer, and that its thoughts, text and call go back as the items that they were."""
    with FakeLlm([RICH, {"text": "done"}]) as llm:
        recorder = Recorder()
        first = (await ask(request_at(llm), recorder)).message
        result: Message = {
            "role": "toolResult",
            "toolCallId": "c1|fc_2",
            "toolName": "bash",
            "content": [{"type": "text", "text": "ok"}],
            "isError": False,
            "timestamp": 0,
        }
        second = (await ask(request_at(llm, QUESTION, first, result))).message
        requests = llm.requests

    assert [block.get("thinking", block.get("text", block.get("arguments"))) for block in first["content"]] == [
        *("I think 𝄞", "Héllo\u2028wo\u0085rld 😀", {"command": "ls\n", "n": 3})
    ]
    assert (first["stopReason"], first["usage"]["totalTokens"], first.get("responseId")) == (
        *("toolUse", 160, "resp_fake"),
    )
    assert (second["stopReason"], recorder.starts) == ("stop", 1)
    for request in requests:
        jsonschema.Draft202012Validator(SCHEMA).validate(request.body)
        assert (request.path, request.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
        assert request.headers["session-id"] == request.headers["x-client-request-id"] == "s1"
    assert [item.get("type", item.get("role")) for item in requests[1].body["input"]] == [
        *("developer", "user", "reasoning", "message", "function_call", "function_call_output")
    ]
    assert [item.get("id") for item in requests[1].body["input"]] == [None, None, "rs_0", "msg_1", "fc_2", None]
    assert requests[1].body["input"][2]["encrypted_content"] == "encrypted-0"


ERROR = {"error": {"message": f"no, {KEY}", "type": "t", "code": "c"}}


@pytest.mark.parametrize(
    ("status", "outcome"), [(400, "FATAL"), (401, "FATAL"), (413, "OVERFLOW"), (429, "TRANSIENT"), (500, "TRANSIENT")]
)
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (ERROR, 'OpenAI API error ({}): {{"message":"no, [redacted]","type":"t","code":"c"}}'),
        ({"detail": "no"}, 'OpenAI API error ({}): {{"detail":"no"}}'),
        (b"plain words", "{} plain words"),
        (b"", "{} status code (no body)"),
    ],
    ids=["json", "other json", "text", "empty"],
)
async def test_a_refusal_keeps_status_and_body_and_is_judged_by_them(
    status: int, outcome: str, body: object, text: str
) -> None:
    builder = await answer_to({"error": {"status": status, "body": body}})
    text_shown = builder.message.get("errorMessage", "")

    assert (builder.message["stopReason"], text_shown) == ("error", text.format(status))
    assert not builder.has_started
    assert classify_failure(text_shown, "openai", builder.signs).kind is OutcomeKind[outcome]


async def test_another_provider_is_named_by_its_id() -> None:
    builder = await answer_to({"error": {"status": 400, "body": ERROR}}, provider="opencode")

    assert builder.message.get("errorMessage", "").startswith("opencode API error (400): ")


async def test_an_error_inside_of_the_stream_keeps_what_came() -> None:
    error = {"type": "error", "code": "server_error", "message": f"down, {KEY}"}
    builder = await answer_to({"chunks": [{"text": "half"}, {"event": error}], "done": False})

    assert builder.message.get("errorMessage") == "Error Code server_error: down, [redacted]"
    assert builder.message["content"] == [{"type": "text", "text": "half"}]
    assert builder.signs.codes == ("server_error",)


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ({"raw": ""}, "Stream ended before the response was complete"),
        ({"raw": "data: [DONE]\n\n"}, "Stream ended before the response was complete"),
        ({"raw": 'data: {"type":"response.compl'}, "Stream ended before the response was complete"),
        ({"disconnect": "fin"}, "Connection lost: "),
    ],
    ids=["no end", "only the mark", "inside of an event", "cut"],
)
async def test_a_stream_that_breaks_off_is_an_error_that_is_tried_again(last: object, text: str) -> None:
    builder = await answer_to({"chunks": [{"text": "half"}, last], "done": False})
    text_shown = builder.message.get("errorMessage", "")

    assert text_shown.startswith(text)
    assert classify_failure(text_shown, "openai", builder.signs).kind is OutcomeKind.TRANSIENT


@pytest.mark.parametrize(
    "pieces",
    [
        [{"text": "half"}],
        [{"tool": {"index": 0, "id": "c1", "name": "bash"}}, {"args": '{"command": "l'}],
    ],
    ids=["text", "arguments"],
)
async def test_what_the_user_stops_ends_at_once_and_the_conversation_goes_on(pieces: list[object]) -> None:
    with FakeLlm([{"chunks": [*pieces, {"hang": True}]}, {"text": "on"}]) as llm:
        recorder = Recorder()
        request = request_at(llm)
        builder = MessageBuilder(request.model, recorder, 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, builder)
            await recorder.asked_after_delta.wait()
            nursery.cancel_scope.cancel()
        assert not builder.is_finished
        builder.abort()
        await trio.to_thread.run_sync(llm.wait_disconnects, 1)
        message = (await ask(request_at(llm, QUESTION, builder.message, QUESTION))).message
        sent = llm.requests[1].body["input"]

    assert builder.message["stopReason"] == "aborted"
    assert recorder.words[-1].startswith(("text_end", "toolcall_end"))
    assert message["stopReason"] == "stop"
    assert [item["role"] for item in sent] == ["developer", "user", "user"]
