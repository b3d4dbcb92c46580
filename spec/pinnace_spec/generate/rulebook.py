"""Rules, deviations, sentences of the published documents, and rows with their names, as values.

From `rules.toml`, `deviations.toml`, `seed_index.toml` and the chart.

Decides what a rule's witness may be and under which heading a rule stands. Must not know whether a witness exists:
tests and scenarios are not part of this package (a test of the suite looks).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pinnace_spec.statechart.transitions import Transition

LEVELS: Final = ("MUST", "SHOULD", "MAY")
ORIGINS: Final[Mapping[str, str]] = {
    "seed": "the published protocol says so",
    "observed": "the original program does so",
    "ours": "the original leaves it open, or gets it wrong",
}

ROWS: Final = "rows"
"""The witness of a rule that rows of the chart carry out: those that cite it, all reached by the chart's search."""


class Rule(NamedTuple):
    """A numbered sentence that an agent can keep or break."""

    id: str
    level: str
    origin: str
    text: str
    generations: tuple[str, ...]
    """Those that it holds for; empty: for all."""
    witness: tuple[str, ...]
    """What would notice if it were broken."""

    @property
    def family(self) -> str:
        """`R-QUE`, or `C`."""
        return self.id.rsplit("-", 1)[0]

    def witnesses(self, kind: str) -> tuple[str, ...]:
        """Return the witnesses of one kind, see `kind_of`."""
        return tuple(one for one in self.witness if kind_of(one) == kind)


class Deviation(NamedTuple):
    """Where this program differs from the original on purpose."""

    id: str
    rule: str
    original: str
    ours: str


_KINDS: Final[Mapping[str, re.Pattern[str]]] = {
    "rows": re.compile(rf"{ROWS}"),
    "invariant": re.compile(r"I-[A-Z]+(-\d+)?"),
    "schema": re.compile(r"schema/[\w.]+\.json#/.+"),
    "scenario": re.compile(r"[A-Z]{2,4}/[\w-]+"),
    "test": re.compile(r"tests/[\w/]+\.py::test_\w+"),
}


def kind_of(witness: str) -> str | None:
    """Return rows, invariant, schema, scenario or test; None: it is nothing that can be one."""
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(witness)), None)


def read_rules(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Rule]:
    """Return the rules of `rules.toml`, in its order."""
    return {
        name: Rule(
            name,
            entry["level"],
            entry["origin"],
            entry["text"],
            tuple(entry.get("generations", ())),
            tuple(entry.get("witness", ())),
        )
        for name, entry in table.items()
    }


def read_deviations(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Deviation]:
    """Return the deviations of `deviations.toml`, in its order."""
    return {name: Deviation(name, entry["rule"], entry["original"], entry["ours"]) for name, entry in table.items()}


def read_sentences(table: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the sentences of each document of `seed_index.toml`, in its order; one that repeats another is that one.

    Raises:
        KeyError: A sentence repeats one that the published protocol does not have.
    """
    published = {each["number"]: each for each in table.get("published", ())}
    return {
        document: [
            {**published[each["published"]], "number": each["number"]} if "published" in each else each
            for each in sentences
        ]
        for document, sentences in table.items()
    }


def row_name(row: Transition) -> str:
    """Return what a row is called: `run/idle/prompt`, `run/llm/llm_stop[has_steering]`."""
    guard = f"[{row.guard}]" if row.guard else ""
    return f"{row.region}/{row.source}/{row.trigger}{guard}"


def row_text(row: Transition) -> str:
    """Return what a row does, in words of the chart."""
    effects = ", ".join(row.effects) or "nothing"
    return effects if row.target in {None, row.source} else f"{effects} → {row.target}"


CHAPTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Lines and records": ("R-FRM",),
    "Commands and answers": ("R-RSP", "R-ID", "R-ERR", "R-ORD"),
    "Generations and profiles": ("R-PRO", "R-HEL", "R-OLD"),
    "Prompts": ("R-PRM", "R-CMD"),
    "Queues": ("R-QUE",),
    "Runs, turns and messages": ("R-RUN", "R-EVT", "R-UPD", "R-MSG"),
    "Tools": ("R-TOL",),
    "Retries": ("R-RTY",),
    "Compaction": ("R-CMP",),
    "Abort": ("R-ABT",),
    "The statechart's own rules": ("C",),
    "What can be read": ("R-STA", "R-EXP"),
    "Warnings": ("R-WRN",),
    "Settings and models": ("R-SET", "R-MOD", "R-LLM"),
    "Keys and logins": ("R-KEY",),
    "Shell commands of the client": ("R-BSH",),
    "Sessions": ("R-SES",),
    "Extensions and dialogs": ("R-EXT", "R-UI"),
    "Files of the client": ("R-FIL",),
    "MCP servers": ("R-MCP",),
    "The end of the process": ("R-EOF", "R-SIG"),
    "The durable host": ("R-HST",),
    "Limits": ("R-LIM",),
    "The sandbox of commands": ("R-SBX",),
    "The process and its configuration": ("R-CLI", "R-CFG"),
    "Sub-agents": ("R-SUB",),
    "Results and batches": ("R-RES", "R-BAT"),
}
"""The chapters of the reference in their order, each with its families of rules."""


def chapter_of(rule: Rule) -> str | None:
    """Return the chapter of a rule; None if it has none."""
    return next((chapter for chapter, families in CHAPTERS.items() if rule.family in families), None)


def by_chapter(rules: Iterable[Rule]) -> dict[str, list[Rule]]:
    """Return the rules of each chapter, sorted by family and number."""
    found: dict[str, list[Rule]] = {chapter: [] for chapter in CHAPTERS}
    for rule in rules:
        if (chapter := chapter_of(rule)) is not None:
            found[chapter].append(rule)
    for chapter, families in CHAPTERS.items():
        found[chapter].sort(key=lambda rule: (families.index(rule.family), int(rule.id.rsplit("-", 1)[1])))
    return found
