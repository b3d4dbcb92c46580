"""What is sent to pi's gateway and read from it, as the original does both, for tables of conversations and of answers.

What release 1.5.2 sent and read is kept in tests/data, so that this runs without it. Where it is present it must still
do that. To record anew, delete the files and run this with the original.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

import pytest
from tests.agent.llm.conversations import BASH, READ, conversations
from tests.agent.llm.original_providers import ProviderCase, ask_original, built_in, level_of
from tests.agent.llm.original_requests import Answer, read_by_original
from tests.agent.llm.recording import Recorder
from tests.agent.samples import user
from tests.recorded import Record, RecordedList

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.pi_messages.request import http_request, request_body
from pinnace_agent.llm.pi_messages.stream import EventReader
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.exchange import StreamBroken
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import THINKING_LEVELS

SENT: Final = RecordedList("pi-messages-requests")
READ_BACK: Final = RecordedList("pi-messages-answers")
MODEL: Final = built_in("radius", "balanced")
ENV: Final = {"RADIUS_API_KEY": "key"}
CASES: Final = [
    *(
        ProviderCase(name, MODEL, messages, ENV, "high", (BASH, READ))
        for name, messages in conversations(MODEL, ("call_1", "call_2"), "c2ln").items()
    ),
    *(ProviderCase(f"level {level}", MODEL, [user("hi")], ENV, level) for level in THINKING_LEVELS),
    ProviderCase("strict tools", MODEL, [user("hi")], ENV, tools=(BASH._replace(prefers_strict=True), READ)),
    ProviderCase("kept for long", MODEL, [user("hi")], {**ENV, "PI_CACHE_RETENTION": "long"}),
    ProviderCase("not kept", MODEL, [user("hi")], {**ENV, "PI_CACHE_RETENTION": "none"}),
    ProviderCase(
        "a login",
        MODEL,
        [user("hi")],
        {},
        auth={"type": "oauth", "access": "token", "refresh": "r", "expires": 4_000_000_000_000},
        key="token",
    ),
]
USAGE: Final = {
    "input": 10,
    "output": 5,
    "cacheRead": 3,
    "cacheWrite": 2,
    "totalTokens": 20,
    "reasoning": 4,
    "cost": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "total": 10},
}
START: Final[dict[str, Any]] = {"type": "start"}
DONE: Final[dict[str, Any]] = {"type": "done", "reason": "stop", "usage": USAGE, "responseId": "r1"}
TEXT: Final[list[dict[str, Any]]] = [
    {"type": "text_start", "contentIndex": 0},
    {"type": "text_delta", "contentIndex": 0, "delta": "H"},
    {"type": "text_delta", "contentIndex": 0, "delta": "é 𝄞"},
    {"type": "text_end", "contentIndex": 0, "content": "Hé 𝄞", "contentSignature": "sig"},
]
THOUGHT: Final[list[dict[str, Any]]] = [
    {"type": "thinking_start", "contentIndex": 0},
    {"type": "thinking_delta", "contentIndex": 0, "delta": "hm"},
    {"type": "thinking_end", "contentIndex": 0, "content": "hm", "contentSignature": "c2ln"},
]
CALL: Final[list[dict[str, Any]]] = [
    {"type": "toolcall_start", "contentIndex": 1, "id": "c1", "toolName": "bash"},
    {"type": "toolcall_delta", "contentIndex": 1, "delta": '{"command":'},
    {"type": "toolcall_delta", "contentIndex": 1, "delta": '"ls"}'},
    {
        "type": "toolcall_end",
        "contentIndex": 1,
        "toolCall": {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
    },
]


def without_deltas(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if not event["type"].endswith("_delta")]


ANSWERS: Final[dict[str, list[dict[str, Any]]]] = {
    "a text": [START, *TEXT, DONE],
    "a thought and a call": [START, *THOUGHT, *CALL, {**DONE, "reason": "toolUse"}],
    "ends without deltas": [START, *without_deltas([*THOUGHT, *CALL]), {**DONE, "reason": "toolUse"}],
    "a redacted thought": [
        THOUGHT[0],
        {"type": "thinking_end", "contentIndex": 0, "content": "", "contentSignature": "x", "redacted": True},
        {"type": "text_start", "contentIndex": 1},
        {"type": "text_end", "contentIndex": 1, "content": "a"},
        DONE,
    ],
    "a call that is signed": [
        THOUGHT[0],
        THOUGHT[2],
        *CALL[:3],
        {**CALL[3], "toolCall": {**CALL[3]["toolCall"], "thoughtSignature": "ts"}},
        {**DONE, "reason": "toolUse"},
    ],
    "cut for its length": [*TEXT, {**DONE, "reason": "length"}],
    "an error": [*TEXT, {"type": "error", "reason": "error", "usage": USAGE, "errorMessage": "429 slow down"}],
    "no last event": [*TEXT],
    "a place that is none": [{"type": "text_start", "contentIndex": 3}, DONE],
    "a place without a block": [{"type": "text_delta", "contentIndex": 0, "delta": "a"}, DONE],
    "a place that is no number": [{"type": "text_start", "contentIndex": "0"}, DONE],
    "events of other types": [START, {"type": "ping"}, {"type": "new_thing", "x": 1}, *TEXT, DONE],
}


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    SENT.check(ask_original(original_pi, CASES))


def test_the_original_still_reads_what_is_recorded(original_pi: list[str]) -> None:
    asked = read_by_original(original_pi, [Answer(MODEL, body_of(events)) for events in ANSWERS.values()])
    READ_BACK.check([{"case": name, **answer} for name, answer in zip(ANSWERS, asked, strict=True)])


def body_of(events: Iterable[dict[str, Any]]) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: ProviderCase) -> None:
    (theirs,) = (each for each in SENT.read() if each["case"] == case.name)
    request = LlmRequest(MODEL, "Be brief.", case.messages, case.tools, level_of(case), case.key, {}, "s1")
    with surrounded_by(Surroundings(dict(case.variables))):
        http = http_request(request)
    headers = {name: value for name, value in theirs["headers"].items() if name != "user-agent"}

    assert http.url == theirs["url"]
    assert {name.lower(): value for name, value in http.headers.items()} == headers
    assert json.loads(http.body) == theirs["body"]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_same_is_read_as_by_the_original(name: str) -> None:
    (theirs,) = (each for each in READ_BACK.read() if each["case"] == name)
    ours = read(ANSWERS[name])
    failed = theirs["stopReason"] == "error"

    assert ours["stopReason"] == theirs["stopReason"]
    if failed:  # the words of an error are each program's own, but for those of the gateway
        assert ours["errorMessage"] == theirs["errorMessage"] or name != "an error"
    if not failed or name == "an error":
        assert ours["content"] == [without_nothing(block) for block in theirs["content"]]
        assert {**ours["usage"], "cost": None} == {**theirs["usage"], "cost": None}
        assert ours["usage"]["cost"]["total"] == 10


def without_nothing(block: Record) -> Record:
    return {name: value for name, value in block.items() if value is not None}


def read(events: Iterable[dict[str, Any]]) -> Any:
    builder = MessageBuilder(MODEL, Recorder(), 0)
    builder.start()
    reader = EventReader(builder, FailureTexts(Secrets()))
    try:
        for event in events:
            if reader.read(SseEvent(b"", json.dumps(event).encode())):
                break
        reader.finish()
    except StreamBroken as error:
        builder.fail(str(error))
    return builder.message


def test_messages_of_the_agents_own_become_those_of_the_user() -> None:
    """As pi makes them; what the context excludes is left out, and no call has what this program adds to it."""
    bash: Any = {
        "role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0, "cancelled": False, "truncated": False,
        "timestamp": 1,
    }  # fmt: skip
    custom: Any = {"role": "custom", "customType": "x", "content": "mine", "display": True, "timestamp": 2}
    summary: Any = {"role": "compactionSummary", "summary": "before", "tokensBefore": 1, "timestamp": 3}
    call: Any = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}, "argumentsError": "bad"}
    answer: Any = {"role": "assistant", "content": [call, {"type": "text", "text": "a"}], "stopReason": "toolUse"}
    messages: list[Any] = [bash, {**bash, "excludeFromContext": True}, custom, summary, answer]
    body: Any = request_body(LlmRequest(MODEL, "", messages, (), "off", "key", {}, ""))
    first, second, third, last = body["context"]["messages"]

    assert body["options"] == {}
    assert {each["role"] for each in (first, second, third)} == {"user"}
    assert "Ran `ls`" in first["content"][0]["text"]
    assert second == {"role": "user", "content": [{"type": "text", "text": "mine"}], "timestamp": 2}
    assert "before" in third["content"][0]["text"]
    assert last["content"][0] == {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}


def test_control_characters_are_not_sent() -> None:
    """R-TOL-11."""
    call: Any = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"a": "\x00"}, "argumentsError": "bad"}
    answer: Any = {"role": "assistant", "content": [call, {"type": "text", "text": "a\x00"}], "stopReason": "toolUse"}
    body: Any = request_body(LlmRequest(MODEL, "", [user("\x00b"), answer], (), "off", "key", {}, ""))

    assert "\\u0000" not in json.dumps(body["context"])
    assert "argumentsError" not in json.dumps(body)


def test_a_limit_of_the_output_is_sent() -> None:
    body: Any = request_body(LlmRequest(MODEL, "", [user("a")], (), "off", "key", {}, "", max_tokens=7))

    assert body["options"] == {"maxTokens": 7}


@pytest.mark.parametrize("odd", [None, [], {"input": "x", "cost": 3}, {"cost": {"total": -1}}])
def test_odd_usage_counts_as_none(odd: object) -> None:
    message = read([START, *TEXT, {**DONE, "usage": odd}])

    assert message["stopReason"] == "stop"
    assert message["usage"]["totalTokens"] == 0
    assert message["usage"]["cost"]["total"] == 0


def test_arguments_at_the_end_of_a_call_take_the_place_of_those_before() -> None:
    """They are executed."""
    other = {**CALL[3], "toolCall": {**CALL[3]["toolCall"], "arguments": {"command": "pwd"}}}
    message = read([*THOUGHT, *CALL[:3], other, {**DONE, "reason": "toolUse"}])

    assert message["content"][1]["arguments"] == {"command": "pwd"}


@pytest.mark.parametrize("data", [b"{", b'{"type": "text_start", "contentIndex": 0', b"\xff"])
def test_an_event_that_is_no_json_is_an_error(data: bytes) -> None:
    builder = MessageBuilder(MODEL, Recorder(), 0)
    builder.start()
    with pytest.raises(StreamBroken, match="invalid JSON"):
        EventReader(builder, FailureTexts(Secrets())).read(SseEvent(b"", data))
