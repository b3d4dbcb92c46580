"""The judge of session files: what programs write passes, and every fault is found."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_spec.records.entries import CURRENT_VERSION, ENTRY_TYPES, SessionHeader
from pinnace_spec.session_format import STORED_ROLES, Header, KnownEntry, StoredMessage, validate_session
from pinnace_spec.wire.json_text import encode_record

# The edge of JSON: examples are changed at any place.
Json = Any

TIME = "2026-01-02T03:04:05.678Z"
HEADER: Json = {
    "type": "session",
    "version": 3,
    "id": "0198f-a",
    "timestamp": TIME,
    "cwd": "/w",
    "parentSession": "/old.jsonl",
}
TEXT: Json = [{"type": "text", "text": "hello"}]
USAGE: Json = {
    "input": 1,
    "output": 2,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 3,
    "cost": {"input": 0.5, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5},
}
ASSISTANT: Json = {
    "role": "assistant",
    "content": TEXT,
    "api": "a",
    "provider": "p",
    "model": "m",
    "usage": USAGE,
    "stopReason": "stop",
    "timestamp": 2,
}
MESSAGES: list[Json] = [
    {"role": "user", "content": TEXT, "timestamp": 1},
    {"role": "user", "content": "a text", "timestamp": 1},
    ASSISTANT,
    {"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": TEXT, "isError": False, "timestamp": 3},
    {"role": "bashExecution", "command": "ls", "output": "", "cancelled": False, "truncated": False, "timestamp": 4},
    {"role": "custom", "customType": "c", "content": "x", "display": True, "timestamp": 5},
    {"role": "system", "content": "", "sections": {"a": "b", "c": None}, "toolsAdded": [{}], "timestamp": 6},
]
# Every type of entry with every field that it may have; a field that names an entry names the first.
ENTRIES: list[Json] = [
    *[{"type": "message", "message": message} for message in MESSAGES],
    {"type": "model_change", "provider": "p", "modelId": "m"},
    {"type": "thinking_level_change", "thinkingLevel": "off"},
    {"type": "compaction", "summary": "s", "firstKeptEntryId": "e0", "tokensBefore": 9, "details": {}, "fromHook": True}
    | {"usage": USAGE, "systemMessage": {"role": "system"}},
    {"type": "branch_summary", "fromId": "root", "summary": "s", "details": [], "fromHook": False, "usage": USAGE},
    {"type": "custom", "customType": "c", "data": None},
    {"type": "custom_message", "customType": "c", "content": TEXT, "display": False, "details": 5},
    {"type": "label", "targetId": "e0", "label": "here"},
    {"type": "session_info", "name": "n"},
    {"type": "context_edit", "targetId": "e0", "replacement": {"content": "x"}},
    {"type": "usage", "kind": "cache_warm", "provider": "p", "model": "m", "usage": USAGE, "note": "n"},
]
# By the object's type; a message has none.
OPTIONAL = {
    *[("session", "parentSession"), ("label", "label"), ("session_info", "name"), ("custom", "data")],
    *[("compaction", field) for field in ("details", "fromHook", "usage", "systemMessage")],
    *[("branch_summary", field) for field in ("details", "fromHook", "usage")],
    *[("custom_message", "details"), ("usage", "note"), (None, "sections"), (None, "toolsAdded")],
}


def lines() -> list[Json]:
    """Return a new valid session with everything in it."""
    linked = [
        {"type": entry["type"], "id": f"e{n}", "parentId": f"e{n - 1}" if n else None, "timestamp": TIME, **entry}
        for n, entry in enumerate(ENTRIES)
    ]
    return copy.deepcopy([HEADER, *linked])


def written(records: list[Json]) -> bytes:
    return b"".join(map(encode_record, records))


def problems(records: list[Json], *, is_closed: bool = True) -> list[str]:
    return validate_session(written(records), is_closed=is_closed)


def objects(value: Json) -> Iterator[Json]:
    """Give every object whose fields the format fixes."""
    if isinstance(value, dict):
        yield value
        for key, member in value.items():
            if key not in {"details", "systemMessage", "sections", "toolsAdded", "replacement"}:
                yield from objects(member)
    elif isinstance(value, list):
        for member in value:
            yield from objects(member)


EVERYWHERE = [(line, place) for line, record in enumerate(lines()) for place, _ in enumerate(objects(record))]


def at(records: list[Json], line: int, place: int) -> Json:
    return list(objects(records[line]))[place]


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_session_with_everything_in_it_is_valid(is_closed: bool) -> None:
    assert problems(lines(), is_closed=is_closed) == []


def test_every_type_and_role_stands_in_the_examples_and_has_a_model() -> None:
    models = get_args(get_args(KnownEntry)[0])
    modelled = [get_args(get_type_hints(model)["type"])[0] for model in models]
    assert sorted(modelled) == sorted(ENTRY_TYPES)
    assert {entry["type"] for entry in ENTRIES} == set(ENTRY_TYPES)
    roles = [get_args(get_type_hints(model)["role"])[0] for model in get_args(get_args(StoredMessage)[0])]
    assert sorted(roles) == sorted(STORED_ROLES)
    assert {message["role"] for message in MESSAGES} == set(STORED_ROLES)


def test_the_header_is_the_one_that_is_written() -> None:
    assert get_type_hints(SessionHeader).keys() == get_type_hints(Header).keys()
    assert get_args(get_type_hints(Header)["version"]) == (CURRENT_VERSION,)


@pytest.mark.parametrize(("line", "place"), EVERYWHERE)
def test_an_unknown_field_is_a_fault_of_ours_only(line: int, place: int) -> None:
    records = lines()
    at(records, line, place)["unheard"] = 1
    assert any("unheard" in problem for problem in problems(records))
    assert problems(records, is_closed=False) == []


@pytest.mark.parametrize(("line", "place"), EVERYWHERE)
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_required_field_that_lacks_is_found(line: int, place: int, is_closed: bool) -> None:
    for field in at(lines(), line, place):
        if (at(lines(), line, place).get("type"), field) not in OPTIONAL:
            records = lines()
            del at(records, line, place)[field]
            assert problems(records, is_closed=is_closed), (field, records[line])


@pytest.mark.parametrize(("line", "place"), EVERYWHERE)
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_value_of_the_wrong_kind_is_found(line: int, place: int, is_closed: bool) -> None:
    for field in at(lines(), line, place):
        if field not in {"details", "data"}:
            records = lines()
            at(records, line, place)[field] = {"wrong": []} if field != "systemMessage" else 5
            assert problems(records, is_closed=is_closed), (field, records[line])


@pytest.mark.parametrize("is_closed", [True, False])
def test_types_and_roles_that_are_unknown_are_a_fault_of_ours_only(is_closed: bool) -> None:
    later = {"id": "x", "parentId": "e0", "timestamp": TIME}
    for entry in ({"type": "unheard"}, {"type": "message", "message": {"role": "unheard"}}):
        assert bool(problems([*lines(), {**entry, **later}], is_closed=is_closed)) is is_closed
    assert problems([*lines(), {"type": "unheard", "id": "x"}], is_closed=is_closed)


def test_an_end_that_only_newer_programs_store_is_a_fault_of_ours_only() -> None:
    records = lines()
    records[3]["message"]["stopReason"] = "deferred"
    assert problems(records, is_closed=False) == []
    assert len(problems(records)) == 1
    records[3]["message"]["stopReason"] = "pending"
    assert len(problems(records, is_closed=False)) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("version", version) for version in (2, 4, "3", None, 3.5)],
        *[("id", session_id) for session_id in ("", "a/b", "-a", "a\n", None)],
        *[("timestamp", time) for time in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678", TIME + "\n", 5, "")],
        *[("cwd", None), ("parentSession", None), ("parentSession", ""), ("type", "sessions")],
    ],
)
def test_a_header_that_is_wrong_is_found(field: str, value: Json) -> None:
    records = lines()
    records[0][field] = value
    (problem,) = problems(records, is_closed=False)
    assert problem.startswith("line 1: ")


def test_ids_and_parents_have_to_hang_together() -> None:
    records = lines()
    records[4]["id"] = "e0"
    assert problems(records) == ["line 5: id: 'e0' is taken", "line 6: parentId: no entry before it has the id 'e3'"]
    records = lines()
    records[2]["parentId"] = "e2"
    assert problems(records) == ["line 3: parentId: no entry before it has the id 'e2'"]
    records[2]["parentId"] = "e1"
    assert problems(records) == ["line 3: parentId: no entry before it has the id 'e1'"]


@pytest.mark.parametrize(("kind", "field"), [("label", "targetId"), ("context_edit", "targetId")])
def test_what_an_entry_is_about_has_to_be_there(kind: str, field: str) -> None:
    records = lines()
    entry = next(record for record in records if record["type"] == kind)
    entry[field] = "gone"
    assert len(problems(records)) == 1


def test_a_compaction_may_keep_nothing_but_itself() -> None:
    records = lines()
    compaction = next(record for record in records if record["type"] == "compaction")
    compaction["firstKeptEntryId"] = compaction["id"]
    assert problems(records) == []
    compaction["firstKeptEntryId"] = "gone"
    assert len(problems(records)) == 1


def test_lines_have_to_be_lines() -> None:
    data = written(lines())
    assert validate_session(b"") == ["the file is empty"]
    assert validate_session(data[:-1]) == ["the last line has no end"]
    assert validate_session(data.replace(b"\n", b"\r\n", 1)) == ["line 1: ends in CR LF"]
    assert len(validate_session(b"\xef\xbb\xbf" + data)) == 1
    first, second = data.split(b"\n")[:2]
    assert len(validate_session(first + b"\n\n" + second + b"\n")) == 1
    assert len(validate_session(data + b"broken\n")) == 1
    assert validate_session(data + b"[]\n") == [f"line {len(ENTRIES) + 2}: not an object"]
    assert validate_session(data + first + b"\n") == [f"line {len(ENTRIES) + 2}: a second header"]
    assert validate_session(second + b"\n")[0] == "line 1: the first line is no header"


@pytest.mark.peer
@pytest.mark.slow
def test_what_the_original_writes_is_valid(original_pi: list[str], tmp_path: Path) -> None:
    call = {"name": "bash", "args": {"command": "echo hello"}}
    answers: list[Json] = [{"tool_calls": [call]}, {"reasoning": "hm", "text": ["do", "ne"]}, {"text": ["again"]}]
    with AgentStarter(original_pi, tmp_path) as starter:
        running = starter(answers, has_session=True)
        for number in range(2):
            assert running.request({"type": "prompt", "message": f"go {number}"})["success"]
            running.wait({"type": "agent_settled"})
        assert running.request({"type": "set_session_name", "name": "a name"})["success"]
        state = running.request({"type": "get_state"})
        data = Path(state["data"]["sessionFile"]).read_bytes()
    assert validate_session(data) == []
    assert data.count(b"\n") > 8
