"""Mistral: what no table beside the original holds: ids, the order of updates, refusals, and sessions of others.

The streams are constructed after the published format, never recorded.
"""

import json
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm.conversations import answer, call, result
from tests.agent.llm.recording import RICH, Reading, Recorder
from tests.agent.samples import prices, served_model, text_block, user

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.mistral.messages import CallIds, derived_id, is_acceptable, wire_messages
from pinnace_agent.llm.mistral.provider import MistralProvider
from pinnace_agent.llm.mistral.request import http_request, request_body
from pinnace_agent.llm.mistral.stream import MistralReader
from pinnace_agent.llm.outcomes import OutcomeKind, classify_response
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.llm.transport.exchange import StreamBroken
from pinnace_agent.redaction.secrets import Secrets
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import Message, Model

KEY = "sk-0123456789abcdef"
MODEL: Model = served_model(
    id="mistral-medium-latest",
    api="mistral-conversations",
    provider="mistral",
    reasoning=True,
    thinkingLevelMap={"off": "none", "high": "high"},
    cost=prices(1, 2),
)
ELSEWHERE: Model = {**MODEL, "provider": "elsewhere"}
OWN_ID = "aB3dE6gH9"


class MistralReading(Reading):
    def __init__(self) -> None:
        super().__init__(MODEL)
        self.reader = MistralReader(self.builder, FailureTexts(Secrets(None, {}, "")))

    def delta(self, content: object = "", *calls: Mapping[str, object], reason: str | None = None) -> "MistralReading":
        delta = {"content": content, **({"tool_calls": list(calls)} if calls else {})}
        self.read({"choices": [{"delta": delta, "finish_reason": reason}]})
        return self


def piece(arguments: str, **more: object) -> dict[str, object]:
    return {"function": {"name": "bash", "arguments": arguments}, **more}


# Ids


@given(st.lists(st.text(), unique=True, max_size=20), st.text())
def test_ids_are_acceptable_and_remain_different(call_ids: list[str], other: str) -> None:
    history: list[Message] = [answer(ELSEWHERE, *map(call, call_ids))]
    ids = CallIds(history)
    names = [ids.foreign(call_id) for call_id in call_ids]

    assert len(set(names)) == len(names)
    assert all(map(is_acceptable, [*names, ids.foreign(other)]))
    assert names == [ids.foreign(call_id) for call_id in call_ids]


def test_an_id_that_has_nine_letters_keeps_them() -> None:
    assert [derived_id("call_12345"), derived_id("aB3dE6gH9")] == ["call12345", "aB3dE6gH9"]
    assert derived_id("call_12345", 1) != derived_id("call_12345", 2)


def test_an_id_whose_letters_another_has_gets_another() -> None:
    ids = CallIds([])

    assert ids.foreign("a-bcdefghi") == "abcdefghi"
    assert ids.foreign("ab-cdefghi") != "abcdefghi"
    assert is_acceptable(ids.foreign("ab-cdefghi"))


def sent_ids(*messages: Message) -> list[object]:
    """Return the ids of calls and results, in order."""
    wire = json.dumps(wire_messages("", messages, MODEL))
    return re.findall(r'"(?:id|tool_call_id)": "([^"]*)"', wire)


def test_own_ids_go_back_as_they_came() -> None:
    """A model that Mistral hosts may have others than Mistral's own."""
    assert sent_ids(answer(MODEL, call("chatcmpl-tool-1")), result("chatcmpl-tool-1", "a")) == ["chatcmpl-tool-1"] * 2


@pytest.mark.parametrize("call_id", [OWN_ID, "", "call_x"])
def test_an_id_that_a_session_has_twice_in_an_answer_is_made_two(call_id: str) -> None:
    """Other programs write such sessions; the server refuses them."""
    first, second, *results = sent_ids(
        answer(MODEL, call(call_id), call(call_id)), result(call_id, "a"), result(call_id, "b")
    )

    assert first != second
    assert results == [first, second]
    assert is_acceptable(str(second))
    assert first == call_id or is_acceptable(str(first))


@pytest.mark.parametrize("ids", [{}, {"id": None}, {"id": "null"}, {"id": ""}])
def test_a_call_without_an_id_gets_one(ids: dict[str, object]) -> None:
    message = MistralReading().delta("", piece("{}", index=0, **ids)).delta(reason="tool_calls").finish()
    (found,) = message["content"]

    assert found["type"] == "toolCall"
    assert is_acceptable(found["id"])


def test_two_calls_of_one_id_are_two() -> None:
    reading = MistralReading().delta("", piece("{}", index=0, id=OWN_ID), piece("{}", index=1, id=OWN_ID))
    content = reading.delta(reason="tool_calls").finish()["content"]
    first, second = (block["id"] for block in content if block["type"] == "toolCall")

    assert first == OWN_ID != second
    assert is_acceptable(second)


# Streams


def test_a_block_ends_when_another_kind_begins() -> None:
    reading = MistralReading()
    reading.delta([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]).delta("a").delta("b")
    reading.delta("", piece('{"a"', index=0, id=OWN_ID)).delta("c").delta("", piece(":1}", index=0)).delta("d")
    reading.delta(reason="tool_calls").finish()

    assert reading.recorder.kinds == [
        *("thinking_start", "thinking_delta", "thinking_end", "text_start", "text_delta", "text_delta", "text_end"),
        *("toolcall_start", "toolcall_delta", "text_start", "text_delta", "text_end", "toolcall_delta"),
        *("text_start", "text_delta", "toolcall_end", "text_end"),
    ]


def test_thoughts_are_read_in_every_shape() -> None:
    shapes: list[object] = ["a", ["b"], [{"text": "c"}], None, 5, [None], {"text": "d"}]
    message = MistralReading()
    for shape in shapes:
        message.delta([{"type": "thinking", "thinking": shape}, None, 7, {"type": "thinking"}])

    assert message.delta("x", reason="stop").finish()["content"][0] == {"type": "thinking", "thinking": "abc"}


@pytest.mark.parametrize(
    "event",
    [
        {"object": "error", "message": "no", "type": "t", "code": "3000"},
        {"error": {"message": "no"}},
        {"error": "no"},
    ],
)
def test_an_error_in_the_stream_is_raised(event: object) -> None:
    with pytest.raises(StreamBroken, match=r"^no$"):
        MistralReading().delta("half").read(event)


@pytest.mark.parametrize(("reason", "kind"), [("error", OutcomeKind.TRANSIENT), ("content_filter", OutcomeKind.FATAL)])
def test_only_a_failure_of_the_server_is_tried_again(reason: str, kind: OutcomeKind) -> None:
    message = MistralReading().delta("half", reason=reason).finish()

    assert message["stopReason"] == "error"
    assert classify_response(message, MODEL).kind is kind


# Requests


def request(*messages: Message, base_url: str = "https://api.mistral.ai", **more: object) -> LlmRequest:
    found = LlmRequest({**MODEL, "baseUrl": base_url}, "", messages or (user("hi"),), (), "high", KEY, {}, "s1")
    return found._replace(**more)  # type: ignore[arg-type] # fields of any type


def test_without_a_cache_the_conversation_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PI_CACHE_RETENTION", "none")
    http = http_request(request())

    assert "prompt_cache_key" not in json.loads(http.body)
    assert "x-affinity" not in http.headers


def test_configured_headers_and_parameters_come_last() -> None:
    model: Model = {**MODEL, "samplingParams": {"temperature": 0.1, "max_tokens": 5}}
    asked = request(headers={"X-Affinity": "mine"}, model=model)
    headers = http_request(asked).headers

    assert (headers["X-Affinity"], headers.get("x-affinity")) == ("mine", None)
    assert [request_body(asked, "short")[name] for name in ("temperature", "max_tokens")] == [0.1, 5]


def test_empty_texts_are_left_out() -> None:
    """As by the other APIs; the original sends them."""
    empty: Message = {"role": "user", "content": "", "timestamp": 0}
    messages = wire_messages("", [empty, user(""), user("", "a"), answer(MODEL, text_block(" "))], MODEL)

    assert messages == [{"role": "user", "content": [{"type": "text", "text": "a"}]}]


# Over a connection


async def ask(asked: LlmRequest) -> MessageBuilder:
    builder = MessageBuilder(MODEL, Recorder(), 0)
    try:
        await MistralProvider().stream(asked, builder)
    finally:
        await close_clients()
    assert builder.is_finished
    return builder


async def test_a_conversation_goes_back_under_its_ids() -> None:
    tool = ToolSpec("bash", "Runs.", {"type": "object"})
    with FakeLlm([{**RICH, "gzip": True}, {"text": "done"}]) as llm:
        first = (await ask(request(base_url=llm.base_url, tools=(tool,)))).message
        second = await ask(request(user("hi"), first, result("c1", "ok"), result("c2", "ok"), base_url=llm.base_url))
        requests = llm.requests

    assert (first["stopReason"], second.message["stopReason"]) == ("toolUse", "stop")
    assert [each.path for each in requests] == ["/v1/chat/completions"] * 2
    assert requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert requests[0].headers["x-affinity"] == requests[0].body["prompt_cache_key"] == "s1"
    assert [each["tool_call_id"] for each in requests[1].body["messages"] if each["role"] == "tool"] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, OutcomeKind.FATAL), (422, OutcomeKind.FATAL), (429, OutcomeKind.TRANSIENT), (503, OutcomeKind.TRANSIENT)],
)
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"object": "error", "message": f"no, {KEY}"}, '{{"object":"error","message":"no, [redacted]"}}'),
        ({"detail": [{"loc": ["body"]}]}, '{{"detail":[{{"loc":["body"]}}]}}'),
    ],
)
async def test_a_refusal_shows_the_whole_body_and_is_judged_by_its_status(
    status: int, kind: OutcomeKind, body: object, text: str
) -> None:
    with FakeLlm([{"error": {"status": status, "body": body}}]) as llm:
        builder = await ask(request(base_url=llm.base_url))

    assert builder.message.get("errorMessage") == f"Mistral API error ({status}): {text.format()}"
    assert classify_response(builder.message, MODEL, builder.signs).kind is kind


async def test_a_request_that_is_too_long_is_an_overflow() -> None:
    """In Mistral's words."""
    words = "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"
    with FakeLlm([{"error": {"status": 400, "body": {"object": "error", "message": words}}}]) as llm:
        builder = await ask(request(base_url=llm.base_url))

    assert classify_response(builder.message, MODEL, builder.signs).kind is OutcomeKind.OVERFLOW
