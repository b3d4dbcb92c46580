"""Reads a mapping field by field; errors and unknown fields are reported with the path of the field."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

from pinnace_fuzz.judge.scenarios.shapes import listed
from pinnace_fuzz.judge.scenarios.yaml_lines import Path

T = TypeVar("T")

Json = Any


class FieldError(ValueError):
    """A field is invalid. `path` names it."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path


class Fields:
    """One mapping; every `take…` removes a field, `finish` reports the fields that are left."""

    def __init__(self, value: Json, path: Path) -> None:
        if not isinstance(value, Mapping):
            raise FieldError(path, f"expected a mapping, not {value!r}")
        self._left = dict(cast("Mapping[str, Json]", value))
        self.path = path

    def error(self, key: str, text: str) -> FieldError:
        """Make an error about a field."""
        return FieldError((*self.path, key), text)

    def has(self, key: str) -> bool:
        """Say whether a field is there and not yet taken."""
        return key in self._left

    def take(self, key: str, default: Json = None) -> Json:
        """Take a field of any kind."""
        return self._left.pop(key, default)

    def _typed(self, key: str, default: T, kind: type, name: str) -> T:
        if key not in self._left:
            return default
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(key, f"expected {name}, not {value!r}")
        return cast("T", value)

    def text(self, key: str, default: str = "") -> str:
        """Take a text."""
        return self._typed(key, default, str, "a text")

    def needed(self, key: str) -> str:
        """Return a required text that is not blank."""
        if not (found := self.text(key)).strip():
            raise self.error(key, "is needed")
        return found

    def word(self, key: str, allowed: Collection[str], default: str = "") -> Any:
        """Take one of some words."""
        value = self.text(key, default)
        if value not in allowed and value != default:
            raise self.error(key, f"{value!r} is none of {', '.join(allowed)}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Take true or false."""
        return self._typed(key, default, bool, "true or false")

    def count(self, key: str, default: int = 0) -> int:
        """Take a number of things."""
        value = self._typed(key, default, int, "a number")
        if value < 0:
            raise self.error(key, "is not below 0")
        return value

    def seconds(self, key: str, default: float) -> float:
        """Take a time."""
        value: float = self._typed(key, default, cast("type", int | float), "a number of seconds")
        return value

    def mapping(self, key: str) -> Mapping[str, Json]:
        """Take a mapping; empty if it is not there."""
        return self._typed(key, dict[str, Json](), dict, "a mapping")

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a text or a list of texts."""
        if key not in self._left:
            return ()
        return texts(self._left.pop(key), (*self.path, key))

    def text_map(self, key: str) -> Mapping[str, str]:
        """Take a mapping of texts."""
        found = self.mapping(key)
        for name, value in found.items():
            if not isinstance(value, str):
                raise FieldError((*self.path, key, name), f"expected a text, not {value!r}")
        return found

    def matching(self, key: str, pattern: str, what: str) -> str:
        """Take a text of a certain form."""
        value = self.needed(key)
        if not re.fullmatch(pattern, value):
            raise self.error(key, f"{value!r} is not {what}")
        return value

    def each(self, key: str, read: Callable[[Json, Path], T]) -> tuple[T, ...]:
        """Take a list, reading each of its items."""
        found: Sequence[Json] = self._typed(key, list[Json](), list, "a list")
        return tuple(read(item, (*self.path, key, at)) for at, item in enumerate(found))

    def finish(self) -> None:
        """Report unknown fields."""
        for key in self._left:
            raise self.error(key, "is not a known field here")


def texts(value: Json, path: Path) -> tuple[str, ...]:
    """Read a text or a list of texts."""
    items = listed(value)
    for at, item in enumerate(items):
        if not isinstance(item, str):
            where = (*path, at) if isinstance(value, list) else path
            raise FieldError(where, f"expected a text, not {item!r}")
    return tuple(items)
