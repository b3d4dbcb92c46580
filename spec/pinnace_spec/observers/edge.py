"""Reads fields of arbitrary records, with a default where they are missing or of another type.

Pure. Raises nothing for any JSON value. The caller decides what a wrong type means.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pinnace_spec.observers.verdicts import Record, Step
from pinnace_spec.wire.file_texts import message_words

EMPTY: Final[Record] = {}
_NOTHING: Final[Sequence[Any]] = ()
# The length to which quoted texts are cut.
_SHOWN_CHARACTERS: Final = 60
_ONE_NAME: Final[Mapping[object, str]] = {
    "auto_compaction_start": "compaction_start",
    "auto_compaction_end": "compaction_end",
}


def as_record(value: object) -> Record:
    """Take an object as it is, anything else as an empty one."""
    # Most are objects as a parser of JSON makes them: no question to an abstract class for these.
    if isinstance(value, dict):
        return cast(Record, value)
    return cast(Record, value) if isinstance(value, Mapping) else EMPTY


def is_object(value: object) -> bool:
    """Return whether a value is an object."""
    return isinstance(value, Mapping)


def text(record: Record, key: str) -> str:
    """Read a text; empty if there is none."""
    return value if isinstance(value := record.get(key), str) else ""


def inner(record: Record, key: str) -> Record:
    """Read an object; empty if there is none."""
    return as_record(record.get(key))


def items(record: Record, key: str) -> Sequence[Any]:
    """Read a list; empty if there is none."""
    value: object = record.get(key)
    return cast(Sequence[Any], value) if isinstance(value, list | tuple) else _NOTHING


def number(record: Record, key: str) -> float | None:
    """Read a number; None where there is none. Booleans are not numbers."""
    value = record.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def count(record: Record, key: str) -> int | None:
    """Read a whole number; None where there is none."""
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def texts(record: Record, key: str) -> list[str] | None:
    """Read a list of texts; None where it is none."""
    value: object = record.get(key)
    if not isinstance(value, list):
        return None
    found = [each for each in cast("list[object]", value) if isinstance(each, str)]
    return found if len(found) == len(cast("list[object]", value)) else None


def blocks(message: Record) -> list[Record]:
    """Read the content of a message as blocks; a plain text is one block."""
    if isinstance(content := message.get("content"), str):
        return [{"type": "text", "text": content}]
    return [as_record(block) for block in items(message, "content")]


def words(message: Record) -> str:
    """Join the texts of a message, without those that go with it as context."""
    return message_words(text(block, "text") for block in blocks(message) if block.get("type") == "text")


def calls(message: Record) -> list[Record]:
    """Choose the tool calls of a message."""
    return [block for block in blocks(message) if block.get("type") == "toolCall"]


def out_kind(step: Step) -> str:
    """Return the type of a record of the agent; empty for records of the client, and without a type.

    Compactions have one name here for all generations.
    """
    record = step.record
    if record is None or step.direction != "out":
        return ""
    kind = record.get("type")
    return _ONE_NAME.get(kind, kind) if isinstance(kind, str) else ""


def id_key(value: object) -> str | None:
    """Return a hashable key for an id of any type; 1 and "1" differ. None: nested too deeply."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # the same number: -0.0 may come back as 0
    try:
        return json.dumps(value)
    except (RecursionError, ValueError, TypeError):
        return None


def is_equal(first: object, second: object) -> bool:
    """Compare values; two that are too deep to be compared are taken as equal."""
    try:
        return first == second
    except RecursionError:
        return True


def shown(value: str) -> str:
    """Write a text so that it fits into one line."""
    cut = value if len(value) <= _SHOWN_CHARACTERS else value[: _SHOWN_CHARACTERS - 1] + "…"
    return json.dumps(cut)
