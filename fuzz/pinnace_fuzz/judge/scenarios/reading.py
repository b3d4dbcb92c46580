"""Reads one scenario, spelled out, from a mapping. Errors name their field. Format: `scenario`."""

import base64
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, cast

from pinnace_fuzz.judge.scenarios.expression import Expression, ExpressionError, read_class
from pinnace_fuzz.judge.scenarios.fields import FieldError, Fields, texts
from pinnace_fuzz.judge.scenarios.likeness import STAND_INS, unknown_stand_ins
from pinnace_fuzz.judge.scenarios.llm_lines import read_llm
from pinnace_fuzz.judge.scenarios.scenario import (
    CAPABILITIES,
    Answered,
    Ask,
    Bytes,
    Cell,
    Children,
    Close,
    Exit,
    FileCheck,
    Files,
    Gone,
    Lock,
    Mark,
    Move,
    Open,
    Quiet,
    Reached,
    Reading,
    Remove,
    Requests,
    Restart,
    Scenario,
    Send,
    Signal,
    State,
    Step,
    Try,
    Wait,
    Write,
)
from pinnace_fuzz.judge.scenarios.shapes import as_list, listed
from pinnace_fuzz.judge.scenarios.yaml_lines import Path
from pinnace_spec.profiles.generations import GENERATIONS, lifetimes

_ID: Final = r"[A-Z]{2,5}/[a-z0-9][a-z0-9._-]*"
_RULE: Final = r"(R|I)-[A-Z]+(-\d+)?|C-\d+"
_RELEASE: Final = re.compile(r"\d+(\.\d+)+")
EXIT_WITHIN_S: Final = 10.0


@cache
def known_words() -> frozenset[str]:
    """Return the words that expressions may use: the types of all generations, and those of `classes`."""
    ours = "resp answer user assistant result update delta thinking tool_start tool_update tool_end queue turn settled"
    more = "compaction_start compaction_end retry_start retry_end ui bash_update response"
    return frozenset([*ours.split(), *more.split(), *lifetimes("records")])


def read_scenario(value: Any, path: Path = (), place: str = "") -> Scenario:
    """Read a scenario.

    Raises:
        FieldError: It does not match the format of `spec/scenarios/README.md`.
    """
    fields = Fields(value, path)
    rules = fields.texts("rules")
    for at, rule in enumerate(rules):
        if not re.fullmatch(_RULE, rule):
            raise FieldError((*path, "rules", at), f"{rule!r} is not a rule or invariant")
    if not rules:
        raise fields.error("rules", "is needed")
    found = Scenario(
        id=fields.matching("id", _ID, "an id like QUE/steer-after-tools"),
        title=fields.needed("title"),
        rules=rules,
        since=_generation(fields, "since"),
        until=_generation(fields, "until"),
        needs=frozenset(_words(fields, "needs", CAPABILITIES)),
        settings=fields.mapping("settings"),
        files=fields.text_map("files"),
        session=fields.word("session", ("none", "new"), "none"),
        model=fields.text("model", "m1"),
        arguments=fields.texts("arguments"),
        env=fields.text_map("env"),
        llm=fields.each("llm", read_llm),
        client=fields.each("client", read_step),
        expect=_expressions(fields, "expect"),
        forbid=_expressions(fields, "forbid"),
        state=_expected(fields, "state"),
        exit=_exit(fields),
        cells=_cells(fields),
        is_smoke=fields.flag("smoke"),
        not_scored=fields.text("not_scored"),
        skip_observers=fields.texts("skip_observers"),
        source=value,
        place=place,
    )
    fields.finish()
    if not found.client:
        raise fields.error("client", "is needed")
    return found


def _generation(fields: Fields, key: str) -> str | None:
    if not fields.has(key):
        return None
    value = fields.needed(key)
    if value not in GENERATIONS and not _RELEASE.fullmatch(value):
        raise fields.error(key, f"{value!r} is no generation ({', '.join(GENERATIONS)}) and no release like 0.84.4")
    return value


def _words(fields: Fields, key: str, allowed: Mapping[str, str]) -> tuple[str, ...]:
    found = fields.texts(key)
    for at, word in enumerate(found):
        if word not in allowed:
            raise FieldError((*fields.path, key, at), f"{word!r} is none of {', '.join(allowed)}")
    return found


def _exit(fields: Fields) -> int | None:
    value = fields.take("exit", 0)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise fields.error("exit", "is a number or null")
    return value


def _cells(fields: Fields) -> tuple[Cell, ...]:
    value = fields.take("cell", [])
    path = (*fields.path, "cell")
    found: list[Cell] = []
    for each in listed(value):
        inner = Fields(each, path)
        found.append(Cell(inner.needed("state"), inner.needed("command")))
        inner.finish()
    return tuple(found)


def _expressions(fields: Fields, key: str) -> tuple[str, ...]:
    found = fields.texts(key)
    for text in found:
        try:
            words = Expression(text).words
        except ExpressionError as error:
            raise fields.error(key, str(error)) from None
        _check_words(words, (*fields.path, key))
    return found


def _check_words(words: tuple[str, ...], path: Path) -> None:
    for word in words:
        if not word.startswith("@") and word not in known_words():
            raise FieldError(path, f"{word!r} is not a class of records")


# Steps.


def read_step(value: Any, path: Path) -> Step:
    """Read one step of the client."""
    if isinstance(value, str):
        value = {value: True}  # `- quiet`
    fields = Fields(value, path)
    kinds = [key for key in _STEPS if fields.has(key)]
    if len(kinds) != 1:
        raise FieldError(path, f"expected one of {', '.join(_STEPS)}, not {sorted(value)}")
    (kind,) = kinds
    step = _STEPS[kind](fields)
    fields.finish()
    return step


def _send(fields: Fields) -> Step:
    value = fields.take("send")
    records = listed(value)
    for record in records:
        if not isinstance(record, dict):
            raise fields.error("send", f"a record is a mapping, not {record!r}; `bytes` sends anything")
    return Send(tuple(records))


def _bytes(fields: Fields) -> Step:
    cuts = fields.take("cut", [])
    if cuts == "each":
        cuts = [-1]
    places = as_list(cuts)
    if places is None or not all(isinstance(each, int) for each in places):
        raise fields.error("cut", "is a list of places, or `each`")
    return Bytes(octets(fields.take("bytes"), (*fields.path, "bytes")), tuple(places))


def octets(value: Any, path: Path) -> bytes:
    """Read bytes: a text (as UTF-8), {hex}, {base64}, {text, times}, or a list of these."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if (parts := as_list(value)) is not None:
        return b"".join(octets(each, (*path, at)) for at, each in enumerate(parts))
    fields = Fields(value, path)
    try:
        if fields.has("hex"):
            found = bytes.fromhex(fields.text("hex"))
        elif fields.has("base64"):
            found = base64.b64decode(fields.text("base64"), validate=True)
        else:
            found = fields.text("text").encode("utf-8", "surrogatepass")
    except ValueError as error:
        raise FieldError(path, str(error)) from None
    found *= fields.count("times", 1)
    fields.finish()
    return found


def _expected(fields: Fields, name: str) -> Mapping[str, Any]:
    """Read a part of a record, as `likeness` compares it."""
    found = fields.mapping(name)
    _check_stand_ins(found, (*fields.path, name))
    return found


def _check_stand_ins(wanted: Mapping[str, Any], path: tuple[str | int, ...]) -> None:
    if unknown := unknown_stand_ins(wanted):
        raise FieldError(path, f"values with {', '.join(STAND_INS)}, each alone in its object, not {unknown[0]}")


def _wait(fields: Fields) -> Step:
    value = fields.take("wait")
    items = listed(value)
    path = (*fields.path, "wait")
    for item in items:
        if isinstance(item, str):
            _check_class(item, path)
        elif not isinstance(item, dict):
            raise FieldError(path, f"a class of records or a part of a record, not {item!r}")
        else:
            _check_stand_ins(cast("Mapping[str, Any]", item), path)
    return Wait(tuple(items), fields.text_map("keep"))


def _check_class(text: str, path: Path) -> None:
    try:
        found = read_class(text)
    except ExpressionError as error:
        raise FieldError(path, str(error)) from None
    _check_words((found.name,), path)


def _class(fields: Fields, key: str) -> str:
    text = fields.needed(key)
    _check_class(text, (*fields.path, key))
    return text


def _ids(fields: Fields) -> Step:
    value = fields.take("answered")
    if value is True:
        return Answered(())
    return Answered(tuple(listed(value)))


def _files(fields: Fields) -> Step:
    path = (*fields.path, "check")
    checks: list[FileCheck] = []
    for name, value in fields.mapping("check").items():
        inner = Fields(value, (*path, name))
        checks.append(FileCheck(name, inner.flag("exists", True), inner.texts("has"), inner.texts("lacks")))
        inner.finish()
    return Files(tuple(checks))


def _exit_step(fields: Fields) -> Step:
    value = fields.take("exit")
    inner = Fields(value if isinstance(value, dict) else {"code": value}, (*fields.path, "exit"))
    code = inner.take("code")
    if code is not None and (not isinstance(code, int) or isinstance(code, bool)):
        raise inner.error("code", "is a number or null")
    within_s = inner.seconds("within", EXIT_WITHIN_S)
    inner.finish()
    return Exit(code, within_s)


def _ask(fields: Fields) -> Step:
    return Ask(fields.mapping("ask"), _expected(fields, "gives"), fields.text_map("keep"))


def _children(fields: Fields) -> Step:
    value = fields.take("children")
    if not isinstance(value, dict):
        return Children(Fields({"children": value}, fields.path).count("children"))
    inner = Fields(value, (*fields.path, "children"))
    found = Children(inner.count("min", 1), is_least=True)
    inner.finish()
    return found


def _quiet(fields: Fields) -> Step:
    if not fields.flag("quiet"):
        raise fields.error("quiet", "takes no value, or true")
    return Quiet()


_STEPS: Mapping[str, Callable[[Fields], Step]] = {
    "send": _send,
    "bytes": _bytes,
    "wait": _wait,
    "try": lambda fields: Try(_class(fields, "try")),
    "answered": _ids,
    "reached": lambda fields: Reached(fields.needed("reached")),
    "open": lambda fields: Open(texts(fields.take("open"), (*fields.path, "open"))),
    "requests": lambda fields: Requests(fields.count("requests")),
    "gone": lambda fields: Gone(fields.count("gone")),
    "close": lambda fields: Close(fields.word("close", ("stdin", "stdout"))),
    "reading": lambda fields: Reading(fields.flag("reading")),
    "signal": lambda fields: Signal(fields.word("signal", ("TERM", "INT", "HUP", "KILL"))),
    "exit": _exit_step,
    "restart": lambda fields: Restart(fields.word("restart", ("same", "new"), "same") == "same"),
    "quiet": _quiet,
    "state": lambda fields: State(_expected(fields, "state")),
    "ask": _ask,
    "mark": lambda fields: Mark(fields.needed("mark")),
    "check": _files,
    "write": lambda fields: Write(fields.text_map("write")),
    "append": lambda fields: Write(fields.text_map("append"), is_appended=True),
    "remove": lambda fields: Remove(texts(fields.take("remove"), (*fields.path, "remove"))),
    "move": lambda fields: Move(fields.text_map("move")),
    "lock": lambda fields: Lock(fields.needed("lock"), is_held=True),
    "unlock": lambda fields: Lock(fields.needed("unlock"), is_held=False),
    "children": _children,
}
