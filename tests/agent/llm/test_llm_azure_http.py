"""The Responses of Azure over real connections: a conversation, a refusal, and an address that is missing."""

from collections.abc import Mapping

import pytest
from tests.agent.llm.recording import Recorder
from tests.agent.samples import prices, served_model, user

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.openai_responses.azure import AzureOpenAIResponsesProvider
from pinnace_agent.llm.outcomes import OutcomeKind, classify_response
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import Message, Model

KEY = "sk-0123456789abcdef"
MODEL: Model = served_model(
    id="gpt-5", api="azure-openai-responses", provider="azure", baseUrl="", reasoning=True, cost=prices(1, 2)
)


async def ask(variables: Mapping[str, str], *messages: Message) -> MessageBuilder:
    request = LlmRequest(
        MODEL, "", messages or (user("hi"),), (ToolSpec("bash", "Runs.", {"type": "object"}),), "low", KEY, {}, "s1",
        variables=variables,
    )  # fmt: skip
    builder = MessageBuilder(MODEL, Recorder(), 0)
    try:
        await AzureOpenAIResponsesProvider().stream(request, builder)
    finally:
        await close_clients()
    assert builder.is_finished
    return builder


async def test_a_whole_conversation_at_a_deployment() -> None:
    """The answer is the model's, by its own name, and goes back with its thoughts."""
    with FakeLlm(
        [{"reasoning": "hm", "text": "Hé", "tool_calls": [{"name": "bash", "args": {"a": 1}, "id": "c1"}]}, {}]
    ) as llm:
        variables = {
            "AZURE_OPENAI_BASE_URL": f"{llm.base_url}/v1/",
            "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "gpt-5=mine",
            "AZURE_OPENAI_API_VERSION": "2025-04-01-preview",
        }
        first = (await ask(variables)).message
        await ask(variables, user("hi"), first)
        requests = llm.requests

    assert ("azure-openai-responses", "azure", "gpt-5", "toolUse") == (
        *(first["api"], first["provider"], first["model"], first["stopReason"]),
    )
    for request in requests:
        assert request.path == "/v1/responses?api-version=2025-04-01-preview"
        assert (request.headers["api-key"], request.headers.get("authorization")) == (KEY, None)
        assert request.body["model"] == "mine"
    assert [item.get("encrypted_content") for item in requests[1].body["input"]][1] == "encrypted-0"


@pytest.mark.parametrize(("status", "kind"), [(429, OutcomeKind.TRANSIENT), (401, OutcomeKind.FATAL)])
async def test_a_refusal_names_azure_and_is_judged_by_its_status(status: int, kind: OutcomeKind) -> None:
    refusal = {"error": {"status": status, "body": {"error": {"code": "c", "message": f"no, {KEY}"}}}}
    with FakeLlm([refusal]) as llm:
        builder = await ask({"AZURE_OPENAI_BASE_URL": f"{llm.base_url}/v1"})
    text = builder.message.get("errorMessage", "")

    assert text == f'Azure OpenAI API error ({status}): {{"code":"c","message":"no, [redacted]"}}'
    assert classify_response(builder.message, MODEL, builder.signs).kind is kind


async def test_without_an_address_nothing_is_sent_and_the_variables_are_named() -> None:
    builder = await ask({})
    text = builder.message.get("errorMessage", "")

    assert "AZURE_OPENAI_BASE_URL" in text
    assert "AZURE_OPENAI_RESOURCE_NAME" in text
    assert builder.signs.kind == "bad_address"
    assert classify_response(builder.message, MODEL, builder.signs).kind is OutcomeKind.FATAL
