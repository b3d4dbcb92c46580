"""Narrows values of the edge of JSON, for type checkers that do not know what is inside."""

from typing import Any, cast


def as_list(value: object) -> list[Any] | None:
    """Return an array as one; None if the value is something else."""
    if not isinstance(value, list):
        return None
    return cast("list[Any]", value)  # type: ignore[redundant-cast] # the other type checker does not think so


def as_object(value: object) -> dict[str, Any] | None:
    """Return an object as one; None if the value is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def listed(value: object) -> list[Any]:
    """Return an array as it is, and anything else as the only member of one."""
    found = as_list(value)
    return [value] if found is None else found
