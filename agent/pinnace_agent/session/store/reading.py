"""The bytes of a session file to its header and its entries, whatever happened to the file.

Pure. Every entry that can still be read is returned; what can't is returned too, as damage, so that nothing is dropped
in silence and nothing hides the rest. A line counts as readable if JSON.parse would take it, invalid UTF-8 becoming
U+FFFD as there; NUL bytes around a line, which a power failure leaves, are skipped; entries that were glued to a line
without an end are separated again. Has no access to the file, nor to how entries are related (`tree`).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from pinnace_agent.session.store.entries import (
    MEANINGLESS,
    EntryList,
    Head,
    UsageSum,
    head_of,
    intern_strings,
    no_collection,
)
from pinnace_spec.records.entries import CURRENT_VERSION, Entry

if TYPE_CHECKING:  # msgspec: loaded for long files
    from pinnace_agent.session.store.line_shape import LineReader, LineStretch

NEWER_VERSION: Final = CURRENT_VERSION + 1
"""What a version counts as that is no whole number."""

LONG_FILE_BYTES: Final = 1024 * 1024
"""From here on lines of messages are not decoded when they are read. Getting ready for that takes 10 ms, which decoding
two MiB does too."""

_LF: Final = b"\n"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class DamagedLine(NamedTuple):
    """A line, or a part of one, that holds no entry."""

    number: int
    """Of the line, from 1."""
    offset: int
    """Of its first byte in what was read."""
    data: bytes
    """Its bytes without the LF."""


class SessionText(NamedTuple):
    """The content of a session file."""

    header: Mapping[str, object] | None
    """None: the first readable object is not a header with an id."""
    entries: Sequence[Entry]
    """In the order of the file. Each has an id that is a text and not empty, unless the version is 1."""
    damaged: list[DamagedLine]
    """In the order of the file."""
    has_torn_tail: bool
    """The last byte is no LF: the last line, readable or not, has no end."""
    size: int
    """Bytes read."""
    version: int
    """The header's; 1 if it has none, `NEWER_VERSION` if it is no number. Without a header: 1 if no entry has an id."""
    raw: list[bytes]
    """The bytes of each entry without LF, in the order of `entries`, if they were asked for."""
    heads: list[Head]
    """Of the entries, in their order."""


class _Rows(NamedTuple):
    """What the lines after the header gave."""

    entries: EntryList
    damaged: list[DamagedLine]
    raw: list[bytes]
    heads: list[Head]


class _Head(NamedTuple):
    """A header, the damage before it, and where the next line (or the rest of this one) begins."""

    header: dict[str, object]
    damaged: list[DamagedLine]
    number: int
    offset: int


def read_session(data: bytes, *, keep_raw: bool = False) -> SessionText:
    """Read a whole session file. Never raises, and is linear in its size; holds one line beside it.

    Args:
        data: The file.
        keep_raw: Whether to return each entry's bytes too, for callers that copy entries into another file.
    """
    has_torn_tail = not data.endswith(_LF) and data != b""
    head = _find_head(data)
    if head is not None:
        version = _version(head.header)
        rows = _read_rows(data, head.number, head.offset, has_ids=version > 1, keep_raw=keep_raw)
        damaged = head.damaged + rows.damaged
        return SessionText(head.header, rows.entries, damaged, has_torn_tail, len(data), version, rows.raw, rows.heads)
    version = CURRENT_VERSION
    start = _start(data)
    rows = _read_rows(data, 1, start, has_ids=True, keep_raw=keep_raw)
    if not rows.entries:
        old = _read_rows(data, 1, start, has_ids=False, keep_raw=keep_raw)
        if old.entries:
            version, rows = 1, old
    return SessionText(None, rows.entries, rows.damaged, has_torn_tail, len(data), version, rows.raw, rows.heads)


def read_entries(data: bytes) -> tuple[Sequence[Entry], list[DamagedLine]]:
    """Read lines that were appended to a session file, of the current version. Never raises."""
    rows = _read_rows(data, 1, 0, has_ids=True, keep_raw=False)
    return rows.entries, rows.damaged


def read_header(data: bytes) -> Mapping[str, object] | None:
    """Return the header in a file's first bytes; None if there is none, or it continues past them. Never raises."""
    head = _find_head(data)
    return head.header if head else None


def _start(data: bytes) -> int:
    return len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0


def _find_head(data: bytes) -> _Head | None:
    """Find the first object, which has to be the header."""
    from pinnace_agent.session.store.odd_lines import is_object, parts  # not at start: for files that are read

    damaged: list[DamagedLine] = []
    start, number = _start(data), 1
    while start < len(data):
        end = _line_end(data, start)
        line = data[start:end]
        for value, first, past in parts(line):
            if not is_object(value):
                damaged.append(DamagedLine(number, start + first, line[first:past]))
            elif value.get("type") != "session" or not isinstance(value.get("id"), str):
                return None
            elif past == len(line):
                return _Head(value, damaged, number + 1, end + 1)
            else:
                return _Head(value, damaged, number, start + past)
        start, number = end + 1, number + 1
    return None


def _version(header: Mapping[str, object]) -> int:
    version = header.get("version")
    if version is None:
        return 1
    # JSON.parse knows no difference between 3 and 3.0; what is below 1 was always read as 1.
    if isinstance(version, float) and version.is_integer():
        version = int(version)
    if isinstance(version, bool) or not isinstance(version, int):
        return NEWER_VERSION
    return max(version, 1)


def _read_rows(data: bytes, number: int, start: int, *, has_ids: bool, keep_raw: bool) -> _Rows:
    """Read all lines from an offset on. The path of a well-formed line is kept short: 20,000 are read at start-up."""
    rows = _Rows(EntryList(), [], [], [])
    entries, _, raw, heads = rows
    loads, size = orjson.loads, len(data)
    reader = _line_reader(data)
    one_by_one_to = start
    with no_collection():
        while start < size:
            if reader is not None and start >= one_by_one_to:
                block = reader.read_block(data, start)
                if block.messages:
                    entries.sums.append(_sum_of(block, len(entries)))
                    entries.extend(block.messages)
                    heads.extend(block.heads)
                    if keep_raw:
                        raw.extend(each.line for each in block.messages)
                    start = block.end
                    number += len(block.messages)
                    continue
                one_by_one_to = block.end
            end = data.find(_LF, start)
            if end < 0:
                end = size
            line = data[start:end]
            if reader is not None and (found := reader.read(line)) is not None:
                head, stored = found
                entries.append(stored)
                heads.append(head)
                if keep_raw:
                    raw.append(stored.line)
                start = end + 1
                number += 1
                continue
            try:
                entry: dict[str, object] = loads(line)  # of anything else the next line is a TypeError
                entry_id = entry["id"]
                is_plain = isinstance(entry_id, str) and entry_id != "" and entry["type"] != "session"
            except (orjson.JSONDecodeError, KeyError, TypeError):
                _read_odd_line(rows, number, start, line, has_ids=has_ids, keep_raw=keep_raw)
            else:
                if is_plain:
                    intern_strings(entry)
                    entries.append(entry)
                    heads.append(head_of(entry))
                    if keep_raw:
                        raw.append(line.strip(MEANINGLESS))
                else:
                    _read_odd_line(rows, number, start, line, has_ids=has_ids, keep_raw=keep_raw)
            start = end + 1
            number += 1
    return rows


def _sum_of(block: "LineStretch", start: int) -> UsageSum:
    usages = block.usages
    return UsageSum(
        start,
        start + len(block.messages),
        sum([each.input for each in usages]),
        sum([each.output for each in usages]),
        sum([each.cacheRead for each in usages]),
        sum([each.cacheWrite for each in usages]),
        sum([each.tool_calls for each in block.messages]),
        [each.cost.total for each in usages],
    )


def _line_reader(data: bytes) -> "LineReader | None":
    """Return what reads well-formed messages' lines without decoding them; None if a file is too short for a gain."""
    if len(data) < LONG_FILE_BYTES:
        return None
    from pinnace_agent.session.store.line_shape import LineReader

    return LineReader()


def _read_odd_line(rows: _Rows, number: int, offset: int, line: bytes, *, has_ids: bool, keep_raw: bool) -> None:
    from pinnace_agent.session.store.odd_lines import is_entry, is_object, parts  # not at start: most files have none

    for value, first, past in parts(line):
        if is_object(value) and is_entry(value, has_ids=has_ids):
            rows.entries.append(value)
            rows.heads.append(head_of(value))
            if keep_raw:
                rows.raw.append(line[first:past].strip(MEANINGLESS))
        else:
            rows.damaged.append(DamagedLine(number, offset + first, line[first:past]))


def _line_end(data: bytes, start: int) -> int:
    end = data.find(_LF, start)
    return len(data) if end < 0 else end
