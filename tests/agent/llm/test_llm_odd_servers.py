"""Servers that refuse what others take, and signatures that they send in fields of their own."""

import json
from collections.abc import Mapping, Sequence

import pytest
from tests.agent.llm.recording import Recorder
from tests.agent.samples import prices, served_model

from pinnace_agent.core.json_access import as_array
from pinnace_agent.llm.anthropic.provider import AnthropicMessagesProvider
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.openai_chat.compat import compat_of
from pinnace_agent.llm.openai_chat.messages import wire_messages
from pinnace_agent.llm.openai_chat.provider import OpenAICompletionsProvider
from pinnace_agent.llm.openai_chat.stream import ChunkReader
from pinnace_agent.llm.openai_responses.provider import OpenAIResponsesProvider
from pinnace_agent.llm.providers import Provider
from pinnace_agent.llm.refused_parts import merged_users, refused_names, without
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_agent.redaction.secrets import Secrets
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import AssistantMessage, Message, Model, UserMessage

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
CALLING: dict[str, object] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
MARKED = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
PLAIN = [{"type": "text", "text": "a"}]
NAMED = {"function": {"name": "bash"}}
STRICT = {"function": {"name": "bash", "strict": False, "parameters": {"properties": {"strict": {}, "store": {}}}}}
LOOSE = {"function": {"name": "bash", "parameters": {"properties": {"strict": {}, "store": {}}}}}


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (
            "messages.0.content.0.cache_control: Extra inputs are not permitted",
            {"messages": [user(MARKED)], "system": MARKED, "tools": [{**NAMED, "cache_control": {}}]},
            {"messages": [user(PLAIN)], "system": PLAIN, "tools": [NAMED]},
        ),
        ("Unrecognized request argument supplied: 'strict'", {"tools": [STRICT]}, {"tools": [LOOSE]}),
        ("tools.0.strict: Extra inputs are not permitted", {"tools": [{"strict": True}]}, {"tools": [{}]}),
        ("'tools' must not be an empty array", {"tools": []}, {}),
        ("[] is too short - 'tools': at least 1 item is required", {"tools": []}, {}),
        ("tool_choice is only allowed when tools are specified", {"tool_choice": "auto"}, {}),
        (
            "messages.1.content: Input should be a valid string",
            {"messages": [CALLING]},
            {"messages": [{**CALLING, "content": ""}]},
        ),
        (
            "assistant message content must not be empty",
            {"messages": [{**CALLING, "content": ""}, {"role": "assistant", "content": "b"}]},
            {"messages": [{"role": "assistant", "tool_calls": [CALL]}, {"role": "assistant", "content": "b"}]},
        ),
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            {"messages": [user("a"), user("b"), user(PLAIN), CALLING, user("c")]},
            {"messages": [user([{"type": "text", "text": "a\n\nb"}, *PLAIN]), CALLING, user("c")]},
        ),
        (
            "tools.0.eager_input_streaming: Extra inputs",
            {"tools": [{"eager_input_streaming": True}]},
            {"tools": [{}]},
        ),
        ("Unknown parameter: 'store'.", {"store": False, "model": "m"}, {"model": "m"}),
        ("property 'stream_options' is unsupported", {"stream_options": {}}, {}),
    ],
)
def test_a_body_is_made_without_what_was_refused(
    text: str, before: Mapping[str, object], after: Mapping[str, object]
) -> None:
    adapted = without(json.dumps(before).encode(), refused_names(text))

    assert adapted is not None
    assert json.loads(adapted) == after


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("Invalid API key", {"tools": [], "messages": [CALLING]}),
        ("'tools' must not be an empty array", {"tools": [NAMED]}),
        ("cache_control is not supported", {"messages": [user(PLAIN)]}),
        ("We could not store the file", {"store": False}),
        ("This is a strict limit", {"tools": [STRICT]}),
        ("roles must alternate", {"messages": [user("a"), CALLING, user("b")]}),
    ],
)
def test_other_refusals_leave_a_body_alone(text: str, body: Mapping[str, object]) -> None:
    names = refused_names(text)

    assert not names or without(json.dumps(body).encode(), names) is None


def test_messages_of_the_user_are_joined_in_their_order() -> None:
    assert merged_users([user("a"), user("b"), CALLING, user("c"), user("d"), user("e")]) == [
        user("a\n\nb"),
        CALLING,
        user("c\n\nd\n\ne"),
    ]


# Against a server

PROVIDERS: Mapping[str, Provider] = {
    "openai-completions": OpenAICompletionsProvider(),
    "openai-responses": OpenAIResponsesProvider(),
    "anthropic-messages": AnthropicMessagesProvider(),
}


def asked(text: str) -> UserMessage:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}


async def ask(model: Model, messages: Sequence[Message] = (), session: str = "s1") -> AssistantMessage:
    tool = ToolSpec("bash", "Runs.", {"type": "object"})
    request = LlmRequest(model, "Be brief.", messages or (asked("hi"),), (tool,), "off", "k", {}, session)
    builder = MessageBuilder(model, Recorder(), 0)
    try:
        await PROVIDERS[model["api"]].stream(request, builder)
    finally:
        await close_clients()
    return builder.message


def refusal(text: str, status: int = 400) -> dict[str, object]:
    return {"error": {"status": status, "message": text}}


REFUSALS = {
    "openai-completions": (
        "Unrecognized request argument supplied: 'strict'",
        {"supportsStrictMode": True},
        '"strict"',
    ),
    "openai-responses": ("Unknown parameter: 'tools[0].strict'.", {}, '"strict"'),
    "anthropic-messages": ("system.0.cache_control: Extra inputs are not permitted", {}, '"cache_control"'),
}


@pytest.mark.parametrize("api", REFUSALS)
async def test_a_server_is_asked_once_without_what_it_refuses_and_never_sent_it_again(api: str) -> None:
    """R-LLM-06: in this session; another session asks for itself."""
    text, compat, part = REFUSALS[api]
    script: list[Mapping[str, object]] = [
        refusal(text),
        {"text": "one"},
        {"text": "two"},
        refusal(text),
        {"text": "three"},
    ]
    with FakeLlm(script) as llm:
        base_url = llm.base_url if api == "anthropic-messages" else f"{llm.base_url}/v1"
        model = served_model(api=api, baseUrl=base_url, cost=prices(1, 2), compat=compat)
        answers = [await ask(model), await ask(model), await ask(model, session="s2")]
        sent = [part in json.dumps(request.body) for request in llm.requests]

    assert [answer["stopReason"] for answer in answers] == ["stop"] * 3
    assert sent == [True, False, False, True, False]


async def test_a_part_that_is_refused_again_is_an_error() -> None:
    text = "Unrecognized request argument supplied: 'strict'"
    with FakeLlm([{**refusal(text), "repeat": -1}]) as llm:
        model = served_model(baseUrl=f"{llm.base_url}/v1", cost=prices(1, 2), compat={"supportsStrictMode": True})
        answer = await ask(model)
        assert len(llm.requests) == 2

    assert text in answer.get("errorMessage", "")


async def test_user_messages_in_a_row_are_one_where_the_model_wants_it() -> None:
    with FakeLlm([{"text": "a"}]) as llm:
        compat = {"requiresAlternatingRoles": True}
        model = served_model(baseUrl=f"{llm.base_url}/v1", cost=prices(1, 2), compat=compat)
        await ask(model, (asked("a"), asked("b")))
        messages = llm.requests[0].body["messages"]

    assert messages == [
        {"role": "system", "content": "Be brief."},
        user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    ]


# Signatures


GOOGLE = {"extra_content": {"google": {"thought_signature": "AAEC"}}}
LITELLM = {"provider_specific_fields": {"thought_signature": "AAEC"}}


def called(index: int, name: str, arguments: str, **beside: object) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function, **beside}]}


def read(*deltas: Mapping[str, object]) -> tuple[Model, AssistantMessage]:
    model = served_model(cost=prices(1, 2))
    builder = MessageBuilder(model, Recorder(), 0)
    builder.start()
    reader = ChunkReader(builder, compat_of(model), FailureTexts(Secrets("sk-secret-key")))
    for delta in [*deltas, {}]:
        chunk = {"choices": [{"delta": delta, "finish_reason": None if delta else "stop"}]}
        reader.read(SseEvent(b"", json.dumps(chunk).encode()))
    reader.finish()
    return model, builder.message


@pytest.mark.parametrize("fields", [GOOGLE, LITELLM], ids=["google", "litellm"])
def test_a_signature_of_gemini_is_sent_back_beside_its_call(fields: Mapping[str, object]) -> None:
    """Without it Google refuses the whole history."""
    model, message = read(called(0, "bash", "{}", **fields), called(1, "bash", "{}"))
    (wire, *_) = wire_messages("", [message], model, compat_of(model))

    first, second = as_array(wire["tool_calls"])
    assert {**CALL, "id": "c0", **fields} == first
    assert {**CALL, "id": "c1"} == second
    assert "reasoning_details" not in wire


def test_a_signature_of_a_text_is_sent_back_beside_it() -> None:
    model, message = read({"content": "a"}, {"content": "", **GOOGLE})

    assert wire_messages("", [message], model, compat_of(model)) == [{"role": "assistant", "content": "a", **GOOGLE}]


def test_a_signature_is_not_sent_to_another_model() -> None:
    model, message = read(called(0, "bash", "{}", **GOOGLE))
    other: Model = {**model, "id": "m2"}

    assert "AAEC" not in json.dumps(wire_messages("", [message], other, compat_of(other)))


def test_other_fields_beside_a_call_are_not_kept() -> None:
    _, message = read(called(0, "bash", "{}", extra_content={"google": {"other": 1}}, provider_specific_fields=None))

    assert "thoughtSignature" not in message["content"][0]
