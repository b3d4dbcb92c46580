"""Reads what a handler returned: an instance of a class of `results`, a plain dict in the wire's spelling, or None.

The value read is a copy that consists of JSON. A field of a wrong type is an error that names it, because a misread
result of an approval hook could allow what it meant to deny. Unknown keys of a dict are reported and left out; a dict
without any known key is an error. Has no access to chains, which decide what becomes of an error.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from pinnace_agent.core.json_values import NotJsonError, is_list, is_object, json_copy
from pinnace_agent.extensions.events import results
from pinnace_agent.extensions.events.base import camel_case
from pinnace_agent.extensions.events.blocks import known_blocks
from pinnace_agent.extensions.events.events import EVENTS
from pinnace_agent.extensions.events.results import UNSET, Result, ResultField, result_fields

ReportUnknown = Callable[[str, str], None]
"""Takes an unknown key and a sentence about it."""

# The default of a list.
_EMPTY: Final = ()
# An empty object changes nothing, except where a result is required.
_RESULT_REQUIRED: Final = ("project_trust", "user_bash")


class ResultError(Exception):
    """A handler returned a value that its event can't use; the text names what is wrong."""


def read_result(event: str, value: object, unknown: ReportUnknown | None = None) -> Result | None:
    """Return the result that a handler returned; None: nothing changes.

    Args:
        event: The event's name.
        value: What the handler returned. The result is a copy of it.
        unknown: Takes each unknown key of a dict.

    Raises:
        ResultError: The value is no result of this event, or a field of it is wrong or not JSON.
    """
    row = EVENTS.get(event)
    if row is None or row.result is None:
        return None
    if value is None:
        if event == "project_trust":
            raise ResultError("project_trust: a result is required: Trust(...) or {trusted, remember?}")
        return None
    if row.result is results.Payload:
        body = value.payload if isinstance(value, results.Payload) else value
        return results.Payload(_copied(event, "payload", body))
    if isinstance(value, results.Cancel) and row.is_cancellable:
        return value
    if event == "input" and isinstance(value, results.Continue | results.Handled):
        return value if isinstance(value, results.Handled) else None
    if event == "session_before_tree" and isinstance(value, results.TreeSummary):
        value = results.TreeOptions(summary=value)
    if row.result is results.Messages and is_list(value):
        value = {"messages": value}
    made = (
        _read_instance(event, row.result, value, unknown or _ignore)
        if isinstance(value, row.result)
        else _read_plain(event, row.result, value, unknown or _ignore, is_cancellable=row.is_cancellable)
    )
    if isinstance(made, results.UserBash) and (made.operations is None) == (made.result is None):
        raise ResultError("user_bash: exactly one of operations and result is needed")
    return made


def _ignore(_key: str, _text: str) -> None:
    """Drop the report."""


def _read_plain(
    event: str, result: type, value: object, unknown: ReportUnknown, *, is_cancellable: bool
) -> Result | None:
    if not is_object(value):
        raise ResultError(f"{event}: {_kind(value)} is not a result of this event; return {_wanted(result)}")
    given = {key: item for key, item in value.items() if item is not UNSET}
    if not given and event not in _RESULT_REQUIRED:
        return None
    has_known = False  # the remaining keys may all be unknown if one was known
    if is_cancellable:
        has_known = "cancel" in given
        if _pop_bool(event, given, "cancel"):
            _report(event, result, given, unknown)
            return results.Cancel()
    match event:
        case "session_before_compact":
            return _compaction(result, given, unknown, has_known=has_known)
        case "session_before_tree" if is_object(given.get("summary")):
            given["summary"] = _made(f"{event}: summary", results.TreeSummary, _pop_summary(given), unknown)
        case "input":
            action = given.pop("action", None)
            if action in ("continue", "handled"):
                for key in given:
                    unknown(key, f"input: {key!r} is ignored: action {action!r} takes no other field")
                return results.Handled() if action == "handled" else None
            if action != "transform":
                raise ResultError(f'input: action must be "continue", "transform" or "handled", {_fields(given)}')
        case "tool_call":
            has_known = "block" in given
            is_blocked = _pop_bool(event, given, "block")
            block = _made(event, result, given, unknown, has_known=has_known)
            return block if is_blocked else None
        case _:
            pass
    if has_known and not given.keys() & result_fields(result).keys():
        _report(event, result, given, unknown)
        return None
    return _made(event, result, given, unknown)


def _compaction(result: type, given: dict[str, object], unknown: ReportUnknown, *, has_known: bool) -> Result | None:
    """Read the result of `session_before_compact`, after `cancel` was taken out."""
    event = "session_before_compact"
    value = given.pop("compaction", UNSET)
    if given and value is UNSET and not has_known:
        raise ResultError(f"{event}: there is no field {min(given)!r}; there are 'compaction' and 'cancel'")
    for key in given:
        unknown(key, f"{event}: there is no field {key!r}, which is left out; there are 'compaction' and 'cancel'")
    if value is UNSET:
        return None
    if isinstance(value, results.Compaction):
        value = {camel_case(each.name): getattr(value, each.name) for each in dataclasses.fields(value)}
    if not is_object(value):
        raise ResultError(f"{event}: compaction must be an object, not {_kind(value)}")
    return _made(event, result, value, unknown)


def _pop_summary(given: dict[str, object]) -> Mapping[str, object]:
    summary = given.pop("summary")
    assert is_object(summary)
    return summary


def _pop_bool(event: str, given: dict[str, object], name: str) -> bool:
    value = given.pop(name, None)
    if value is not None and not isinstance(value, bool):
        raise ResultError(f"{event}: {name} must be true or false, not {_kind(value)}")
    return value is True


def _made(
    place: str, result: type, given: Mapping[str, object], unknown: ReportUnknown, *, has_known: bool = False
) -> Result:
    """Make a result of wire fields: at least one must be known, and the known ones must be valid.

    Args:
        place: Where the fields are, for error texts.
        result: The class of the result.
        given: The fields.
        unknown: Takes the unknown ones.
        has_known: Whether a known field was taken out before.
    """
    known = result_fields(result)
    if given and not has_known and not given.keys() & known.keys():
        raise ResultError(f"{place}: there is no field {min(given)!r}; expected {_wanted(result)}")
    _report(place, result, given, unknown)
    values: dict[str, object] = {}
    for expected in known.values():
        if expected.wire_name in given:
            values[expected.name] = _field(place, expected.wire_name, expected, given[expected.wire_name], unknown)
        elif expected.is_required:
            raise ResultError(f"{place}: {expected.wire_name!r} is missing")
    made: Result = result(**values)
    return made


def _report(place: str, result: type, given: Mapping[str, object], unknown: ReportUnknown) -> None:
    for key in given.keys() - result_fields(result).keys():
        unknown(key, f"{place}: there is no field {key!r}, which is left out; expected {_wanted(result)}")


def _field(place: str, name: str, expected: ResultField, value: object, unknown: ReportUnknown) -> object:
    """Return a copy of a field's value.

    Raises:
        ResultError: The value fails the field's check.
    """
    wire = expected.wire
    if wire.is_content:
        value = known_blocks(value, unknown)
    if wire.is_data:
        value = _copied(place, name, value)
    elif isinstance(value, results.TreeSummary):
        value = _read_instance(place, results.TreeSummary, value, unknown)
    if wire.keys and is_object(value):
        for key in value.keys() - wire.keys:
            known = ", ".join(sorted(wire.keys))
            unknown(f"{name}.{key}", f"{place}: {name} has no field {key!r}, which is left out; there are {known}")
        value = {key: known_blocks(item, unknown) for key, item in value.items() if key in wire.keys}
    if not wire.check(value):
        raise ResultError(f"{place}: {name} must be {wire.expected}, not {_kind(value)}")
    return value


def _copied(place: str, name: str, value: object) -> object:
    try:
        return json_copy(value, name)
    except NotJsonError as error:
        raise ResultError(f"{place}: {error}") from error


def _read_instance(event: str, result: type, value: object, unknown: ReportUnknown) -> Result:
    """Check an instance as a dict is checked: type annotations are not enforced at run time."""
    values: dict[str, object] = {}
    for expected in result_fields(result).values():
        field_value = getattr(value, expected.name)
        if field_value is not UNSET and field_value != _EMPTY:
            values[expected.name] = _field(event, expected.name, expected, field_value, unknown)
    return dataclasses.replace(value, **values)  # type: ignore[type-var, return-value]  # a result of ours


def _wanted(result: type) -> str:
    names = ", ".join(result_fields(result))
    return f"{result.__name__}(...) or an object of {names}" if names else f"{result.__name__}()"


def _fields(given: Mapping[str, object]) -> str:
    return f"with text and images only to transform, not with {', '.join(sorted(given)) or 'nothing'}"


def _kind(value: object) -> str:
    """Name the type of a value without the value, which may be large or secret."""
    names: dict[type, str] = {bool: "a bool", int: "a number", float: "a number", str: "a string", list: "a list"}
    names[dict] = "an object"
    kind: type = type(value)
    return "None" if value is None else names.get(kind, f"a {kind.__name__}")
