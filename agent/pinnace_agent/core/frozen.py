"""Copies of JSON values that can be read like the originals and not changed.

Extensions get the transcript as such copies: `isinstance(entry, dict)`, `json.dumps` and `copy.deepcopy` (which gives a
plain, changeable copy) work as usual, everything that would change one raises. Pure.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import NoReturn, cast

from pinnace_spec.records.entries import Entry


class FrozenValueError(TypeError):
    """A read-only value was to be changed."""


def _refuse(*_arguments: object, **_options: object) -> NoReturn:
    raise FrozenValueError("this is a snapshot of the session, only to be read: copy.deepcopy() makes one to change")


class FrozenDict(dict[str, object]):
    """A dict that stays as it is."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, object]) -> dict[str, object]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def __copy__(self) -> dict[str, object]:
        return dict(self)

    def __reduce__(self) -> tuple[type[dict[str, object]], tuple[dict[str, object]]]:
        return dict, (dict(self),)


class FrozenList(list[object]):
    """A list that stays as it is."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __deepcopy__(self, memo: dict[int, object]) -> list[object]:
        return [copy.deepcopy(value, memo) for value in self]

    def __copy__(self) -> list[object]:
        return list(self)

    def __reduce__(self) -> tuple[type[list[object]], tuple[list[object]]]:
        return list, (list(self),)


def frozen(value: object) -> object:
    """Return a frozen copy of a JSON value. Texts and numbers are shared; nothing else is."""
    if isinstance(value, Mapping):
        # Of JSON, whose keys are texts; a checker only sees a mapping of something.
        return FrozenDict({key: frozen(each) for key, each in cast("Mapping[str, object]", value).items()})
    if isinstance(value, list | tuple):
        return FrozenList([frozen(each) for each in cast("Sequence[object]", value)])  # likewise
    return value


class Snapshots:
    """Frozen copies of the entries of one session, each made once.

    An entry is never changed in place, so the copy of it lasts as long as the entry.
    """

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[int, tuple[Entry, FrozenDict]] = {}

    def of(self, entry: Entry) -> FrozenDict:
        """Return the copy of an entry."""
        known = self._made.get(id(entry))
        if known is not None:
            return known[1]
        copied = FrozenDict({key: frozen(value) for key, value in entry.items()})
        self._made[id(entry)] = entry, copied  # with the entry: while it is here, no other can have its id
        return copied

    def all(self, entries: Sequence[Entry]) -> tuple[FrozenDict, ...]:
        """Return the copies of several entries."""
        of = self.of
        return tuple([of(entry) for entry in entries])
