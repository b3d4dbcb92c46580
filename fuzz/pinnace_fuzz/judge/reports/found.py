"""What a report has found, each finding once: those that code scanning, pull requests and reproductions are about.

A finding is one of a case that failed or is NON-STRICT; those of one identity are one, shown by the first. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from pinnace_fuzz.judge.html.reading import AgentReport, Case, CitedRule
from pinnace_fuzz.judge.html.reading import Finding as ReadFinding
from pinnace_fuzz.judge.reports.identity import Identity, identity
from pinnace_fuzz.judge.results import BAD, ORDER

Tier = Literal["must", "should", "ours"]
"""What is violated: a requirement, a recommendation, or what this project has added where the protocol is silent."""

ORIGINS: Final[Mapping[str, str]] = {
    "seed": "the published protocol",
    "observed": "the behaviour of the original program",
    "ours": "this project, where the protocol is silent",
    "schema": "the schema of the Agent Client Protocol",
    "documentation": "the documentation of the Agent Client Protocol",
    "JSON-RPC": "JSON-RPC 2.0",
}
"""Origin of a rule -> what it is taken from, in words."""


class Found(NamedTuple):
    """A finding, and the case that shows it."""

    identity: Identity
    case: Case
    finding: ReadFinding
    rule: str
    """The rule that it violates first of all; the invariant, if it names no rule with a text."""
    cited: CitedRule | None
    occurrences: int
    """How many findings of the report have this identity."""

    @property
    def tier(self) -> Tier:
        """The tier of what is violated."""
        if self.finding.level == "nonstrict":
            return "ours"
        return "should" if self.cited is not None and self.cited.level != "MUST" else "must"


def findings(report: AgentReport) -> list[Found]:
    """Return the findings of a report, the worst first."""
    found: dict[Identity, Found] = {}
    for case in sorted(report.cases, key=lambda each: (_rank(each), each.id)):
        for name, finding in _of(case):
            if (known := found.get(name)) is not None:
                found[name] = known._replace(occurrences=known.occurrences + 1)
                continue
            known_rules = [each for each in finding.rules if each in report.rules]
            # Another project cares first for what its own protocol asks.
            known_rules.sort(key=lambda each: report.rules[each].origin == "ours")
            rule = known_rules[0] if known_rules else finding.source
            found[name] = Found(name, case, finding, rule, report.rules.get(rule), 1)
    # The sort is stable: within a tier the worst verdict stays first.
    return sorted(found.values(), key=lambda each: ("must", "should", "ours").index(each.tier))


def _of(case: Case) -> Iterator[tuple[Identity, ReadFinding]]:
    if case.not_scored or not (case.verdict in BAD or case.verdict == "NON-STRICT"):
        return
    for each in case.findings:
        if each.level in ("violation", "nonstrict"):
            yield identity(case.id, each.source, each.rules, each.text), each


def _rank(case: Case) -> int:
    return [*ORDER].index(case.verdict) if case.verdict in ORDER else len(ORDER)
