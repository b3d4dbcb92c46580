"""Validates the arguments of a model against a tool's schema, after repairing mistakes that have one meaning only.

Pure. Implements the part of JSON schema that nearly all tools use: type, properties, required, items, enum, const,
anyOf, bounds of numbers and lengths; a schema that has more is also checked by `schema_keywords`. Properties that a
schema does not name are accepted, unless it forbids them. Rule R-TOL-04.
"""

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeGuard

from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.parameters import Schema
from pinnace_agent.tools.schema_keywords import LIMITS, keyword_problems

# As a text: it is compiled with its first use.
_NUMERAL: Final = r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\Z"


class InvalidArguments(ToolError):
    """Arguments that a tool's schema does not allow; `problems` has a line for each field, without the values."""

    def __init__(self, tool_name: str, problems: Sequence[tuple[str, str]], received: Mapping[str, object]) -> None:
        """Explain them to a model."""
        self.problems: Final = "\n".join(f"  - {path or 'root'}: {message}" for path, message in problems)
        shown = json.dumps(received, indent=2, ensure_ascii=False)
        super().__init__(f'Validation failed for tool "{tool_name}":\n{self.problems}\n\nReceived arguments:\n{shown}')


class ValidatedTool(Protocol):
    """The parts of a tool that validation uses."""

    @property
    def name(self) -> str:
        """The name, for the text of a failure."""
        ...

    @property
    def parameters(self) -> Schema:
        """The schema of the arguments."""
        ...

    @property
    def checks_itself(self) -> bool:
        """Whether what runs the tool checks its arguments itself, so that rare keywords are left to it."""
        ...

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Apply the tool's own repair, before validation."""
        ...


def validate_arguments(tool: ValidatedTool, raw: Mapping[str, object]) -> dict[str, object]:
    """Return a repaired, coerced and valid copy of the arguments. `raw` is not changed.

    Raises:
        InvalidArguments: The text lists every problem and the arguments as received.
        ToolError: The tool's own repair failed.
    """
    return _valid(tool, copy.deepcopy(dict(tool.prepare(raw))), raw)


def validate_changed(tool: ValidatedTool, arguments: dict[str, object]) -> dict[str, object]:
    """Return arguments that were valid and then changed, validated like those of a model.

    The tool's own repair, which has been applied, is not repeated. `arguments` is not changed; parts of it may be in
    the result.

    Raises:
        InvalidArguments: As `validate_arguments`.
    """
    return _valid(tool, arguments, arguments)


def _valid(tool: ValidatedTool, prepared: dict[str, object], received: Mapping[str, object]) -> dict[str, object]:
    arguments = _repair(prepared, tool.parameters)
    problems = list(_problems(arguments, tool.parameters, ""))
    if not problems and not tool.checks_itself:
        problems = list(keyword_problems(arguments, tool.parameters))
    if problems or not _is_object(arguments):
        raise InvalidArguments(tool.name, problems, received)
    return arguments


def schema_problem(value: object, schema: Schema) -> str | None:
    """Return the first way in which a value does not fit a schema; None: it fits."""
    return next((f"{path or 'root'}: {message}" for path, message in _problems(value, schema, "")), None)


def malformed_arguments(tool_name: str, problem: str) -> ToolError:
    """Return the failure of a call whose arguments are not JSON; the call must not run.

    `problem` is the call's `argumentsError`: the parser's text, and the text received.
    """
    return ToolError(f'Invalid arguments for tool "{tool_name}": {problem}')


# Repair: remove nulls that mean "not given", then coerce.


def _repair(value: object, schema: Schema) -> object:
    value = _coerced(value, schema)
    if _is_object(value):
        return _repaired_object(value, schema)
    items = schema.get("items")
    if _is_list(value) and _is_object(items):
        return [_repair(item, items) for item in value]
    return value


def _repaired_object(value: Mapping[str, object], schema: Schema) -> dict[str, object]:
    properties = schema.get("properties")
    if not _is_object(properties):
        return dict(value)
    required = schema.get("required")
    needed = required if _is_list(required) else ()
    repaired: dict[str, object] = {}
    for name, item in value.items():
        expected = properties.get(name)
        if not _is_object(expected):
            repaired[name] = item
        elif item is not None or name in needed or _accepts(None, expected):
            repaired[name] = _repair(item, expected)
        # else: with strict sampling models write null for an argument that they leave out
    return repaired


def _coerced(value: object, schema: Schema) -> object:
    """Return the value in a type that the schema accepts, if that is possible; else unchanged."""
    branches = _branches(schema)
    if any(_accepts(value, branch) for branch in branches):
        return value
    for branch in branches:
        for name in _type_names(branch):
            candidate = _as_type(value, name)
            # With one branch the type is enough: a string with a number out of bounds is a number out of bounds.
            is_meant = _has_type(candidate, name) if len(branches) == 1 else _accepts(candidate, branch)
            if candidate is not value and is_meant:
                return candidate
    return value


def _as_type(value: object, name: str) -> object:
    """Convert to a type of JSON schema; return the value itself if its meaning is ambiguous."""
    match name:
        case "number" | "integer":
            number = _as_number(value)
            if number is None or (name == "integer" and not float(number).is_integer()):
                return value
            return number
        case "boolean":
            if value is None or value == "false" or (_is_number(value) and value == 0):
                return False
            return True if value == "true" or (_is_number(value) and value == 1) else value
        case "string":
            # DEVIATION D-36: null is an empty string, not the word "null".
            if value is None:
                return ""
            if isinstance(value, bool):
                return "true" if value else "false"
            return number_text(value) if _is_number(value) else value
        case "null":
            return None if value == "" or value is False or (_is_number(value) and value == 0) else value
        case _:
            return value


def _as_number(value: object) -> int | float | None:
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and re.match(_NUMERAL, value):
        number = float(value)
        if number in (float("inf"), float("-inf")):
            return None
        return int(number) if number.is_integer() else number
    return None


def number_text(number: int | float) -> str:
    """Format a number as other languages' JSON does: a whole number without a fraction."""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


# Validation.


def _problems(value: object, schema: Schema, path: str) -> Iterable[tuple[str, str]]:
    branches = _branches(schema)
    if branches != (schema,):
        if not any(_accepts(value, branch) for branch in branches):
            yield path, "matches no alternative"
        return
    names = _type_names(schema)
    if names and not any(_has_type(value, name) for name in names):
        yield path, f"expected {' or '.join(names)}, got {_type_name(value)}"
        return
    yield from ((path, message) for message in _value_problems(value, schema))
    if _is_object(value):
        yield from _object_problems(value, schema, path)
    items = schema.get("items")
    if _is_list(value) and _is_object(items):
        for index, item in enumerate(value):
            yield from _problems(item, items, f"{path}.{index}" if path else str(index))


def _object_problems(value: Mapping[str, object], schema: Schema, path: str) -> Iterable[tuple[str, str]]:
    prefix = f"{path}." if path else ""
    properties = schema.get("properties")
    known = properties if _is_object(properties) else {}
    required = schema.get("required")
    for name in required if _is_list(required) else ():
        if isinstance(name, str) and name not in value:
            yield f"{prefix}{name}", "missing"
    for name, item in value.items():
        expected = known.get(name)
        if _is_object(expected):
            yield from _problems(item, expected, prefix + name)
        elif schema.get("additionalProperties") is False:
            yield prefix + name, "unknown field"


def _value_problems(value: object, schema: Schema) -> Iterable[str]:
    allowed = schema.get("enum")
    if _is_list(allowed) and value not in allowed:
        yield f"expected one of {_json(allowed)}"
    if "const" in schema and value != schema["const"]:
        yield f"expected {_json(schema['const'])}"
    for keyword, bounded, is_lower, wording in LIMITS:
        limit = schema.get(keyword)
        size = _size(value, bounded)
        if _is_number(limit) and size is not None and (size < limit if is_lower else size > limit):
            yield wording.format(limit)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(value: object, bounded: str) -> int | float | None:
    if bounded == "number":
        return value if _is_number(value) else None
    if bounded == "length of a string":
        return len(value) if isinstance(value, str) else None
    return len(value) if _is_list(value) else None


def _accepts(value: object, schema: Schema) -> bool:
    return next(iter(_problems(value, schema, "")), None) is None


def _branches(schema: Schema) -> tuple[Schema, ...]:
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if _is_list(branches):
            return tuple(branch for branch in branches if _is_object(branch))
    return (schema,)


def _type_names(schema: Schema) -> tuple[str, ...]:
    named = schema.get("type")
    if isinstance(named, str):
        return (named,)
    return tuple(name for name in named if isinstance(name, str)) if _is_list(named) else ()


def _has_type(value: object, name: str) -> bool:
    match name:
        case "object":
            return _is_object(value)
        case "array":
            return _is_list(value)
        case "string":
            return isinstance(value, str)
        case "number":
            return _is_number(value)
        case "integer":
            return _is_number(value) and (isinstance(value, int) or value.is_integer())
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case _:  # not a type of JSON schema: not enforced
            return True


def _type_name(value: object) -> str:
    """Return the type of a value by its name in a schema; a whole number is an integer."""
    names = ("null", "boolean", "integer", "number", "string", "array")
    return next((name for name in names if _has_type(value, name)), "object")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, Mapping)
