"""The published schemas, for who judges records by them: one bundle a profile, closed against us, open against others.

A bundle says what our program writes in a profile, to the last field. `opened` makes of it what any agent of that
generation may write: undescribed fields are allowed, and where the original's documents differ from our
profile (`x-foreign`) they hold. Reads published files; needs no library that validates. Source: R-PRO-01.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias, cast

import orjson

from pinnace_spec import data
from pinnace_spec.profiles.generations import GenerationName

Schema: TypeAlias = dict[str, Any]
"""Any: JSON Schema, whose shape its metaschema says."""

_LITERAL: Final = frozenset({"const", "enum", "default", "examples", "required", "mapping"})
"""Keywords under which no schema stands."""


@cache
def bundle(name: GenerationName) -> Schema:
    """Return the published schema of a profile. Shared: never change it.

    Raises:
        FileNotFoundError: It has not been published.
    """
    return cast("Schema", orjson.loads(data.text(f"schema/{name}.json")))


@cache
def foreign_bundle(name: GenerationName) -> Schema:
    """Return the schema that any agent of a generation is held to. Shared: never change it."""
    return opened(bundle(name))


def opened(schema: Schema) -> Schema:
    """Return a schema without closedness, and with what `x-foreign` says instead of what stands beside it.

    `x-foreign` holds values of keywords beside it, null for none; its `properties` are added, null takes one away.
    """
    return cast("Schema", _opened(schema))


def definition_of(record: Mapping[str, Any], schema: Schema) -> str | None:
    """Name the definition that a record of stdout must follow; None: the bundle has none for it.

    Validating by it rather than by the whole bundle gives errors that name what is wrong.
    """
    definitions = schema["$defs"]
    if record.get("type") == "response" and record.get("success") is not True:
        return "Failure"
    discriminator = definitions["Response" if record.get("type") == "response" else "Output"]["discriminator"]
    name = _mapped(discriminator, record)
    inner = definitions[name].get("discriminator") if name else None
    return (_mapped(inner, record) if inner and inner["propertyName"] != "type" else name) if name else None


def command_definition_of(record: Mapping[str, Any], schema: Schema) -> str | None:
    """Name the definition that a record of stdin must follow; None: it is no command of the bundle."""
    return _mapped(schema["$defs"]["Command"]["discriminator"], record)


def _mapped(discriminator: Schema, record: Mapping[str, Any]) -> str | None:
    value = record.get(discriminator["propertyName"])
    mapping: Mapping[str, str] = discriminator["mapping"]
    return mapping[value].rsplit("/", 1)[-1] if isinstance(value, str) and value in mapping else None


def _opened(schema: object) -> Any:
    if isinstance(schema, list):
        return [_opened(each) for each in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("Schema", schema)
    result = {key: value if key in _LITERAL else _opened(value) for key, value in table.items() if key != "x-foreign"}
    if result.get("additionalProperties") is False:
        del result["additionalProperties"]
    for key, value in table.get("x-foreign", {}).items():
        if key == "properties":
            merged = {**result.get("properties", {}), **_opened(value)}
            result["properties"] = {name: each for name, each in merged.items() if each is not None}
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _opened(value)
    return result
