"""Lines and records as a stranger sees them: strict to read, exact to write, and patterns to look for.

The judge's own reading of JSON, on purpose not the one of the agent, so that both would have to be wrong in
the same way for a bad line to pass. Knows nothing of commands, events or processes. Rules R-FRM-01..R-FRM-05.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, cast

# The JSON edge: a foreign process wrote this, tests index into it, and a wrong shape is what a test reports.
Record: TypeAlias = dict[str, Any]

Pattern: TypeAlias = Mapping[str, object] | Callable[[Record], bool]
"""What to look for: a part of the record (see `contains`), or a predicate over it."""


def objects(value: object, open_keys: Container[str] = ()) -> Iterator[Record]:
    """Find every object inside of a value, itself included, but for those under `open_keys`."""
    if isinstance(value, list):
        for member in cast("list[object]", value):
            yield from objects(member, open_keys)
    if isinstance(value, dict):
        members = cast("Record", value)
        yield members
        for key, member in members.items():
            if key not in open_keys:
                yield from objects(member, open_keys)


class NotARecord(ValueError):
    """A line is not one JSON object in UTF-8. The text says why."""


def parse_record(line: bytes) -> Record:
    """Read one line without its LF as a JSON object.

    Raises:
        NotARecord: Bad UTF-8 or JSON, NaN or Infinity, a lone surrogate, too deep, or not an object.
    """
    try:
        text = line.decode("utf-8", "strict")
        value: object = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # an escaped lone surrogate shows only here
    except (ValueError, RecursionError) as error:
        raise NotARecord(f"{type(error).__name__}: {error}") from error
    if not isinstance(value, dict):
        raise NotARecord(f"a JSON {type(value).__name__}, not an object")
    return cast("Record", value)  # json.loads only makes keys of type str


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)  # as `json.loads` makes for each text


def encode_record(record: Mapping[str, object]) -> bytes:
    """Write a record as one line with its LF, not escaping anything that JSON allows as it is."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def encode_records(records: Iterable[Mapping[str, object]]) -> bytes:
    """Write records as consecutive lines."""
    return b"".join(encode_record(record) for record in records)


def contains(value: object, part: object) -> bool:
    """Say whether `value` has at least what `part` has.

    Objects may have more keys; arrays must have the same length; a compiled regular expression is searched in
    text; a function is asked; anything else is equal and of the same type, where all numbers are one type.
    """
    if isinstance(part, re.Pattern):
        return isinstance(value, str) and cast("re.Pattern[str]", part).search(value) is not None
    if callable(part):
        return bool(part(value))
    if isinstance(part, Mapping):
        wanted = cast("Mapping[str, object]", part)
        if not isinstance(value, dict):
            return False
        found = cast("Record", value)
        return all(key in found and contains(found[key], each) for key, each in wanted.items())
    if isinstance(part, Sequence) and not isinstance(part, str):
        if not isinstance(value, list):
            return False
        pairs = (cast("list[object]", value), cast("Sequence[object]", part))
        return len(pairs[0]) == len(pairs[1]) and all(map(contains, *pairs))
    if isinstance(part, bool) or isinstance(value, bool):
        return part is value
    return part == value


def matches(record: Record, pattern: Pattern) -> bool:
    """Say whether a record is what a pattern looks for."""
    return pattern(record) if callable(pattern) else contains(record, pattern)


class LineSplitter:
    """Cut a byte stream at LF only, in time linear in the bytes however they arrive."""

    __slots__ = ("_pieces", "rest_bytes")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.rest_bytes = 0
        """How many bytes there are after the last LF."""

    @property
    def rest(self) -> bytes:
        """The bytes after the last LF."""
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes in; return the lines that they complete, without LF."""
        first, *others = data.split(b"\n")
        self._pieces.append(first)
        self.rest_bytes += len(first)
        if not others:
            return []
        lines = [self.rest, *others]
        self._pieces = [lines.pop()]
        self.rest_bytes = len(self._pieces[0])
        return lines
