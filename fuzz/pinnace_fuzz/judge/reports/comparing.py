"""Compares reports of two states of an agent by the identities of their findings: only what is new fails.

Several reports of the old state are one: a finding that only some of them have is flaky, and so is one that did not
recur every time in the run that found it. A flaky finding fails nothing, in whichever report it is.

A generated case has no place of its own, so a finding of one is known if the old state has the same fault anywhere.
A finding at a place that the old state was not judged at says nothing about a change, and fails nothing. A finding that
the new report lacks is fixed if the new run judged its place to the end; else it is open. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pinnace_fuzz.judge.html.reading import AgentReport, Case, inner, whole, word
from pinnace_fuzz.judge.html.reading import Finding as ReadFinding
from pinnace_fuzz.judge.reports.identity import Identity, identity
from pinnace_fuzz.judge.results import BAD, HARNESS_EXIT, JUDGED, NOTHING_JUDGED_EXIT
from pinnace_fuzz.judge.scenarios.shapes import as_object

VERSION: Final = 1

Status = Literal["new", "flaky", "first", "still", "fixed", "open"]

STATUSES: Final[Mapping[Status, str]] = {
    "new": "new",
    "flaky": "flaky: fails nothing",
    "first": "not judged before",
    "still": "still there",
    "fixed": "fixed",
    "open": "not judged again",
}
"""What each status means, in the order in which findings are listed."""

# A command that an agent did not know was not wrong: if it is now, that is new.
_TRIED: Final = JUDGED | {"UNIMPLEMENTED"}
_TO_THE_END: Final = JUDGED - {"CRASH", "HANG"}
# What decides which findings a run can have. The version of the agent is meant to differ.
_SAME_OF_AGENT: Final = ("name", "generation", "adapter")
_SAME_OF_KIT: Final = ("version", "strict", "only", "skip", "campaigns")


class Compared(NamedTuple):
    """A finding and what became of it."""

    status: Status
    identity: Identity
    case: str
    rules: tuple[str, ...]
    text: str
    seen: tuple[int, int]
    """In how many of how many old reports that judged its place it was confirmed."""


class Comparison(NamedTuple):
    """What two states of an agent have in common, and what not."""

    old: Sequence[AgentReport]
    new: AgentReport
    findings: Sequence[Compared]
    """In the order of `STATUSES`, then as the reports have them."""
    differs: Sequence[str]
    """Choices in which the runs differ: findings may be new or gone for that reason alone."""

    def of(self, status: Status) -> list[Compared]:
        """Return the findings with a status."""
        return [each for each in self.findings if each.status == status]

    @property
    def exit_code(self) -> int:
        """Return 1 for a new finding; 5 or 3 where the new run has no verdict, as that run does; else 0."""
        if any(each.status == "new" for each in self.findings):
            return 1
        code = whole(self.new.summary, "exit_code")
        return code if code in (HARNESS_EXIT, NOTHING_JUDGED_EXIT) else 0


class _Sight(NamedTuple):
    """A finding of one report."""

    case: Case
    finding: ReadFinding
    is_sure: bool
    """It recurred in every process in which it was tried."""


class _Sights:
    """What one report has found, and where it would have found something."""

    def __init__(self, report: AgentReport) -> None:
        self.found: dict[Identity, _Sight] = {}
        for case in report.cases:
            for finding in case.findings:
                sight = _Sight(case, finding, case.counts and finding.level == "violation")
                if not sight.is_sure and not _is_doubtful(case):
                    continue
                name = identity(case.id, finding.source, finding.rules, finding.text)
                if name not in self.found or (sight.is_sure and not self.found[name].is_sure):
                    self.found[name] = sight
        self.faults = {each.anywhere for each, sight in self.found.items() if sight.is_sure}
        self._verdicts = {case.id: case.verdict for case in report.cases}
        self._has_campaigns = any(
            whole(each, "examples") for each in map(as_object, inner(report.summary, "campaigns").values()) if each
        )

    def is_sure(self, name: Identity) -> bool:
        """Return whether a finding was confirmed."""
        return name in self.found and self.found[name].is_sure

    def judged(self, name: Identity) -> bool:
        """Return whether the run could have found a fault at its place."""
        return self._has_campaigns if name.is_generated else self._verdicts.get(name.place) in _TRIED

    def judged_whole(self, name: Identity) -> bool:
        """Return whether the run would have found a fault at its place: by no search, and the agent had not ended."""
        return not name.is_generated and self._verdicts.get(name.place) in _TO_THE_END


def _is_doubtful(case: Case) -> bool:
    """Return whether a case has findings that were not confirmed."""
    return case.verdict == "INCONCLUSIVE" or case.verdict in BAD


def compare(old: Sequence[AgentReport], new: AgentReport) -> Comparison:
    """Compare the reports of an old state of an agent, at least one, with that of a new state."""
    before = [_Sights(each) for each in old]
    after = _Sights(new)
    found = [*_after(before, after), *_gone(before, after)]
    order = list(STATUSES)
    found.sort(key=lambda each: order.index(each.status))
    return Comparison(old, new, found, [text for each in old for text in _differences(each, new)])


def _after(before: Sequence[_Sights], after: _Sights) -> Iterator[Compared]:
    """Yield what the new report has found."""
    for name, sight in after.found.items():
        seen, judged = _seen(name, before)
        # An observation of a case that fails for another reason is none of ours, unless it was a violation before.
        if sight.finding.level != "violation" and not seen:
            continue
        is_known = name.is_generated and any(name.anywhere in each.faults for each in before)
        status: Status
        if not sight.is_sure:
            status = "flaky"
        elif is_known or 0 < seen == judged:
            status = "still"
        elif seen or any(name in each.found for each in before):
            status = "flaky"
        else:
            status = "new" if judged else "first"
        yield _compared(status, name, sight, (seen, judged))


def _gone(before: Sequence[_Sights], after: _Sights) -> Iterator[Compared]:
    """Yield what only old reports have found."""
    known: set[Identity] = set()
    for each in before:
        for name, sight in each.found.items():
            if name in known or name in after.found or not sight.is_sure:
                continue
            known.add(name)
            if name.is_generated and name.anywhere in after.faults:
                continue  # it is found elsewhere, and listed there
            seen = _seen(name, before)
            status: Status = "open"
            if after.judged_whole(name):
                status = "fixed" if seen[0] == seen[1] else "flaky"
            yield _compared(status, name, sight, seen)


def _seen(name: Identity, reports: Sequence[_Sights]) -> tuple[int, int]:
    return sum(each.is_sure(name) for each in reports), sum(each.judged(name) for each in reports)


def _compared(status: Status, name: Identity, sight: _Sight, seen: tuple[int, int]) -> Compared:
    return Compared(status, name, sight.case.id, sight.finding.rules, sight.finding.text, seen)


def _differences(old: AgentReport, new: AgentReport) -> Iterable[str]:
    parts = (("agent", old.agent, new.agent, _SAME_OF_AGENT), ("kit", old.kit, new.kit, _SAME_OF_KIT))
    for part, before, after, names in parts:
        for name in names:
            if before.get(name) != after.get(name):
                yield f"{part}.{name}: {before.get(name)!r}, then {after.get(name)!r}"


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Write a comparison; `docs/conformance.md` documents its shape."""
    counts = Counter(each.status for each in comparison.findings)
    return {
        "compare": VERSION,
        "exit_code": comparison.exit_code,
        "old": [_head(each) for each in comparison.old],
        "new": _head(comparison.new),
        "differs": list(comparison.differs),
        "counts": {status: counts[status] for status in STATUSES},
        "findings": [
            {
                "status": each.status,
                "identity": each.identity.digest,
                "fault": each.identity.fault,
                "place": each.identity.place,
                "detail": each.identity.detail,
                "case": each.case,
                "rules": list(each.rules),
                "text": each.text,
                "seen": list(each.seen),
            }
            for each in comparison.findings
        ],
    }


def _head(report: AgentReport) -> dict[str, str]:
    agent = {name: word(report.agent, name) for name in ("name", "version", "generation")}
    return {**agent, "date": word(report.kit, "date")}
