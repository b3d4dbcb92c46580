"""The JSON schemas of the built-in tools' arguments, as models are sent them, from one line a field.

Names are those that models write. What is optional is left out, never null, so a schema says nothing of null or of
defaults. Must not load a library: every process makes these schemas. Calls are held to them by `validation`, as calls
of any other tool are. Rule R-TOL-04.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

Schema: TypeAlias = Mapping[str, object]


def text(description: str) -> Schema:
    """Describe a field that is a text."""
    return {"type": "string", "description": description}


FILE: Final = text("The file, as an absolute path or relative to the working folder")


def number(description: str) -> Schema:
    """Describe a field that is a number; models write whole ones with a fraction at times."""
    return {"type": "number", "description": description}


def flag(description: str) -> Schema:
    """Describe a field that is true or false."""
    return {"type": "boolean", "description": description}


def items(item: Schema, description: str) -> Schema:
    """Describe a field that is a list."""
    return {"type": "array", "items": item, "description": description}


def fields(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Describe an object: the fields that it must have, and those that it may have."""
    demanded = {"required": list(required)} if required else {}
    return {"type": "object", **demanded, "properties": {**required, **(optional or {})}}
