"""Generated contents over real connections: whole answers, refusals, and what they call for.

All answers here are constructed after the published format, never recorded.
"""

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import FailureSigns, MessageBuilder
from pinnace_agent.llm.google.provider import GoogleGenerativeAIProvider
from pinnace_agent.llm.outcomes import Outcome, OutcomeKind, classify_failure
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_campaigns.trials.model_streams import COMMAND, STREAMS, TEXT, THOUGHT, TOOL
from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Reply
from pinnace_spec.records.messages import AssistantMessage, Message, UserMessage

KEY = "AIzaSy0123456789abcdef"
PROVIDER = GoogleGenerativeAIProvider()
QUESTION: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
(STREAM,) = (stream for stream in STREAMS if stream.api == "google-generative-ai")
EVENTS = STREAM.events(TEXT)


def request_at(base_url: str, *messages: Message, headers: Mapping[str, str] | None = None) -> LlmRequest:
    model = served_model(
        api="google-generative-ai", provider="google", baseUrl=base_url, reasoning=True, cost=prices(1, 2)
    )
    tool = ToolSpec("bash", "Runs.", {"type": "object"})
    return LlmRequest(model, "Be brief.", messages or (QUESTION,), (tool,), "low", KEY, headers or {}, "s1")


class Asked:
    """An answer, and what was seen of it."""

    def __init__(self, request: LlmRequest) -> None:
        self.witness = StreamWitness()
        self.builder = MessageBuilder(request.model, self.witness, 0)

    @property
    def message(self) -> AssistantMessage:
        return self.builder.message

    @property
    def failure(self) -> str:
        assert self.message["stopReason"] == "error"
        return self.message.get("errorMessage", "")

    @property
    def signs(self) -> FailureSigns:
        return self.builder.signs

    @property
    def outcome(self) -> Outcome:
        return classify_failure(self.failure, "google", self.signs)


async def ask(server: RawServer, **more: Any) -> Asked:
    request = request_at(f"{server.url}/v1beta", **more)
    asked = Asked(request)
    try:
        await PROVIDER.stream(request, asked.builder)
    finally:
        await close_clients()
    assert asked.witness.judge(asked.message) == []
    return asked


async def answer_to(answer: Answer) -> Asked:
    with RawServer(answer) as server:
        return await ask(server)


def refusing(status: int, body: object, *headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body, indent=2).encode()
    return lambda reply: reply.whole(data, *headers, status=f"{status} No", content_type="application/json")


def streaming(*events: bytes) -> Answer:
    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(*events)
        reply.end()

    return answer


# Whole answers


async def test_an_answer_is_asked_for_and_read() -> None:
    with RawServer(streaming(*EVENTS)) as server:
        asked = await ask(server, headers={"X-More": "yes"})
    (request,) = server.requests
    body = json.loads(request.body)

    assert (request.method, request.path) == ("POST", "/v1beta/models/m1:streamGenerateContent?alt=sse")
    assert (request.headers["x-goog-api-key"], request.headers["x-more"]) == (KEY, "yes")
    assert list(body) == ["contents", "systemInstruction", "generationConfig", "tools"]
    assert asked.message["stopReason"] == "toolUse"
    assert asked.message["content"] == [
        {"type": "thinking", "thinking": THOUGHT},
        {"type": "text", "text": TEXT},
        {"type": "toolCall", "id": "c1", "name": TOOL, "arguments": COMMAND, "thoughtSignature": "c2ln"},
    ]
    assert asked.message["usage"]["totalTokens"] == 5


async def test_a_stream_that_is_cut_is_an_error_that_keeps_what_came() -> None:
    asked = await answer_to(streaming(*EVENTS[:2]))

    assert asked.failure == "Stream ended without finish_reason"
    assert asked.outcome.kind is OutcomeKind.TRANSIENT
    assert [block["type"] for block in asked.message["content"]] == ["thinking", "text"]


async def test_a_refused_prompt_is_final() -> None:
    asked = await answer_to(streaming(b'data: {"promptFeedback": {"blockReason": "SAFETY"}}\n\n'))

    assert asked.failure == "Provider blocked the prompt: SAFETY"
    assert asked.outcome.kind is OutcomeKind.FATAL


async def test_an_error_inside_of_the_stream_is_reported_with_its_signs() -> None:
    error = {"code": 503, "message": "Try later.", "status": "UNAVAILABLE", "details": [retry_info("7s")]}
    asked = await answer_to(streaming(*EVENTS[:2], b"data: " + json.dumps({"error": error}).encode() + b"\n\n"))

    assert asked.failure == "Try later."
    assert asked.signs == FailureSigns(503, ("503", "UNAVAILABLE"), 7.0, address=asked.signs.address)
    assert asked.outcome == Outcome(OutcomeKind.TRANSIENT, 7.0)
    assert len(asked.message["content"]) == 2


@pytest.mark.parametrize("place", ["before the head", "in the middle"])
async def test_cancelling_closes_the_connection_and_the_next_answer_is_whole(place: str) -> None:
    is_asked, is_gone = threading.Event(), threading.Event()

    def hang(reply: Reply) -> None:
        if place == "in the middle":
            reply.head()
            reply.chunks(*EVENTS[:2])
        is_asked.set()
        try:
            reply.wait_gone()
        finally:
            is_gone.set()

    with RawServer(hang, streaming(*EVENTS)) as server:
        request = request_at(server.url)
        asked = Asked(request)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, asked.builder)
            await trio.to_thread.run_sync(is_asked.wait)
            nursery.cancel_scope.cancel()
        assert await trio.to_thread.run_sync(is_gone.wait, 10)
        assert not asked.builder.is_finished
        asked.builder.abort()
        assert asked.message["stopReason"] == "aborted"
        assert (await ask(server)).message["stopReason"] == "toolUse"


# Refusals


def retry_info(delay: object) -> dict[str, object]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def error_of(code: int, status: str, message: str, *details: object) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def quota(*names: str) -> dict[str, object]:
    violations = [{"quotaMetric": "generate_content_free_tier_requests", "quotaId": name} for name in names]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


@pytest.mark.parametrize("status", [400, 401, 413, 429, 500, 529])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"code": 1, "message": "no"}}, '{"error":{"code":1,"message":"no"}}'),
        ([{"error": {"message": "no"}}], '[{"error":{"message":"no"}}]'),
        ({"detail": "no"}, '{"detail":"no"}'),
        (b"<html>no</html>", "{status} <html>no</html>"),
        (b"", "{status} status code (no body)"),
    ],
)
async def test_a_refusal_is_reported_with_its_body(status: int, body: object, text: str) -> None:
    asked = await answer_to(refusing(status, body))

    assert asked.failure == text.replace("{status}", str(status))
    assert asked.signs.status == status
    assert not asked.builder.has_started


async def test_the_key_is_in_no_error() -> None:
    asked = await answer_to(refusing(400, error_of(400, "INVALID_ARGUMENT", f"API key not valid: {KEY}")))

    assert KEY not in asked.failure
    assert asked.outcome.kind is OutcomeKind.FATAL


OVER_QUOTA = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG = "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (400, error_of(400, "INVALID_ARGUMENT", TOO_LONG), Outcome(OutcomeKind.OVERFLOW)),
        (400, error_of(400, "INVALID_ARGUMENT", "Unknown name"), Outcome(OutcomeKind.FATAL)),
        (403, error_of(403, "PERMISSION_DENIED", "No access"), Outcome(OutcomeKind.FATAL)),
        (404, error_of(404, "NOT_FOUND", "No such model"), Outcome(OutcomeKind.FATAL)),
        (429, error_of(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted."), Outcome(OutcomeKind.TRANSIENT)),
        (500, error_of(500, "INTERNAL", "Oh."), Outcome(OutcomeKind.TRANSIENT)),
        (503, error_of(503, "UNAVAILABLE", "Oh."), Outcome(OutcomeKind.TRANSIENT)),
        (504, error_of(504, "DEADLINE_EXCEEDED", "Oh."), Outcome(OutcomeKind.TRANSIENT)),
        (
            429,
            error_of(429, "RESOURCE_EXHAUSTED", OVER_QUOTA, quota("RequestsPerMinute-FreeTier"), retry_info("34s")),
            Outcome(OutcomeKind.TRANSIENT, 34.0),
        ),
        (
            429,
            error_of(429, "RESOURCE_EXHAUSTED", OVER_QUOTA, quota("PerMinute", "PerDay"), retry_info("34s")),
            Outcome(OutcomeKind.FATAL),
        ),
        (429, error_of(429, "RESOURCE_EXHAUSTED", OVER_QUOTA), Outcome(OutcomeKind.FATAL)),
    ],
)
async def test_what_a_refusal_calls_for_is_known_with_and_without_its_signs(
    status: int, body: object, outcome: Outcome
) -> None:
    """A quota of a minute is a limit of the rate, whatever its text says; one of a day is used up."""
    asked = await answer_to(refusing(status, body))

    assert asked.outcome == outcome
    assert classify_failure(asked.failure, "google").kind is outcome.kind


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [("34s", 34.0), ("34.074824224s", 34.074824224), ("0s", 0.0), ("-1s", None), ("soon", None), (34, None)],
)
async def test_the_delay_that_the_body_asks_for_is_read(delay: object, seconds: float | None) -> None:
    body = error_of(429, "RESOURCE_EXHAUSTED", "Slow down", {"@type": "other"}, "odd", retry_info(delay))

    assert (await answer_to(refusing(429, body))).signs.retry_after_s == seconds


async def test_the_delay_of_the_header_comes_first() -> None:
    body = error_of(429, "RESOURCE_EXHAUSTED", "Slow down", retry_info("34s"))

    assert (await answer_to(refusing(429, body, "Retry-After: 5"))).signs.retry_after_s == 5


async def test_a_success_that_is_no_stream_says_so() -> None:
    """Proxies that lose the query answer with an array."""
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in EVENTS]
    asked = await answer_to(lambda reply: reply.whole(json.dumps(chunks).encode(), content_type="application/json"))

    assert asked.failure.startswith(
        "Stream ended without finish_reason: the server sent application/json and no events: [{"
    )


async def test_an_error_with_the_status_of_a_success_is_an_error() -> None:
    body = json.dumps([error_of(429, "RESOURCE_EXHAUSTED", "Slow down", retry_info("3s"))], indent=1).encode()
    asked = await answer_to(lambda reply: reply.whole(body, content_type="application/json"))

    assert asked.failure == "Slow down"
    assert asked.outcome == Outcome(OutcomeKind.TRANSIENT, 3.0)


async def test_a_redirect_is_not_followed() -> None:
    asked = await answer_to(refusing(307, b"", "Location: https://elsewhere.example/"))

    assert asked.failure.startswith("307 The server redirects to https://elsewhere.example/")
