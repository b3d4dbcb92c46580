"""Finds and reads files of scenarios: setups put before them, tables of rows spelled out, errors with their line.

A file is one scenario (a mapping with `id`), or {defaults?, setups?, scenarios: […]}. A scenario with `begin: NAME`
gets the fields of that setup: its `llm` and `client` come first, its `finish` last, `needs` and `settings` are joined.
A scenario with `each: [{…}, …]` is one scenario for each row: `${name}` is the row's value, whole if nothing else
is in the text. Setups for all files are in `setups.yaml`. Sets of commands (`declared`) are spelled out, too.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple, TypeVar, cast

from pinnace_fuzz.judge.scenarios.declared import with_declared
from pinnace_fuzz.judge.scenarios.fields import FieldError, Fields
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object, listed
from pinnace_fuzz.judge.scenarios.yaml_lines import Lines, Path, YamlError, read_yaml
from pinnace_spec import data

FOLDER: Final = "scenarios"
SETUPS: Final = "setups.yaml"
_HOLE: Final = re.compile(r"\$\{([A-Za-z_][\w.:\-]*)\}")
# Filled in when it is played: places of the home, gates of the shell.
RUN_NAMES: Final = frozenset({"work", "agent", "home", "sessions", "temp"})
_JOINED: Final = ("llm", "client")


T = TypeVar("T")


class ScenarioError(ValueError):
    """A file is invalid. The text has file, line and field."""


class Setup(NamedTuple):
    """What scenarios may begin with."""

    fields: Mapping[str, Any]
    finish: Sequence[Any]


def load(folder: FilePath | None = None) -> tuple[Scenario, ...]:
    """Read all scenarios, of the specification unless a folder is named; sorted by id.

    Raises:
        ScenarioError: A file is invalid, or two scenarios have the same id.
    """
    root = data.FOLDER / FOLDER if folder is None else folder
    setups = shared_setups(root)
    found: dict[str, Scenario] = {}
    for path in sorted(root.rglob("*.yaml")):
        if path.name == SETUPS:
            continue
        for scenario in read_file(path, setups):
            if scenario.id in found:
                raise ScenarioError(f"{scenario.place}: id {scenario.id} is also at {found[scenario.id].place}")
            found[scenario.id] = scenario
    return tuple(found[key] for key in sorted(found))


@cache
def shared_setups(root: FilePath) -> Mapping[str, Setup]:
    """Read the setups for all files of a folder."""
    path = root / SETUPS
    if not path.is_file():
        return {}
    value, lines = _read(path)
    return _located(path.name, lines, lambda: _setups(value, ()))


def read_file(path: FilePath, setups: Mapping[str, Setup]) -> list[Scenario]:
    """Read one file.

    Raises:
        ScenarioError: It is invalid.
    """
    value, lines = _read(path)
    return _located(path.name, lines, lambda: _scenarios(value, setups, path.name, lines))


def _located(name: str, lines: Lines, read: Callable[[], T]) -> T:
    """Read, and turn an error's field into a line."""
    try:
        return read()
    except FieldError as error:
        where = ".".join(str(part) for part in error.path)
        raise ScenarioError(f"{name}:{line_of(error.path, lines)}: {where}: {error}") from None


def line_of(path: Path, lines: Lines) -> int:
    """Find the line of a field, or of the next thing around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _read(path: FilePath) -> tuple[Any, Lines]:
    try:
        return read_yaml(path.read_text(encoding="utf-8"))
    except YamlError as error:
        raise ScenarioError(f"{path.name}:{error.line}: {error}") from None


def _setups(value: Any, path: Path) -> dict[str, Setup]:
    found: dict[str, Setup] = {}
    if not isinstance(value, dict):
        raise FieldError(path, "expected a mapping of setups")
    for name, each in cast("dict[str, Any]", value).items():
        fields = Fields(each, (*path, name))
        finish = fields.take("finish", [])
        if not isinstance(finish, list):
            raise fields.error("finish", "expected a list of steps")
        rest = {key: fields.take(key) for key in ("title", "needs", "settings", "session", "files", *_JOINED)}
        rest["cell"] = fields.take("cell")
        fields.finish()
        found[name] = Setup({key: item for key, item in rest.items() if item is not None and key != "title"}, finish)
    return found


def _scenarios(value: Any, setups: Mapping[str, Setup], name: str, lines: Lines) -> list[Scenario]:
    if isinstance(value, dict) and "id" in value:
        return list(_spelled_out(value, (), {}, setups, name, lines))
    fields = Fields(value, ())
    fields.text("about")
    defaults = fields.mapping("defaults")
    own = {**setups, **_setups(fields.mapping("setups"), ("setups",))}
    found = fields.each("scenarios", lambda item, path: list(_spelled_out(item, path, defaults, own, name, lines)))
    fields.finish()
    if not found:
        raise FieldError((), "no scenario")
    return [scenario for group in found for scenario in group]


def _spelled_out(
    item: Any, path: Path, defaults: Mapping[str, Any], setups: Mapping[str, Setup], name: str, lines: Lines
) -> Iterable[Scenario]:
    if not isinstance(item, dict):
        raise FieldError(path, "a scenario is a mapping")
    whole = {**defaults, **cast("dict[str, Any]", item)}
    rows = whole.pop("each", [{}])
    if not as_list(rows) or not all(isinstance(row, dict) for row in as_list(rows) or ()):
        raise FieldError((*path, "each"), "expected a list of mappings")
    place = f"{name}:{line_of(path, lines)}"
    for row in cast("list[dict[str, Any]]", as_list(rows)):
        filled = with_declared(fill(whole, row), path)
        if "begin" in filled:
            filled = _begun(filled, path, setups, row)
        _check_holes(filled, path)
        yield read_scenario(filled, path, place)


def _begun(item: dict[str, Any], path: Path, setups: Mapping[str, Setup], row: Mapping[str, Any]) -> dict[str, Any]:
    begin = item.pop("begin")
    if begin not in setups:
        raise FieldError((*path, "begin"), f"{begin!r} is none of the setups {', '.join(sorted(setups))}")
    fields, finish = setups[begin]
    before: dict[str, Any] = fill(dict(fields), row)
    whole = {**before, **item}
    for key in _JOINED:
        whole[key] = [*before.get(key, []), *item.get(key, [])]
    whole["client"] += fill(list(finish), row)
    whole["needs"] = list(dict.fromkeys([*_list(before.get("needs")), *_list(item.get("needs"))]))
    for key in ("settings", "files"):
        if key in before or key in item:
            whole[key] = {**before.get(key, {}), **item.get(key, {})}
    return whole


def _list(value: Any) -> list[Any]:
    return [] if value is None else listed(value)


def fill(value: Any, row: Mapping[str, Any]) -> Any:
    """Put values into the holes `${name}` that a mapping names; other holes stay."""
    if isinstance(value, str):
        whole = _HOLE.fullmatch(value)
        if whole is not None and whole[1] in row:
            return row[whole[1]]
        return _HOLE.sub(lambda found: str(row.get(found[1], found[0])), value)
    if isinstance(value, Mapping):
        return {fill(key, row): fill(each, row) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [fill(each, row) for each in cast("Sequence[Any]", value)]
    return value


def _check_holes(item: Mapping[str, Any], path: Path) -> None:
    steps = [as_object(step) or {} for step in item.get("client", [])]
    kept = {name for step in steps for name in as_object(step.get("keep")) or {}}
    for hole in _holes(item):
        if hole not in kept and hole not in RUN_NAMES and not hole.startswith("gate:"):
            raise FieldError(path, f"nothing gives a value for ${{{hole}}}")


def _holes(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield from (found[1] for found in _HOLE.finditer(value))
    elif isinstance(value, Mapping):
        for key, each in cast("Mapping[str, Any]", value).items():
            yield from _holes(key)
            yield from _holes(each)
    else:
        for each in as_list(value) or ():
            yield from _holes(each)
