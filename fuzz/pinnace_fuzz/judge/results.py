"""What comes of a case: findings, a verdict, how the process ended, and what proves it. Rows only."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from pinnace_fuzz.judge.scenarios.scenario import Cell, Scenario
from pinnace_spec.observers.verdicts import End, Level, Step

Verdict = Literal[
    "PASS", "INFORMATIONAL", "NON-STRICT", "INCONCLUSIVE", "UNIMPLEMENTED", "FAIL", "HANG", "CRASH", "NOT-RUN"
]
"""From good to bad; NOT-RUN: the agent or the adapter lacks what the case needs."""

JUDGED: frozenset[Verdict] = frozenset({"PASS", "INFORMATIONAL", "NON-STRICT", "FAIL", "HANG", "CRASH"})
"""Conclusive verdicts; the others are inconclusive."""

BAD: frozenset[Verdict] = frozenset({"FAIL", "HANG", "CRASH"})
"""These make the run fail."""

NOTHING_JUDGED_EXIT: Final = 3
"""The exit code where nothing was judged: what was asked for does not exist, could not be run, or stayed undecided."""

ACP_KIND: Final = "acp"
"""The kind of cases of the Agent Client Protocol."""

HARNESS_EXIT: Final = 5
"""The exit code if the tester itself has failed."""

ORDER: tuple[Verdict, ...] = (
    "CRASH",
    "HANG",
    "FAIL",
    "NON-STRICT",
    "INCONCLUSIVE",
    "UNIMPLEMENTED",
    "INFORMATIONAL",
    "NOT-RUN",
    "PASS",
)
"""The worst first."""


def is_invariant(source: str) -> bool:
    """Return whether what a finding violates is an invariant of the specification, which has rules of its own."""
    return source.startswith("I-")


Shutdown = Literal["clean", "late", "code", "hang", "killed", "leftovers", "crash", "none"]


class Finding(NamedTuple):
    """A violation, or an information."""

    source: str
    """An invariant (`I-QUE-2`), or what of a scenario was not so: `expect`, `forbid`, `step`, `state`, `model`,
    `crash`, `hang`, `excess`, `start`, `shutdown`."""
    rules: tuple[str, ...]
    text: str
    """One line for people."""
    level: Level = "violation"
    process: int = 0
    """Of a case with several processes, which; from 0."""
    steps: tuple[int, ...] = ()
    """Numbers of lines in that process' trace that prove it."""
    is_timed: bool = False
    """It is a missed deadline: on an overloaded machine it proves nothing."""

    @property
    def signature(self) -> str:
        """What two findings of the same fault share."""
        return self.source if is_invariant(self.source) else f"{self.source}:{','.join(self.rules)}"


class ProcessLog(NamedTuple):
    """The trace of one process, read."""

    steps: tuple[Step, ...]
    end: End
    marks: tuple[tuple[int, str], ...]
    script_end: int | None


class CaseResult(NamedTuple):
    """What came of one case."""

    scenario: Scenario
    kind: str
    """`scenario`, or the campaign's name."""
    verdict: Verdict
    shutdown: Shutdown
    shutdown_text: str
    findings: tuple[Finding, ...]
    logs: tuple[ProcessLog, ...]
    armed: Mapping[str, int]
    cells: tuple[Cell, ...]
    seconds: float
    reproduced: tuple[int, int] = (0, 0)
    """In how many of how many further processes it came again; (0, 0): not tried."""
    why: str = ""
    """Of NOT-RUN, INCONCLUSIVE, UNIMPLEMENTED."""

    @property
    def is_bad(self) -> bool:
        """It makes the run fail."""
        return self.verdict in BAD and not self.scenario.not_scored
