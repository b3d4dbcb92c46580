"""The exact shape of a line that holds a message, for reading long files without making objects of what they hold.

Pure. The shape is derived from the types in `pinnace_spec.records.messages`.
A line that has it holds one well-formed message
(`message_repair.whole_message` would return it unchanged), is valid JSON down to its last byte, and has no field that
is unknown here, so it can be kept as bytes until its message is needed. Any other line may be just as good: the reader
decodes it at once.

Imports msgspec, which takes some milliseconds: import this module only for files that are long enough to gain them.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import repeat
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Optional, TypeAlias, Union, get_args, get_origin

import msgspec
from typing_extensions import get_type_hints, is_typeddict

from pinnace_agent.session.store.entries import MESSAGE_KINDS, Head, StoredMessage, StoredUsage
from pinnace_spec.records.messages import AssistantMessage, Message, ToolCall
from pinnace_spec.wire.json_text import EncodedArray, encode_value

# As `llm.json_edge` counts and measures: not negative, and the same number for every reader of JSON.
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
_Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_TAGS: Final = ("role", "type")
"""The field that distinguishes types of messages, or of blocks."""

_OTHER_SHAPE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


# A block of lines is decoded in one call; its texts are there until the next one. One that holds a line of another
# shape is halved, down to so few lines that reading them one by one costs no more than trying again.
_BLOCK_LINES: Final = 128
_FEW_LINES: Final = 8
# Most programs write the type first, with a blank or without. A line that begins with another type ends a block, since
# it would fail there; what begins in another way may hold a message.
_BEGINNINGS: Final = (b'{"type":"message"', b'{"type": "message"')
_may_hold_message: Final = re.compile(rb'\{(?![ \t]*"type"[ \t]*:[ \t]*"(?!message"))').match
_CLOSING: Final = ord("}")
_LF: Final = b"\n"
_CR: Final = b"\r"
_CRLF: Final = b"\r\n"


class LineStretch(NamedTuple):
    """Lines that follow each other and all hold a message of the shape, or none."""

    heads: list[Head]
    messages: list[StoredMessage]
    usages: list[StoredUsage]
    """Of these messages, in their order."""
    end: int
    """Where the next line begins; if there are none, up to where lines have to be read one by one, one at least."""


class LineReader:
    """Reads lines, in blocks or one by one."""

    def __init__(self) -> None:
        """Derive the shape: two or three milliseconds."""
        parent: Any = Optional[_Id]  # noqa: UP045 - `|` takes no annotated type
        fields: list[Any] = [
            ("type", Literal["message"]),  # a tag outside of a union may be absent
            ("id", _Id),
            ("parentId", parent),
            ("timestamp", str),
            ("message", _shape_of(Message)),
            ("messageId", Optional[_Id], None),  # noqa: UP045
        ]
        decoder: Any = msgspec.json.Decoder(_struct("MessageLine", fields))
        self._decode: Any = decoder.decode
        self._decode_lines: Any = decoder.decode_lines
        self._roles = {_struct_of(each): str(_tag_of(each)[1]) for each in get_args(Message)}
        self._kinds = {shape: MESSAGE_KINDS[role] for shape, role in self._roles.items()}
        self._call = _struct_of(ToolCall)
        self._answer = _struct_of(AssistantMessage)
        self._using = {shape for shape in self._roles if "usage" in shape.__struct_fields__}
        self._lines = _BLOCK_LINES
        """How many to try in the next block: fewer where lines of another shape are near."""

    def read(self, line: bytes) -> tuple[Head, StoredMessage] | None:
        """Return what a line holds, or None if it has another shape or blanks around it. Never raises.

        The line may end with the CR of CRLF. Lines that stay as they are will be written to clients, so there must be
        nothing at which a reader of lines splits: no other CR, which is a blank in JSON.
        """
        line = line.removesuffix(_CR)
        if not (line.startswith(b"{") and line.endswith(b"}")) or _CR in line:
            return None
        try:
            read = self._decode(line)
        except _OTHER_SHAPE:
            return None
        heads, messages, _ = self._facts([read], line, [0], [len(line)])
        return heads[0], messages[0]

    def read_block(self, data: bytes, start: int) -> LineStretch:
        """Return what the lines from an offset on hold, as many as make a block. Never raises.

        However they are spelled: blanks, the order of fields and the ends of lines are the writer's. Nothing if one of
        the first lines has another shape or blanks around it: `read` knows more of each.
        """
        starts: list[int] = []
        ends: list[int] = []
        begins, find, place, most = data.startswith, data.find, start, self._lines
        while len(starts) < most and (begins(_BEGINNINGS, place) or _may_hold_message(data, place)):
            end = find(_LF, place)
            if end < 0:
                break
            next_place = end + 1
            if data[end - 1] != _CLOSING:
                end -= 1
                if not begins(_CRLF, end) or data[end - 1] != _CLOSING:
                    break
            starts.append(place)
            ends.append(end)
            place = next_place
        while (rows := self._rows(data, starts, ends, place)) is None:
            count = len(starts) // 2
            self._lines = max(count, _FEW_LINES)
            if count < _FEW_LINES:
                return LineStretch([], [], [], place)
            place = starts[count]
            del starts[count:], ends[count:]
        self._lines = min(2 * self._lines, _BLOCK_LINES)
        return LineStretch(*self._facts(rows, data, starts, ends), place)

    def _rows(self, data: bytes, starts: list[int], ends: list[int], end: int) -> list[Any] | None:
        """Decode the lines up to an offset; None if they are not as many messages of the shape."""
        start = starts[0] if starts else end
        if found := data.count(_CR, start, end):
            behind_lines = end - start - sum(ends) + sum(starts)
            if found != behind_lines - len(starts):  # one is inside of a line
                return None
        try:
            with memoryview(data) as view, view[start:end] as block:
                rows: list[Any] = self._decode_lines(block)
        except _OTHER_SHAPE:
            return None
        # No value of JSON continues from "}" over LF to "{", so each of these lines holds at least one: if they are as
        # many as the lines, each holds exactly one.
        return rows if len(rows) == len(starts) else None

    def _facts(
        self, rows: list[Any], data: bytes, starts: list[int], ends: list[int]
    ) -> tuple[list[Head], list[StoredMessage], list[StoredUsage]]:
        """Take out of decoded lines what is kept. One pass for each field: that is several times faster."""
        messages: list[Any] = [row.message for row in rows]
        shapes: list[Any] = list(map(type, messages))
        heads = zip(
            [row.id for row in rows],
            [row.parentId for row in rows],
            map(self._kinds.__getitem__, shapes),
            strict=True,
        )
        answer, call, using = self._answer, self._call, self._using
        pairs = list(zip(messages, shapes, strict=True))
        # One may be unset.
        usages: list[Any] = [each.usage or None if shape in using else None for each, shape in pairs]
        fields = zip(
            repeat(data),
            starts,
            ends,
            map(self._roles.__getitem__, shapes),
            [each.timestamp for each in messages],
            usages,
            [each.stopReason if shape is answer else None for each, shape in pairs],
            [list(map(type, each.content)).count(call) if shape is answer else 0 for each, shape in pairs],
            [row.messageId for row in rows],
            strict=False,
        )
        return list(heads), list(map(StoredMessage._make, fields)), [each for each in usages if each is not None]


def _shape_of(declared: Any) -> Any:
    """Translate a declared type into what msgspec checks."""
    if declared is int:
        return _Count
    if declared is float:
        return _Amount
    if declared is object:
        return Any
    if is_typeddict(declared):
        return _struct_of(declared)
    origin: Any = get_origin(declared)
    parts = tuple(map(_shape_of, get_args(declared)))
    if origin in (Union, UnionType):
        return Union[parts]  # noqa: UP007 - of a tuple that is not known before
    container: Any = {list: list, dict: dict}.get(origin)
    return declared if container is None else container[parts]


@cache
def _struct_of(declared: Any) -> type[msgspec.Struct]:
    tag_field, tag = _tag_of(declared)
    hints = {name: _shape_of(hint) for name, hint in get_type_hints(declared).items() if name != tag_field}
    # In the order in which they are declared, which is nearly the one in which they are written.
    required: list[Any] = [(name, hint) for name, hint in hints.items() if name in declared.__required_keys__]
    absent = msgspec.UNSET
    optional: list[Any] = [
        (name, hint | msgspec.UnsetType, absent) for name, hint in hints.items() if name in declared.__optional_keys__
    ]
    return _struct(declared.__name__, required + optional, tag_field, tag)


def _struct(name: str, fields: list[Any], tag_field: str | None = None, tag: str | None = None) -> type[msgspec.Struct]:
    # What is made is read and discarded: it needs no collector.
    return msgspec.defstruct(name, fields, tag_field=tag_field, tag=tag, forbid_unknown_fields=True, gc=False)


def _tag_of(declared: Any) -> tuple[str | None, str | None]:
    hints = get_type_hints(declared)
    for name in _TAGS:
        if get_origin(hints.get(name)) is Literal:
            return name, get_args(hints[name])[0]
    return None, None


class _Line(msgspec.Struct, gc=False):
    message: msgspec.Raw


def encoded_messages(items: Iterable[StoredMessage | Message]) -> EncodedArray:
    """Encode messages, of which some are lines. What came from lines is not copied."""
    return EncodedArray(_pieces(items))


def _pieces(items: Iterable[StoredMessage | Message]) -> Iterator[bytes | msgspec.Raw]:
    """Yield each message as JSON. Lines that follow each other are read in one call."""
    read = msgspec.json.Decoder(_Line).decode_lines
    source, start, end = b"", 0, 0

    def messages_read() -> Iterator[msgspec.Raw]:
        return (line.message for line in read(memoryview(source)[start:end]))

    for item in items:
        if isinstance(item, StoredMessage):
            if item[0] is source and 0 < item[1] - end <= 2:  # behind the LF or CRLF of the line before
                end = item[2]
                continue
            yield from messages_read()
            source, start, end = item[:3]
        else:
            yield from messages_read()
            source, start, end = b"", 0, 0
            yield encode_value(item)
    yield from messages_read()
