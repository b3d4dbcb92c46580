"""Arguments between model and tool: what is repaired, what is refused and how."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.tools import BUILTIN_TOOLS, DEFAULT_TOOLS, builtin_tools
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.validation import malformed_arguments, schema_problem, validate_arguments


class Checked(NamedTuple):
    """A tool of which only validation knows."""

    parameters: Mapping[str, object]
    name: str = "probe"
    checks_itself: bool = False

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        return raw


def one(schema: Mapping[str, object], *, required: bool = True) -> Checked:
    names = ["x"] if required else []
    return Checked({"type": "object", "required": names, "properties": {"x": schema}})


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        ("number", "1", 1),
        ("number", " 2.5 ", 2.5),
        ("number", "1e3", 1000),
        ("number", True, 1),
        ("number", None, 0),
        ("integer", "3", 3),
        ("integer", "3.0", 3),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("boolean", 1, True),
        ("boolean", 0, False),
        ("boolean", None, False),
        ("string", 5, "5"),
        ("string", 5.0, "5"),
        ("string", 0.5, "0.5"),
        ("string", True, "true"),
        ("string", None, ""),
        ("null", "", None),
        ("null", 0, None),
        ("null", False, None),
    ],
)
def test_a_value_that_can_mean_one_thing_only_is_coerced(kind: str, raw: object, expected: object) -> None:
    value = validate_arguments(one({"type": kind}), {"x": raw})["x"]

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("number", ""),
        ("number", "  "),
        ("number", "1_000"),
        ("number", "inf"),
        ("number", "1e999"),
        ("number", "abc"),
        ("integer", "3.5"),
        ("integer", 3.5),
        ("boolean", "yes"),
        ("boolean", 2),
        ("string", ["a"]),
        ("array", "a"),
        ("object", "a"),
    ],
)
def test_a_value_that_can_mean_several_things_is_refused(kind: str, raw: object) -> None:
    with pytest.raises(ToolError, match=f"  - x: expected {kind}, got "):
        validate_arguments(one({"type": kind}), {"x": raw})


def test_null_for_an_optional_property_means_that_it_is_not_given() -> None:
    assert validate_arguments(one({"type": "number"}, required=False), {"x": None}) == {}


def test_null_stays_where_the_schema_takes_it() -> None:
    tool = one({"type": ["number", "null"]}, required=False)

    assert validate_arguments(tool, {"x": None}) == {"x": None}


@pytest.mark.parametrize(("raw", "expected"), [("5", "5"), (5, 5), (True, 1), ([], None)])
def test_a_union_keeps_what_any_branch_accepts(raw: object, expected: object) -> None:
    tool = one({"anyOf": [{"type": "number"}, {"type": "string"}]})
    if expected is None:
        with pytest.raises(ToolError, match="x: matches no alternative"):
            validate_arguments(tool, {"x": raw})
    else:
        assert validate_arguments(tool, {"x": raw})["x"] == expected


def test_nested_values_are_coerced_and_named_by_their_path() -> None:
    item = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
    tool = one({"type": "array", "items": item})

    assert validate_arguments(tool, {"x": [{"a": 1}]}) == {"x": [{"a": "1"}]}
    with pytest.raises(ToolError, match=r"  - x\.1\.a: missing\n"):
        validate_arguments(tool, {"x": [{"a": ""}, {}]})


def test_limits_and_choices_of_a_schema_are_checked() -> None:
    choice = one({"type": "string", "enum": ["a", "b"]})
    count = one({"type": "integer", "minimum": 1, "maximum": 3})

    with pytest.raises(ToolError, match='expected one of \\["a","b"\\]'):
        validate_arguments(choice, {"x": "c"})
    with pytest.raises(ToolError, match="expected >= 1"):
        validate_arguments(count, {"x": 0})
    with pytest.raises(ToolError, match="expected <= 3"):
        validate_arguments(count, {"x": "4"})


def test_properties_that_a_schema_does_not_name_are_tolerated() -> None:
    assert validate_arguments(one({"type": "number"}), {"x": 1, "why": "because"})["why"] == "because"


def test_a_schema_may_refuse_properties_that_it_does_not_name() -> None:
    tool = Checked({"type": "object", "properties": {}, "additionalProperties": False})

    with pytest.raises(ToolError, match="  - y: unknown field\n"):
        validate_arguments(tool, {"y": 1})


@pytest.mark.parametrize("required", [[["x"]], [{}, 5, None], "x", {"x": 1}])
def test_a_list_of_required_properties_that_holds_no_names_requires_nothing(required: object) -> None:
    """Schemas of MCP servers may hold anything."""
    schema: dict[str, object] = {"type": "object", "required": required, "properties": {"x": {"type": "string"}}}
    assert validate_arguments(Checked(schema), {}) == {}
    assert schema_problem({}, schema) is None


def test_a_whole_number_of_any_length_is_an_integer() -> None:
    long = 10**400
    assert validate_arguments(one({"type": "integer"}), {"x": long}) == {"x": long}
    assert schema_problem(long, {"type": "string"}) == "root: expected string, got integer"


def test_a_refusal_lists_the_problems_and_what_was_received() -> None:
    with pytest.raises(ToolError) as caught:
        validate_arguments(builtin_tools()["write"], {"content": ["ä"], "extra": {}})

    assert str(caught.value) == (
        'Validation failed for tool "write":\n'
        "  - path: missing\n"
        "  - content: expected string, got array\n"
        "\n"
        "Received arguments:\n"
        '{\n  "content": [\n    "ä"\n  ],\n  "extra": {}\n}'
    )


def test_malformed_arguments_are_reported_as_received() -> None:
    assert str(malformed_arguments("bash", 'Unterminated string\n\nReceived arguments:\n{"command": "echo pa')) == (
        'Invalid arguments for tool "bash": Unterminated string\n\nReceived arguments:\n{"command": "echo pa'
    )


def test_the_arguments_as_they_came_stay_as_they_are() -> None:
    raw = {"x": [{"a": 1}]}
    items = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    validated = validate_arguments(one(items), raw)

    assert raw == {"x": [{"a": 1}]}
    assert validated == {"x": [{"a": "1"}]}


def test_what_runs_shares_nothing_with_the_arguments_as_they_came() -> None:
    unknown: dict[str, object] = {"y": []}

    validated = validate_arguments(one({"type": "string"}, required=False), {"extra": unknown})
    assert validated["extra"] == unknown
    assert validated["extra"] is not unknown


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1", "true", "x", 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abx"), inner, max_size=3),
    max_leaves=6,
)
_schemas = st.recursive(
    st.sampled_from(["string", "number", "integer", "boolean", "null"]).map(lambda kind: {"type": kind}),
    lambda inner: (
        inner.map(lambda items: {"type": "array", "items": items})
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2).map(
            lambda properties: {"type": "object", "properties": properties, "required": ["a"]}
        )
        | st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"anyOf": branches})
    ),
    max_leaves=4,
)


@given(_schemas, _values)
def test_what_is_let_through_is_valid_to_another_validator(schema: dict[str, object], value: object) -> None:
    tool = one(schema)
    try:
        arguments = validate_arguments(tool, {"x": value})
    except ToolError:
        # Whatever was valid as it came is let through.
        assert not jsonschema.Draft202012Validator(tool.parameters).is_valid({"x": value})
    else:
        jsonschema.validate(arguments, tool.parameters)


@pytest.mark.parametrize("tool", BUILTIN_TOOLS, ids=lambda tool: str(tool.name))
def test_the_schemas_of_the_tools_are_what_models_are_used_to(tool: object) -> None:
    shapes = {
        "read": {"path": "string", "offset": "number", "limit": "number"},
        "bash": {"command": "string", "timeout": "number"},
        "edit": {"path": "string", "edits": "array"},
        "write": {"path": "string", "content": "string"},
        "grep": {
            **dict.fromkeys(("pattern", "path", "glob"), "string"),
            **dict.fromkeys(("ignoreCase", "literal"), "boolean"),
            **dict.fromkeys(("context", "limit"), "number"),
        },
        "find": {"pattern": "string", "path": "string", "limit": "number"},
        "ls": {"path": "string", "limit": "number"},
    }
    required = {
        "read": ["path"],
        "bash": ["command"],
        "edit": ["path", "edits"],
        "write": ["path", "content"],
        "grep": ["pattern"],
        "find": ["pattern"],
        "ls": [],
    }
    name = tool.name  # type: ignore[attr-defined]
    schema = tool.parameters  # type: ignore[attr-defined]

    expected_keys = ["type", "required", "properties"] if required[name] else ["type", "properties"]
    assert list(schema) == expected_keys
    assert {key: value["type"] for key, value in schema["properties"].items()} == shapes[name]
    assert all(value["description"] for value in schema["properties"].values())
    assert schema.get("required", []) == required[name]


def test_the_edits_of_edit_are_described_in_place() -> None:
    edits = builtin_tools()["edit"].parameters["properties"]["edits"]  # type: ignore[index]

    items = edits["items"]
    assert list(items) == ["type", "required", "properties"]
    assert items["required"] == ["oldText", "newText"]
    assert {name: value["type"] for name, value in items["properties"].items()} == {
        "oldText": "string",
        "newText": "string",
    }


def test_a_schema_holds_nothing_that_only_its_model_needs() -> None:
    def keywords(schema: object) -> set[str]:
        """Of the schema and all below it; the names of properties are no keywords."""
        found: set[str] = set()
        if isinstance(schema, dict):
            for name, value in schema.items():
                below = value.values() if name == "properties" else [value]
                found |= {name}.union(*map(keywords, below))
        return found

    used = set().union(*(keywords(dict(tool.parameters)) for tool in builtin_tools().values()))

    assert used == {"type", "required", "properties", "description", "items"}


def test_the_tools_stand_in_the_order_of_the_prompt() -> None:
    assert list(builtin_tools()) == [*DEFAULT_TOOLS, "grep", "find", "ls"]
    assert DEFAULT_TOOLS == ("read", "bash", "edit", "write")


_RECURSIVE = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}


@pytest.mark.parametrize(
    ("schema", "fits", "problems"),
    [
        ({"type": "string", "pattern": "^[a-z-]+$"}, "a-b", {"a/b": "expected to match ^[a-z-]+$"}),
        ({"type": "string", "format": "uri"}, "https://a.b/c", {"sample": "expected format uri", "a b:c": "uri"}),
        ({"type": "string", "format": "uri"}, "urn:x:y", {"//host/x": "uri", "http://[x": "uri"}),
        ({"type": "string", "format": "date-time"}, "2026-11-29T10:00:00Z", {"2026-11-29": "date-time", "now": "date"}),
        ({"type": "string", "format": "time"}, "10:00:00Z", {"10:00": "time", "x": "time"}),
        ({"type": "string", "format": "hostname"}, "a.example", {"-a": "hostname", "a" * 64: "hostname"}),
        ({"type": "string", "format": "email"}, "a@b.c", {"a": "email"}),
        ({"type": "string", "format": "made-up"}, "anything", {}),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5, {0: "expected > 0", 1: "expected < 1"}),
        ({"type": "integer", "multipleOf": 5}, 10, {11: "expected a multiple of 5"}),
        ({"type": "array", "uniqueItems": True}, [1, 2], {"[1, 1]": "expected unique items"}),
        ({"type": "array", "contains": {"const": 1}}, [2, 1], {"[2]": "must have an item of the expected form"}),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, ["a", 1], {"[1]": "expected string"}),
        ({"type": "object", "minProperties": 1}, {"a": 1}, {"{}": "expected at least 1 properties"}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": "b"}, {'{"a": 1}': "expected string"}),
        ({"type": "object", "patternProperties": {"^n": {"type": "number"}}}, {"n": 1}, {'{"n": []}': "number"}),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {'{"a": 1}': "another one needs"}),
        ({"not": {"const": "x"}}, "y", {"x": "must not match the schema in not"}),
        ({"allOf": [{"minLength": 2}, {"maxLength": 3}]}, "ab", {"a": "expected at least 2 characters"}),
        ({"if": {"const": 1}, "then": False}, 2, {1: "does not fit"}),
        ({"oneOf": [{"type": "number"}, {"minimum": 5}]}, 1, {7: "matches more than one alternative, or none"}),
        (_RECURSIVE, [[], [[]]], {"[[1]]": "expected array"}),
        ({"$ref": "http://127.0.0.1:9/schema"}, None, {"x": "refers to what it does not have: http://127.0.0.1:9/"}),
        ({"$ref": "#/$defs/none"}, None, {"x": "refers to what it does not have: /$defs/none"}),
    ],
)
def test_a_keyword_that_few_schemas_have_is_enforced(
    schema: Mapping[str, object], fits: object, problems: Mapping[object, str]
) -> None:
    """Also within a property of a property; not where what runs the tool does it."""
    root = {"type": "object", "properties": {"x": schema}, "$defs": schema.get("$defs", {})}
    tool = Checked(root)
    if fits is not None:
        assert fits == validate_arguments(tool, {"x": fits})["x"]
    for text, problem in problems.items():
        value = json.loads(text) if isinstance(text, str) and text[:1] in "[{" else text
        with pytest.raises(ToolError, match=re.escape(problem)) as refused:
            validate_arguments(tool, {"x": value})
        assert "  - x" in str(refused.value) or "refers to" in problem
        assert value == validate_arguments(tool._replace(checks_itself=True), {"x": value})["x"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "(?<name>a)"},
        {"type": "string", "pattern": "["},
        {"type": "number", "exclusiveMinimum": True},
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 0, "exclusiveMinimum": "x"},
        {"allOf": {}},
    ],
    ids=str,
)
def test_a_schema_that_is_invalid_itself_refuses_nothing(schema: Mapping[str, object]) -> None:
    value = 1 if schema.get("type") == "number" else "b"
    assert value == validate_arguments(one(schema), {"x": value})["x"]
