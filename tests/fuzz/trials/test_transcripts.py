"""Transcripts: what is replaced, what corresponds, what differs."""

import json
from typing import Any

from pinnace_fuzz.trials.transcripts import Normaliser, compare, record_kind

UUID_A = "0191f3c2-8b6a-7e1c-9d4e-0123456789ab"
UUID_B = "0191f3c2-8b6a-7e1c-9d4e-0123456789ac"


def normal(*records: dict[str, Any], paths: dict[str, str] | None = None) -> list[Any]:
    normaliser = Normaliser(paths)
    return [normaliser.record(record) for record in records]


def test_ids_are_numbered_so_that_references_stay_visible() -> None:
    entries = [{"id": "a1b2c3d4", "parentId": None}, {"id": "00ff00ff", "parentId": "a1b2c3d4"}]
    found = normal({"sessionId": UUID_A, "entries": entries}, {"text": f"{UUID_B} after {UUID_A}"})

    assert found == [
        {
            "sessionId": "<UUID1>",
            "entries": [{"id": "<ENTRY1>", "parentId": None}, {"id": "<ENTRY2>", "parentId": "<ENTRY1>"}],
        },
        {"text": "<UUID2> after <UUID1>"},
    ]


def test_times_ports_and_paths_are_replaced() -> None:
    record = {
        "timestamp": 1_700_000_000_123,
        "when": "at 2025-01-02T03:04:05.678Z.",
        "baseUrl": "http://127.0.0.1:45321/v1",
        "cwd": "/tmp/x1/work/src",
        "file": "/tmp/x1/sessions/--tmp-x1-work--/2025-01-02T03-04-05-678Z_a.jsonl",
        "log": "/tmp/x1/pi-bash-0123456789abcdef.log",
    }
    assert normal(record, paths={"/tmp/x1": "<TMP>", "/tmp/x1/work": "<WORK>"}) == [
        {
            "timestamp": "<TIME>",
            "when": "at <ISO>.",
            "baseUrl": "http://127.0.0.1:<PORT>/v1",
            "cwd": "<WORK>/src",
            "file": "<TMP>/sessions/--<WORK>--/<ISO>_a.jsonl",
            "log": "<TMP>/pi-bash-<HEX>.log",
        }
    ]


def test_what_says_something_stays() -> None:
    record = {"id": "req-1", "n": 12345678, "ok": True, "none": None, "text": "deadbeef", "timestamp": "x"}

    assert normal(record) == [record]
    assert normal(record) != [{**record, "id": "req-2"}]


def test_long_texts_become_their_digest() -> None:
    (one,), (other,) = normal({"text": "x" * 5000}), normal({"text": "x" * 4999 + "y"})

    assert len(one["text"]) < 120
    assert "LEN=5000" in one["text"]
    assert one != other


def test_the_given_record_is_not_changed() -> None:
    record = {"a": [{"timestamp": 1}]}
    normal(record)

    assert record == {"a": [{"timestamp": 1}]}


def test_equal_transcripts_agree() -> None:
    response: dict[str, Any] = {"type": "response", "id": "1", "data": {"a": [1, {}], "b": []}}
    transcript: list[dict[str, Any]] = [{"type": "agent_start"}, response]
    comparison = compare(transcript, json.loads(json.dumps(transcript)))

    assert comparison.agreement == 1
    assert comparison.differences == []
    assert compare([], []).agreement == 1


def test_a_different_field_is_named_with_both_values() -> None:
    first: list[dict[str, Any]] = [{"type": "turn_end", "n": 1, "same": "x"}]
    comparison = compare(first, [{"type": "turn_end", "n": True, "same": "x", "more": 2}])

    assert comparison.differences == [
        "#0 turn_end: .n: 1 / true",
        "#0 turn_end: .more: none / 2",
    ]
    assert comparison.agreement == 0.5


def test_records_are_aligned_by_kind() -> None:
    first: list[dict[str, Any]] = [{"type": "agent_start"}, {"type": "turn_start"}, {"type": "agent_end"}]
    comparison = compare(first, [{"type": "agent_start"}, {"type": "extra"}, *first[1:]])

    assert comparison.differences == ['#1 only in the second: {"type": "extra"}']
    assert comparison.agreement == 0.75


def test_kinds_distinguish_what_can_stand_in_the_same_place() -> None:
    records: list[dict[str, Any]] = [
        {"type": "response", "command": "bash", "id": "1"},
        {"type": "response", "command": "bash", "id": "2"},
        {"type": "message_end", "message": {"role": "user"}},
        {"type": "message_end", "message": {"role": "assistant"}},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_end"}},
        {"type": "message_update"},
        {"type": "tool_execution_end", "toolCallId": "a"},
        {"type": "tool_execution_end", "toolCallId": "b"},
        {"type": "extension_ui_request", "method": "confirm"},
        {},
    ]
    assert len({record_kind(record) for record in records}) == len(records)
