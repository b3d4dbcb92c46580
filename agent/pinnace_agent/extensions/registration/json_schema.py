"""Reduces JSON schemas of pydantic to what constrains arguments, and checks schemas written by authors. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from pinnace_agent.core.json_values import is_list, is_object

_REFERENCE: Final = "#/$defs/"
_OF_SCHEMAS: Final = ("properties", "patternProperties")
_LISTS_OF_SCHEMAS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA: Final = ("items", "additionalProperties", "not", "contains", "propertyNames")
_NOISE: Final = ("title", "discriminator", "$defs")


def plain_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a schema without titles and without references, except recursive ones."""
    found = schema.get("$defs")
    plain = _Plain(found if is_object(found) else dict[str, object]())
    made = plain.reduced(schema, ())
    made.pop("description", None)  # the docstring of the model's class; the tool has its own description
    if plain.kept:
        made["$defs"] = {name: plain.definition(name) for name in sorted(_closure(plain))}
    made.setdefault("properties", {})
    made.setdefault("additionalProperties", False)
    return made


class _Plain:
    """One reduction."""

    def __init__(self, definitions: Mapping[str, object]) -> None:
        self._definitions = definitions
        self.kept: set[str] = set()
        """Recursive definitions, which must stay."""

    def definition(self, name: str) -> dict[str, object]:
        schema = self._definitions.get(name)
        return self.reduced(schema, (name,)) if is_object(schema) else {}

    def reduced(self, schema: Mapping[str, object], inside: tuple[str, ...]) -> dict[str, object]:
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith(_REFERENCE):
            name = reference.removeprefix(_REFERENCE)
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            target = self._definitions.get(name)
            if name in inside or not is_object(target):
                self.kept.add(name)
                return {"$ref": reference, **self.reduced(beside, inside)}
            # Keys beside a reference, such as its description, take precedence over those of the target.
            return {**self.reduced(target, (*inside, name)), **self.reduced(beside, inside)}
        made = {key: self._value(key, value, inside) for key, value in schema.items() if key not in _NOISE}
        if "const" in made:
            made["enum"] = [made.pop("const")]
        properties = made.get("properties")
        if is_object(properties):
            required = made.get("required")
            needed = required if is_list(required) else ()
            made["properties"] = {
                name: value if name in needed or not is_object(value) else _without_null(value)
                for name, value in properties.items()
            }
            made.setdefault("additionalProperties", False)
        return made

    def _value(self, key: str, value: object, inside: tuple[str, ...]) -> object:
        if key in _OF_SCHEMAS and is_object(value):
            return {name: self._schema(each, inside) for name, each in value.items()}
        if key in _LISTS_OF_SCHEMAS and is_list(value):
            return [self._schema(each, inside) for each in value]
        return self._schema(value, inside) if key in _SCHEMA else value

    def _schema(self, value: object, inside: tuple[str, ...]) -> object:
        return self.reduced(value, inside) if is_object(value) else value


def _closure(plain: _Plain) -> set[str]:
    """Return the definitions that stay, including those that they refer to."""
    known: set[str] = set()
    while plain.kept - known:
        for name in plain.kept - known:
            known.add(name)
            plain.definition(name)
    return known


def _without_null(schema: Mapping[str, object]) -> dict[str, object]:
    """Return the schema of an optional property without null, which means the same as leaving it out."""
    made = dict(schema)
    if made.get("default", ...) is None:
        del made["default"]
    branches = made.get("anyOf")
    if not is_list(branches):
        return made
    others = [each for each in branches if not (is_object(each) and each.get("type") == "null")]
    if len(others) == len(branches):
        return made
    if len(others) == 1 and is_object(others[0]):
        del made["anyOf"]
        return {**others[0], **made}
    made["anyOf"] = others
    return made


def check_schema(what: str, schema: object) -> Mapping[str, object]:
    """Check a schema of arguments that an author wrote.

    Raises:
        TypeError: The schema is invalid; the text says why.
    """
    if not is_object(schema) or schema.get("type") != "object":
        raise TypeError(f'{what}: parameters must be a JSON schema with "type": "object"')
    properties = schema.get("properties", {})
    if not is_object(properties) or not all(map(is_object, properties.values())):
        raise TypeError(f"{what}: the properties of its parameters must be JSON schemas")
    required = schema.get("required", [])
    if not is_list(required) or not all(isinstance(each, str) for each in required):
        raise TypeError(f"{what}: required must be a list of names")
    if missing := [each for each in cast("Sequence[str]", required) if properties and each not in properties]:
        raise TypeError(f"{what}: {missing[0]!r} is required, but is not a property")
    try:
        json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what}: its parameters are not JSON: {error}") from error
    return schema
