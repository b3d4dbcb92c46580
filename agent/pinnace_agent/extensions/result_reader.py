"""Reads what a handler has returned: one of `results`, a plain dict in wire spelling, or nothing.

What is read is a copy, all of it JSON. Strict: a field that is not of its type is an error that names it, since a gate
whose answer is misread would let through what it meant to stop. Of a dict the fields that are known count, and the
others are reported; one without any that is known can't be meant. Must not know chains, nor what becomes of an error.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Final

from pinnace_agent.extensions import results
from pinnace_agent.extensions.event_base import camel_case
from pinnace_agent.extensions.json_values import NotJsonError, json_copy
from pinnace_agent.extensions.result_shapes import (
    CANCELLABLE,
    MESSAGES,
    RESULT_EVENTS,
    SHAPES,
    TREE_SUMMARY,
    ResultField,
    ResultShape,
    is_list,
    is_object,
    known_blocks,
)
from pinnace_agent.extensions.results import UNSET, Result

ReportUnknown = Callable[[str, str], None]
"""Takes a key that is not known, and a sentence about it."""

# The default of a list.
_NOTHING_GIVEN: Final = ()
# An empty object answers nothing, except where an answer is needed.
_ANSWER_NEEDED = ("project_trust", "user_bash")


class ResultError(Exception):
    """A handler returned what its event has no use for; the text says what."""


def read_result(event: str, value: object, unknown: ReportUnknown | None = None) -> Result | None:
    """Return what a handler meant; None: nothing is to change.

    Args:
        event: Its name.
        value: What the handler returned. Nothing of it is kept: what is returned is a copy.
        unknown: Takes each key of a dict that is not known.

    Raises:
        ResultError: The value can't be meant for this event, or a field of it is wrong or no JSON.
    """
    if event not in RESULT_EVENTS:
        return None
    if value is None:
        if event == "project_trust":
            raise ResultError("project_trust: an answer is needed: Trust(...) or {trusted, remember?}")
        return None
    if event == "before_provider_request":
        body = value.payload if isinstance(value, results.Payload) else value
        return results.Payload(_copied(event, "payload", body))
    if isinstance(value, results.Cancel) and event in CANCELLABLE:
        return value
    if event == "input" and isinstance(value, results.Continue | results.Handled):
        return value if isinstance(value, results.Handled) else None
    if event == "session_before_tree" and isinstance(value, results.TreeSummary):
        value = results.TreeOptions(summary=value)
    shape = SHAPES[event]
    if shape is MESSAGES and is_list(value):
        value = {"messages": value}
    made = (
        _read_instance(event, shape, value, unknown or _ignore)
        if isinstance(value, shape.result)
        else _read_plain(event, shape, value, unknown or _ignore)
    )
    if isinstance(made, results.UserBash) and (made.operations is None) == (made.result is None):
        raise ResultError("user_bash: exactly one of operations and result is needed")
    return made


def _ignore(_key: str, _text: str) -> None:
    """Nobody wants to know."""


def _read_plain(event: str, shape: ResultShape, value: object, unknown: ReportUnknown) -> Result | None:
    if not is_object(value):
        raise ResultError(f"{event}: {_article(value)} is no answer to this event; {_wanted(shape)} is")
    given = {key: item for key, item in value.items() if item is not UNSET}
    if not given and event not in _ANSWER_NEEDED:
        return None
    has_known = False  # what is left may all be unknown: something was understood
    if event in CANCELLABLE:
        has_known = "cancel" in given
        if _pop_bool(event, given, "cancel"):
            _report(event, shape, given, unknown)
            return results.Cancel()
    match event:
        case "session_before_compact":
            return _compaction(shape, given, unknown, has_known=has_known)
        case "session_before_tree" if is_object(given.get("summary")):
            given["summary"] = _made(f"{event}: summary", TREE_SUMMARY, _pop_summary(given), unknown)
        case "input":
            action = given.pop("action", None)
            if action in ("continue", "handled"):
                for key in given:
                    unknown(key, f"input: {key!r} is passed over: with action {action!r} there is nothing else")
                return results.Handled() if action == "handled" else None
            if action != "transform":
                raise ResultError(f'input: action must be "continue", "transform" or "handled", {_fields(given)}')
        case "tool_call":
            has_known = "block" in given
            is_blocked = _pop_bool(event, given, "block")
            block = _made(event, shape, given, unknown, has_known=has_known)
            return block if is_blocked else None
        case _:
            pass
    if has_known and not given.keys() & shape.fields.keys():
        _report(event, shape, given, unknown)
        return None
    return _made(event, shape, given, unknown)


def _compaction(
    shape: ResultShape, given: dict[str, object], unknown: ReportUnknown, *, has_known: bool
) -> Result | None:
    """Read the answer to `session_before_compact`, of which `cancel` was read."""
    event = "session_before_compact"
    value = given.pop("compaction", UNSET)
    if given and value is UNSET and not has_known:
        raise ResultError(f"{event}: there is no field {min(given)!r}; there are 'compaction' and 'cancel'")
    for key in given:
        unknown(key, f"{event}: there is no field {key!r}, which is left out; there are 'compaction' and 'cancel'")
    if value is UNSET:
        return None
    if isinstance(value, results.Compaction):
        value = {camel_case(each.name): getattr(value, each.name) for each in fields(value)}
    if not is_object(value):
        raise ResultError(f"{event}: compaction must be an object, not {_article(value)}")
    return _made(event, shape, value, unknown)


def _pop_summary(given: dict[str, object]) -> Mapping[str, object]:
    summary = given.pop("summary")
    assert is_object(summary)
    return summary


def _pop_bool(event: str, given: dict[str, object], name: str) -> bool:
    value = given.pop(name, None)
    if value is not None and not isinstance(value, bool):
        raise ResultError(f"{event}: {name} must be true or false, not {_article(value)}")
    return value is True


def _made(
    place: str, shape: ResultShape, given: Mapping[str, object], unknown: ReportUnknown, *, has_known: bool = False
) -> Result:
    """Make a result of wire fields; those that are known must be right, and there must be one.

    Args:
        place: Where they stand, for the text of an error.
        shape: What is known.
        given: The fields.
        unknown: Takes the others.
        has_known: A field that is known was taken out before.
    """
    if given and not has_known and not given.keys() & shape.fields.keys():
        raise ResultError(f"{place}: there is no field {min(given)!r}; {_wanted(shape)} is known")
    _report(place, shape, given, unknown)
    values: dict[str, object] = {}
    for wire_name, expected in shape.fields.items():
        if wire_name in given:
            value = _field(place, wire_name, expected, given[wire_name], unknown)
            values[expected.name or _snake_case(wire_name)] = value
        elif expected.is_required:
            raise ResultError(f"{place}: {wire_name!r} is missing")
    made: Result = shape.result(**values)
    return made


def _report(place: str, shape: ResultShape, given: Mapping[str, object], unknown: ReportUnknown) -> None:
    for key in given.keys() - shape.fields.keys():
        unknown(key, f"{place}: there is no field {key!r}, which is left out; {_wanted(shape)} is known")


def _field(place: str, name: str, expected: ResultField, value: object, unknown: ReportUnknown) -> object:
    """Return a copy of the value of one field, if it is right."""
    if expected.is_content:
        value = known_blocks(value, unknown)
    if expected.is_data:
        value = _copied(place, name, value)
    elif isinstance(value, results.TreeSummary):
        value = _read_instance(place, TREE_SUMMARY, value, unknown)
    if expected.keys and is_object(value):
        for key in value.keys() - expected.keys:
            known = ", ".join(sorted(expected.keys))
            unknown(f"{name}.{key}", f"{place}: {name} has no field {key!r}, which is left out; there are {known}")
        value = {key: known_blocks(item, unknown) for key, item in value.items() if key in expected.keys}
    if not expected.check(value):
        raise ResultError(f"{place}: {name} must be {expected.expected}, not {_article(value)}")
    return value


def _copied(place: str, name: str, value: object) -> object:
    try:
        return json_copy(value, name)
    except NotJsonError as error:
        raise ResultError(f"{place}: {error}") from error


def _read_instance(event: str, shape: ResultShape, value: object, unknown: ReportUnknown) -> Result:
    """Hold one of ours to the same shape: types of fields are hints only until somebody looks."""
    values: dict[str, object] = {}
    for wire_name, expected in shape.fields.items():
        name = expected.name or _snake_case(wire_name)
        field_value = getattr(value, name)
        if field_value is not UNSET and field_value != _NOTHING_GIVEN:
            values[name] = _field(event, name, expected, field_value, unknown)
    return dataclasses.replace(value, **values)  # type: ignore[type-var, return-value]  # a result of ours


def _wanted(shape: ResultShape) -> str:
    names = ", ".join(shape.fields)
    return f"{shape.result.__name__}(...) or an object of {names}" if names else f"{shape.result.__name__}()"


def _fields(given: Mapping[str, object]) -> str:
    return f"with text and images only to transform, not with {', '.join(sorted(given)) or 'nothing'}"


def _article(value: object) -> str:
    """Name what was given without telling its value, which may be large or secret."""
    names: dict[type, str] = {bool: "a bool", int: "a number", float: "a number", str: "a text", list: "a list"}
    names[dict] = "an object"
    kind: type = type(value)
    return "nothing" if value is None else names.get(kind, f"a {kind.__name__}")


def _snake_case(wire_name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in wire_name)
