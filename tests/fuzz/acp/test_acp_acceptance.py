"""What `acceptance` decides is what the library of JSON Schema decides, for every type of both versions."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from pinnace_fuzz.acp import schema as published
from pinnace_fuzz.acp.acceptance import Acceptance, UnknownKeyword

# Beside what a schema asks for: values of each type, and those at which types and bounds differ.
_OTHERS: Final[Sequence[Any]] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.0,
    0.5,
    -32700,
    70_000,
    "",
    "x",
    [],
    [None],
    {},
    {"a": 1},
)
_VALUES: Final = 12
"""Of each type: enough that nearly all are accepted with some and refused with some; the library takes milliseconds."""
_DEEPEST: Final = 5


class _Values:
    """Draws values that a schema allows, or nearly."""

    def __init__(self, definitions: Mapping[str, Any], seed: str) -> None:
        self._definitions = definitions
        self._draws = random.Random(seed)
        self.faults = 0.0
        """How often a part is another one."""

    def draw(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        draws = self._draws
        if draws.random() < self.faults:
            return draws.choice(_OTHERS)
        if "$ref" in schema:
            return self.draw(self._definitions[schema["$ref"].removeprefix("#/$defs/")], depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return draws.choice(schema["enum"])
        found: Any = None
        if "properties" in schema or "additionalProperties" in schema:
            found = self._object(schema, depth)
        elif "type" in schema:
            found = self._of_type(schema, depth)
        for keyword in ("allOf", "anyOf", "oneOf"):
            options = schema.get(keyword, ())
            for each in options if keyword == "allOf" else [draws.choice(options)] if options else ():
                value = self.draw(each, depth)
                found = {**value, **found} if isinstance(found, dict) and isinstance(value, dict) else found or value
        return found

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        draws, found = self._draws, {}
        required = schema.get("required", ())
        for name, each in schema.get("properties", {}).items():
            is_wanted = draws.random() >= self.faults if name in required else draws.random() < 0.4
            if is_wanted and (name in required or depth < _DEEPEST):
                found[name] = self.draw(each, depth + 1)
        if draws.random() < 0.2:
            others = schema.get("additionalProperties", True)
            found["another"] = draws.choice(_OTHERS) if isinstance(others, bool) else self.draw(others, depth + 1)
        return found

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        names = schema["type"]
        match names if isinstance(names, str) else self._draws.choice(names):
            case "array":
                count = self._draws.randrange(3) if depth < _DEEPEST else 0
                return [self.draw(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "boolean":
                return True
            case "integer" | "number":
                return self._draws.choice((0, 1, 7, 65_535, 65_536, -1, 2.0, 2.5))
            case "null":
                return None
            case "object":
                return {}
            case _:
                return self._draws.choice(("", "some text"))


@pytest.mark.parametrize("version", [1, 2])
def test_each_type_accepts_what_the_library_accepts(version: int) -> None:
    definitions = published._schema(version)["$defs"]
    acceptance, counts = Acceptance(definitions), {True: 0, False: 0}
    for name, schema in definitions.items():
        values, library = _Values(definitions, f"{version} {name}"), published._validator(name, version)
        for number in range(_VALUES):
            values.faults = (0.0, 0.05, 0.2)[number % 3]
            value = values.draw(schema)
            is_accepted = acceptance.of(name)(value)
            assert is_accepted == library.is_valid(value), f"{name}: {json.dumps(value)}"
            counts[is_accepted] += 1
    assert min(counts.values()) > sum(counts.values()) / 5, counts


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["object", "null"], "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 3}}},
        {"additionalProperties": {"type": "string"}, "properties": {"a": {}}, "required": ["a"]},
        {"additionalProperties": False, "properties": {"a": {}}},
        {"items": {"const": 1}, "minItems": 1},
        {"enum": ["x", ""], "minLength": 1},
        {"not": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}},
        {"oneOf": [{"type": "number"}, {"type": "integer"}, {"const": 0}]},
        {"allOf": [{"type": "array"}, {"items": {"$ref": "#/$defs/T"}}]},
    ],
)
def test_each_keyword_accepts_what_the_library_accepts(schema: dict[str, Any]) -> None:
    values = [*_OTHERS, [1], [True], [[]], [[[]], [1]], {"a": 2}, {"a": 2.0}, {"a": 4}, {"a": True}, {"a": 1, "b": "x"}]
    accepts, library = (
        Acceptance({"T": schema}).of("T"),
        Draft202012Validator({"$ref": "#/$defs/T", "$defs": {"T": schema}}),
    )
    assert [accepts(value) for value in values] == [library.is_valid(value) for value in values]
    assert len({accepts(value) for value in values}) == 2


@pytest.mark.parametrize(
    "schema",
    [{"pattern": "a"}, {"type": "date"}, {"unevaluatedProperties": False}, {"const": None}, {"$ref": "other.json"}],
)
def test_a_schema_that_can_not_be_decided_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnknownKeyword):
        Acceptance({"T": schema}).of("T")
