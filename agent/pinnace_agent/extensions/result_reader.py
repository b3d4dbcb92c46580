"""Reads what a handler has returned: one of `results`, a plain dict in wire spelling, or nothing.

Strict: a field that is not known or not of its type is an error that names it, since a gate whose answer is misread
would let through what it meant to stop. Must not know chains, nor what becomes of an error.
"""

from collections.abc import Mapping
from dataclasses import fields

from pinnace_agent.extensions import results
from pinnace_agent.extensions.event_base import camel_case
from pinnace_agent.extensions.result_shapes import (
    CANCELLABLE,
    MESSAGES,
    RESULT_EVENTS,
    SHAPES,
    TREE_SUMMARY,
    ResultShape,
    is_list,
    is_object,
)
from pinnace_agent.extensions.results import UNSET, Result


class ResultError(Exception):
    """A handler returned what its event has no use for; the text says what."""


def read_result(event: str, value: object) -> Result | None:
    """Return what a handler meant; None: nothing is to change.

    Raises:
        ResultError: The value can't be meant for this event, or a field of it is wrong.
    """
    if event not in RESULT_EVENTS:
        return None
    if value is None:
        if event == "project_trust":
            raise ResultError("project_trust: an answer is needed: Trust(...) or {trusted, remember?}")
        return None
    if event == "before_provider_request":
        return value if isinstance(value, results.Payload) else results.Payload(value)
    if isinstance(value, results.Cancel) and event in CANCELLABLE:
        return value
    if event == "input" and isinstance(value, results.Continue | results.Handled):
        return value if isinstance(value, results.Handled) else None
    if event == "session_before_tree" and isinstance(value, results.TreeSummary):
        value = results.TreeOptions(summary=value)
    shape = SHAPES[event]
    if shape is MESSAGES and is_list(value):
        value = {"messages": value}
    made = _read_instance(event, shape, value) if isinstance(value, shape.result) else _read_plain(event, shape, value)
    if isinstance(made, results.UserBash) and (made.operations is None) == (made.result is None):
        raise ResultError("user_bash: exactly one of operations and result is needed")
    return made


def _read_plain(event: str, shape: ResultShape, value: object) -> Result | None:
    if not is_object(value):
        raise ResultError(f"{event}: {_article(value)} is no answer to this event; {_wanted(shape)} is")
    given = dict(value)
    if event in CANCELLABLE and _pop_bool(event, given, "cancel"):
        return results.Cancel()
    match event:
        case "session_before_compact":
            if not given:
                return None
            given = _pop_object(event, given, "compaction")
        case "session_before_tree" if is_object(given.get("summary")):
            given["summary"] = _made(f"{event}: summary", TREE_SUMMARY, dict(_pop_summary(given)))
        case "input":
            action = given.pop("action", None)
            if action in ("continue", "handled") and not given:
                return results.Handled() if action == "handled" else None
            if action != "transform":
                raise ResultError(f'input: action must be "continue", "transform" or "handled", {_fields(given)}')
        case "tool_call":
            is_blocked = _pop_bool(event, given, "block")
            block = _made(event, shape, given)
            return block if is_blocked else None
        case _:
            pass
    if event == "session_before_switch" and not given:
        return None
    return _made(event, shape, given)


def _pop_summary(given: dict[str, object]) -> Mapping[str, object]:
    summary = given.pop("summary")
    assert is_object(summary)
    return summary


def _pop_bool(event: str, given: dict[str, object], name: str) -> bool:
    value = given.pop(name, None)
    if value is not None and not isinstance(value, bool):
        raise ResultError(f"{event}: {name} must be true or false, not {_article(value)}")
    return value is True


def _pop_object(event: str, given: dict[str, object], name: str) -> dict[str, object]:
    value = given.pop(name, None)
    if given:
        raise ResultError(f"{event}: there is no field {min(given)!r}; there are {name!r} and 'cancel'")
    if isinstance(value, results.Compaction):
        return {camel_case(each.name): getattr(value, each.name) for each in fields(value)}
    if not is_object(value):
        raise ResultError(f"{event}: {name} must be an object, not {_article(value)}")
    return dict(value)


def _made(place: str, shape: ResultShape, given: Mapping[str, object]) -> Result:
    """Make a result of wire fields, all of which must be known and right."""
    values: dict[str, object] = {}
    for wire_name, value in given.items():
        expected = shape.fields.get(wire_name)
        if expected is None:
            raise ResultError(f"{place}: there is no field {wire_name!r}; {_wanted(shape)} is known")
        if not expected.check(value):
            raise ResultError(f"{place}: {wire_name} must be {expected.expected}, not {_article(value)}")
        values[expected.name or _snake_case(wire_name)] = value
    for wire_name, expected in shape.fields.items():
        if expected.is_required and wire_name not in given:
            raise ResultError(f"{place}: {wire_name!r} is missing")
    made: Result = shape.result(**values)
    return made


def _read_instance(event: str, shape: ResultShape, value: object) -> Result:
    """Hold one of ours to the same shape: types of fields are hints only until somebody looks."""
    for wire_name, expected in shape.fields.items():
        name = expected.name or _snake_case(wire_name)
        field_value = getattr(value, name)
        if field_value is not UNSET and not expected.check(field_value):
            raise ResultError(f"{event}: {name} must be {expected.expected}, not {_article(field_value)}")
    return value  # type: ignore[return-value]


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
