"""The matrix agents x rules: the evidence of each agent's cases for each rule.

A passed case is evidence for the rules that it lists; a finding is evidence against the rules that it names, in any
case. A case that failed for another reason is no evidence for its other rules.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_fuzz.judge.html.reading import AgentReport, Case, CitedRule, Finding
from pinnace_fuzz.judge.html.verdicts import BAD, rank, ranked, worst, worst_shutdown

_LEVELS: Final[Mapping[str, str]] = {"nonstrict": "NON-STRICT", "information": "INFORMATIONAL"}
_PLAIN: Final = re.compile(r"[A-Z][A-Za-z0-9-]*")


class Evidence(NamedTuple):
    """The evidence of a case for a rule."""

    case: Case
    verdict: str
    counts: bool


class Cell(NamedTuple):
    """The evidence of all cases of an agent for a rule."""

    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> str:
        """The worst of them."""
        return worst(each.verdict for each in self.evidence)

    @property
    def counts(self) -> bool:
        """It is not just expected, and not just for information."""
        verdict = self.verdict
        return verdict not in BAD or any(each.counts for each in self.evidence if each.verdict == verdict)

    @property
    def shutdown(self) -> str:
        """The worst end."""
        return worst_shutdown(each.case.shutdown for each in self.evidence if each.verdict != "NOT-RUN")

    @property
    def listed(self) -> list[Evidence]:
        """That of the cases which the page shows, the worst first."""
        return [each for each in self._sorted() if each.case.is_listed]

    def unlisted(self, verdict: str) -> list[str]:
        """Return the ids of the cases with this verdict that the page does not show."""
        return [each.case.id for each in self._sorted() if each.verdict == verdict and not each.case.is_listed]

    def _sorted(self) -> list[Evidence]:
        return sorted(self.evidence, key=lambda each: (rank(each.verdict), each.case.id))


class RuleEvidence(NamedTuple):
    """A rule with its evidence for each agent."""

    name: str
    key: str
    """Names it on the page."""
    area: str
    rule: CitedRule
    cells: tuple[Cell, ...]

    @property
    def worst(self) -> str:
        """The worst verdict of any agent."""
        return worst(cell.verdict for cell in self.cells)

    @property
    def differs(self) -> bool:
        """Agents that were judged by this rule have kept to it differently."""
        return len({cell.verdict for cell in self.cells} - {"NOT-RUN"}) > 1


def rows(reports: Sequence[AgentReport]) -> list[RuleEvidence]:
    """Return the rules that any case is about, sorted by area and number."""
    tables = [_cells(report) for report in reports]
    names = sorted({name for table in tables for name in table}, key=lambda name: (area_of(name), _natural(name)))
    found: list[RuleEvidence] = []
    for number, name in enumerate(names):
        key = f"r-{name if _PLAIN.fullmatch(name) else number}"
        rule = next((each.rules[name] for each in reports if name in each.rules), CitedRule("", "", ""))
        found.append(
            RuleEvidence(name, key, area_of(name), rule, tuple(Cell(tuple(table.get(name, ()))) for table in tables))
        )
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts C-2 before C-10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,9})", name)]


def _cells(report: AgentReport) -> Mapping[str, list[Evidence]]:
    found: dict[str, list[Evidence]] = defaultdict(list)
    for case in report.cases:
        counts = case.counts and case.id not in report.known_failures
        for name, verdict in _said(case).items():
            found[name].append(Evidence(case, verdict, counts))
    return found


def _said(case: Case) -> Mapping[str, str]:
    """Return the verdict of one case on every rule that it concerns."""
    listed = [name for name in case.rules if not name.startswith("I-")]
    accused: dict[str, str] = {}
    for finding in case.findings:
        # A finding stays visible although no rule was selected.
        named = [name for name in finding.rules if not name.startswith("I-")]
        for name in named or listed or [finding.source or "other"]:
            accused[name] = worst([_weight(finding, case), accused.get(name, "NOT-RUN")])
    left = case.verdict
    if accused:
        left = "NOT-RUN" if case.verdict in BAD else "PASS"
        if case.verdict not in BAD and case.verdict not in _LEVELS.values():
            left = case.verdict
    return {**dict.fromkeys(listed or ([] if accused else [case.id]), left), **accused}


def _weight(finding: Finding, case: Case) -> str:
    if finding.level in _LEVELS:
        return _LEVELS[finding.level]
    if case.verdict not in BAD:
        return case.verdict
    source = finding.source.removeprefix("I-").upper()
    return source if source in BAD else "FAIL"


def broken(found: Sequence[RuleEvidence], at: int) -> tuple[int, int]:
    """Return how many rules the agent at this place breaks, of how many that it was judged by."""
    judged = [row.cells[at].verdict for row in found if row.cells[at].verdict != "NOT-RUN"]
    return sum(verdict in BAD for verdict in judged), len(judged)


def by_worst(found: Sequence[RuleEvidence]) -> Mapping[str, list[RuleEvidence]]:
    """Return the rules by the worst verdict of any agent, the worst first."""
    return {
        verdict: [row for row in found if row.worst == verdict]
        for verdict in ranked(dict.fromkeys(row.worst for row in found))
    }


def verdict_counts(found: Sequence[RuleEvidence], at: int) -> Counter[str]:
    """Count the verdicts of the agent at this place on rules."""
    return Counter(row.cells[at].verdict for row in found if row.cells[at].evidence)


def area_of(name: str) -> str:
    """Return the area of a rule or an invariant: `QUE` of `R-QUE-03`."""
    parts = name.split("-")
    return parts[1] if len(parts) > 2 else parts[0]
