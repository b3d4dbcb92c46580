"""Sessions of the first two versions in memory as sessions of the third."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.store.migration import migrate
from pinnace_agent.session.store.reading import SessionText, read_session
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_spec.records.entries import CURRENT_VERSION, Entry
from pinnace_spec.session_format import validate_session
from pinnace_spec.wire.json_text import encode_record

TIME = "2026-01-02T03:04:05.678Z"
HEADER: Entry = {"type": "session", "id": "s-1", "timestamp": TIME, "cwd": "/w", "provider": "old"}


def line(text: str, role: str = "user") -> Entry:
    message: dict[str, object] = {"role": role, "content": text, "timestamp": 1}
    if role == "hookMessage":
        message |= {"customType": "c", "display": True}
    return {"type": "message", "timestamp": TIME, "message": message}


def compaction(**fields: object) -> Entry:
    return {"type": "compaction", "timestamp": TIME, "summary": "s", "tokensBefore": 7, **fields}


def read(header: Entry, *entries: Entry, keep_raw: bool = False) -> SessionText:
    return read_session(b"".join(map(encode_record, [header, *entries])), keep_raw=keep_raw)


def written(text: SessionText) -> bytes:
    assert text.header is not None
    return b"".join(map(encode_record, [text.header, *text.entries]))


def without_links(entry: Entry) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name not in {"id", "parentId"}}


def test_entries_of_version_1_become_a_chain() -> None:
    text = migrate(read(HEADER, line("one"), line("two"), line("three")))
    ids = [entry["id"] for entry in text.entries]
    assert len(set(ids)) == 3
    assert [entry["parentId"] for entry in text.entries] == [None, *ids[:-1]]
    assert text.header == {**HEADER, "version": CURRENT_VERSION}
    assert text.version == CURRENT_VERSION


def test_nothing_else_in_an_entry_changes() -> None:
    entries = [line("one"), {"type": "unknown", "x": [1]}, compaction(details={"readFiles": []})]
    text = migrate(read(HEADER, *entries))
    assert list(map(without_links, text.entries)) == entries


def test_what_was_migrated_is_a_valid_file() -> None:
    entries = [
        line("one"),
        line("note", "hookMessage"),
        line("two"),
        compaction(firstKeptEntryIndex=3),
        line("three"),
    ]
    assert validate_session(written(migrate(read(HEADER, *entries)))) == []


@given(st.lists(st.text(), max_size=30), st.text() | st.just("half a character: \ud83d"))
def test_two_readings_give_the_same_ids(texts: list[str], session_id: str) -> None:
    data = written(read({**HEADER, "id": session_id}, *map(line, texts)))
    once, again = migrate(read_session(data)), migrate(read_session(data))
    assert once == again
    assert len({str(entry["id"]) for entry in once.entries}) == len(texts)


def test_ids_of_two_sessions_differ() -> None:
    one, other = (migrate(read({**HEADER, "id": name}, *map(line, "abc"))) for name in ("s-1", "s-2"))
    assert {str(entry["id"]) for entry in one.entries}.isdisjoint(str(entry["id"]) for entry in other.entries)


def test_ids_stay_different_in_a_long_session() -> None:
    """With 100,000 ids of 32 bits one meeting is likely; here the session's id is one with two of them."""
    header = {**HEADER, "id": "s-1"}
    text = migrate(read(header, *[line("x")] * 100_000))
    lengths = [len(str(entry["id"])) for entry in text.entries]
    assert len({str(entry["id"]) for entry in text.entries}) == 100_000
    assert set(lengths) == {8, 64}


def test_migrating_twice_changes_nothing() -> None:
    once = migrate(read(HEADER, line("one"), line("note", "hookMessage"), compaction(firstKeptEntryIndex=1)))
    assert migrate(once) is once
    assert migrate(read_session(written(once))).entries == once.entries


@pytest.mark.parametrize("version", [3, 4, "x"])
def test_version_3_and_newer_come_back_as_they_are(version: object) -> None:
    text = read({**HEADER, "version": version}, {**line("a", "hookMessage"), "id": "1", "parentId": "gone"})
    assert migrate(text) is text


def test_the_first_kept_entry_is_named_by_its_id() -> None:
    """Its position counts every line, the header too."""
    text = migrate(read(HEADER, line("one"), line("two"), compaction(firstKeptEntryIndex=2), line("three")))
    kept = text.entries[2]
    assert kept["firstKeptEntryId"] == text.entries[1]["id"]
    assert "firstKeptEntryIndex" not in kept


@pytest.mark.parametrize("position", [0, -1, 5, 1.5, 10**30, 2.0**70])
def test_a_position_that_names_no_entry_names_none_afterwards(position: object) -> None:
    text = migrate(read(HEADER, line("one"), line("two"), compaction(firstKeptEntryIndex=position), line("three")))
    assert "firstKeptEntryId" not in text.entries[2]
    assert "firstKeptEntryIndex" not in text.entries[2]


@pytest.mark.parametrize("position", ["2", None, True, [2]])
def test_a_position_that_is_no_number_stays(position: object) -> None:
    text = migrate(read(HEADER, line("one"), compaction(firstKeptEntryIndex=position)))
    assert text.entries[1]["firstKeptEntryIndex"] == position


def test_a_damaged_line_does_not_count_as_a_position() -> None:
    lines = [HEADER, line("one"), line("two"), compaction(firstKeptEntryIndex=2)]
    data = [encode_record(line) for line in lines]
    text = migrate(read_session(b"".join([data[0], b"broken\n", *data[1:]])))
    assert text.entries[2]["firstKeptEntryId"] == text.entries[1]["id"]
    assert [damage.data for damage in text.damaged] == [b"broken"]


@pytest.mark.parametrize("version", [1, 2])
def test_an_extension_s_message_gets_its_new_role(version: int) -> None:
    old = {**line("note", "hookMessage"), "id": "1", "parentId": None}
    (entry,) = migrate(read({**HEADER, "version": version}, old)).entries
    message = {"role": "custom", "content": "note", "timestamp": 1, "customType": "c", "display": True}
    assert without_links(entry) == {"type": "message", "timestamp": TIME, "message": message}


def test_a_tree_of_version_2_stays_as_it_is() -> None:
    entries: list[Entry] = [
        {**line("root"), "id": "r", "parentId": None},
        {**line("left"), "id": "l", "parentId": "r"},
        {**line("right", "hookMessage"), "id": "x", "parentId": "r"},
        {"type": "message", "id": "odd", "parentId": "x", "message": None},
    ]
    text = read({**HEADER, "version": 2}, *entries)
    migrated = migrate(text)
    assert [(entry["id"], entry["parentId"]) for entry in migrated.entries] == [
        *[("r", None), ("l", "r"), ("x", "r"), ("odd", "x")],
    ]
    assert [mine is theirs for mine, theirs in zip(migrated.entries, text.entries, strict=True)] == [
        *[True, True, False, True],
    ]


def test_bytes_of_what_did_not_change_stay() -> None:
    spaced = b'{"id": "l", "type": "message", "parentId": null}'
    changed = {**line("note", "hookMessage"), "id": "x", "parentId": "l"}
    header = {**HEADER, "version": 2}
    text = migrate(read_session(encode_record(header) + spaced + b"\n" + encode_record(changed), keep_raw=True))
    assert text.raw == [spaced, encode_record(text.entries[1])[:-1]]
    old = migrate(read(HEADER, line("one"), line("two"), keep_raw=True))
    assert old.raw == [encode_record(entry)[:-1] for entry in old.entries]
    assert migrate(read(HEADER, line("one"))).raw == []


def test_an_id_of_version_1_is_kept_if_no_other_entry_has_it() -> None:
    entries = [{**line(text), "id": entry_id} for text, entry_id in [("a", "1"), ("b", "1"), ("c", ""), ("d", "2")]]
    ids = [entry["id"] for entry in migrate(read(HEADER, *entries)).entries]
    assert (ids[0], ids[3]) == ("1", "2")
    assert len(set(ids)) == 4


def test_what_was_read_is_not_changed() -> None:
    text = read(HEADER, line("note", "hookMessage"), compaction(firstKeptEntryIndex=1))
    before = copy.deepcopy(text)
    migrate(text)
    assert text == before


def test_l1_a_session_of_version_1_without_its_header_becomes_a_chain_too() -> None:
    text = migrate(read_session(b"broken\n" + encode_record(line("one")) + encode_record(line("two"))))
    assert text.header is None
    assert text.entries[1]["parentId"] == text.entries[0]["id"]
    assert [damage.data for damage in text.damaged] == [b"broken"]


def test_size_and_tail_are_those_of_the_file_that_was_read() -> None:
    data = written(read(HEADER, line("one"))) + b"torn"
    text = migrate(read_session(data))
    assert (text.size, text.has_torn_tail) == (len(data), True)


def linked(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace ids, which are anyone's choice, by places."""
    places = {entry["id"]: place for place, entry in enumerate(entries)}
    return [
        entry | {name: places.get(entry[name]) for name in ("id", "parentId", "firstKeptEntryId") if name in entry}
        for entry in entries
    ]


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_the_original_makes_the_same_of_version_1(original_pi: list[str], tmp_path: Path, position: int) -> None:
    entries = [
        line("one"),
        line("note", "hookMessage"),
        line("two"),
        {"type": "unknown", "timestamp": TIME},
    ]
    entries += [compaction(firstKeptEntryIndex=position), line("three")]
    text = read({**HEADER, "cwd": str(tmp_path)}, *entries)
    file = tmp_path / "old.jsonl"
    file.write_bytes(written(text))
    with AgentStarter(original_pi, tmp_path) as starter:
        running = starter([], "--session", str(file), has_session=True)
        theirs = running.request({"type": "get_entries"})["data"]["entries"]
    ours = [dict(entry) for entry in migrate(text).entries]
    assert linked(theirs[: len(entries)]) == linked(ours)
