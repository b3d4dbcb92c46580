"""Lets campaigns generate cases until the time is over, and turns what the observers see into confirmed small cases.

Two things of the same kind are one catch: an invariant, and the commands that prove it broken. The first case that
shows a catch is made smaller and then played in fresh processes; only what comes again there is told.
"""

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from pinnace_fuzz.conform.adapter import Wishes
from pinnace_fuzz.conform.campaigns import CAMPAIGNS, Campaign
from pinnace_fuzz.conform.cases import named
from pinnace_fuzz.conform.catches import Sighting, fault_of, faults_of, sightings, steps_of
from pinnace_fuzz.conform.coverage import Coverage
from pinnace_fuzz.conform.kit import Kit
from pinnace_fuzz.conform.pool import Glance, Pool
from pinnace_fuzz.conform.results import CaseResult, Finding
from pinnace_fuzz.conform.running import CONFIRMATIONS, LATE_S, run_once
from pinnace_fuzz.conform.scenario import Restart, Scenario
from pinnace_fuzz.conform.shrinking import shrink
from pinnace_spec.observers import Verdict
from pinnace_spec.observers.verdicts import Level

# How often a case is played again in fresh processes before it is told.
REPLAYS: Mapping[str, int] = {"violation": CONFIRMATIONS, "nonstrict": 3, "information": 1}
# Of one invariant so many catches are told; what more there is is the same fault from another side.
MAX_CATCHES: Mapping[str, int] = {"violation": 10, "nonstrict": 16, "information": 0}
MAX_PLAYS: Mapping[str, int] = {"violation": 24, "nonstrict": 16, "information": 0}
# A case that ends with a wait in vain takes half a minute.
MAX_WAITS = 6
# A catch that never came again in a fresh process is tried so often anew when it is seen again.
MAX_DOUBTS = 2


class Hunt:
    """What all campaigns of a run share. Methods may be called from any thread."""

    def __init__(
        self, kit: Kit, coverage: Coverage, end_s: float, seed: int, told: Callable[[str], None] = lambda text: None
    ) -> None:
        self.kit = kit
        self._told = told
        self.seed = seed
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

    def pool(self) -> Pool:
        """Make a pool of processes for one thread."""
        return Pool(self.kit, Wishes("new" if "sessions" in self.kit.capabilities else "none"))

    def fits(self, scenario: Scenario) -> bool:
        """Say whether the agent has what a case needs."""
        return scenario.needs <= self.kit.capabilities

    def try_case(self, pool: Pool, scenario: Scenario, campaign: str) -> frozenset[str]:
        """Play a case; make catches of what is new. Returns the signatures of everything wrong in it."""
        glance = self.glance(pool, scenario, campaign)
        seen = sightings(glance)
        for sighting in seen:
            if self.claim(sighting):
                self._catch(pool, scenario, sighting, campaign)
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
        """Say whether a catch is new, and take it: whoever is told so follows it up."""
        with self._lock:
            if self._is_known(sighting):
                return False
            self._known[sighting.signature] = sighting.finding.level
            return True

    def is_known(self, sighting: Sighting) -> bool:
        """Say whether a catch is nothing new."""
        with self._lock:
            return self._is_known(sighting)

    def _is_known(self, sighting: Sighting) -> bool:
        if sighting.signature in self._known:
            return True
        source, level = sighting.finding.source, sighting.finding.level
        alike = [each for each, told in self._known.items() if each.partition("@")[0] == source and told == level]
        return len(alike) >= MAX_CATCHES[level]

    def follow_up(self, pool: Pool, scenario: Scenario, sighting: Sighting, campaign: str) -> None:
        """Make a claimed catch smaller and confirm it."""
        self._catch(pool, scenario, sighting, campaign)

    def _catch(self, pool: Pool, scenario: Scenario, sighting: Sighting, campaign: str) -> None:
        wanted, level = sighting.fault, sighting.finding.level

        def fails(candidate: Scenario) -> bool:
            if self.is_over:
                return False  # what is smallest by now is told as it is
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
        self._tell(shown[0], replays, len(shown), sighting, campaign)

    def _replay(
        self, scenario: Scenario, sighting: Sighting, campaign: str
    ) -> tuple[list[CaseResult], list[CaseResult]]:
        """Play a case in fresh processes, until it does not come again; return all, and those that show it."""
        replays: list[CaseResult] = []
        shown: list[CaseResult] = []
        while len(replays) < REPLAYS[sighting.finding.level] and len(shown) == len(replays):
            if time.monotonic() >= self._end_s + LATE_S:
                return [], []  # what could not be played often enough is not told
            replays.append(run_once(scenario, self.kit, campaign))
            if sighting.fault in faults_of(replays[-1]):
                shown.append(replays[-1])
        return replays, shown

    def _tell(
        self, best: CaseResult, replays: Sequence[CaseResult], count: int, sighting: Sighting, campaign: str
    ) -> None:
        steps = steps_of(best)
        finding = next(each for each in best.findings if fault_of(each, steps) == sighting.fault)
        titled = named({**best.scenario.source, "rules": list(finding.rules) or ["R-ERR-02"]}, campaign)
        title = f"{finding.source}: {finding.text}"[:300]
        lasting = set[str].intersection(*map(faults_of, replays)) | {sighting.fault}
        # The finding that was hunted stands first; what did not come every time accuses nobody.
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
            # A violation beside it is followed up by itself.
            verdict=best.verdict if level == "violation" else "NON-STRICT",
        )
        if count < len(replays):
            why = f"came again in {count} of {len(replays)} fresh processes"
            result = result._replace(verdict="INCONCLUSIVE", why=why)
        with self._lock:
            same = [each for each in self.results if each.scenario.id == result.scenario.id]
            if not any(sighting.fault in faults_of(each) for each in same):
                self.results.append(result)
        self._told(f"{result.verdict} {result.scenario.id} ({count} of {len(replays)}): {title}")

    def tell_comparison(
        self, result: CaseResult, verdicts: Sequence[Verdict], campaign: str, reproduced: tuple[int, int]
    ) -> None:
        """Take the comparison of two cases; what differs is told with the second.

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
    """Say whether a case can't share a process with others."""
    has_restart = any(isinstance(step, Restart) for step in scenario.client)
    return has_restart or bool(scenario.arguments or scenario.env or scenario.files)


def play_apart(kit: Kit, scenario: Scenario) -> Glance:
    """Play a case in a process of its own, as if in a pool."""
    result = run_once(scenario, kit, "apart")
    return Glance(
        scenario, result.findings, steps_of(result), dict(result.armed), True, result.verdict == "INCONCLUSIVE"
    )


class _Slot(NamedTuple):
    name: str
    campaign: Campaign
    share: float


def hunt_all(
    kit: Kit, options: Any, end_s: float, coverage: Coverage
) -> tuple[list[CaseResult], Mapping[str, Mapping[str, Any]]]:
    """Let every campaign hunt, `options.jobs` at a time, until `end_s`.

    Returns:
        The confirmed cases, and what each campaign has done.
    """
    hunt = Hunt(kit, coverage, end_s, options.seed, options.told)
    wanted = [name for name in CAMPAIGNS if options.campaigns is None or name in options.campaigns]
    slots = [_Slot(name, CAMPAIGNS[name].campaign, CAMPAIGNS[name].share) for name in wanted]
    seconds: dict[str, float] = {}
    faults: dict[str, str] = {}
    total_s = max(0.0, end_s - time.monotonic())
    # What the others leave is the last one's; without it they have everything.
    shares = 1.0 if any(slot.share == 0 for slot in slots) else sum(slot.share for slot in slots) or 1.0

    def run(slot: _Slot, number: int) -> None:
        begun_s = time.monotonic()
        limit_s = end_s if slot.share == 0 else min(end_s, begun_s + total_s * options.jobs * slot.share / shares)
        chance = random.Random(f"{options.seed} {slot.name} {number}")
        if begun_s >= end_s:
            return
        try:
            with hunt.pool() as pool:
                slot.campaign(hunt, pool, chance, lambda: time.monotonic() >= limit_s)
        except Exception as fault:  # what has been found so far is told all the same
            faults[slot.name] = f"{type(fault).__name__}: {fault}"
            options.told(f"{slot.name}: the kit failed\n{traceback.format_exc()}")
        seconds[slot.name] = seconds.get(slot.name, 0.0) + time.monotonic() - begun_s
        options.told(f"{slot.name}: {hunt.examples[slot.name]} cases in {seconds[slot.name]:.0f} s")

    with ThreadPoolExecutor(max_workers=options.jobs, thread_name_prefix="hunt") as workers:
        tasks = [workers.submit(run, slot, 0) for slot in slots]
        last = slots[-1] if slots else None
        # The last one has no end of its own: whoever is free joins it.
        tasks += [workers.submit(run, last, number) for number in range(1, options.jobs) if last is not None]
        for task in tasks:
            task.result()
    found = {
        name: {
            "examples": hunt.examples[name],
            "seconds": round(seconds.get(name, 0.0), 1),
            "caught": sum(1 for each in hunt.results if each.kind == name),
            "unconfirmed": hunt.unconfirmed[name],
            **({"fault": faults[name]} if name in faults else {}),
        }
        for name in wanted
    }
    return hunt.results, found
