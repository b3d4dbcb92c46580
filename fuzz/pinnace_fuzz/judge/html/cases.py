"""What the page shows of one case: its findings, similar ones together, and the transcript of each process."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pinnace_fuzz.judge.html.matrix import area_of
from pinnace_fuzz.judge.html.path import Visit, visits
from pinnace_fuzz.judge.html.reading import AgentReport, Case, Finding, Process
from pinnace_spec.generate.witnesses import invariants

_LEVELS: Final[Mapping[str, tuple[str, str]]] = {
    "violation": ("fail", "violation"),
    "nonstrict": ("lax", "not strict"),
    "information": ("info", "worth a look"),
}


class Transcript(NamedTuple):
    """What is shown of one process."""

    key: str
    """Begins the name of each of its lines on the page."""
    process: Process
    proof: frozenset[int]
    """Numbers of the lines that prove a finding."""
    visited: list[Visit]
    """The states that it went through."""


def transcripts(case: Case) -> list[Transcript]:
    """Return the transcript of each process of a case."""
    return [
        Transcript(
            f"{case.key}-{number}",
            process,
            frozenset(step for each in case.findings if each.process == number for step in each.steps),
            visits(process.lines),
        )
        for number, process in enumerate(case.processes)
    ]


def heaps(case: Case) -> list[list[Finding]]:
    """Return the findings, those together that say the same of the same rules, violations first."""
    found: dict[tuple[str, str, tuple[str, ...]], list[Finding]] = {}
    for finding in case.findings:
        found.setdefault((finding.level, finding.source, finding.rules), []).append(finding)
    order = list(_LEVELS)
    return sorted(found.values(), key=lambda heap: order.index(heap[0].level) if heap[0].level in order else len(order))


def level_of(finding: Finding) -> tuple[str, str]:
    """Return the class and the name of the level of a finding."""
    return _LEVELS.get(finding.level, ("open", finding.level or "?"))


def because(finding: Finding, report: AgentReport) -> Iterator[tuple[str, str, str]]:
    """Yield what a finding is about: a rule or an invariant, its sentence, and a note about it."""
    for name in dict.fromkeys([finding.source, *finding.rules]):
        if invariant := invariants().get(name):
            yield name, invariant.text, "invariant"
        elif rule := report.rules.get(name):
            yield name, rule.text, ", ".join(filter(None, [rule.level, rule.origin and f"origin: {rule.origin}"]))
        elif name != finding.source:
            yield name, "", ""


def areas_of(case: Case) -> list[str]:
    """Return the areas of a case, and of the rules that it lists or that its findings violate."""
    named = [name for names in (case.rules, *(each.rules for each in case.findings)) for name in names]
    return sorted({case.area, *map(area_of, named)})
