"""Outcomes of answers: texts that providers really send, and what each calls for. Source: R-RTY-01, R-CMP-02."""

from collections.abc import Mapping

import pytest
from tests.agent.llm.recording import Recorder
from tests.agent.samples import served_model

from pinnace_agent.llm.builder import FailureSigns, MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusedResponse, retry_after_s
from pinnace_agent.llm.openai_chat.provider import OpenAICompletionsProvider
from pinnace_agent.llm.outcomes import MAX_RETRY_AFTER_S, Outcome, OutcomeKind, classify_failure, classify_response
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.secrets import Secrets
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import AssistantMessage, Model, StopReason, Usage, zero_usage

MODEL = served_model(baseUrl="")

OVERFLOWS = [
    '400 {"type":"error","error":{"type":"invalid_request_error","message":'
    '"prompt is too long: 213462 tokens > 200000 maximum"}}',
    '413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
    'OpenAI API error (413): {"message":"Payload Too Large"}',
    "400 input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
    "413 <html><head><title>413 Request Entity Too Large</title></head></html>",
    "ValidationException: Input is too long for requested model.",
    '400: {"message":"Your input exceeds the context window of this model. Please adjust your input and try again.",'
    '"code":"context_length_exceeded"}',
    '400: {"message":"This model\'s maximum context length is 128000 tokens. However, your messages resulted in '
    '130,512 tokens. Please reduce the length of the messages.","type":"invalid_request_error"}',
    "400: The request exceeds the model's maximum context length of 131,072 tokens",
    "400: input exceeds maximum context length (8192)",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    '400: {"message":"Please reduce the length of the messages or completion.","code":"context_length_exceeded"}',
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 160000 tokens",
    "Request exceeds the maximum allowed input length of 100000 tokens",
    "Input (150000 tokens) is longer than the model's context length (131072 tokens).",
    "prompt token count of 200000 exceeds the limit of 128000",
    '400: {"code":400,"message":"request (5012 tokens) exceeds the available context size (4096 tokens), try '
    'increasing it","type":"exceed_context_size_error"}',
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "invalid params, context window exceeds limit (2013)",
    "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
    "Prompt contains 150000 tokens, too large for model with 131072 maximum context length",
    "Prompt has 70000 tokens, but the configured context size is 65536 tokens",
    "Provider finish_reason: model_context_window_exceeded",
    '400: {"code":"1261","message":"Prompt too long"}',
    "prompt exceeds max length",
    "prompt too long; exceeded max context length by 4 tokens",
    '400: {"message":"Range of input length should be [1, 30720]","code":"invalid_parameter_error"}',
    "litellm.ContextWindowExceededError: BadRequestError: too big",
    "Context length exceeded",
    "400: too many tokens in the prompt",
    "400: Trying to keep the first 5012 tokens when context the overflows. However, the model is loaded with context "
    "length of only 4096 tokens, which is not enough.",
    "Reached context length of 4096 tokens with model (arch: qwen2), but this model does not currently support "
    "mid-generation context overflow.",
    "400: The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "400: max_tokens must be at least 1, got -1204.",
    "422: Input validation error: `inputs` must have less than 1024 tokens. Given: 1240",
    "422: Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1500 `inputs` tokens",
    "Token limit exceeded",
]
TRANSIENTS = [
    '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    "529 status code (no body)",
    "503 The model is overloaded. Please try again later.",
    '429: {"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2500. '
    'Please try again in 3s.","type":"tokens","code":"rate_limit_exceeded"}',
    "Rate-limited upstream",
    "429 status code (no body)",
    "Too Many Requests",
    "500: null",
    "HTTP/1.1 502 Bad Gateway",
    "HTTP 504",
    "error code: 520",
    "Upstream answered with status: 524",
    '{"statusCode":503,"body":"…"}',
    "OpenAI API error (503): {}",
    "Service Unavailable",
    "The service is temporarily unavailable",
    '{"type":"server_error","message":"x"}',
    "Internal error encountered.",
    "The server had an error while processing your request. Sorry about that!",
    "Connection error: Connection refused (ECONNREFUSED)",
    "Connection error: Temporary failure in name resolution (EAI_AGAIN)",
    "Connection lost: peer closed connection without sending complete message body",
    "request to https://x failed, reason: getaddrinfo ENOTFOUND api.example.com",
    "other side closed",
    "TypeError: fetch failed",
    "upstream connect error or disconnect/reset before headers. reset reason: overflow",
    "terminated",
    "Server requested 90s retry delay (max: 60s). slow down",
    "Provider returned error\nupstream: nothing",
    "Provider finish_reason: network_error",
    "WebSocket closed 1006",
    "socket hang up",
    "The socket connection was closed unexpectedly",
    "Stream ended without finish_reason",
    "Anthropic stream ended before message_stop",
    "stream ended before a terminal response event",
    "http2 request did not get a response",
    "Request timed out: nothing came from x for 300 s",
    "The model is currently experiencing high demand",
    "exceeded request buffer limit while retrying upstream",
    "An error occurred. You can retry your request, or contact us.",
    "please retry your request later",
    '429: {"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}',
    "unable to forward upstream stream",
    "stream disconnected before completion: idle",
    "reply cut short after it had begun",
    "transient token refresh failure",
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "Throttling error: Too many tokens per minute",
    "503 Service unavailable: too many tokens queued",
    "Too many requests, too many tokens",
    '429: {"message":"Request too large: rate limit on tokens, please reduce the length of the messages"}',
    '429: {"code":"1302","message":"High concurrency usage of this API"}',
    '403: {"message":"You have exceeded a secondary rate limit"}',
]
FINALS = [
    '429: {"message":"You exceeded your current quota, please check your plan and billing details.",'
    '"type":"insufficient_quota"}',
    "429 GoUsageLimitError: wait",
    "429 FreeUsageLimitError: wait",
    '429 {"type":"usage_limit_reached","message":"The usage limit has been reached"}',
    "Monthly usage limit reached",
    "429: Quota exceeded for this project",
    "Out of budget: retry later, service unavailable",
    "429: no available balance",
    '429: {"code":"1308","message":"Limit reached for 5 hour. It will reset at 2026-07-18 07:41:55"}',
    '429: {"code":1113,"message":"Insufficient resources"}',
    '402: {"message":"Insufficient credits","code":402}',
    '400: {"message":"Your credit balance is too low to access the Anthropic API."}',
    '401: {"message":"Incorrect API key provided: [redacted]"}',
    '401: {"message":"internal error while checking the token"}',
    "403 Forbidden",
    '404: {"message":"The model `x` does not exist"}',
    '400: {"message":"Invalid value"}',
    "Connection error: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate",
    "Invalid baseUrl: no host can have this name",
    "No model selected.",
    "",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_a_request_that_was_too_long_is_an_overflow(text: str) -> None:
    assert classify_failure(text, "local") == Outcome(OutcomeKind.OVERFLOW)
    assert classify_failure(text.upper(), "local") == Outcome(OutcomeKind.OVERFLOW)


@pytest.mark.parametrize("text", TRANSIENTS)
def test_what_may_work_later_is_transient(text: str) -> None:
    assert classify_failure(text, "local") == Outcome(OutcomeKind.TRANSIENT)
    assert classify_failure(text.upper(), "local") == Outcome(OutcomeKind.TRANSIENT)


@pytest.mark.parametrize("text", FINALS)
def test_what_time_alone_does_not_mend_is_final(text: str) -> None:
    assert classify_failure(text, "local") == Outcome(OutcomeKind.FATAL)


@pytest.mark.parametrize(
    "text",
    [
        "Request req_5005030 was refused",
        "400: image of 500 bytes is no image",
        "400: id 429",
        "400: 1503 items, 502 too many",
        '400: {"code":"5031"}',
        "400: http://localhost:503/v1 is no address",
        "Line 500: unexpected token",
        "5000 items",
        "500ms is too short",
        "500-page books are refused",
        "status 5021",
        "code 429a",
    ],
)
def test_a_number_that_is_no_status_means_nothing(text: str) -> None:
    assert classify_failure(text, "local").kind is OutcomeKind.FATAL


@pytest.mark.parametrize(
    "text",
    [
        "400: image exceeds the limit of 5 MB",
        "400: request exceeds the limit of 100 images",
        "400: exceeds the limit of 20,000 characters",
    ],
)
def test_a_limit_of_something_else_than_tokens_is_no_overflow(text: str) -> None:
    assert classify_failure(text, "local").kind is OutcomeKind.FATAL


@pytest.mark.parametrize("status", [400, 413])
def test_a_refusal_without_a_word_is_an_overflow_at_cerebras_alone(status: int) -> None:
    text = FailureTexts(Secrets()).refused(RefusedResponse(status, b""))

    assert classify_failure(text, "cerebras").kind is OutcomeKind.OVERFLOW
    assert (classify_failure(text, "local").kind is OutcomeKind.OVERFLOW) is (status == 413)
    assert classify_failure('400: {"message":"no"}', "cerebras").kind is OutcomeKind.FATAL


def test_codes_count_that_are_not_in_the_text() -> None:
    """An error inside of a stream is shown by its message alone."""
    texts = FailureTexts(Secrets())
    kinds: list[OutcomeKind] = []
    for error in (
        {"message": "too much", "code": "context_length_exceeded"},
        {"message": "no", "code": 503},
        {"message": "no", "type": "overloaded_error"},
        {"message": "Slow down", "code": 429, "type": "insufficient_quota"},
        {"message": "Slow down", "code": "1310"},
        {"message": "big", "code": 413},
        {"message": "no", "code": 400},
    ):
        text = texts.broke_off(error)
        assert text == error["message"]
        kinds.append(classify_failure(text, "local", texts.signs).kind)

    assert kinds == ["overflow", "transient", "transient", "fatal", "fatal", "overflow", "fatal"]


@pytest.mark.parametrize(
    ("asked_s", "granted_s"), [(None, None), (0.0, 0.0), (7.5, 7.5), (60.0, 60.0), (60.1, None), (3600.0, None)]
)
def test_a_wait_that_the_server_asks_for_is_granted_up_to_the_cap(
    asked_s: float | None, granted_s: float | None
) -> None:
    signs = FailureSigns(429, (), asked_s)

    assert classify_failure("429 slow down", "local", signs) == Outcome(OutcomeKind.TRANSIENT, granted_s)
    assert classify_failure("429 billing", "local", signs) == Outcome(OutcomeKind.FATAL)
    assert MAX_RETRY_AFTER_S == 60
    assert classify_failure("429", "local", signs, 5000).retry_after_s == asked_s


NOW_S = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "9", "retry-after-ms": "soon"}, 9.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 -0000"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0.0),
        ({"retry-after": "Wednesday"}, None),
        ({"retry-after": "Tue, 99 Nov 99999 22:13:10 GMT"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_the_wait_is_read_from_milliseconds_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW_S) == seconds


def answer(stop: StopReason, *, model: str = "m1", text: str | None = None, **usage: int) -> AssistantMessage:
    counted: Usage = {**zero_usage(), **usage}  # type: ignore[typeddict-item]
    message: AssistantMessage = {
        "role": "assistant",
        "content": [],
        "api": "openai-completions",
        "provider": "local",
        "model": model,
        "usage": counted,
        "stopReason": stop,
        "timestamp": 0,
    }
    if text is not None:
        message["errorMessage"] = text
    return message


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (answer("stop", input=100_000), OutcomeKind.NOTHING),
        (answer("stop", input=100_001), OutcomeKind.SILENT_OVERFLOW),
        (answer("stop", input=1, cacheRead=100_000), OutcomeKind.SILENT_OVERFLOW),
        (answer("stop", input=1, cacheWrite=100_000), OutcomeKind.NOTHING),
        (answer("toolUse", input=100_001), OutcomeKind.NOTHING),
        (answer("stop", input=100_001, model="m2"), OutcomeKind.NOTHING),
        (answer("length", input=9_000, cacheRead=90_000), OutcomeKind.LENGTH_OVERFLOW),
        (answer("length", input=98_999), OutcomeKind.NOTHING),
        (answer("length", input=99_000, output=1), OutcomeKind.NOTHING),
        (answer("aborted", text="Request was aborted"), OutcomeKind.FATAL),
        (answer("aborted", text="503"), OutcomeKind.FATAL),
        (answer("error"), OutcomeKind.FATAL),
        (answer("error", text="503"), OutcomeKind.TRANSIENT),
        (answer("error", text="503", model="m2"), OutcomeKind.TRANSIENT),
        (answer("error", text="413"), OutcomeKind.OVERFLOW),
        (answer("error", text="413", model="m2"), OutcomeKind.FATAL),
    ],
)
def test_an_answer_is_judged_by_how_it_ended_and_what_was_counted(message: AssistantMessage, kind: OutcomeKind) -> None:
    assert classify_response(message, MODEL).kind is kind


def test_nothing_overflows_a_window_that_is_unknown() -> None:
    model: Model = {**MODEL, "contextWindow": 0}

    assert classify_response(answer("stop", input=10**6), model).kind is OutcomeKind.NOTHING
    assert classify_response(answer("length"), model).kind is OutcomeKind.NOTHING


# What comes beside the text, over a real connection


async def signs_of(response: Mapping[str, object]) -> tuple[str, FailureSigns, Outcome]:
    with FakeLlm([response]) as llm:
        model: Model = {**MODEL, "baseUrl": llm.base_url}
        builder = MessageBuilder(model, Recorder(), 0)
        try:
            await OpenAICompletionsProvider().stream(LlmRequest(model, "", (), (), "off", None, {}, ""), builder)
        finally:
            await close_clients()
    text = builder.message.get("errorMessage", "")
    return text, builder.signs, classify_response(builder.message, model, builder.signs)


async def test_a_refusal_brings_its_status_its_codes_and_the_wait_that_it_asks_for() -> None:
    error = {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}
    refusal = {"status": 429, "headers": {"Retry-After": "17"}, "body": {"error": error}}

    text, signs, outcome = await signs_of({"error": refusal})

    assert text.startswith("429: ")
    assert signs == FailureSigns(429, ("rate_limit_exceeded", "tokens"), 17.0, address=signs.address)
    assert str(signs.address).endswith("/chat/completions")
    assert outcome == Outcome(OutcomeKind.TRANSIENT, 17.0)


async def test_an_error_inside_of_a_stream_brings_its_codes() -> None:
    error = {"message": "That was it", "code": 502}

    text, signs, outcome = await signs_of({"chunks": [{"text": "a"}, {"event": {"error": error}}]})

    assert (text, signs) == ("That was it", FailureSigns(502, ("502",), address=signs.address))
    assert outcome == Outcome(OutcomeKind.TRANSIENT)


async def test_a_success_brings_nothing() -> None:
    _, signs, outcome = await signs_of({"text": "ok"})

    assert (signs, outcome) == (FailureSigns(address=signs.address), Outcome(OutcomeKind.NOTHING))
