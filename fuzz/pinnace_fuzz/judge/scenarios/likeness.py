"""Compares a JSON value with the expectation of a scenario.

Objects may have more fields; arrays have the same length; numbers compare as numbers, true is not 1. In the place of a
value may stand {$re: regex}, {$any: true}, {$absent: true}, {$len: n}, {$min: n}, {$has: value (in an array)}. Pure.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from pinnace_fuzz.judge.scenarios.shapes import as_list

MISSING = object()


def differences(value: Any, wanted: Any, path: str = "") -> list[str]:
    """Return the differences, one line for each place; empty if the value is as expected."""
    if isinstance(wanted, Mapping):
        found = cast("Mapping[str, Any]", wanted)
        if len(found) == 1 and (name := next(iter(found))) in _SPECIAL:
            return _SPECIAL[name](value, found[name], path)
        return _object(value, found, path)
    if value is MISSING:
        return [f"{path or 'it'} is missing"]
    if (items := as_list(wanted)) is not None:
        found_items = as_list(value)
        if found_items is None or len(found_items) != len(items):
            return [f"{path or 'it'} is {short(value)}, not an array of {len(items)}"]
        pairs = zip(found_items, items, strict=True)
        return [text for at, pair in enumerate(pairs) for text in differences(*pair, f"{path}[{at}]")]
    is_same = value == wanted and isinstance(value, bool) is isinstance(wanted, bool)
    return [] if is_same else [f"{path or 'it'} is {short(value)}, not {short(wanted)}"]


def unknown_stand_ins(wanted: Any) -> list[str]:
    """Return the names in an expectation that look like those of stand-ins and are none: they would match nothing."""
    if isinstance(wanted, Mapping):
        fields = cast("Mapping[str, Any]", wanted)
        own = [name for name in fields if name.startswith("$") and (name not in _SPECIAL or len(fields) > 1)]
        return [*own, *(name for each in fields.values() for name in unknown_stand_ins(each))]
    return [name for each in as_list(wanted) or () for name in unknown_stand_ins(each)]


def short(value: Any, size: int = 160) -> str:
    """Write a value as JSON, cut if it is long."""
    if value is MISSING:
        return "missing"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= size else f"{text[:size]}…"


def _object(value: Any, wanted: Mapping[str, Any], path: str) -> list[str]:
    if value is MISSING:
        return [f"{path or 'it'} is missing"]
    if not isinstance(value, Mapping):
        return [f"{path or 'it'} is {short(value)}, not an object"]
    fields = cast("Mapping[str, Any]", value)
    return [
        text
        for name, each in wanted.items()
        for text in differences(fields.get(name, MISSING), each, f"{path}.{name}" if path else name)
    ]


def _regex(value: Any, wanted: Any, path: str) -> list[str]:
    if isinstance(value, str) and re.search(str(wanted), value):
        return []
    return [f"{path} is {short(value)}, nothing like /{wanted}/"]


def _any(value: Any, wanted: Any, path: str) -> list[str]:
    return [f"{path} is missing"] if value is MISSING else []


def _absent(value: Any, wanted: Any, path: str) -> list[str]:
    return [] if value is MISSING else [f"{path} is {short(value)}, and should not be there"]


def _length(value: Any, wanted: Any, path: str) -> list[str]:
    items = value if isinstance(value, str) else as_list(value)
    if items is not None and len(items) == wanted:
        return []
    return [f"{path} is {short(value)}, not of length {wanted}"]


def _at_least(value: Any, wanted: Any, path: str) -> list[str]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [] if is_number and value >= wanted else [f"{path} is {short(value)}, not at least {wanted}"]


def _has(value: Any, wanted: Any, path: str) -> list[str]:
    if any(not differences(each, wanted) for each in as_list(value) or ()):
        return []
    return [f"{path} is {short(value)}, without {short(wanted)}"]


_SPECIAL: Mapping[str, Callable[[Any, Any, str], list[str]]] = {
    "$re": _regex,
    "$any": _any,
    "$absent": _absent,
    "$len": _length,
    "$min": _at_least,
    "$has": _has,
}

STAND_INS = tuple(_SPECIAL)
"""The names of what may stand for a value."""
