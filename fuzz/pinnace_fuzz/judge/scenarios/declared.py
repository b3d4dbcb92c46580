"""Sets of declared commands in a scenario, so that a new command is in the cells of its kind without a line of its own.

In a list of `send`, `{commands: reads}` stands for one record each, with the command's name as its id and its sample as
its fields; in `answered` for those ids; in `expect` for their success, `behind` that of another id; in `cell`, with a
state, for their cells.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_fuzz.judge.scenarios.yaml_lines import Path
from pinnace_spec.records.commands import MODELS

KEY: Final = "commands"
SETS: Final[Mapping[str, Sequence[str]]] = {
    "reads": [name for name, model in MODELS.items() if model.kind == "read"],
    "own reads": [name for name, model in MODELS.items() if model.kind == "read" and model.since is None],
}
"""`own reads`: those that no release of the original has."""


def with_declared(item: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a scenario with each set replaced by its commands.

    Raises:
        FieldError: It names a set that there is not.
    """
    steps = [_step(each, (*path, "client", at)) for at, each in enumerate(as_list(item.get("client")) or ())]
    spelled = {**item, "client": steps} if "client" in item else dict(item)
    for key, form in (("expect", _success), ("cell", _cell)):
        if key in item:
            spelled[key] = _listed(item[key], form, (*path, key))
    return spelled


def _step(step: Any, path: Path) -> Any:
    fields = as_object(step)
    if fields is None:
        return step
    spelled = {**fields}
    for key, form in (("send", _record), ("answered", _id)):
        if key in fields:
            spelled[key] = _listed(fields[key], form, (*path, key))
    return spelled


def _id(name: str, _: Mapping[str, Any]) -> Any:
    return name


def _record(name: str, _: Mapping[str, Any]) -> Any:
    return {"id": name, "type": name, **MODELS[name].sample}


def _success(name: str, item: Mapping[str, Any]) -> Any:
    before = f"resp({item['behind']},ok) ... " if "behind" in item else ""
    return f"{before}resp({name},ok)"


def _cell(name: str, item: Mapping[str, Any]) -> Any:
    return {**{key: value for key, value in item.items() if key != KEY}, "command": name}


def _listed(value: Any, form: Callable[[str, Mapping[str, Any]], Any], path: Path) -> Any:
    items = as_list(value)
    return value if items is None else list(_spelled(items, form, path))


def _spelled(items: Sequence[Any], form: Callable[[str, Mapping[str, Any]], Any], path: Path) -> Iterator[Any]:
    for item in items:
        fields = as_object(item)
        if fields is None or KEY not in fields:
            yield item
            continue
        named = cast("object", fields[KEY])
        if named not in SETS:
            raise FieldError((*path, KEY), f"{named!r} is none of {', '.join(SETS)}")
        yield from (form(name, fields) for name in SETS[str(named)])
