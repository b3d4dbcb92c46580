"""Judges a record that an agent wrote: is it one that its profile describes, and nothing else?

Chooses the model by type, command and success, and words what is wrong. One record at a time: order, and what several
records say together, are not seen here. For tests and for the kit that judges other agents; the agent itself never
imports this. Source: R-PRO-01 to R-PRO-03, R-RSP-01, R-UI-01, R-FIL-02.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails

from pinnace_spec.profiles.profiles import Profile
from pinnace_spec.records.command_table import CLIENT_ANSWERS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.responses import DATA, FAILURES, MAY_LACK_DATA, Success

Location = tuple[int | str, ...]

# A record that is wrong in every message of a long conversation is wrong once.
_MAX_PROBLEMS: Final = 20


def validate_output(record: Mapping[str, object], profile: Profile) -> list[str]:
    """Return what is wrong with a record of an agent's stdout; nothing if it is as the profile says."""
    kind = record.get("type")
    if kind == "response":
        return _response_problems(record, profile)
    if not isinstance(kind, str) or kind not in EVENTS[profile]:
        return [f"type: {kind!r} is no record of profile {profile}"]
    return _problems(_event_adapter(profile, kind), record)


def _response_problems(record: Mapping[str, object], profile: Profile) -> list[str]:
    command = record.get("command")
    if command in CLIENT_ANSWERS:
        return [f"command: {command} is never answered"]
    if record.get("success") is not True:
        return _problems(_failure_adapter(profile), record)
    if not isinstance(command, str) or command not in DATA[profile]:
        return [f"command: no success of {command!r} is described"]
    return _problems(_success_adapter(profile, command), record)


@cache
def _event_adapter(profile: Profile, kind: str) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", EVENTS[profile][kind]))  # a model, or a union of models


@cache
def _failure_adapter(profile: Profile) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", FAILURES[profile]))


@cache
def _success_adapter(profile: Profile, command: str) -> TypeAdapter[object]:
    data = DATA[profile][command]
    if data is None:
        return TypeAdapter(cast("type[object]", Success))
    # Any: what create_model takes as a type, pydantic judges.
    field: Any = (data | None, None) if command in MAY_LACK_DATA else (data, ...)  # type: ignore[operator]
    model: type[BaseModel] = create_model(f"Success_{command}", __base__=Success, data=field)
    return TypeAdapter(cast("type[object]", model))


def _problems(adapter: TypeAdapter[object], record: Mapping[str, object]) -> list[str]:
    try:
        adapter.validate_python(record)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        return list(dict.fromkeys(_worded(each, record) for each in _relevant(details)))[:_MAX_PROBLEMS]
    return []


def _relevant(details: Sequence[ErrorDetails]) -> Iterable[ErrorDetails]:
    """Leave out what alternatives of a union say that were not meant: those whose tag is another."""
    others = {each["loc"][:-1] for each in details if each["type"] == "literal_error" and each["loc"][-1:] == ("type",)}
    kept = [each for each in details if not any(each["loc"][: len(other)] == other for other in others)]
    return kept or details


def _worded(detail: ErrorDetails, record: Mapping[str, object]) -> str:
    """Word a problem, with its path in the record: pydantic's own also names the alternatives of unions."""
    path: list[str] = []
    value: object = record
    for part in detail["loc"]:
        if isinstance(part, int):
            path.append(f"[{part}]")
            value = cast("Sequence[object]", value)[part]  # pydantic has been there
        elif part in (members := _members(value)):
            path.append(f".{part}")
            value = members[part]
    if detail["type"] == "missing":
        path.append(f".{detail['loc'][-1]}")
    return f"{''.join(path).removeprefix('.') or 'record'}: {detail['msg'].removeprefix('Value error, ')}"


def _members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}  # as JSON has them
