"""Messages from files of other programs, other years and failing disks: whole in the end, or left out."""

import copy
from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, TypeAdapter
from tests.agent.samples import sample_model

from pinnace_agent.llm.context import provider_messages
from pinnace_agent.session.store.message_repair import whole_message
from pinnace_spec.records.messages import zero_usage
from pinnace_spec.records.output_model import AnyMessage

TIME = "2026-01-02T03:04:05.678Z"
TIME_MS = 1767323045678
# Unknown fields are allowed: other programs have more.
CHECK: Final = TypeAdapter[object](AnyMessage | None, config=ConfigDict(strict=True))
MODEL: Final = sample_model(name="", reasoning=True, contextWindow=0, maxTokens=0)
CALL: Final = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls"}}
WHOLE: Final[Mapping[str, Mapping[str, object]]] = {
    "user": {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1},
    "assistant": {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "s", "redacted": False},
            {"type": "text", "text": "hi", "textSignature": "s"},
            CALL,
        ],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": {**zero_usage(), "reasoning": 1},
        "stopReason": "toolUse",
        "timestamp": 1,
        "responseId": "r",
        "thinkingLevel": "high",
        "durationMs": 5,
        "fromAnotherProgram": {"kept": True},
    },
    "toolResult": {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "bash",
        "content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}],
        "details": None,
        "isError": False,
        "timestamp": 1,
        "usage": zero_usage(),
    },
    "bashExecution": {
        "role": "bashExecution",
        "command": "ls",
        "output": "",
        "exitCode": 0,
        "cancelled": False,
        "truncated": False,
        "fullOutputPath": None,
        "timestamp": 1,
    },
    "custom": {"role": "custom", "customType": "t", "content": "hi", "display": True, "timestamp": 1},
    "branchSummary": {"role": "branchSummary", "summary": "s", "fromId": "f", "timestamp": 1},
    "compactionSummary": {"role": "compactionSummary", "summary": "s", "tokensBefore": 1, "timestamp": 1},
}
BARE: Final[Mapping[str, Mapping[str, object]]] = {
    "user": {"content": []},
    "assistant": {
        "content": [],
        "api": "",
        "provider": "",
        "model": "",
        "usage": zero_usage(),
        "stopReason": "stop",
    },
    "toolResult": {"toolCallId": "", "toolName": "", "content": [], "isError": False},
    "bashExecution": {"command": "", "output": "", "cancelled": False, "truncated": False},
    "custom": {"customType": "", "content": [], "display": False},
    "branchSummary": {"summary": "", "fromId": ""},
    "compactionSummary": {"summary": "", "tokensBefore": 0},
}


def repaired(role: str, **changes: object) -> Mapping[str, object]:
    message = whole_message({**WHOLE[role], **changes}, TIME)
    assert message is not None
    return dict(message)


@pytest.mark.parametrize("role", WHOLE)
def test_a_whole_message_is_returned_as_it_is(role: str) -> None:
    assert whole_message(WHOLE[role], TIME) is WHOLE[role]


@pytest.mark.parametrize("role", BARE)
def test_a_message_that_has_only_a_role_becomes_whole(role: str) -> None:
    assert {"role": role, "timestamp": TIME_MS, **BARE[role]} == whole_message({"role": role}, TIME)


@pytest.mark.parametrize(
    ("made_at", "timestamp"),
    [(TIME, TIME_MS), ("2026-01-02T03:04:05", 1767323045000), (5, 5), ("some day", 0), (None, 0), ([], 0)],
)
def test_a_message_without_a_time_has_that_of_its_entry(made_at: object, timestamp: int) -> None:
    message = whole_message({"role": "user", "content": "x", "timestamp": None}, made_at)

    assert {"role": "user", "content": "x", "timestamp": timestamp} == message


def test_a_time_that_is_no_whole_number_is_rounded() -> None:
    assert 1767323045678 == repaired("user", timestamp=1767323045678.9)["timestamp"]


@pytest.mark.parametrize("content", [None, 5, {"type": "text", "text": "x"}, []])
@pytest.mark.parametrize("role", ["user", "assistant", "toolResult", "custom"])
def test_content_that_is_none_is_empty(role: str, content: object) -> None:
    assert [] == repaired(role, content=content)["content"]


@pytest.mark.parametrize("role", ["assistant", "toolResult"])
def test_a_text_becomes_a_block_where_blocks_are_expected(role: str) -> None:
    assert [{"type": "text", "text": "x"}] == repaired(role, content="x")["content"]
    assert [] == repaired(role, content="")["content"]


@pytest.mark.parametrize(
    "block",
    [None, "text", 5, {}, {"type": "text"}, {"type": "text", "text": None}, {"type": ["text"]}, {"type": "video"}],
)
@pytest.mark.parametrize("role", ["user", "assistant", "toolResult", "custom"])
def test_what_is_no_block_is_left_out(role: str, block: object) -> None:
    text = {"type": "text", "text": "kept"}

    content = repaired(role, content=[text, block, text])["content"]

    assert [text, text] == content


def test_blocks_of_other_roles_are_left_out() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}

    assert [image] == repaired("user", content=[CALL, image, {"type": "image", "data": "AAAA"}])["content"]
    assert [CALL] == repaired("assistant", content=[image, CALL])["content"]


def test_whole_blocks_of_a_repaired_message_are_the_same_objects() -> None:
    content = repaired("assistant", content=[CALL, None])["content"]

    assert isinstance(content, list)
    assert content[0] is CALL


def test_a_call_without_arguments_has_none() -> None:
    call = {"type": "toolCall", "name": "ls", "arguments": "ls", "thoughtSignature": None}

    assert [{"type": "toolCall", "id": "", "name": "ls", "arguments": {}}] == repaired("assistant", content=[call])[
        "content"
    ]


def test_a_call_of_no_tool_is_left_out() -> None:
    assert [] == repaired("assistant", content=[{"type": "toolCall", "id": "c", "arguments": {}}])["content"]


def test_a_thought_keeps_its_signature_without_words() -> None:
    thought = {"type": "thinking", "thinkingSignature": "s", "redacted": 1}

    assert [{**thought, "thinking": "", "redacted": True}] == repaired("assistant", content=[thought])["content"]


@pytest.mark.parametrize("usage", [None, 5, {}, {"input": "5", "output": None, "cost": 5}, {"cost": {"total": "free"}}])
def test_usage_without_numbers_is_zero(usage: object) -> None:
    assert zero_usage() == repaired("assistant", usage=usage)["usage"]


def test_numbers_of_a_usage_that_can_be_read_stay() -> None:
    usage = {"input": 5.0, "output": 7, "reasoning": None, "cost": {"total": 0.5, "totalFromProvider": False}}

    expected = zero_usage()
    expected["input"], expected["output"], expected["cost"]["total"] = 5, 7, 0.5
    assert {**expected, "cost": {**expected["cost"], "totalFromProvider": False}} == repaired("assistant", usage=usage)[
        "usage"
    ]


def test_a_result_with_a_usage_that_is_none_has_none() -> None:
    assert "usage" not in repaired("toolResult", usage=None)


@pytest.mark.parametrize("stop_reason", ["deferred", "pending", "", None, 5, ["stop"]])
def test_an_unknown_end_is_an_end(stop_reason: object) -> None:
    assert "stop" == repaired("assistant", stopReason=stop_reason)["stopReason"]


@pytest.mark.parametrize("level", ["turbo", None, 5, []])
def test_an_unknown_level_is_left_out(level: object) -> None:
    assert "thinkingLevel" not in repaired("assistant", thinkingLevel=level)


@pytest.mark.parametrize(("given_flag", "flag"), [(1, True), ("yes", True), (None, False), (0, False), ("", False)])
def test_a_flag_is_what_it_means(given_flag: object, flag: bool) -> None:
    assert flag == repaired("toolResult", isError=given_flag)["isError"]
    assert flag == repaired("bashExecution", excludeFromContext=given_flag).get("excludeFromContext", False)


@pytest.mark.parametrize("name", ["errorMessage", "responseId", "responseModel", "rawStopReason", "durationMs"])
def test_a_field_that_may_be_absent_is_left_out_when_it_is_null(name: str) -> None:
    assert name not in repaired("assistant", **{name: None})


def test_fields_that_are_unknown_stay() -> None:
    assert {"kept": True} == repaired("assistant", stopReason="deferred")["fromAnotherProgram"]


junk = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "text", "stop", [], {}, ["x"]])
BLOCK_FIELDS = (
    *("text", "textSignature", "data", "mimeType", "thinking", "thinkingSignature", "redacted"),
    *("id", "name", "arguments", "argumentsError", "thoughtSignature"),
)
any_block = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "thinking", "toolCall", "video"]) | junk},
    optional=dict.fromkeys(BLOCK_FIELDS, junk),
)
any_usage = st.fixed_dictionaries(
    {}, optional=dict.fromkeys((*zero_usage(), "reasoning", "cacheWrite1h", "total"), junk)
)


@st.composite
def damaged_message(draw: st.DrawFn) -> dict[str, object]:
    """A whole message, or what is left of one, in which fields of any role have become anything."""
    role = draw(st.sampled_from(sorted(WHOLE)))
    names = sorted({name for message in WHOLE.values() for name in message} - {"role"})
    kept = {name: value for name, value in copy.deepcopy(dict(WHOLE[role])).items() if draw(st.booleans())}
    changed = draw(st.dictionaries(st.sampled_from(names), junk, max_size=3))
    special: dict[str, object] = draw(
        st.fixed_dictionaries({}, optional={"content": st.lists(any_block | junk, max_size=3), "usage": any_usage})
    )
    return {**kept, **changed, **special, "role": role}


@given(damaged_message())
def test_whatever_a_message_holds_it_becomes_what_the_protocol_describes(message: dict[str, object]) -> None:
    before = repr(message)

    whole = whole_message(message, TIME)

    CHECK.validate_python(whole)
    assert whole_message(whole, TIME) is whole
    assert before == repr(message)


@given(st.lists(damaged_message(), max_size=4))
def test_whatever_messages_hold_a_provider_can_be_sent_them(messages: list[dict[str, object]]) -> None:
    whole = [message for each in messages if (message := whole_message(each, TIME)) is not None]

    assert len(messages) == len(whole)
    provider_messages(whole, MODEL, str)
