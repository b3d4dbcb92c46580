"""Pieces of JSON Schema 2020-12: references, walks, and the definitions that others reach. Knows no record."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]
"""One schema, or a table of them. Any: JSON, whose shape the metaschema says."""

PREFIX: Final = "#/$defs/"

_LITERAL: Final = frozenset({"const", "enum", "default", "examples", "required", "mapping"})
"""Keywords under which no schema stands."""


def ref(name: str) -> Schema:
    """Point to a definition."""
    return {"$ref": PREFIX + name}


def target(schema: Mapping[str, Any]) -> str | None:
    """Return the definition that a schema points to, if it does nothing else."""
    value = schema.get("$ref")
    return value.removeprefix(PREFIX) if isinstance(value, str) else None


def walk(schema: object) -> Iterator[Schema]:
    """Give every schema inside of one, itself first; also tables of schemas, which look like one."""
    if isinstance(schema, dict):
        table = cast("Schema", schema)
        yield table
        for key, value in table.items():
            if key not in _LITERAL:
                yield from walk(value)
    elif isinstance(schema, list):
        for each in cast("list[object]", schema):
            yield from walk(each)


def rewritten(schema: object, change: Callable[[Schema], Schema]) -> Any:
    """Return a copy with every schema in it replaced, innermost first."""
    if isinstance(schema, dict):
        table = cast("Schema", schema)
        inner = {key: value if key in _LITERAL else rewritten(value, change) for key, value in table.items()}
        return change(inner)
    if isinstance(schema, list):
        return [rewritten(each, change) for each in cast("list[object]", schema)]
    return copy.deepcopy(schema)


def renamed(schema: object, names: Mapping[str, str]) -> Any:
    """Return a copy whose references point to the new names of definitions."""

    def change(each: Schema) -> Schema:
        if "mapping" in each:
            mapping = {key: PREFIX + new_name(to.removeprefix(PREFIX)) for key, to in each["mapping"].items()}
            return {**each, "mapping": mapping}
        name = target(each)
        return each if name is None else {**each, **ref(new_name(name))}

    def new_name(name: str) -> str:
        return names.get(name, name)

    return rewritten(schema, change)


def reached(definitions: Mapping[str, Schema], roots: Sequence[str]) -> dict[str, Schema]:
    """Return the definitions that the roots reach, in their order."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [other for each in walk(definitions[name]) if (other := target(each)) is not None]
    return {name: schema for name, schema in definitions.items() if name in seen}


def one_of(names: Mapping[str, str], property_name: str) -> Schema:
    """Make a union that one property decides: its value -> the definition."""
    return {
        "oneOf": [ref(name) for name in dict.fromkeys(names.values())],
        "discriminator": {
            "propertyName": property_name,
            "mapping": {key: PREFIX + name for key, name in names.items()},
        },
    }


def pascal(name: str) -> str:
    """Return a wire name as the name of a definition: `agent_end` -> `AgentEnd`, `setStatus` -> `SetStatus`."""
    return "".join(part[:1].upper() + part[1:] for part in name.replace("-", "_").split("_"))
