"""What the campaigns of one run share: playing cases, and turning what the observers find into confirmed small cases.

A finding is identified by its fault and the commands that prove it. The first case that shows a new finding is shrunk
and then replayed in fresh processes; only findings that recur there are reported.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pinnace_fuzz.judge.adapter import LaunchOptions
from pinnace_fuzz.judge.campaigns.cases import named
from pinnace_fuzz.judge.campaigns.findings import Sighting, fault_of, faults_of, sightings, steps_of
from pinnace_fuzz.judge.campaigns.shrinking import shrink
from pinnace_fuzz.judge.confirming import CONFIRMATIONS, LATE_S
from pinnace_fuzz.judge.coverage import Coverage
from pinnace_fuzz.judge.fleet.sharding import WHOLE, Shard
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.pool import Glance, Pool
from pinnace_fuzz.judge.results import CaseResult, Finding
from pinnace_fuzz.judge.running import run_once
from pinnace_fuzz.judge.scenarios.scenario import Restart, Scenario
from pinnace_spec.observers import Verdict
from pinnace_spec.observers.verdicts import Level

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase

# How often a case is played again in fresh processes before it is reported.
REPLAYS: Mapping[str, int] = {"violation": CONFIRMATIONS, "nonstrict": 3, "information": 1}
# At most so many findings of one invariant are reported; more of them usually have the same cause.
MAX_FINDINGS: Mapping[str, int] = {"violation": 10, "nonstrict": 16, "information": 0}
MAX_PLAYS: Mapping[str, int] = {"violation": 24, "nonstrict": 16, "information": 0}
# A case that ends with a timeout takes half a minute.
MAX_WAITS = 6
# How often a finding that did not recur in a fresh process is tried again when it recurs in another case.
MAX_DOUBTS = 2


class CampaignRun:
    """What all campaigns of a run share. Methods may be called from any thread."""

    def __init__(
        self,
        kit: AgentUnderTest,
        coverage: Coverage,
        end_s: float,
        seed: int,
        log: Callable[[str], None] = lambda text: None,
        shard: Shard = WHOLE,
        database: "ExampleDatabase | None" = None,
    ) -> None:
        """Begin; `database`: the examples that this run shares with others."""
        self.kit = kit
        self._log = log
        self.seed = seed
        self.shard = shard
        self.database = database
        self._has_known = database is not None
        self.results: list[CaseResult] = []
        self.examples: Counter[str] = Counter()
        self.unconfirmed: Counter[str] = Counter()
        self._coverage = coverage
        self._end_s = end_s
        self._known: dict[str, Level] = {}
        self._doubts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """There is no time left."""
        return time.monotonic() >= self._end_s

    def begins_with_known(self) -> bool:
        """Return whether the caller should play the examples of the database: one caller does, and once."""
        with self._lock:
            has_known, self._has_known = self._has_known, False
        return has_known

    def pool(self) -> Pool:
        """Make a pool of processes for one thread."""
        return Pool(self.kit, LaunchOptions("new" if "sessions" in self.kit.capabilities else "none"))

    def fits(self, scenario: Scenario) -> bool:
        """Return whether the agent has the capabilities that a case needs."""
        return scenario.needs <= self.kit.capabilities

    def try_case(self, pool: Pool, scenario: Scenario, campaign: str) -> frozenset[str]:
        """Play a case; follow up new findings. Returns the signatures of all its findings."""
        glance = self.glance(pool, scenario, campaign)
        seen = sightings(glance)
        for sighting in seen:
            if self.claim(sighting):
                self._follow_up(pool, scenario, sighting, campaign)
        return frozenset(each.signature for each in seen)

    def glance(self, pool: Pool, scenario: Scenario, campaign: str) -> Glance:
        """Play a case and count it."""
        glance = play_apart(self.kit, scenario) if needs_own(scenario) else pool.play(scenario)
        with self._lock:
            self.examples[campaign] += 1
            self._coverage.armed.update(glance.armed)
            self._coverage.records.update(
                str(step.record.get("type")) for step in glance.steps if step.direction == "out" and step.record
            )
        return glance

    def claim(self, sighting: Sighting) -> bool:
        """Return whether a finding is new, and claim it: the caller then follows it up."""
        with self._lock:
            if self._is_known(sighting):
                return False
            self._known[sighting.signature] = sighting.finding.level
            return True

    def is_known(self, sighting: Sighting) -> bool:
        """Return whether a finding is known."""
        with self._lock:
            return self._is_known(sighting)

    def _is_known(self, sighting: Sighting) -> bool:
        if sighting.signature in self._known:
            return True
        source, level = sighting.finding.source, sighting.finding.level
        alike = [each for each, known in self._known.items() if each.partition("@")[0] == source and known == level]
        return len(alike) >= MAX_FINDINGS[level]

    def follow_up(self, pool: Pool, scenario: Scenario, sighting: Sighting, campaign: str) -> None:
        """Make a claimed finding smaller and confirm it."""
        self._follow_up(pool, scenario, sighting, campaign)

    def _follow_up(self, pool: Pool, scenario: Scenario, sighting: Sighting, campaign: str) -> None:
        wanted, level = sighting.fault, sighting.finding.level

        def fails(candidate: Scenario) -> bool:
            if self.is_over:
                return False  # the smallest case so far is reported
            found = play_apart(self.kit, candidate) if needs_own(candidate) else pool.play(candidate)
            # A smaller case of another fault would be that fault's.
            return any(each.level == level and fault_of(each, found.steps) == wanted for each in found.findings)

        most = MAX_WAITS if sighting.finding.source in ("step", "hang") else MAX_PLAYS[level]
        smallest = shrink(scenario, fails, lambda changed: named(changed, campaign), most)
        replays, shown = self._replay(smallest, sighting, campaign)
        if len(shown) < len(replays) and smallest is not scenario:
            # It was made smaller in processes that had played other cases; by itself it may need more.
            smallest = scenario
            replays, shown = self._replay(smallest, sighting, campaign)
        if not shown:
            self._doubt(sighting, campaign)
            return
        self._report(shown[0], replays, len(shown), sighting, campaign)

    def _replay(
        self, scenario: Scenario, sighting: Sighting, campaign: str
    ) -> tuple[list[CaseResult], list[CaseResult]]:
        """Play a case in fresh processes until a finding does not recur; return all results, and those with it."""
        replays: list[CaseResult] = []
        shown: list[CaseResult] = []
        while len(replays) < REPLAYS[sighting.finding.level] and len(shown) == len(replays):
            if time.monotonic() >= self._end_s + LATE_S:
                return [], []  # a case that could not be replayed often enough is not reported
            replays.append(run_once(scenario, self.kit, campaign))
            if sighting.fault in faults_of(replays[-1]):
                shown.append(replays[-1])
        return replays, shown

    def _report(
        self, best: CaseResult, replays: Sequence[CaseResult], count: int, sighting: Sighting, campaign: str
    ) -> None:
        steps = steps_of(best)
        finding = next(each for each in best.findings if fault_of(each, steps) == sighting.fault)
        titled = named({**best.scenario.source, "rules": list(finding.rules) or ["R-ERR-02"]}, campaign)
        title = f"{finding.source}: {finding.text}"[:300]
        lasting = set[str].intersection(*map(faults_of, replays)) | {sighting.fault}
        # The replayed finding comes first; findings that did not recur every time are information.
        level = finding.level
        others = [
            each
            if fault_of(each, steps) in lasting and (level == "violation" or each.level != "violation")
            else each._replace(level="information")
            for each in best.findings
            if each is not finding
        ]
        result = best._replace(
            scenario=_retitled(titled, title),
            findings=(finding, *others),
            reproduced=(count, len(replays)),
            kind=campaign,
            # Other violations of the case are followed up separately.
            verdict=best.verdict if level == "violation" else "NON-STRICT",
        )
        if count < len(replays):
            why = f"came again in {count} of {len(replays)} fresh processes"
            result = result._replace(verdict="INCONCLUSIVE", why=why)
        with self._lock:
            same = [each for each in self.results if each.scenario.id == result.scenario.id]
            if not any(sighting.fault in faults_of(each) for each in same):
                self.results.append(result)
        self._log(f"{result.verdict} {result.scenario.id} ({count} of {len(replays)}): {title}")

    def report_comparison(
        self, result: CaseResult, verdicts: Sequence[Verdict], campaign: str, reproduced: tuple[int, int]
    ) -> None:
        """Take the comparison of two cases; the differences are reported with the second.

        Args:
            result: The second case.
            verdicts: What differs.
            campaign: Whose it is.
            reproduced: In how many of how many further pairs of processes it differed again.
        """
        with self._lock:
            self.examples[campaign] += 1
            self._coverage.armed.update(dict.fromkeys({"I-FRM-3", "I-FRM-4"}, 1))
            if not verdicts:
                return
            found = [Finding(each.invariant, each.rules, each.text, each.level, 0, each.steps) for each in verdicts]
            bad = any(each.level == "violation" for each in found)
            is_sure = reproduced[0] == reproduced[1]
            self.results.append(
                result._replace(
                    scenario=_retitled(result.scenario, f"{found[0].source}: {found[0].text}"[:300]),
                    findings=(*found, *result.findings),
                    verdict="INCONCLUSIVE" if not is_sure else "FAIL" if bad else "NON-STRICT",
                    reproduced=reproduced,
                    why="" if is_sure else f"came again in {reproduced[0]} of {reproduced[1]} pairs of processes",
                )
            )

    def _doubt(self, sighting: Sighting, campaign: str) -> None:
        with self._lock:
            self.unconfirmed[campaign] += 1
            self._doubts[sighting.signature] += 1
            if self._doubts[sighting.signature] < MAX_DOUBTS:
                self._known.pop(sighting.signature, None)


def _retitled(scenario: Scenario, title: str) -> Scenario:
    return replace(scenario, title=title, source={**scenario.source, "title": title})


def needs_own(scenario: Scenario) -> bool:
    """Return whether a case can't share a process with others."""
    has_restart = any(isinstance(step, Restart) for step in scenario.client)
    return has_restart or bool(scenario.arguments or scenario.env or scenario.files)


def play_apart(kit: AgentUnderTest, scenario: Scenario) -> Glance:
    """Play a case in a process of its own, as if in a pool."""
    result = run_once(scenario, kit, "apart")
    return Glance(
        scenario, result.findings, steps_of(result), dict(result.armed), True, result.verdict == "INCONCLUSIVE"
    )
