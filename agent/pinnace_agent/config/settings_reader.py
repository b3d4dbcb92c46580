"""Reads single settings from the files of the user and of a project, and collects the problems in them.

The project's value takes precedence over the user's; a value of the wrong type is reported and counts as absent. Some
settings are the user's alone: a project could turn on its own trust with them, or read what is sent. Old names of
settings are replaced by today's when a file is read, as pi does. Has no knowledge of the defaults.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pinnace_agent.core.diagnostics import Diagnostic, Problem, hints
from pinnace_agent.files.relaxed_json import (
    ConfigurationFileError,
    JsonObject,
    is_list,
    is_object,
    read_object,
)
from pinnace_agent.files.text_file import TextFileError, read_beginning
from pinnace_spec.records.messages import ThinkingLevel

_T = TypeVar("_T")
_D = TypeVar("_D")

# Ignored in a project's file without a diagnostic: other programs may use them.
USERS_ALONE: Final = frozenset(
    {
        "cacheWarming",
        "defaultProjectTrust",
        "httpProxy",
        "limits.maxCost",
        "limits.maxRunSeconds",
        "limits.maxTurns",
        "recheckProjectTrust",
        "shellProviderKeys",
    }
)
# More than a year in milliseconds, and more tokens than any model takes: a larger number is a mistake.
BUDGETED_LEVELS: Final[tuple[ThinkingLevel, ...]] = ("minimal", "low", "medium", "high")

# Every key of the groups that limit runs, those of pi among them.
GUARDED_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "compaction": ("enabled", "reserveTokens", "keepRecentTokens", "modelOverrides"),
    "limits": ("maxTurns", "maxCost", "maxRunSeconds"),
    "retry": ("enabled", "maxRetries", "baseDelayMs", "maxAgentDelayMs", "provider"),
    "retry.provider": ("timeoutMs", "maxRetries", "maxRetryDelayMs"),
    "sandbox": (
        "enforced",
        "escalation",
        "hide",
        "mechanism",
        "mode",
        "network",
        "readable",
        "unixSockets",
        "newRepository",
        "environment",
        "writable",
    ),
    "tools": ("timeoutSeconds", "maxSubagents", "maxSubagentDepth"),
}

MAX_INTEGER: Final = 2**35
_WHOLE_NUMBER: Final = f"a whole number from 0 to {MAX_INTEGER}"


@dataclass(slots=True, frozen=True, eq=False)
class Scope:
    """One settings.json; compared by identity."""

    path: Path
    content: JsonObject
    is_project: bool = False
    diagnostic: Diagnostic | None = None
    """Why there is no content."""
    refusal: str | None = None
    """Why the process must not start: the file can't be read, and it contains a limit or a guard."""


def read_scope(path: Path, *, is_project: bool = False) -> Scope:
    """Read one file. A missing or damaged file has no content."""
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


# DEVIATION D-60: an error in one of these keeps the process from starting, since a run would continue without the
# limit or the guard that the user configured.
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
# A key this similar to the name of a group (difflib's ratio) is a misspelling; pi has no such key of its own.
_NEARLY: Final = 0.85
_UNKNOWN: Final = "is not known"
# A file that can't be read contains a guard if one of these is in it.
_GUARD_IN_TEXT: Final = re.compile(r'"(limits|tools|sandbox|defaultTools|blockImages|recheckProjectTrust)"\s*:')
_MAX_CHARS: Final = 1024 * 1024


def _guard_in(path: Path) -> str | None:
    """Return the name of a guard in a file that is not JSON."""
    try:
        found = _GUARD_IN_TEXT.search(read_beginning(str(path), _MAX_CHARS).text)
    except TextFileError:
        return None
    return None if found is None else found[1]


class SettingsReader:
    """Reads values by their dotted names."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        """Read these files, in the order of their precedence."""
        self.scopes = scopes
        self._problems: dict[Scope, list[Problem]] = {scope: [] for scope in scopes}
        self._hints: dict[Scope, list[Problem]] = {scope: [] for scope in scopes}
        self._items: dict[Scope, list[Problem]] = {scope: [] for scope in scopes}
        self._others: dict[Scope, list[Problem]] = {scope: [] for scope in scopes}

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The problems in everything that was read until now."""
        found: list[Diagnostic] = []
        for scope in reversed(self.scopes):
            if scope.diagnostic is not None:
                found.append(scope.diagnostic)
            if problems := self._problems[scope]:
                instead = "the user's setting or the default" if scope.is_project else "the default"
                found.append(Diagnostic(str(scope.path), tuple(problems), f"{instead} is used in its place"))
            if items := self._items[scope]:
                found.append(Diagnostic(str(scope.path), tuple(items), "left out"))
            found += hints(str(scope.path), self._hints[scope])
        return tuple(found)

    @property
    def others(self) -> tuple[Diagnostic, ...]:
        """The unknown keys at the top that resemble none: an extension may read them."""
        consequence = "without effect, unless an extension reads it"
        return tuple(
            Diagnostic(str(scope.path), tuple(problems), consequence)
            for scope in reversed(self.scopes)
            if (problems := self._others[scope])
        )

    @property
    def refusals(self) -> tuple[str, ...]:
        """The problems in limits and guards; the process must not start with them."""
        found = [
            f"{scope.path}: {problem.path}: {problem.message}"
            for scope in reversed(self.scopes)
            for problem in self._problems[scope]
            if problem.message.startswith(_UNKNOWN)
            or any(_is_within(problem.path, guard) or _is_within(guard, problem.path) for guard in GUARDS)
        ]
        return (*(scope.refusal for scope in reversed(self.scopes) if scope.refusal is not None), *found)

    def members(self, group: str, known: Collection[str]) -> None:
        """Report every key of an object that is none of these."""
        for scope in self.scopes:
            if scope.is_project and all(f"{group}.{name}" in USERS_ALONE for name in known):
                continue
            _, value = self._find(scope, group)
            if is_object(value):
                for name in sorted(value.keys() - set(known)):
                    from pinnace_spec.nearest import nearest_or_all

                    self.report(scope, f"{group}.{name}", f"{_UNKNOWN}; {nearest_or_all(name, known)}")

    def misspelled(self, members: Mapping[str, Collection[str]], groups: Collection[str]) -> None:
        """Report keys at the top that are nearly the name of a group, or a member of a group."""
        owners = {name: group for group, names in members.items() for name in names}
        for scope in self.scopes:
            for name in sorted(scope.content.keys() - set(groups)):
                # Few keys share most letters with a group; an exact comparison imports a module.
                alike = [group for group in groups if len(set(name.lower()) ^ set(group)) <= 2]
                if name in owners:
                    self.report(scope, name, f"{_UNKNOWN} here; did you mean {owners[name]}.{name}?")
                elif alike:
                    from pinnace_spec.nearest import did_you_mean

                    if hint := did_you_mean(name, alike, _NEARLY):
                        self.report(scope, name, f"{_UNKNOWN}{hint}")

    def text(self, name: str) -> str | None:
        """Read a string; an empty one counts as absent."""
        return self.take(name, lambda value: value if isinstance(value, str) else None, None, "a string") or None

    def flag(self, name: str, default: bool) -> bool:
        """Read a boolean."""
        return self.take(name, lambda value: value if isinstance(value, bool) else None, default, "true or false")

    def integer(self, name: str, default: _T) -> int | _T:
        """Read a count."""
        return self.take(name, whole_number, default, _WHOLE_NUMBER)

    def choice(self, name: str, choices: Sequence[_T], default: _T) -> _T:
        """Read one of a few words."""
        expected = " or ".join(map(str, choices)) if len(choices) < 3 else f"one of {', '.join(map(str, choices))}"
        return self.take(name, lambda value: _among(choices, value), default, expected)

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of strings."""
        return self.take(name, texts_of, (), "a list of strings")

    def items(
        self, name: str, convert: Callable[[object], _T | None], expected: str, plural: str
    ) -> dict[Scope, tuple[_T, ...]]:
        """Read the list of each file, by the file; neither takes precedence. A wrong item costs itself alone."""
        lists = self.each(name, lambda value: value if is_list(value) else None, f"a list of {plural}")
        found: dict[Scope, tuple[_T, ...]] = {}
        for scope, values in lists.items():
            converted = [convert(value) for value in values]
            for place, item in enumerate(converted):
                if item is None:
                    self._items[scope].append(Problem(f"{name}[{place}]", f"must be a {expected}"))
            found[scope] = tuple(item for item in converted if item is not None)
        return found

    def table(
        self,
        name: str,
        convert: Callable[[object], _T | None],
        expected: str,
        join: Callable[[_T, _T], _T] = lambda _, project: project,
    ) -> dict[str, _T]:
        """Read an object with any keys. The keys of two files are merged; `join` merges two values of one key."""
        table: dict[str, _T] = {}
        for scope in reversed(self.scopes):
            found, value = self._find(scope, name)
            if not found or value is None:
                continue
            if not is_object(value):
                self.report(scope, name, "must be an object")
                continue
            for key, item in value.items():
                converted = convert(item)
                if converted is None:
                    self.report(scope, f"{name}.{key}", f"must be {expected}")
                else:
                    table[key] = join(table[key], converted) if key in table else converted
        return table

    def each(self, name: str, convert: Callable[[object], _T | None], expected: str) -> dict[Scope, _T]:
        """Read the value of each file, by the file; neither takes precedence."""
        values: dict[Scope, _T] = {}
        for scope in self.scopes:
            found, value = self._find(scope, name)
            if found and value is not None:
                converted = convert(value)
                if converted is None:
                    self.report(scope, name, f"must be {expected}")
                else:
                    values[scope] = converted
        return values

    def take(self, name: str, convert: Callable[[object], _T | None], default: _D, expected: str) -> _T | _D:
        """Read a value through `convert`, which returns None for what is not `expected`.

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
                self.report(scope, name, f"must be {expected}")
                continue
            if not is_taken:
                is_taken, taken = True, default if converted is None else converted
        return taken

    def report(self, scope: Scope, name: str, message: str) -> None:
        """Add a problem, once."""
        problem = Problem(name, message)
        if problem not in self._problems[scope]:
            self._problems[scope].append(problem)

    def hint(self, scope: Scope, name: str, message: str) -> None:
        """Add a hint: a key that is not known, a value that can't work."""
        self._hints[scope].append(Problem(name, message, is_hint=True))

    def leave(self, scope: Scope, name: str) -> None:
        """Add an unknown key that may be an extension's."""
        self._others[scope].append(Problem(name, _UNKNOWN, is_hint=True))

    def source(self, name: str) -> Scope | None:
        """Return the file that has a value and takes precedence."""
        return next((scope for scope in self.scopes if self._find(scope, name)[0]), None)

    def is_reported(self, scope: Scope, name: str) -> bool:
        """Return whether a mistake was reported for a key."""
        return any(problem.path == name for problem in self._problems[scope])

    def _find(self, scope: Scope, name: str) -> tuple[bool, object]:
        """Return whether a file has a value, and the value. Null for a group is null for all its members."""
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
                    self.report(scope, ".".join(groups[:depth]), "must be an object")
                return False, None
            content = inner
        return member in content, content.get(member)


def _is_within(name: str, group: str) -> bool:
    return name == group or name.startswith((f"{group}.", f"{group}["))


def whole_number(value: object) -> int | None:
    """Return a count as an integer, or None: JSON does not distinguish 10 from 10.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == int(value) and 0 <= value <= MAX_INTEGER else None


def texts_of(value: object) -> tuple[str, ...] | None:
    """Return a list of strings as a tuple, or None for anything else."""
    if not is_list(value):
        return None
    texts = tuple(item for item in value if isinstance(item, str))
    return texts if len(texts) == len(value) else None


def among(choices: Sequence[_T]) -> Callable[[object], _T | None]:
    """Return a conversion that accepts one of a few words."""
    return lambda value: _among(choices, value)


def _among(choices: Sequence[_T], value: object) -> _T | None:
    return next((choice for choice in choices if choice == value), None)


def migrated(content: JsonObject) -> JsonObject:
    """Return settings under today's names. The new name takes precedence over the old one; unknown keys stay."""
    content = dict(content)
    if "queueMode" in content:
        _rename(content, "queueMode", "steeringMode")
    if isinstance(content.get("websockets"), bool):
        websockets = content.pop("websockets")
        content.setdefault("transport", "websocket" if websockets else "sse")
    _migrate_skills(content)
    _migrate_retry(content)
    return content


def _rename(content: JsonObject, old: str, new: str) -> None:
    value = content.pop(old)
    if content.get(new) is None:
        content[new] = value


def _migrate_skills(content: JsonObject) -> None:
    skills = content.get("skills")
    if not is_object(skills):
        return
    if "enableSkillCommands" in skills:
        content.setdefault("enableSkillCommands", skills["enableSkillCommands"])
    folders = skills.get("customDirectories")
    if is_list(folders) and folders:
        content["skills"] = folders
    else:
        del content["skills"]


def _migrate_retry(content: JsonObject) -> None:
    retry = content.get("retry")
    if not is_object(retry) or "maxDelayMs" not in retry:
        return
    provider = retry.get("provider")
    if provider is None:
        provider = {}
    elif not is_object(provider):
        return
    retry = dict(retry)
    provider = {"maxRetryDelayMs": retry.pop("maxDelayMs"), **provider}
    content["retry"] = {**retry, "provider": provider}
