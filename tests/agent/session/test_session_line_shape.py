"""Lines of long files that stay lines: whatever they hold, a session behaves as if each had been decoded."""

import json
import random
import sys
from collections.abc import Callable
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import source_tree

from pinnace_agent.session.conversation import Session
from pinnace_agent.session.store import line_shape, reading
from pinnace_agent.session.store.entries import EntryList, StoredMessage, decode_stored, head_of
from pinnace_agent.session.store.line_shape import LineReader
from pinnace_agent.session.store.message_repair import whole_message
from pinnace_agent.session.store.reading import SessionText, read_session
from pinnace_agent.session.totals import RunningTotals, file_totals
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import zero_usage
from pinnace_spec.wire.json_text import encode_record

DATA: Final = source_tree.DATA / "session-of-pi-1.5.2.jsonl"
HEADER: Final = b'{"type":"session","version":3,"id":"s","timestamp":"","cwd":"/"}\n'
USAGE: Final = {**zero_usage(), "input": 7, "totalTokens": 9, "reasoning": 1}
MESSAGES: Final[tuple[Entry, ...]] = (
    {"role": "user", "content": "hi", "timestamp": 1},
    {"role": "user", "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}], "timestamp": 2},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "s", "redacted": False},
            {"type": "text", "text": "h\u00e9 \u2028", "textSignature": "s"},
            {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": ["ls", 1.5, None]}},
        ],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": USAGE,
        "stopReason": "toolUse",
        "timestamp": 3,
        "durationMs": 5,
    },
    {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "bash",
        "content": [{"type": "text", "text": "out"}],
        "details": {"any": [{}]},
        "isError": False,
        "usage": USAGE,
        "timestamp": 4,
    },
    {
        "role": "bashExecution",
        "command": "ls",
        "output": "",
        "exitCode": 0,
        "cancelled": False,
        "truncated": False,
        "fullOutputPath": None,
        "timestamp": 5,
    },
)
READER: Final = LineReader()

scalars = st.sampled_from([None, True, 0, -1, 1.0, 1.5, 2**63, 2**64, "", "text", "stop", "assistant"])
values = st.recursive(scalars, lambda each: st.lists(each, max_size=2) | st.dictionaries(st.sampled_from("ab"), each))


def entry(message: object, entry_id: str = "b", parent_id: str | None = None, **more: object) -> dict[str, object]:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": message,
        **more,
    }


@st.composite
def changed_entries(draw: st.DrawFn) -> dict[str, object]:
    """A line's object in which something may be of another type, missing, or more."""
    made: dict[str, object] = json.loads(json.dumps(entry(draw(st.sampled_from(MESSAGES)))))
    for _ in range(draw(st.integers(0, 2))):
        inside: Any = made
        while draw(st.booleans()):
            parts = inside.values() if isinstance(inside, dict) else inside
            deeper = [each for each in parts if isinstance(each, dict | list) and each]
            if not deeper:
                break
            inside = draw(st.sampled_from(deeper))
        if isinstance(inside, list):
            inside[draw(st.integers(0, len(inside) - 1))] = draw(values)
        elif draw(st.booleans()):
            inside[draw(st.sampled_from([*inside, "more", "details", "usage"]))] = draw(values)
        else:
            inside.pop(draw(st.sampled_from(list(inside))), None)
    return made


@st.composite
def changed_lines(draw: st.DrawFn) -> bytes:
    """A line as some program writes it, with a byte or two that the disk has changed."""
    is_ascii, blank = draw(st.booleans()), draw(st.sampled_from(["", " "]))
    made = draw(changed_entries())
    line = json.dumps(made, ensure_ascii=is_ascii, separators=("," + blank, ":" + blank)).encode()
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(line)))
        piece = draw(st.sampled_from([b"", b"\\", b'"', b"e400", b"\xff", b"\\ud800", b"\t", b"0", b",", b"}", b"\0"]))
        line = line[:place] + piece + line[place + draw(st.integers(0, 1)) :]
    return line


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["role"])
def test_a_well_formed_message_stays_a_line(message: Entry) -> None:
    line = encode_record(entry(message)).rstrip()

    found = READER.read(line)

    assert found is not None
    assert found[1].line == line


def test_messages_of_the_original_stay_lines() -> None:
    lines = DATA.read_bytes().splitlines()
    messages = [line for line in lines if b'"type":"message"' in line and b'"role":"system"' not in line]

    assert messages
    assert [] == [line for line in messages if READER.read(line) is None]


@given(changed_lines())
def test_a_line_that_stays_holds_a_well_formed_message_with_the_same_facts(line: bytes) -> None:
    found = READER.read(line)

    if found is None:
        return
    head, stored = found
    held = orjson.loads(line)
    message: Any = held["message"]
    assert head == head_of(held)
    assert decode_stored(stored) == held
    assert whole_message(held["message"], held["timestamp"]) is held["message"]
    assert (stored.role, stored.timestamp_ms) == (message["role"], message["timestamp"])
    usage = message.get("usage")
    read = stored.usage
    assert (read is None) == (usage is None)
    if read is not None:
        assert (read.input, read.totalTokens, read.cost.total) == (
            usage["input"],
            usage["totalTokens"],
            usage["cost"]["total"],
        )
    if message["role"] == "assistant":
        assert stored.stop_reason == message["stopReason"]
        assert stored.tool_calls == sum(block["type"] == "toolCall" for block in message["content"])


others: st.SearchStrategy[Entry] = st.sampled_from(
    [
        {"type": "compaction", "summary": "s", "firstKeptEntryId": "1", "tokensBefore": 5},
        {"type": "context_edit", "targetId": "1", "replacement": None},
        {"type": "context_edit", "targetId": "2", "replacement": {"content": "edited"}},
        {"type": "model_change", "provider": "q", "modelId": "n"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        {"type": "branch_summary", "summary": "s", "fromId": "1"},
        {"type": "custom_message", "customType": "t", "content": "c", "display": True},
        {"type": "label", "targetId": "1", "label": "l"},
        {"type": "session_info", "name": "n"},
        {"type": "usage", "usage": USAGE},
    ]
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A session file with branches, of which most lines are well-formed messages."""
    lines = [HEADER]
    rows: list[Entry | bytes] = draw(st.lists(st.sampled_from(MESSAGES) | others | changed_lines(), max_size=8))
    for number, row in enumerate(rows):
        parents = [None, *map(str, range(number))]
        parent_id = draw(st.sampled_from(parents[-2:])) if draw(st.booleans()) else parents[-1]
        if isinstance(row, bytes):
            lines.append(row + b"\n")
        elif "role" in row:
            lines.append(encode_record(entry(row, str(number), parent_id)))
        else:
            lines.append(encode_record({"id": str(number), "parentId": parent_id, **row}))
    return b"".join(lines)


def spelled(value: object, chance: random.Random) -> str:
    """A value as some program may write it: blanks, the order of fields, escapes, fields that come twice."""

    def blank() -> str:
        return chance.choice(["", "", "", " ", "\t", "  "])

    if isinstance(value, dict):
        fields = list(value.items())
        chance.shuffle(fields)
        if fields and chance.random() < 0.1:
            name, other = chance.choice(fields)
            fields.insert(0, (name, chance.choice([other, None, "x"])))
        made = ("," + blank()).join(
            f"{spelled(name, chance)}{blank()}:{blank()}{spelled(each, chance)}" for name, each in fields
        )
        return f"{{{blank()}{made}{blank()}}}"
    if isinstance(value, list):
        return f"[{blank()}{(',' + blank()).join(spelled(each, chance) + blank() for each in value)}]"
    if isinstance(value, str) and chance.random() < 0.3:
        return (
            '"'
            + "".join(f"\\u{ord(each):04x}" if chance.random() < 0.5 else json.dumps(each)[1:-1] for each in value)
            + '"'
        )
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


@st.composite
def spelled_files(draw: st.DrawFn) -> bytes:
    """A session file that another program wrote, or several did, of which lines may be torn or blank."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    is_compact, odd_lines = draw(st.booleans()), draw(st.sampled_from([0, 0, 0.1, 0.5]))
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [HEADER.decode().rstrip()]
    rows: list[Entry] = draw(st.lists(st.sampled_from(MESSAGES) | others, min_size=4, max_size=16))
    for number, row in enumerate(rows):
        parent_id = None if number == 0 else str(number - 1)
        held = (
            entry(row, str(number), parent_id) if "role" in row else {"id": str(number), "parentId": parent_id, **row}
        )
        line = json.dumps(held) if is_compact else spelled(held, chance)
        if chance.random() < odd_lines:
            cut = chance.randrange(len(line))
            line = chance.choice(
                [line[:cut], "", " ", line + "\r", " " + line, line + line, line[:cut] + "\r" + line[cut:]]
            )
        lines.append(line)
    data = "".join(line + (line_end if chance.random() < 0.95 else "\r\n") for line in lines).encode()
    return data[: draw(st.sampled_from([len(data), -1, -9]))]


def read_as_long(data: bytes) -> SessionText:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LONG_FILE_BYTES", 0)
        return read_session(data, keep_raw=True)


@given(spelled_files(), st.integers(1, 8))
def test_lines_of_any_spelling_are_read_together_as_one_by_one(data: bytes, few_lines: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_shape, "_FEW_LINES", few_lines)
        long = read_as_long(data)
    short = read_session(data, keep_raw=True)

    assert long._replace(entries=[]) == short._replace(entries=[])
    entries = long.entries
    assert isinstance(entries, EntryList)
    assert entries.copy() == list(short.entries)
    record = encode_record({"messages": session_of(long).encoded_messages()})
    assert json.loads(record)["messages"] == session_of(short).messages
    assert b"\r" not in record
    for item in entries.items():
        assert not isinstance(item, StoredMessage) or b"\r" not in item.line


SPELLINGS: Final[dict[str, Callable[[object], str]]] = {
    "without blanks": lambda value: json.dumps(value, separators=(",", ":")),
    "with blanks": json.dumps,
    "with sorted fields": lambda value: json.dumps(value, sort_keys=True),
    "with CRLF": lambda value: json.dumps(value) + "\r",
    "with tabs": lambda value: spelled(value, random.Random(3)),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_messages_are_read_in_blocks_however_they_are_spelled(
    spelling: Callable[[object], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[bytes] = []
    monkeypatch.setattr(LineReader, "read", lambda _, line: alone.append(line))
    rows = [entry(MESSAGES[number % len(MESSAGES)], str(number)) for number in range(300)]

    text = read_as_long(HEADER + "".join(spelling(row) + "\n" for row in rows).encode())

    assert alone == []
    assert list(text.entries) == json.loads(json.dumps(rows))


def session_of(text: SessionText) -> Session:
    return Session("/", tree=EntryTree(text.entries, text.heads))


@given(files() | spelled_files(), st.booleans())
def test_a_session_of_lines_is_the_session_that_they_make(data: bytes, is_decoded_first: bool) -> None:
    long, short = read_as_long(data), read_session(data, keep_raw=True)
    one, other = session_of(long), session_of(short)

    assert (one.message_count, one.recorded_model, one.recorded_level) == (
        other.message_count,
        other.recorded_model,
        other.recorded_level,
    )
    assert one.totals.of(one.tree.entries) == other.totals.of(other.tree.entries)
    if is_decoded_first:
        assert one.messages == other.messages
    assert (one.meter.counts(), one.meter.tokens()) == (other.meter.counts(), other.meter.tokens())
    assert json.loads(encode_record({"m": one.encoded_messages()}))["m"] == other.messages
    assert list(one.newest_first()) == other.messages[::-1]
    assert one.messages == other.messages
    one.keep({"role": "user", "content": "more", "timestamp": 9})
    other.keep({"role": "user", "content": "more", "timestamp": 9})
    assert (one.meter.counts(), one.meter.tokens()) == (other.meter.counts(), other.meter.tokens())
    assert one.totals.of(one.tree.entries) == other.totals.of(other.tree.entries)
    assert long._replace(entries=[]) == short._replace(entries=[])
    assert long.entries == list(short.entries)


@given(spelled_files(), st.integers(1, 20))
def test_the_totals_of_lines_that_were_read_together_follow_entries_that_are_taken_back(
    data: bytes, count: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_shape, "_BLOCK_LINES", 3)
        patch.setattr(line_shape, "_FEW_LINES", 1)
        entries = EntryTree(read_as_long(data).entries).entries
    running = RunningTotals()
    assert running.of(entries.copy()) == file_totals(list(entries))

    for _ in range(min(count, len(entries))):
        entries.pop()
    assert running.of(entries.copy()) == file_totals(list(entries))
    entries.append({"type": "usage", "id": "u", "usage": USAGE})

    assert RunningTotals().of(entries) == running.of(entries) == file_totals(list(entries))


def test_messages_of_a_short_session_are_encoded_without_what_reads_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = b"".join(encode_record(entry(each, str(number))) for number, each in enumerate(MESSAGES))
    session = session_of(read_session(HEADER + rows))
    monkeypatch.setitem(sys.modules, line_shape.__name__, None)  # loading it would fail

    record = encode_record({"messages": session.encoded_messages()})

    assert json.loads(record)["messages"] == session.messages


def joined(*lines: bytes) -> bytes:
    return b"\n".join(lines) + b"\n"


PLAIN: Final = [encode_record(entry(MESSAGES[0], str(number))).rstrip() for number in range(4)]
CUT_IN_TWO: Final = [
    piece + rest
    for piece, rest in zip(
        (b"", b'{"type":"message","a":1}'),
        encode_record(entry({**MESSAGES[3], "details": ["cut"]}, "3")).rstrip().split(b'"cut"'),
        strict=True,
    )
]
ODD_BLOCKS: Final = {
    "two on one line and one on none": joined(PLAIN[0] + PLAIN[1], b"", PLAIN[2]),
    "two on one line and one on two": joined(PLAIN[0] + PLAIN[1], *PLAIN[2].split(b',"parentId"', 1)),
    "two on one line and one that goes on in the next": joined(PLAIN[0] + PLAIN[1], *CUT_IN_TWO),
    "one cut": joined(PLAIN[0], PLAIN[1][:-9], PLAIN[2]),
    "one cut before a bracket": joined(PLAIN[0], PLAIN[1][:-1], PLAIN[2]),
    "one with a line end in a text": joined(PLAIN[0], PLAIN[1].replace(b"hi", b"}\n{"), PLAIN[2]),
    "the last without an end": joined(PLAIN[0], PLAIN[1])[:-1],
    "one of another type": joined(PLAIN[0], b'{"type":"custom","id":"c","parentId":"0"}', PLAIN[1]),
    "one with a field of another program": joined(PLAIN[0], PLAIN[1][:-1] + b',"more":1}', PLAIN[2]),
    "NUL bytes behind one": joined(PLAIN[0], PLAIN[1] + b"\0\0", PLAIN[2]),
}


@pytest.mark.parametrize("rows", ODD_BLOCKS.values(), ids=ODD_BLOCKS)
def test_lines_that_are_read_together_are_what_they_are_one_by_one(rows: bytes) -> None:
    long, short = read_as_long(HEADER + rows), read_session(HEADER + rows, keep_raw=True)

    assert long._replace(entries=[]) == short._replace(entries=[])
    assert long.entries == list(short.entries)


def test_a_line_of_another_shape_has_only_its_own_block_read_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[bytes] = []
    read = LineReader.read

    def read_alone(self: LineReader, line: bytes) -> object:
        alone.append(line)
        return read(self, line)

    monkeypatch.setattr(LineReader, "read", read_alone)
    lines = [encode_record(entry(MESSAGES[0], str(number))).rstrip() for number in range(1000)]
    lines[500] = lines[500][:-1] + b',"more":1}'

    text = read_as_long(HEADER + joined(*lines))

    assert len(text.entries) == 1000
    assert lines[500] in alone
    assert len(alone) < 16


def test_messages_that_are_lines_have_nothing_at_which_a_reader_of_lines_splits() -> None:
    lines = [encode_record(entry(each, str(number))) for number, each in enumerate(MESSAGES)]
    data = HEADER + b"".join(lines).replace(b"\\u2028", "\u2028".encode())
    session = session_of(read_as_long(data))
    assert any(isinstance(item, StoredMessage) for item in session.tree.entries.items())

    record = encode_record({"messages": session.encoded_messages()})

    assert [record.decode()] == record.decode().splitlines(keepends=True)


def test_a_line_with_a_carriage_return_is_decoded() -> None:
    line = encode_record(entry(MESSAGES[0])).replace(b',"id"', b',\r"id"')

    text = read_as_long(HEADER + line)

    assert [orjson.loads(line)] == list(text.entries)
    assert encode_record({"messages": session_of(text).encoded_messages()}).count(b"\r") == 0
