"""Cloudflare over real connections: conversations over each API, variables that are missing, refusals."""

from typing import Final

import pytest
from tests.agent.llm.original_providers import built_in
from tests.agent.llm.recording import Recorder
from tests.agent.samples import user

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.outcomes import OutcomeKind, classify_response
from pinnace_agent.llm.providers import find_provider
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_spec.records.messages import Message, Model

TOOLS: Final = (ToolSpec("bash", "Runs.", {"type": "object"}),)
KEY: Final = "cf-secret-key-1"
ENV: Final = {"CLOUDFLARE_ACCOUNT_ID": "acc", "CLOUDFLARE_GATEWAY_ID": "gate"}
WORKERS: Final = built_in("cloudflare-workers-ai", "@cf/moonshotai/kimi-k2.7-code")
GATEWAY: Final = {
    name: built_in("cloudflare-ai-gateway", model_id)
    for name, model_id in (
        ("/messages", "claude-sonnet-4-5"),
        ("/responses", "gpt-5"),
        ("/chat/completions", "workers-ai/@cf/moonshotai/kimi-k2.7-code"),
    )
}
CONVERSATION: Final[list[Scripted]] = [
    {"reasoning": "hm", "text": "Hé", "tool_calls": [{"name": "bash", "args": {}, "id": "c1"}]},
    {"text": "ok"},
]
PLACE: Final = "{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}"


async def ask(
    of: Model,
    *messages: Message,
    env: dict[str, str] = ENV,
    own: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    key: str | None = KEY,
) -> MessageBuilder:
    request = LlmRequest(
        of, "Be brief.", messages or (user("hi"),), TOOLS, "low", key, headers or {}, "s1", variables=own or {}
    )
    builder = MessageBuilder(of, Recorder(), 0)
    provider = find_provider(of["api"])
    assert provider is not None
    with surrounded_by(Surroundings(env)):
        try:
            await provider.stream(request, builder)
        finally:
            await close_clients()
    assert builder.is_finished
    return builder


@pytest.mark.parametrize("path", GATEWAY)
async def test_a_whole_conversation_through_a_gateway(path: str) -> None:
    """The key is where the gateway takes it, and nowhere else; the vendor behind it gets none of ours."""
    with FakeLlm(CONVERSATION) as llm:
        of: Model = {**GATEWAY[path], "baseUrl": f"{llm.base_url}/{PLACE}"}
        first = (await ask(of)).message
        second = (await ask(of, user("hi"), first, user("more"))).message
        requests = llm.requests

    assert (first["stopReason"], second["stopReason"]) == ("toolUse", "stop")
    for request in requests:
        assert "/acc/gate/" in request.path
        assert request.path.endswith(path)
        assert request.headers["cf-aig-authorization"] == f"Bearer {KEY}"
        assert not {"authorization", "x-api-key"} & set(request.headers)


async def test_workers_ai_takes_the_key_as_others_do() -> None:
    with FakeLlm([{"text": "Hé"}]) as llm:
        builder = await ask({**WORKERS, "baseUrl": f"{llm.base_url}/accounts/{{CLOUDFLARE_ACCOUNT_ID}}/ai/v1"})
        [request] = llm.requests

    assert builder.message["stopReason"] == "stop"
    assert request.path.endswith("/accounts/acc/ai/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "cf-aig-authorization" not in request.headers


async def test_the_key_of_the_vendor_behind_a_gateway_is_a_header_of_the_user() -> None:
    with FakeLlm([{"text": "Hé"}]) as llm:
        of: Model = {**GATEWAY["/responses"], "baseUrl": f"{llm.base_url}/{PLACE}"}
        await ask(of, headers={"authorization": "Bearer theirs"})
        [request] = llm.requests

    assert request.headers["authorization"] == "Bearer theirs"
    assert request.headers["cf-aig-authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("env", "own", "name"),
    [
        ({}, {}, "CLOUDFLARE_ACCOUNT_ID"),
        ({"CLOUDFLARE_ACCOUNT_ID": "acc"}, {}, "CLOUDFLARE_GATEWAY_ID"),
        ({**ENV, "CLOUDFLARE_ACCOUNT_ID": " "}, {}, "CLOUDFLARE_ACCOUNT_ID"),
        ({**ENV, "CLOUDFLARE_ACCOUNT_ID": "https://dash.cloudflare.com/acc"}, {}, "CLOUDFLARE_ACCOUNT_ID"),
        ({**ENV, "CLOUDFLARE_GATEWAY_ID": "../other"}, {}, "CLOUDFLARE_GATEWAY_ID"),
        (ENV, {"CLOUDFLARE_GATEWAY_ID": ""}, "CLOUDFLARE_GATEWAY_ID"),
        (ENV, {"CLOUDFLARE_ACCOUNT_ID": "a/b"}, "CLOUDFLARE_ACCOUNT_ID"),
    ],
)
async def test_a_variable_that_is_unset_or_wrong_is_named_and_nothing_is_sent(
    env: dict[str, str], own: dict[str, str], name: str
) -> None:
    with FakeLlm([]) as llm:
        of: Model = {**GATEWAY["/messages"], "baseUrl": f"{llm.base_url}/{PLACE}"}
        builder = await ask(of, env=env, own=own)
        assert [] == llm.requests

    assert name in builder.message.get("errorMessage", "")
    assert builder.signs.kind == "bad_address"
    assert classify_response(builder.message, builder.model, builder.signs).kind is OutcomeKind.FATAL


async def test_an_address_of_the_users_own_needs_no_variable() -> None:
    with FakeLlm([{"text": "Hé"}]) as llm:
        builder = await ask({**WORKERS, "baseUrl": llm.base_url}, env={})

    assert builder.message["stopReason"] == "stop"


@pytest.mark.parametrize(("status", "kind"), [(503, OutcomeKind.TRANSIENT), (401, OutcomeKind.FATAL)])
@pytest.mark.parametrize("path", GATEWAY)
async def test_a_refusal_of_a_gateway_is_shown_without_the_key(path: str, status: int, kind: OutcomeKind) -> None:
    body = {"success": False, "error": [{"code": 2009, "message": f"no {KEY}"}]}
    with FakeLlm([{"error": {"status": status, "body": body}}]) as llm:
        builder = await ask({**GATEWAY[path], "baseUrl": f"{llm.base_url}/{PLACE}"})
    text = builder.message.get("errorMessage", "")

    assert "no [redacted]" in text
    assert KEY not in text
    assert classify_response(builder.message, builder.model, builder.signs).kind is kind
