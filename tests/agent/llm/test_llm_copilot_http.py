"""GitHub Copilot over real connections: conversations over each API, headers of the user, refusals."""

from typing import Final

import pytest
from tests.agent.llm.conversations import IMAGE, result
from tests.agent.llm.original_providers import built_in
from tests.agent.llm.test_llm_cloudflare_http import CONVERSATION, ask
from tests.agent.samples import user

from pinnace_agent.llm.outcomes import OutcomeKind, classify_response
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import Model

MODELS: Final = {
    "/messages": built_in("github-copilot", "claude-opus-5"),
    "/responses": built_in("github-copilot", "gpt-6.1-sol"),
    "/chat/completions": built_in("github-copilot", "gemini-3.8-flash"),
}
TOKEN: Final = "tid=secret-marker-1;exp=2;proxy-ep=proxy.individual.githubcopilot.com;x=y"


@pytest.mark.parametrize("path", MODELS)
async def test_a_whole_conversation(path: str) -> None:
    """An address of the user's own stays, also with a token that names one."""
    with FakeLlm(CONVERSATION) as llm:
        of: Model = {**MODELS[path], "baseUrl": llm.base_url}
        first = (await ask(of, user("see", IMAGE), key=TOKEN)).message
        call_id = next(block["id"] for block in first["content"] if block["type"] == "toolCall")
        second = (await ask(of, user("hi"), first, result(call_id, "a"), key=TOKEN)).message
        requests = llm.requests

    assert (first["stopReason"], second["stopReason"]) == ("toolUse", "stop")
    for request in requests:
        assert request.path.endswith(path)
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert request.headers["copilot-integration-id"] == "vscode-chat"
        assert "x-api-key" not in request.headers
    assert [request.headers["x-initiator"] for request in requests] == ["user", "agent"]
    assert [request.headers.get("copilot-vision-request") for request in requests] == ["true", None]


async def test_headers_of_the_user_take_precedence() -> None:
    with FakeLlm([{"text": "Hé"}]) as llm:
        of: Model = {**MODELS["/responses"], "baseUrl": llm.base_url}
        await ask(of, key=TOKEN, headers={"editor-version": "mine/1", "X-Initiator": "agent"})
        [request] = llm.requests

    assert request.headers["editor-version"] == "mine/1"
    assert request.headers["x-initiator"] == "agent"


@pytest.mark.parametrize(("status", "kind"), [(503, OutcomeKind.TRANSIENT), (403, OutcomeKind.FATAL)])
@pytest.mark.parametrize("path", MODELS)
async def test_a_refusal_is_shown_without_the_token(path: str, status: int, kind: OutcomeKind) -> None:
    with FakeLlm([{"error": {"status": status, "body": {"error": {"message": f"no {TOKEN}"}}}}]) as llm:
        builder = await ask({**MODELS[path], "baseUrl": llm.base_url}, key=TOKEN)
    text = builder.message.get("errorMessage", "")

    assert "no [redacted]" in text
    assert "secret-marker" not in text
    assert classify_response(builder.message, builder.model, builder.signs).kind is kind
