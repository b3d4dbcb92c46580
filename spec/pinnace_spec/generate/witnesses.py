"""What the observers of traces promise to notice: each invariant with its rules and what it says."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import NamedTuple

from pinnace_spec.observers import comparisons
from pinnace_spec.observers import invariants as observers

_ID = re.compile(r"I-[A-Z]+(?:-\d+)?\b")


class Invariant(NamedTuple):
    """A sentence about traces, and the rules behind it."""

    id: str
    rules: tuple[str, ...]
    text: str


@cache
def invariants() -> dict[str, Invariant]:
    """Return every invariant that there is an observer for, sorted by id."""
    found: dict[str, Invariant] = {}
    for module in _modules():
        for each in _of_classes(module):
            found.setdefault(each.id, each)
    for module in _modules():
        for each in _of_functions(module):
            found.setdefault(each.id, each)
    return dict(sorted(found.items(), key=lambda item: _place(item[0])))


def _place(name: str) -> tuple[str, int]:
    family, _, number = name.rpartition("-")
    return (family, int(number)) if number.isdigit() else (name, 0)


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(observers.__path__):
        yield importlib.import_module(f"{observers.__name__}.{info.name}")
    yield comparisons


def _of_classes(module: ModuleType) -> Iterator[Invariant]:
    """Find observers: classes with an id of their own."""
    for _, each in inspect.getmembers(module, inspect.isclass):
        name = vars(each).get("id")
        if each.__module__ == module.__name__ and isinstance(name, str) and _ID.fullmatch(name):
            yield Invariant(name, tuple(getattr(each, "rules", ())), _first_sentence(each))


def _of_functions(module: ModuleType) -> Iterator[Invariant]:
    """Find judges of several traces: functions that name the invariant in their docstring."""
    for _, each in inspect.getmembers(module, inspect.isfunction):
        if each.__module__ != module.__name__ or each.__name__.startswith("_"):
            continue
        for name in _ID.findall(inspect.getdoc(each) or ""):
            text = re.sub(r" *\(?I-[A-Z]+(-\d+)?[):]* *", "", _first_sentence(each))
            yield Invariant(name, (), text)


def _first_sentence(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
