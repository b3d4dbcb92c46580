"""Tools made of functions: their schema, what they are called with, what they return."""

import enum
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field

from pinnace_agent.extensions.events.results import ToolResult
from pinnace_agent.extensions.registration.json_schema import check_schema
from pinnace_agent.extensions.registration.tool_schema import ToolFunction, names_around, tool_function
from pinnace_agent.extensions.runtime.tool_results import base_result, failed_result, tool_result
from pinnace_agent.tools import base
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.validation import validate_arguments


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """Where something is."""

    x: int
    title: str = "none"


class Node(BaseModel):
    name: str
    children: "list[Node]" = []


def made(function: object) -> ToolFunction:
    assert callable(function)
    return tool_function(function, None, {})


def properties(function: object) -> Mapping[str, object]:
    parameters = made(function).parameters
    Draft202012Validator.check_schema(dict(parameters))
    found = parameters["properties"]
    assert isinstance(found, dict)
    return found


def call(function: object, **arguments: object) -> object:
    """Call a function as a model's call ends up: validated, then by its own annotations."""
    tool = made(function)

    class Stand:
        name = "stand"
        parameters = tool.parameters
        checks_itself = False

        def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
            return raw

    return tool.execute("ctx", validate_arguments(Stand(), arguments))


def test_the_schema_is_that_of_the_signature() -> None:
    def greet(ctx: object, name: Annotated[str, "Whom to greet"], loud: bool = False) -> str:
        """Greet someone
        by name.

        More that no model reads.
        """
        return name

    tool = made(greet)
    assert "Greet someone by name." == tool.description
    assert {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom to greet"},
            "loud": {"type": "boolean", "default": False},
        },
        "required": ["name"],
        "additionalProperties": False,
    } == tool.parameters


def test_a_tool_may_have_no_parameters() -> None:
    def now(ctx: object) -> str:
        """Tell the time."""
        return "noon"

    assert {"type": "object", "properties": {}, "additionalProperties": False} == made(now).parameters
    assert "noon" == call(now)


def test_a_literal_is_an_enum() -> None:
    def paint(ctx: object, colour: Literal["red", "blue"], only: Literal["a"] = "a", kind: Colour = Colour.RED) -> None:
        """Paint."""

    assert {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "only": {"type": "string", "enum": ["a"], "default": "a"},
        "kind": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    } == properties(paint)


def test_null_means_the_same_as_a_missing_property() -> None:
    def look(ctx: object, path: str | None = None, depth: int | str | None = None, must: int | None = 3) -> None:
        """Look."""

    assert {
        "path": {"type": "string"},
        "depth": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "must": {"type": "integer", "default": 3},
    } == properties(look)


def test_models_inside_are_written_out() -> None:
    def move(ctx: object, to: Point, via: list[Point] = []) -> None:  # noqa: B006  # as authors write it
        """Move."""

    point = {
        "type": "object",
        "description": "Where something is.",
        "properties": {"x": {"type": "integer"}, "title": {"type": "string", "default": "none"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert {"to": point, "via": {"type": "array", "items": point, "default": []}} == properties(move)
    assert "$defs" not in made(move).parameters


def test_a_recursive_model_keeps_its_reference() -> None:
    def plant(ctx: object, tree: Node, deep: bool = False) -> None:
        """Plant."""

    parameters = dict(made(plant).parameters)
    validator = Draft202012Validator(parameters)
    assert validator.is_valid({"tree": {"name": "a", "children": [{"name": "b", "children": []}]}})
    assert not validator.is_valid({"tree": {"name": "a", "children": [{"name": 1}]}})


def test_fields_constrain() -> None:
    def wait(ctx: object, seconds: Annotated[float, Field(gt=0, le=60, description="How long")] = 1) -> None:
        """Wait."""

    assert {
        "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "default": 1, "description": "How long"}
    } == properties(wait)


def test_one_model_is_the_whole_schema() -> None:
    def mark(ctx: object, point: Point) -> int:
        """Mark."""
        return point.x

    assert {"x", "title"} == set(properties(mark))
    assert 3 == call(mark, x="3")


def test_a_schema_of_ones_own_gets_a_dict() -> None:
    def raw(ctx: object, params: dict[str, object]) -> object:
        """Raw."""
        return params

    schema = {"type": "object", "properties": {"a": {"type": "number"}}}
    tool = tool_function(raw, schema, {})
    assert schema is tool.parameters
    assert {"a": 1} == tool.execute("ctx", {"a": 1})


def test_arguments_have_the_types_of_the_annotations() -> None:
    def take(ctx: object, path: Path, colour: Colour, points: list[Point], count: int = 2) -> object:
        """Take."""
        return path, colour, points, count

    assert (Path("a"), Colour.BLUE, [Point(x=1)], 2) == call(take, path="a", colour="blue", points=[{"x": "1"}])


def test_arguments_are_repaired_as_those_of_any_tool() -> None:
    """A single value for a list, texts for numbers, null for what may be left out."""

    def take(ctx: object, names: list[str], count: int, loud: bool = True, limit: int | None = None) -> object:
        """Take."""
        return names, count, loud, limit

    assert (["a"], 3, True, None) == call(take, names=["a"], count="3", loud="true", limit=None)


def test_missing_arguments_use_the_functions_defaults() -> None:
    marker: list[int] = []

    def take(ctx: object, into: list[int] = marker) -> object:
        """Take."""
        return into

    assert marker is call(take)


def test_names_of_models_attributes_are_names_like_others() -> None:
    def copy(ctx: object, schema: str, json: str, _private: str, model_config: str) -> object:
        """Copy."""
        return schema + json + _private + model_config

    assert {"schema", "json", "_private", "model_config"} == set(properties(copy))
    assert "abcd" == call(copy, schema="a", json="b", _private="c", model_config="d")


def test_a_failed_pydantic_validation_is_an_error_for_the_model() -> None:
    """Of what its schema does not say."""

    def take(ctx: object, when: Annotated[str, AfterValidator(_number)]) -> None:
        """Take."""

    with pytest.raises(ToolError, match=r"(?s)^Validation failed for tool .take.:\n  - when: Value error, no number"):
        call(take, when="now")


def _number(text: str) -> str:
    if not text.isdigit():
        raise ValueError("no number")
    return text


async def test_an_async_function_stays_one() -> None:
    async def later(ctx: object, text: str) -> str:
        """Later."""
        return text

    answer = call(later, text="x")
    assert hasattr(answer, "__await__")
    assert "x" == await answer


def test_string_annotations_are_resolved_in_the_functions_module() -> None:
    """With `from __future__ import annotations`, also of classes that are local to the extension."""

    class Local(BaseModel):
        x: int

    def take(ctx: "ToolContext", point: "Local", path: "Path") -> "Nothing":  # type: ignore[name-defined]  # noqa: F821
        """Take."""

    tool = tool_function(take, None, names_around(0))
    assert {"point", "path"} == set(tool.parameters["properties"])  # type: ignore[call-overload]


BAD: list[tuple[object, str]] = []


def bad(text: str) -> object:
    def add(function: object) -> object:
        BAD.append((function, text))
        return function

    return add


@bad("the first parameter is the context: greet(ctx, ...)")  # type: ignore[operator]
def greet(name: str) -> None:
    """Greet."""


@bad("the first parameter is the context: nothing(ctx, ...)")  # type: ignore[operator]
def nothing() -> None:
    """Do nothing."""


@bad("use schema= and (ctx, params)")  # type: ignore[operator]
def anything(ctx: object, **params: object) -> None:
    """Take anything."""


@bad("name must not be positional-only")  # type: ignore[operator]
def positional(ctx: object, name: str, /) -> None:
    """Take a position."""


@bad("the annotation of name can't be resolved: name 'Missing' is not defined")  # type: ignore[operator]
def unknown(ctx: object, name: "Missing") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take something unknown."""


@bad("there is no JSON schema for its parameters")  # type: ignore[operator]
def strange(ctx: object, thread: BaseException) -> None:
    """Take something strange."""


@pytest.mark.parametrize(("function", "text"), BAD, ids=[getattr(each[0], "__name__", "") for each in BAD])
def test_an_error_explains_why_a_function_can_not_be_a_tool(function: object, text: str) -> None:
    with pytest.raises(TypeError) as error:
        made(function)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("no", 'must be a JSON schema with "type": "object"'),
        ({"type": "string"}, 'must be a JSON schema with "type": "object"'),
        ({"type": "object", "properties": []}, "properties of its parameters must be JSON schemas"),
        ({"type": "object", "properties": {"a": str}}, "properties of its parameters must be JSON schemas"),
        ({"type": "object", "required": "a"}, "required must be a list of names"),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, "'b' is required, but is not a property"),
        ({"type": "object", "description": object()}, "its parameters are not JSON"),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: object, text: str) -> None:
    with pytest.raises(TypeError) as error:
        check_schema("tool x", schema)
    assert str(error.value).startswith("tool x: ")
    assert text in str(error.value)


BLOCKS = [{"type": "text", "text": "a"}, {"type": "image", "data": "eA==", "mimeType": "image/png"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ToolResult("")),
        ("text", ToolResult("text")),
        (BLOCKS, ToolResult(BLOCKS)),  # type: ignore[arg-type]
        (ToolResult("x", {"a": 1}, is_error=True), ToolResult("x", {"a": 1}, is_error=True)),
        (base.text_result("x", {"a": 1}), ToolResult([{"type": "text", "text": "x"}], {"a": 1})),
        (Point(x=1), ToolResult('{"x":1,"title":"none"}', structured={"x": 1, "title": "none"})),
        ({"content": "x", "details": 3, "isError": True}, ToolResult("x", 3)),
        ({"content": "x", "myField": 1}, ToolResult("x")),
        (ToolResult("x", {"file": Path("a/b"), 1: (2, 3)}), ToolResult("x", {"file": "a/b", "1": [2, 3]})),
        (ToolResult("x", Point(x=1)), ToolResult("x", {"x": 1, "title": "none"})),
    ],
)
def test_each_return_value_becomes_a_result(value: object, expected: ToolResult) -> None:
    assert expected == tool_result(value)
    json.dumps(base_result(tool_result(value)))


WRONG_TYPE: object = 3


@pytest.mark.parametrize(
    "value",
    [
        3,
        object(),
        ["text"],
        {"text": "x"},
        {"content": "x", "terminate": "yes"},
        ToolResult(WRONG_TYPE),  # type: ignore[arg-type]
        ToolResult("x", is_error="yes"),  # type: ignore[arg-type]
        ToolResult("x", terminate=1),  # type: ignore[arg-type]
        ToolResult("x", usage=3),  # type: ignore[arg-type]
    ],
)
def test_an_error_names_the_allowed_return_values(value: object) -> None:
    with pytest.raises(TypeError, match=r"(?i)tool"):
        tool_result(value)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("no such task"), "no such task"),
        (ValueError("bad"), "ValueError: bad"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_an_exception_of_a_tool_becomes_a_result(error: BaseException, text: str) -> None:
    """The text of a ToolError alone; of others the type before it."""
    assert ToolResult(text, is_error=True) == failed_result(error)
