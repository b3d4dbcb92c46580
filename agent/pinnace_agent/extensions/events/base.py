"""The base of all events of extensions: name, fields, and conversion to and from the wire.

The wire names of fields are computed once for each class. Events that are created for every token of a stream are
compiled dataclasses; the others share their methods (`uncompiled`), since most are never created.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import ClassVar, Final, NamedTuple, Self, TypeVar

from pinnace_agent.extensions.events.uncompiled import Fields, mutable

_EventT = TypeVar("_EventT", bound="Event")


class WireField(NamedTuple):
    """One field, here and on the wire."""

    name: str
    wire_name: str
    is_optional: bool
    """Whether it may be missing, and is left out when it is None."""


@mutable
class Event(Fields):
    """Base of all events. Attributes can't be added; each event's docstring says which fields may be changed."""

    type: ClassVar[str] = ""
    """The name that handlers register for, as on the wire."""

    def to_wire(self) -> dict[str, object]:
        """Return the event as a record in wire spelling. Values are not copied."""
        record: dict[str, object] = {"type": self.type}
        for name, wire_name, is_optional in wire_fields(type(self)):
            value = getattr(self, name)
            if value is not None or not is_optional:
                record[wire_name] = value
        return record

    @classmethod
    def from_wire(cls, record: Mapping[str, object]) -> Self:
        """Make an event from a record. Unknown fields are ignored; values are not copied.

        Raises:
            ValueError: The record is of another event, or a field is missing; the text names it.
        """
        return read_record(cls, record)


def read_record(event: type[_EventT], record: Mapping[str, object]) -> _EventT:
    """Make an event of exactly this class; see `Event.from_wire`."""
    if record.get("type", event.type) != event.type:
        raise ValueError(f"{event.type}: this is a record of {record['type']}")
    values: dict[str, object] = {}
    for name, wire_name, is_optional in wire_fields(event):
        if wire_name in record:
            values[name] = record[wire_name]
        elif not is_optional:
            raise ValueError(f'{event.type}: "{wire_name}" is missing')
    return event(**values)


def wire_fields(event: type[Event]) -> tuple[WireField, ...]:
    """Return the fields of an event in their order."""
    if (known := _fields.get(event)) is None:
        known = _fields[event] = tuple(
            WireField(
                each.name, camel_case(each.name), each.default is not MISSING or each.default_factory is not MISSING
            )
            for each in fields(event)
        )
    return known


_fields: Final[dict[type[Event], tuple[WireField, ...]]] = {}


def camel_case(name: str) -> str:
    """Return the wire spelling of a name: `tool_call_id` is `toolCallId`, `continue_` is `continue`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)
