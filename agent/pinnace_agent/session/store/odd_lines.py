"""Reads lines of a session file that are not one plain entry: entries glued together, headers, damage.

Pure. Loaded for files that are read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NoReturn, TypeGuard

import orjson

from pinnace_agent.session.store.entries import MEANINGLESS

# How a header or an entry begins, in the order in which every program writes it. Inside a string the quotes would be
# escaped, so this is where one begins even in the middle of a line. Possessive: linear on any bytes.
_BEGINNING: Final = re.compile(rb'\{"type":"(?:session",|[^"\\]*+","id":"[^"\\]*+","parentId":)')
# How they begin as other programs write them, and how every other object does.
_OBJECT: Final = re.compile(r'\{\s*"')
_DECODER: Final = json.JSONDecoder()
_IS_ENTRY: Final = frozenset({"type", "id", "parentId"})
_MOST_FAILURES: Final = 100
"""Objects without an end that are tried in one line, each perhaps to the end of it: more than an entry nests."""
_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1


def is_entry(value: Mapping[str, object], *, has_ids: bool) -> bool:
    """Return whether an object is an entry: a later header is none, and what has no id is one in version 1 only."""
    type_ = value.get("type")
    if type_ == "session":
        return False
    entry_id = value.get("id")
    if isinstance(entry_id, str) and entry_id:
        return True
    return not has_ids and isinstance(type_, str)


def parts(line: bytes) -> Iterator[tuple[object, int, int]]:
    """Yield what a line holds, each with its first byte and the one past it: its value, or those that are glued in it.

    Nothing for a blank line. None for what lies between values and can't be read, in one part.
    """
    if not line.strip():
        return
    value = _read_value(line)
    if value is not None:
        yield value, 0, len(line)
        return
    cuts = [found.start() for found in _BEGINNING.finditer(line) if found.start() > 0]
    read_to = 0
    if cuts:
        for first, past in zip([0, *cuts], [*cuts, len(line)], strict=True):
            value = _read_value(line[first:past])
            if value is not None:
                if read_to < first:
                    yield from _whole_records(line, read_to, first)
                yield value, first, past
                read_to = past
    if read_to < len(line):
        yield from _whole_records(line, read_to, len(line))


def _whole_records(line: bytes, start: int, end: int) -> Iterator[tuple[object, int, int]]:
    """Yield the entries in a stretch that can't be read as a whole, in any spelling, and None for what is between them.

    They are behind one that was cut when it was written.
    """
    text = line[start:end].decode("latin-1")  # a character for each byte; outside of strings JSON is ASCII
    read_to = skipped_to = failures = 0
    for found in _OBJECT.finditer(text):
        first = found.start()
        if first < skipped_to:
            continue
        try:
            _, skipped_to = _DECODER.raw_decode(text, first)
        except (ValueError, RecursionError):
            failures += 1
            if failures == _MOST_FAILURES:
                break
            continue
        value = _read_value(line[start + first : start + skipped_to])
        if is_object(value) and _IS_ENTRY <= value.keys() and is_entry(value, has_ids=True):
            if read_to < first:
                yield None, start + read_to, start + first
            yield value, start + first, start + skipped_to
            read_to = skipped_to
    if not read_to or line[start + read_to : end].strip(MEANINGLESS):
        yield None, start + read_to, end


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def _read_value(line: bytes) -> object:
    """Read one JSON value as JSON.parse does, or None: what it refuses, null, and what is too deep for Python."""
    line = line.strip(MEANINGLESS)
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    text = line.decode(errors="replace")
    try:
        value: object = json.loads(text, parse_constant=_refuse, parse_int=_read_int, parse_float=_read_float)
    except (ValueError, RecursionError):
        return None
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _read_int(digits: str) -> int | float | None:
    """Read an integer as orjson does: exact in 64 bits, else a double. Never meets Python's limit of digits."""
    if len(digits) <= len(str(_INT64_MIN)):
        number = int(digits)
        if _INT64_MIN <= number <= _UINT64_MAX:
            return number
    return _read_float(digits)


def _read_float(digits: str) -> float | None:
    """Read a number; one that is outside of a double's range is null, as JSON.stringify writes it afterwards."""
    number = float(digits)
    return None if number in (float("inf"), float("-inf")) else number
