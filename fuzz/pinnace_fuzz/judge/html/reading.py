"""Reads the JSON reports that `docs/conformance.md` documents, for the page.

Older reports lack fields, and the agents' own data may be anything: a field of another type counts as absent. Only a
file that is not a report is refused.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pinnace_fuzz.judge.reports.json_report import VERSION
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_spec.observers.trace_file import record_of
from pinnace_spec.observers.verdicts import Record

Fields = Mapping[str, Any]


class NotAReport(ValueError):
    """A file is not a report of the tester."""


class TraceLine(NamedTuple):
    """A line of a trace."""

    number: int
    at: float
    is_in: bool
    group: int
    text: str
    characters: int
    """Of the whole line; the report may hold its beginning alone."""
    record: Record | None


class Process(NamedTuple):
    """The trace of one process."""

    lines: Sequence[TraceLine]
    how: str
    code: int | None
    seconds: float
    stderr: str
    marks: Sequence[tuple[int, str]]
    script_end: int | None

    @property
    def ended_badly(self) -> bool:
        """It had to be killed for it, or failed."""
        return self.how == "hang" or (self.how == "exit" and self.code != 0)


class Finding(NamedTuple):
    """A violation, or an information."""

    source: str
    rules: tuple[str, ...]
    level: str
    text: str
    process: int
    steps: tuple[int, ...]


class Case(NamedTuple):
    """What came of one case."""

    id: str
    key: str
    """Names it on the page; made here."""
    title: str
    kind: str
    place: str
    rules: tuple[str, ...]
    verdict: str
    counts: bool
    not_scored: str
    why: str
    shutdown: str
    shutdown_text: str
    seconds: float
    reproduced: tuple[int, int]
    cells: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    processes: tuple[Process, ...]
    scenario: Fields
    reproduction: str
    stored: str

    @property
    def area(self) -> str:
        """The first part of its id."""
        return self.id.partition("/")[0]

    @property
    def is_listed(self) -> bool:
        """It has something to show."""
        return self.verdict not in ("PASS", "NOT-RUN") or self.counts or bool(self.findings)


class CitedRule(NamedTuple):
    """A rule that a report cites."""

    level: str
    origin: str
    text: str


class AgentReport(NamedTuple):
    """The report about one agent."""

    number: int
    name: str
    """What the agent is called on the page."""
    agent: Fields
    kit: Fields
    summary: Fields
    coverage: Fields
    cases: tuple[Case, ...]
    rules: Mapping[str, CitedRule]
    requirements: Fields
    """What it keeps of a set of requirements; empty: it was not judged by one."""

    @property
    def version(self) -> str:
        """The version that the agent reports."""
        return word(self.agent, "version")

    @property
    def known_failures(self) -> tuple[str, ...]:
        """The ids of the cases whose failure the baseline expects."""
        return words(inner(self.summary, "baseline"), "known")

    @property
    def verdict_counts(self) -> Counter[str]:
        """How many cases have each verdict."""
        return Counter(case.verdict for case in self.cases)


def read_file(path: Path) -> Fields:
    """Read a JSON file.

    Raises:
        NotAReport: It is none.
    """
    try:
        found = as_object(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise NotAReport(f"{path}: {error}") from None
    if found is None or found.get("conform") != VERSION:
        raise NotAReport(f"{path}: not a report of pinnace-conform, or one of another format version")
    return found


def read_report(source: Fields, number: int, name: str = "") -> AgentReport:
    """Read a report, the `number`th of a page; `name`: what its agent is called instead of what it calls itself."""
    cases = [_case(each, f"a{number}-{at}") for at, each in enumerate(objects(source, "cases"), 1)]
    rules = {
        name: CitedRule(word(rule, "level"), word(rule, "origin"), word(rule, "text"))
        for name, value in inner(source, "rules").items()
        if (rule := as_object(value)) is not None
    }
    return AgentReport(
        number,
        name or word(inner(source, "agent"), "name") or f"agent {number}",
        inner(source, "agent"),
        inner(source, "kit"),
        inner(source, "summary"),
        inner(source, "coverage"),
        tuple(cases),
        rules,
        inner(source, "requirements"),
    )


def _case(source: Fields, key: str) -> Case:
    shutdown = inner(source, "shutdown")
    reproduced = counts(source, "reproduced")
    cells = tuple((word(each, "state"), word(each, "command")) for each in objects(source, "cells"))
    return Case(
        word(source, "id") or key,
        key,
        word(source, "title"),
        word(source, "kind"),
        word(source, "place"),
        words(source, "rules"),
        word(source, "verdict"),
        source.get("counts") is True,
        word(source, "not_scored"),
        word(source, "why"),
        word(shutdown, "verdict"),
        word(shutdown, "text"),
        amount(source, "seconds"),
        (reproduced[0], reproduced[1]) if len(reproduced) == 2 else (0, 0),
        cells,
        tuple(_finding(each) for each in objects(source, "findings")),
        tuple(_process(each) for each in objects(source, "processes")),
        inner(source, "scenario"),
        word(source, "reproduction"),
        word(source, "stored"),
    )


def _finding(source: Fields) -> Finding:
    return Finding(
        word(source, "source"),
        words(source, "rules"),
        word(source, "level"),
        word(source, "text"),
        whole(source, "process") or 0,
        tuple(counts(source, "steps")),
    )


def _process(source: Fields) -> Process:
    end = inner(source, "end")
    return Process(
        tuple(_line(each) for each in objects(source, "steps")),
        word(end, "how"),
        whole(end, "code"),
        amount(end, "seconds"),
        word(end, "stderr"),
        tuple((whole(each, "after") or 0, word(each, "name")) for each in objects(source, "marks")),
        whole(source, "script_end"),
    )


def _line(source: Fields) -> TraceLine:
    line = word(source, "line")
    characters = whole(source, "characters") or len(line)
    return TraceLine(
        whole(source, "n") or 0,
        amount(source, "at"),
        source.get("dir") == "in",
        whole(source, "group") or 0,
        line,
        characters,
        record_of(line) if characters == len(line) else None,
    )


def word(source: Fields, name: str) -> str:
    """Return a field that is a text; empty if it is none."""
    value = source.get(name)
    return value if isinstance(value, str) else ""


def words(source: Fields, name: str) -> tuple[str, ...]:
    """Return the texts in a field that is a list."""
    return tuple(each for each in as_list(source.get(name)) or () if isinstance(each, str))


def whole(source: Fields, name: str) -> int | None:
    """Return a field that is a whole number."""
    value = source.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def amount(source: Fields, name: str) -> float:
    """Return a field that is a number; 0 if it is none."""
    value = source.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def counts(source: Fields, name: str) -> list[int]:
    """Return the whole numbers in a field that is a list."""
    return [each for each in as_list(source.get(name)) or () if type(each) is int]


def inner(source: Fields, name: str) -> Fields:
    """Return a field that is an object; an empty one if it is none."""
    return as_object(source.get(name)) or {}


def objects(source: Fields, name: str) -> Iterable[Fields]:
    """Return the objects in a field that is a list."""
    return [found for each in as_list(source.get(name)) or () if (found := as_object(each)) is not None]
