"""Takes single settings out of the files of the user and the project, and collects what is wrong with them.

The project's value goes before the user's; one of the wrong type is told and counts as absent. A project may not say
everything: what would let it turn its own trust on, or read what is sent, is the user's alone. Must not know the
defaults.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pinnace_agent.files.text_file import TextFileError, read_beginning
from pinnace_agent.resources.diagnostics import Diagnostic, Problem
from pinnace_agent.resources.relaxed_json import (
    ConfigurationFileError,
    JsonObject,
    is_list,
    is_object,
    read_object,
)
from pinnace_agent.resources.settings_migration import migrated

_T = TypeVar("_T")
_D = TypeVar("_D")

# Ignored in a project's file, in silence: another program may mean something by them.
USERS_ALONE: Final = frozenset(
    {
        "defaultProjectTrust",
        "httpProxy",
        "limits.maxCost",
        "limits.maxRunSeconds",
        "limits.maxTurns",
        "recheckProjectTrust",
        "shellProviderKeys",
    }
)
# More than a year of milliseconds, and more tokens than any model takes: a number above it is a slip.
MAX_INTEGER: Final = 2**35
_WHOLE_NUMBER: Final = f"a whole number from 0 to {MAX_INTEGER}"


@dataclass(slots=True, frozen=True, eq=False)
class Scope:
    """One settings.json; the object stands for the file."""

    path: Path
    content: JsonObject
    is_project: bool = False
    diagnostic: Diagnostic | None = None
    """Why there is no content."""
    refusal: str | None = None
    """Why nothing may start: the file can't be read, and what is in it should limit or guard."""


def read_scope(path: Path, *, is_project: bool = False) -> Scope:
    """Read one file. A missing or damaged one has no content."""
    try:
        content = read_object(path, is_relaxed=False) or {}
    except ConfigurationFileError as error:
        consequence = "the project's settings are not used" if is_project else "default settings are used"
        backup = path.with_name(f"{path.name}.bak")
        if backup.exists():
            consequence += f"; {backup} is how it was before its last change"
        guard = _guard_in(path)
        refusal = None if guard is None else f"{path}: {error}; it holds {guard}, which must not be passed over"
        return Scope(path, {}, is_project, Diagnostic(str(path), (Problem("", str(error)),), consequence), refusal)
    return Scope(path, migrated(content), is_project)


# DEVIATION D-60: what is not understood of these keeps the process from starting, since a run would go on without the
# limit or the guard that was asked for.
GUARDS: Final = (
    "compaction",
    "defaultProjectTrust",
    "defaultThinkingLevel",
    "defaultTools",
    "enabledModels",
    "httpProxy",
    "images.blockImages",
    "limits",
    "modelThinkingLevels",
    "recheckProjectTrust",
    "retry",
    "sandbox",
    "thinkingBudgets",
    "tools",
)
# So near to the name of a group (difflib's measure) that it is a slip; pi has no key of its own so near to one.
_NEARLY: Final = 0.85
_UNKNOWN: Final = "is not known"
# Where these stand in a file that can't be read, it holds a guard.
_GUARD_IN_TEXT: Final = re.compile(r'"(limits|tools|sandbox|defaultTools|blockImages|recheckProjectTrust)"\s*:')
_MAX_CHARS: Final = 1024 * 1024


def _guard_in(path: Path) -> str | None:
    """Return the name of a guard in a file that is no JSON."""
    try:
        found = _GUARD_IN_TEXT.search(read_beginning(str(path), _MAX_CHARS).text)
    except TextFileError:
        return None
    return None if found is None else found[1]


class SettingsReader:
    """Reads values by their dotted names."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        """Read these files, the one that goes before the others first."""
        self.scopes = scopes
        self._problems: dict[Scope, list[Problem]] = {scope: [] for scope in scopes}

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was wrong with what was read until now."""
        found: list[Diagnostic] = []
        for scope in reversed(self.scopes):
            if scope.diagnostic is not None:
                found.append(scope.diagnostic)
            if problems := self._problems[scope]:
                instead = "the user's setting or the default" if scope.is_project else "the default"
                found.append(Diagnostic(str(scope.path), tuple(problems), f"{instead} is used in its place"))
        return tuple(found)

    @property
    def refusals(self) -> tuple[str, ...]:
        """What was wrong with a limit or a guard; the process must not start with it."""
        found = [
            f"{scope.path}: {problem.path}: {problem.message}"
            for scope in reversed(self.scopes)
            for problem in self._problems[scope]
            if problem.message.startswith(_UNKNOWN)
            or any(_is_within(problem.path, guard) or _is_within(guard, problem.path) for guard in GUARDS)
        ]
        return (*(scope.refusal for scope in reversed(self.scopes) if scope.refusal is not None), *found)

    def members(self, group: str, known: Collection[str]) -> None:
        """Note every key of an object that is none of these."""
        for scope in self.scopes:
            if scope.is_project and all(f"{group}.{name}" in USERS_ALONE for name in known):
                continue
            _, value = self._find(scope, group)
            if is_object(value):
                for name in sorted(value.keys() - set(known)):
                    self.tell(scope, f"{group}.{name}", f"{_UNKNOWN}; {_nearest(name, known)}")

    def slips(self, members: Mapping[str, Collection[str]], groups: Collection[str]) -> None:
        """Note keys at the top that are nearly the name of one of these groups, or a member in the wrong place."""
        owners = {name: group for group, names in members.items() for name in names}
        for scope in self.scopes:
            for name in sorted(scope.content.keys() - set(groups)):
                # Hardly any key has almost the letters of a group; comparing them well loads a module.
                alike = [group for group in groups if len(set(name.lower()) ^ set(group)) <= 2]
                near = _close(name.lower(), alike, _NEARLY) if alike else []
                if name in owners:
                    self.tell(scope, name, f"{_UNKNOWN} here; did you mean {owners[name]}.{name}?")
                elif near:
                    self.tell(scope, name, f"{_UNKNOWN}; did you mean {near[0]}?")

    def text(self, name: str) -> str | None:
        """Read a text; an empty one says nothing."""
        return self.take(name, lambda value: value if isinstance(value, str) else None, None, "a text") or None

    def flag(self, name: str, default: bool) -> bool:
        """Read a yes or no."""
        return self.take(name, lambda value: value if isinstance(value, bool) else None, default, "true or false")

    def integer(self, name: str, default: _T) -> int | _T:
        """Read a count."""
        return self.take(name, whole_number, default, _WHOLE_NUMBER)

    def choice(self, name: str, choices: Sequence[_T], default: _T) -> _T:
        """Read one of a few words."""
        expected = " or ".join(map(str, choices)) if len(choices) < 3 else f"one of {', '.join(map(str, choices))}"
        return self.take(name, lambda value: _among(choices, value), default, expected)

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of texts."""
        return self.take(name, texts_of, (), "a list of texts")

    def table(
        self,
        name: str,
        convert: Callable[[object], _T | None],
        expected: str,
        join: Callable[[_T, _T], _T] = lambda _, project: project,
    ) -> dict[str, _T]:
        """Read an object of any keys. Of two files the keys are joined; `join` makes one of two values of a key."""
        table: dict[str, _T] = {}
        for scope in reversed(self.scopes):
            found, value = self._find(scope, name)
            if not found or value is None:
                continue
            if not is_object(value):
                self.tell(scope, name, "must be an object")
                continue
            for key, item in value.items():
                converted = convert(item)
                if converted is None:
                    self.tell(scope, f"{name}.{key}", f"must be {expected}")
                else:
                    table[key] = join(table[key], converted) if key in table else converted
        return table

    def each(self, name: str, convert: Callable[[object], _T | None], expected: str) -> dict[Scope, _T]:
        """Read a value of each file, by the file: nothing goes before anything else."""
        values: dict[Scope, _T] = {}
        for scope in self.scopes:
            found, value = self._find(scope, name)
            if found and value is not None:
                converted = convert(value)
                if converted is None:
                    self.tell(scope, name, f"must be {expected}")
                else:
                    values[scope] = converted
        return values

    def take(self, name: str, convert: Callable[[object], _T | None], default: _D, expected: str) -> _T | _D:
        """Read a value as `convert` has it, which returns None for what is not `expected`.

        Null is the default, also where the other file has a value.
        """
        taken: _T | _D = default
        is_taken = False
        for scope in self.scopes:
            found, value = self._find(scope, name)
            if not found:
                continue
            converted = None if value is None else convert(value)
            if value is not None and converted is None:
                self.tell(scope, name, f"must be {expected}")
                continue
            if not is_taken:
                is_taken, taken = True, default if converted is None else converted
        return taken

    def tell(self, scope: Scope, name: str, message: str) -> None:
        """Note what is wrong, once."""
        problem = Problem(name, message)
        if problem not in self._problems[scope]:
            self._problems[scope].append(problem)

    def _find(self, scope: Scope, name: str) -> tuple[bool, object]:
        """Return whether a file says anything, and what. Null for a group is null for everything in it."""
        if scope.is_project and name in USERS_ALONE:
            return False, None
        content: Mapping[str, object] = scope.content
        *groups, member = name.split(".")
        for depth, group in enumerate(groups, 1):
            inner = content.get(group)
            if group in content and inner is None:
                return True, None
            if not is_object(inner):
                if group in content:
                    self.tell(scope, ".".join(groups[:depth]), "must be an object")
                return False, None
            content = inner
        return member in content, content.get(member)


def _is_within(name: str, group: str) -> bool:
    return name == group or name.startswith((f"{group}.", f"{group}["))


def _close(word: str, names: Collection[str], nearness: float = 0.6) -> list[str]:
    from difflib import get_close_matches  # no start without a mistake needs it

    return get_close_matches(word, names, 1, nearness)


def _nearest(name: str, known: Collection[str]) -> str:
    near = _close(name, known)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def whole_number(value: object) -> int | None:
    """Return a count as an integer: JSON knows no difference between 10 and 10.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == int(value) and 0 <= value <= MAX_INTEGER else None


def texts_of(value: object) -> tuple[str, ...] | None:
    """Return a list of texts, if it is one."""
    if not is_list(value):
        return None
    texts = tuple(item for item in value if isinstance(item, str))
    return texts if len(texts) == len(value) else None


def _among(choices: Sequence[_T], value: object) -> _T | None:
    return next((choice for choice in choices if choice == value), None)
