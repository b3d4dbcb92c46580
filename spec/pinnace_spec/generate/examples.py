"""Reads the recorded conversations (`examples/*.jsonl`) and makes them short enough to be read.

The first line of a file says what it shows (`example`, `about`, `rules`), each further one is a record and its
direction. They are recorded by a program that drives the agent; this module judges nothing.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from pinnace_spec import data

FOLDER: Final = "examples"

_MAX_TEXT: Final = 120
_MAX_LINE: Final = 420
# What a reader looks for in a message, and in a model; the rest is cut.
_OF_MESSAGE: Final = {
    "role",
    "content",
    "stopReason",
    "errorMessage",
    "toolName",
    "isError",
    "command",
    "output",
    "exitCode",
}
_OF_MODEL: Final = {"id", "provider", "reasoning"}
# Elsewhere: what the schema describes and no conversation is about.
_NOWHERE: Final = {"usage", "partial", "cost", "sessionStatus", "details", "thoughtSignature"}


class Example(NamedTuple):
    """A conversation."""

    name: str
    title: str
    about: str
    rules: tuple[str, ...]
    steps: tuple["ExampleStep", ...]


class ExampleStep(NamedTuple):
    """A record of it."""

    is_in: bool
    record: dict[str, Any] | str
    """Text: a line that is no record."""

    @property
    def text(self) -> str:
        """The record on a line of a page."""
        if isinstance(self.record, str):
            return self.record
        line = _short(self.record)
        return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"


def examples() -> list[Example]:
    """Return every recorded conversation, by name."""
    return [_read(name) for name in data.names(FOLDER) if name.endswith(".jsonl")]


def command_example(command: str) -> Example | None:
    """Return what was recorded of a command."""
    name = f"{FOLDER}/commands/{command}.jsonl"
    return _read(name) if data.has(name) else None


def _read(name: str) -> Example:
    head, *rest = (json.loads(line) for line in data.text(name).splitlines())
    steps = tuple(ExampleStep(each["dir"] == "in", each["record"]) for each in rest)
    short = name.removeprefix(f"{FOLDER}/").removesuffix(".jsonl")
    return Example(short, head["example"], head["about"], tuple(head["rules"]), steps)


def _short(value: object, is_listed: bool = False) -> str:
    """Write JSON, with `…` for what is left out.

    Args:
        value: Of JSON.
        is_listed: It is one of several messages, of which only the roles matter.
    """
    if isinstance(value, str):
        return _json(value if len(value) <= _MAX_TEXT else f"{value[:_MAX_TEXT]}…")
    if isinstance(value, list):
        items = cast("list[object]", value)
        return f"[{','.join(_short(each, is_listed) for each in items)}]"
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        kept = [
            f"{_json(key)}:{_short(each, key in {'messages', 'toolResults'})}"
            for key, each in members.items()
            if _is_shown(key, members, is_listed=is_listed)
        ]
        return f"{{{','.join([*kept, *(['…'] if len(kept) < len(members) else [])])}}}"
    return _json(value)


def _is_shown(key: str, members: Mapping[str, object], *, is_listed: bool) -> bool:
    if "role" in members:
        return key == "role" if is_listed else key in _OF_MESSAGE
    if "contextWindow" in members and "baseUrl" in members:
        return key in _OF_MODEL
    return key not in _NOWHERE


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
