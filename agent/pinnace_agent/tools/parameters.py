"""Builds the JSON schemas of the built-in tools' arguments, one line for each field.

Names are those that models write. Optional arguments are left out, never null, so a schema contains neither null nor
defaults. Imports no library: every process builds these schemas. `validation` checks calls against them. Rule R-TOL-04.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

Schema: TypeAlias = Mapping[str, object]


def text(description: str) -> Schema:
    """Return the schema of a string."""
    return {"type": "string", "description": description}


FILE: Final = text("The file, as an absolute path or relative to the working folder")


def number(description: str) -> Schema:
    """Return the schema of a number; models sometimes write whole numbers with a fraction."""
    return {"type": "number", "description": description}


def flag(description: str) -> Schema:
    """Return the schema of a boolean."""
    return {"type": "boolean", "description": description}


def items(item: Schema, description: str) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": item, "description": description}


def fields(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of an object, with its required and its optional fields."""
    names = {"required": list(required)} if required else {}
    return {"type": "object", **names, "properties": {**required, **(optional or {})}}
