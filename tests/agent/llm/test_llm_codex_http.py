"""The Responses of a ChatGPT plan over real connections: a conversation, a plan that is used up, a key that is none."""

import time
from typing import Final

import pytest
from tests.agent.llm.recording import Recorder
from tests.agent.llm.test_llm_codex_like_the_original import TOKEN, model
from tests.agent.samples import user

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failure_report import Attempts, report_failure
from pinnace_agent.llm.openai_responses.codex import OpenAICodexResponsesProvider
from pinnace_agent.llm.outcomes import OutcomeKind, classify_response
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import Message

TOOLS: Final = (ToolSpec("bash", "Runs.", {"type": "object"}),)


async def ask(base_url: str, *messages: Message, key: str | None = TOKEN) -> MessageBuilder:
    request = LlmRequest(
        model(baseUrl=base_url), "Be brief.", messages or (user("hi"),), TOOLS,
        "low", key, {}, "s1",
    )  # fmt: skip
    builder = MessageBuilder(request.model, Recorder(), 0)
    try:
        await OpenAICodexResponsesProvider().stream(request, builder)
    finally:
        await close_clients()
    assert builder.is_finished
    return builder


async def test_a_whole_conversation() -> None:
    """Thoughts go back as they came, and the account goes with each request."""
    with FakeLlm(
        [{"reasoning": "hm", "text": "Hé", "tool_calls": [{"name": "bash", "args": {}, "id": "c1"}]}, {}]
    ) as llm:
        first = (await ask(llm.base_url)).message
        await ask(llm.base_url, user("hi"), first)
        requests = llm.requests

    assert (first["api"], first["provider"], first["stopReason"]) == (
        *("openai-codex-responses", "openai-codex", "toolUse"),
    )
    for request in requests:
        assert request.path.endswith("/codex/responses")
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert (request.headers["chatgpt-account-id"], request.headers["originator"]) == ("acc-1", "pinnace")
        assert request.headers["accept"] == "text/event-stream"
    assert [item.get("encrypted_content") for item in requests[1].body["input"]][1] == "encrypted-0"


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (
            429,
            {"type": "usage_limit_reached", "plan_type": "Plus", "resets_at": 720},
            " (plus) is reached, for about 12 m",
        ),
        (429, {"type": "usage_limit_reached", "resets_at": -5}, " is reached, for about 0 min"),
        (429, {"code": "rate_limit_exceeded", "message": "slow"}, " is reached"),
        (403, {"code": "usage_not_included"}, " is reached"),
        (429, {"type": "usage_limit_reached", "plan_type": 5, "resets_at": "soon"}, " is reached"),
    ],
)
async def test_a_plan_that_is_used_up_is_named_and_not_asked_again(
    status: int, error: dict[str, object], said: str
) -> None:
    if isinstance(resets_s := error.get("resets_at"), int):
        error = {**error, "resets_at": time.time() + resets_s}
    with FakeLlm([{"error": {"status": status, "body": {"error": error}}}]) as llm:
        builder = await ask(llm.base_url)
    message = builder.message
    text = message.get("errorMessage", "")
    outcome = classify_response(message, builder.model, builder.signs)
    report = report_failure(text, builder.model, builder.signs, outcome.kind, Attempts())

    assert text.startswith(f"The usage limit of your ChatGPT plan{said}")
    assert outcome.kind is OutcomeKind.FATAL
    assert report.status == status
    assert report.code == ("quota" if status == 429 else "authentication")


@pytest.mark.parametrize(("status", "kind"), [(503, OutcomeKind.TRANSIENT), (400, OutcomeKind.FATAL)])
async def test_another_refusal_is_shown_as_it_is_without_the_token(status: int, kind: OutcomeKind) -> None:
    with FakeLlm([{"error": {"status": status, "body": {"detail": f"no, {TOKEN}"}}}]) as llm:
        builder = await ask(llm.base_url)
    text = builder.message.get("errorMessage", "")

    assert text == f'openai-codex API error ({status}): {{"detail":"no, [redacted]"}}'
    assert classify_response(builder.message, builder.model, builder.signs).kind is kind


@pytest.mark.parametrize("key", [None, "sk-key"])
async def test_a_key_that_is_no_token_of_a_login_is_not_sent(key: str | None) -> None:
    with FakeLlm([]) as llm:
        builder = await ask(llm.base_url, key=key)
        assert [] == llm.requests

    assert "pinnace auth login openai-codex --device-code" in builder.message.get("errorMessage", "")
    assert builder.signs.kind == "authentication"
    assert classify_response(builder.message, builder.model, builder.signs).kind is OutcomeKind.FATAL
