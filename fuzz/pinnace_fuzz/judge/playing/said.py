"""Leaves the messages of role `system` out of records: later generations keep them, no user or model wrote them.

A scenario counts and lists messages in the same way for all generations. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object

ROLE: Final = "system"
COUNTS: Final = frozenset({"messageCount", "totalMessages"})
"""Fields that count all messages of a session."""


def is_said(record: Mapping[str, Any]) -> bool:
    """Say whether a record is about anything but a message of role `system`."""
    return (as_object(record.get("message")) or {}).get("role") != ROLE


def only_said(value: Any, unsaid: int = 0) -> Any:
    """Return a JSON value without such messages, and without the entries that hold one.

    Args:
        value: A record, or a part of one. It stays as it is.
        unsaid: How many such messages the session has: its counts are too high by this number.
    """
    if (items := as_list(value)) is not None:
        return [only_said(each, unsaid) for each in items if not _is_unsaid(each)]
    if not isinstance(value, Mapping):
        return value
    fields = cast("Mapping[str, Any]", value)
    return {
        key: each - unsaid if key in COUNTS and _is_number(each) else only_said(each, unsaid)
        for key, each in fields.items()
    }


def counts_messages(wanted: Any) -> bool:
    """Return whether the expectation of a record names one of the counts."""
    if isinstance(wanted, Mapping):
        fields = cast("Mapping[str, Any]", wanted)
        return not COUNTS.isdisjoint(fields) or any(counts_messages(each) for each in fields.values())
    return any(counts_messages(each) for each in as_list(wanted) or ())


def unsaid(messages: Sequence[Any]) -> int:
    """Count those messages."""
    return sum(_is_unsaid(each) for each in messages)


def _is_unsaid(value: object) -> bool:
    fields = as_object(value)
    return fields is not None and (fields.get("role") == ROLE or not is_said(fields))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
