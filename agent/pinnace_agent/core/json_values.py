"""Checks that values of extensions are JSON and copies them, in one pass.

Values of extensions are written to the session file, sent to models and shown to clients, so they must be JSON and must
not change afterwards. Values with exactly one JSON form (a path, an enum member, a dataclass) are converted; all others
are rejected with an error that names the place. Pure.
"""

import copy
import dataclasses
import datetime
import math
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeGuard, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_NESTING: Final = 400
"""Levels of lists and objects. Fewer than a line may nest (512), because records add levels."""
MAX_VALUES: Final = 1_000_000
"""Values in one copy: a list that contains the same list twice doubles with each level."""
_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1
_WANTED: Final = "JSON is strings, numbers, true, false, None, and lists and dicts of these"
_LONGEST_PATH: Final = 200
# Types of immutable JSON values, which are not copied.
_SHARED: Final = frozenset({str, bool, type(None)})

_ValueT = TypeVar("_ValueT")


class NotJsonError(TypeError):
    """A value is not JSON; the text names the place and the problem."""


# DEVIATION D-70: a copy, and an error where JSON.stringify would write something else.
def json_copy(value: object, place: str) -> object:
    """Return a plain copy of a value: dicts, lists, strings, numbers, booleans and None.

    Tuples become lists, mappings dicts, integer keys strings, as in `json.dumps`. Paths, enum members, dataclasses,
    pydantic models, UUIDs, dates, times and numpy numbers are converted.

    Args:
        value: Any value. Not changed.
        place: The name of the value in error texts, such as `details`.

    Raises:
        NotJsonError: The value is not JSON, contains itself, is nested deeper than `MAX_NESTING`, or holds NaN,
            Infinity or an integer of more than 64 bits.
    """
    copier = _Copier()
    try:
        return copier.copy(value, 0)
    except _RefusedError as refused:
        raise NotJsonError(f"{_path(place, refused.steps)}: {refused.problem}") from refused.__cause__
    except RecursionError:
        raise NotJsonError(f"{place}: nested too deep, or contains itself") from None


def same_json(value: _ValueT, place: str) -> _ValueT:
    """Return `json_copy` of a value with the value's type."""
    return cast("_ValueT", json_copy(value, place))  # cast: a copy of it


def own_copy(value: _ValueT) -> _ValueT:
    """Return a copy of a value of the agent that an extension may change."""
    try:
        return same_json(value, "")
    except NotJsonError:
        return copy.deepcopy(value)


class _Scalar(Protocol):
    """A number of numpy."""

    def item(self) -> object:
        """Return it as a Python number."""
        ...


class _RefusedError(Exception):
    """A value is not JSON; `steps` lead to it, the last one first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str | int] = []


class _Copier:
    """One copy."""

    __slots__ = ("_open", "_values")

    def __init__(self) -> None:
        self._open: list[int] = []  # the ids of the containers of the current value
        self._values = 0

    def copy(self, value: object, depth: int) -> object:
        """Copy a value, with one stack frame for each level, so that deep nesting fits on the stack."""
        kind = type(value)
        if kind in _SHARED:
            return value
        if kind is dict or isinstance(value, Mapping):
            mapping = cast("Mapping[object, object]", value)  # cast: its keys are checked below
            items = tuple(mapping.items())  # at once: another thread may change it
            self._enter(id(mapping), len(items), depth)
            made: dict[str, object] = {}
            for key, item in items:
                name = key if type(key) is str else _key(key)
                if name in made:
                    raise _RefusedError(f"two keys become {name!r}")
                try:
                    made[name] = item if type(item) in _SHARED else self.copy(item, depth + 1)
                except _RefusedError as refused:
                    refused.steps.append(name)
                    raise
            self._open.pop()
            return made
        if kind is list or isinstance(value, list | tuple):
            array = cast("list[object]", value)  # cast: a tuple is read in the same way
            members = tuple(array)
            self._enter(id(array), len(members), depth)
            listed: list[object] = []
            for index, item in enumerate(members):
                try:
                    listed.append(item if type(item) in _SHARED else self.copy(item, depth + 1))
                except _RefusedError as refused:
                    refused.steps.append(index)
                    raise
            self._open.pop()
            return listed
        return self._other(value, depth)

    def _enter(self, container: int, size: int, depth: int) -> None:
        """Enter the container with this id and number of members."""
        if container in self._open:
            raise _RefusedError("contains itself")
        if depth >= MAX_NESTING:
            raise _RefusedError(f"nested deeper than {MAX_NESTING} levels")
        self._values += size
        if self._values > MAX_VALUES:
            raise _RefusedError(f"more than {MAX_VALUES} values")
        self._open.append(container)

    def _other(self, value: object, depth: int) -> object:
        """Copy a value that is neither a plain string nor a container."""
        if isinstance(value, Enum):
            return self.copy(value.value, depth)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return _integer(int.__int__(value))
        if isinstance(value, float):
            return _number(float.__float__(value))
        if isinstance(value, os.PathLike):
            path: str | bytes = os.fspath(cast("os.PathLike[str]", value))  # cast: it may be of bytes
            return os.fsdecode(path)
        if isinstance(value, uuid.UUID):
            return str(value)
        if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
            return value.isoformat()
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
            self._enter(id(value), 0, depth)
            made = self.copy(fields, depth)
            self._open.pop()
            return made
        return self._of_packages(value, depth)

    def _of_packages(self, value: object, depth: int) -> object:
        """Copy a value of an optional package, which exists only if the package is imported."""
        if _is_of(value, "pydantic", "BaseModel"):
            try:
                return self.copy(cast("BaseModel", value).model_dump(mode="json"), depth)  # cast: it is one
            except ValueError as error:
                raise _RefusedError(f"{type(value).__name__} is not JSON: {error}") from error
        if _is_of(value, "numpy", "generic"):
            plain = cast("_Scalar", value).item()  # cast: each of them has it
            if type(plain) is not type(value):
                return self.copy(plain, depth)
        raise _RefusedError(f"{type(value).__name__} is not JSON; {_WANTED}")


def _is_of(value: object, package: str, name: str) -> bool:
    """Return whether a value is of a class of a package, which requires that the package is imported."""
    found: object = getattr(sys.modules.get(package), name, None)
    return isinstance(found, type) and isinstance(value, found)


def _key(key: object) -> str:
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_integer(int.__int__(key)))
    if isinstance(key, os.PathLike):
        path: str | bytes = os.fspath(cast("os.PathLike[str]", key))  # cast: it may be of bytes
        return os.fsdecode(path)
    raise _RefusedError(f"a key must be a string, not {type(key).__name__}")


def _integer(value: int) -> int:
    if _INT64_MIN <= value <= _UINT64_MAX:
        return value
    raise _RefusedError("an integer of more than 64 bits; give it as a string")


def _number(value: float) -> float:
    if math.isfinite(value):
        return value
    raise _RefusedError(f"{value} is not a number of JSON; give None, or a string")


def _path(place: str, steps: list[str | int]) -> str:
    """Return the path of a value in Python notation, such as `details.items[3].name`."""
    path = place
    for step in reversed(steps):
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier():
            path += f".{step}"
        else:
            path += f"[{step!r}]"
    return path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH // 2]}…{path[-_LONGEST_PATH // 2 :]}"


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a value is a dict whose keys are strings."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in cast("Mapping[object, object]", value))


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)
