"""One line to JSON as JSON.parse reads it, one record to a line as JSON.stringify writes it.

Pure. Decides which bytes are a value and which bytes a value becomes; must not know commands, records or
where a line came from (`framing`). orjson does the work; the standard library's json only what orjson refuses
and JSON.parse accepts (a lone surrogate written as an escape), a writer of our own what orjson refuses and
JSON.stringify accepts (the same, and depth).

Source: R-FRM-05 (invalid UTF-8), R-FRM-06 (byte order mark), R-FRM-08 (limits), R-FRM-09 (what output
escapes).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NoReturn, TypeAlias, cast

import orjson
from typing_extensions import Buffer

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"

# Deeper than any command of any client, and half of what orjson takes (1024), so that the limit is ours and
# the same whichever parser read the line. Python's own parser needs one level of the C stack each: 1000 by
# default.
MAX_NESTING: Final = 512
# Of a record going out. Data of ours is at most as deep as what came in and a few levels around it; what goes
# on past this contains itself.
MAX_OUTPUT_NESTING: Final = 10_000

# Of a record that had to be repaired, where nothing is sure.
MAX_REPAIRED_NESTING: Final = 200

_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_BRACKET_STEP: Final = tuple(1 if byte in b"[{" else -1 for byte in range(256))
_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1
_TOO_DEEP: Final = f"nested deeper than {MAX_NESTING} levels"
# What orjson says of some lines that end inside brackets, although there is memory.
_MISREPORTED_CUT: Final = "failed to allocate memory"
_INCOMPLETE: Final = "incomplete, or too large to be read"
# No JSON: where an array is to stand in a record.
_LEFT_OUT: Final = b"\0"
_INFINITE: Final = "a number is outside the range of a double"


class EncodedArray:
    """An array whose elements are JSON already. For one so long that each copy of it costs: it is written at once."""

    __slots__ = ("elements",)

    def __init__(self, elements: Iterable[Buffer]) -> None:
        """Take the elements, each compact JSON."""
        self.elements = list(elements)

    def joined(self) -> bytes:
        """Return the array."""
        return b"[%b]" % b",".join(self.elements)


class WireError(Exception):
    """A line that is no JSON, or that this program refuses to read. `text` says why, for the client."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def decode_line(line: bytes) -> JsonValue:
    """Read one line, without its LF, as one JSON value.

    Integers beyond 64 bits become floats; of equal keys the last one counts. Linear in the size of the line,
    whatever it holds, and never deeper in the stack than `MAX_NESTING`.

    Raises:
        WireError: Not JSON, not UTF-8, a byte order mark, NaN or Infinity, a number that no double can hold, or
            nested deeper than `MAX_NESTING`. Nothing else is raised for any bytes.
    """
    try:
        value: JsonValue = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _decode_refused(line, error)
    if line.count(b"[") + line.count(b"{") > MAX_NESTING and _nesting(line) > MAX_NESTING:
        raise WireError(_TOO_DEEP)
    return value


def encode_record(record: Mapping[str, object]) -> bytes:
    r"""Write one record as one line, LF included.

    The line holds no byte or character at which any line reader splits: U+0085, U+2028 and U+2029 are
    escaped. NaN and Infinity become null; a lone surrogate becomes its escape (``\ud800``), as JSON.stringify
    does. Values may be `orjson.Fragment`s of compact JSON (`encode_fragment`), or `EncodedArray`s.

    Raises:
        TypeError: A key is not a string, or a value is none that JSON has: a fault of the caller.
        ValueError: Nested deeper than `MAX_OUTPUT_NESTING`: it contains itself.
    """
    try:
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        line = _encode_long(record) or _encode_refused(record) + b"\n"
    return line if line.isascii() else _escape_separators(line)


def without_faults(record: Mapping[str, object]) -> dict[str, object]:
    """Return a copy that can be encoded, with null in the place of each value that JSON does not have.

    For records of which `encode_record` has refused something: what else they hold must not be lost. What contains
    itself, or is nested deeper than `MAX_REPAIRED_NESTING`, becomes null, too; keys become texts.
    """
    return {key: _without_faults(value, [id(record)]) for key, value in record.items()}


def _without_faults(value: object, inside: list[int]) -> object:
    if isinstance(value, str | bool | orjson.Fragment | EncodedArray | None):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if _INT64_MIN <= value <= _UINT64_MAX else None
    if id(value) in inside or len(inside) >= MAX_REPAIRED_NESTING:
        return None
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)  # cast: keys may be anything here
        within = [*inside, id(members)]
        return {_text_key(key): _without_faults(each, within) for key, each in members.items()}
    if isinstance(value, list | tuple):
        array = cast("Sequence[object]", value)
        within = [*inside, id(array)]
        return [_without_faults(each, within) for each in array]
    return None


def _text_key(key: object) -> str:
    return key if isinstance(key, str) else str(key) if isinstance(key, int) else type(key).__name__


def encode_fragment(value: object) -> orjson.Fragment:
    """Encode a value once that several records will hold, for instance the growing message of a run.

    Raises:
        TypeError, ValueError: As `encode_record`.
    """
    return orjson.Fragment(encode_value(value))


def encode_value(value: object) -> bytes:
    """Encode a value as compact JSON; what separates lines is escaped only in a record.

    Raises:
        TypeError, ValueError: As `encode_record`.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encode_refused(value)


def _decode_refused(line: bytes, error: orjson.JSONDecodeError) -> JsonValue:
    """Decide what a refusal by orjson means: JSON.parse would take a lone surrogate's escape."""
    try:
        text = line.decode()
    except UnicodeDecodeError as invalid:
        raise WireError(f"invalid UTF-8 at byte {invalid.start}") from None
    # orjson gives up at its own limit without having seen the rest; up to there the line says whether depth
    # was the reason. Where it ran out of brackets to close, its position means nothing.
    is_cut = error.msg == _MISREPORTED_CUT
    seen = line if is_cut else text[: error.pos].encode()
    if seen.count(b"[") + seen.count(b"{") > MAX_NESTING and _nesting(seen) > MAX_NESTING:
        raise WireError(_TOO_DEEP) from None
    if r"\ud" not in text and r"\uD" not in text:
        raise WireError(_INCOMPLETE if is_cut else f"{error.msg} (character {error.pos})") from None
    if _nesting(line) > MAX_NESTING:
        raise WireError(_TOO_DEEP) from None
    try:
        value: JsonValue = json.loads(
            text, parse_constant=_refuse_constant, parse_int=_read_int, parse_float=_read_float
        )
    except json.JSONDecodeError as second:
        raise WireError(f"{second.msg} (character {second.pos})") from None
    except RecursionError:  # only a caller that is itself hundreds of calls deep leaves too little of the stack
        raise WireError(_TOO_DEEP) from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise WireError(f"{name} is no JSON value")


def _read_int(digits: str) -> int | float:
    """Read an integer as orjson does: exact in 64 bits, else a double. Never meets Python's digit limit."""
    if len(digits) <= len(str(_INT64_MIN)):
        number = int(digits)
        if _INT64_MIN <= number <= _UINT64_MAX:
            return number
    return _read_float(digits)


def _read_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise WireError(_INFINITE)
    return number


def _nesting(line: bytes) -> int:
    """Count how deep the brackets outside of strings go. Linear, and all of it in C."""
    brackets = _STRINGS.sub(b"", line).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_BRACKET_STEP.__getitem__, brackets)), default=0)


def _escape_separators(line: bytes) -> bytes:
    """Escape U+0085, U+2028 and U+2029: their bytes stand for nothing else, and only inside strings."""
    if b"\xe2\x80\xa8" in line:
        line = line.replace(b"\xe2\x80\xa8", b"\\u2028")
    if b"\xe2\x80\xa9" in line:
        line = line.replace(b"\xe2\x80\xa9", b"\\u2029")
    if b"\xc2\x85" in line:
        line = line.replace(b"\xc2\x85", b"\\u0085")
    return line


def _encode_long(record: Mapping[str, object]) -> bytes | None:
    """Write a record that holds an encoded array, which is copied once; None if something else was refused."""
    long: list[EncodedArray] = []

    def leave_out(value: object) -> orjson.Fragment:
        if not isinstance(value, EncodedArray):
            raise TypeError
        if long or not value.elements:
            return orjson.Fragment(value.joined())
        long.append(value)
        return orjson.Fragment(_LEFT_OUT)

    try:
        line = orjson.dumps(record, default=leave_out, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return None
    if not long:
        return line
    before, _, behind = line.partition(_LEFT_OUT)
    elements = long[0].elements.copy()
    elements[0] = b"".join((before, b"[", elements[0]))
    elements[-1] = b"".join((elements[-1], b"]", behind))
    return b",".join(elements)


def _encode_refused(value: object) -> bytes:
    """Write what orjson refused: lone surrogates, integers beyond 64 bits, over 254 levels. Not recursive."""
    pieces: list[str] = []
    members = [iter([("", value)])]
    closings = [""]
    while members:
        for prefix, member in members[-1]:
            pieces.append(prefix)
            if isinstance(member, Mapping):
                # cast: JSON's keys are checked below, its values when their turn comes
                opened = _object_members(cast("Mapping[object, object]", member))
                brackets = "{}"
            elif isinstance(member, list | tuple):
                opened = _array_members(cast("Sequence[object]", member))
                brackets = "[]"
            else:
                pieces.append(_encode_scalar(member))
                continue
            if len(members) > MAX_OUTPUT_NESTING:
                raise ValueError("the record contains itself")
            pieces.append(brackets[0])
            members.append(opened)
            closings.append(brackets[1])
            break
        else:
            members.pop()
            pieces.append(closings.pop())
    return "".join(pieces).encode()


def _object_members(container: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    """Give each value with what stands before it: the comma and the key."""
    comma = ""
    for key, member in container.items():
        if not isinstance(key, str):
            raise TypeError(f"a key must be a string, not {type(key).__name__}")
        yield f"{comma}{json.dumps(key)}:", member
        comma = ","


def _array_members(container: Sequence[object]) -> Iterator[tuple[str, object]]:
    """Give each value with the comma before it."""
    comma = ""
    for member in container:
        yield comma, member
        comma = ","


def _encode_scalar(value: object) -> str:
    if isinstance(value, str | bool | None):
        return json.dumps(value)
    if isinstance(value, int):
        try:
            float(value)
        except OverflowError:  # a reader would make Infinity of it, which is null; and str() has a limit too
            return "null"
        return int.__repr__(value)
    if isinstance(value, EncodedArray):
        return value.joined().decode()
    if isinstance(value, float | orjson.Fragment):
        return orjson.dumps(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON value")
