"""Lets campaigns generate cases until the time is over, and turns what the observers see into confirmed small cases.

Two things of the same kind are one catch: an invariant, and the commands that prove it broken. The first case that
shows a catch is made smaller and then played in fresh processes; only what comes again there is told.
"""

import random
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from pinnace_fuzz.conform.adapter import Wishes
from pinnace_fuzz.conform.campaigns import CAMPAIGNS, Campaign
from pinnace_fuzz.conform.cases import named
from pinnace_fuzz.conform.coverage import Coverage
from pinnace_fuzz.conform.kit import Kit
from pinnace_fuzz.conform.pool import Glance, Pool
from pinnace_fuzz.conform.recording import is_of_kit
from pinnace_fuzz.conform.results import CaseResult, Finding
from pinnace_fuzz.conform.running import run_once
from pinnace_fuzz.conform.scenario import Restart, Scenario
from pinnace_fuzz.conform.shrinking import shrink
from pinnace_spec.observers import Step, Verdict
from pinnace_spec.observers.verdicts import Level

# How often a case is played again in fresh processes before it is told.
REPLAYS: Mapping[str, int] = {"violation": 3, "nonstrict": 2, "information": 1}
# Of one invariant so many catches are told; what more there is is the same fault from another side.
MAX_CATCHES: Mapping[str, int] = {"violation": 10, "nonstrict": 6, "information": 0}
MAX_PLAYS: Mapping[str, int] = {"violation": 24, "nonstrict": 12, "information": 0}
# A catch that never came again in a fresh process is tried so often anew when it is seen again.
MAX_DOUBTS = 2
_PARTICULAR = re.compile(r'"(?:[^"\\\\]|\\\\.)*"?|\d+')
MAX_NAME = 40
# Told apart by more commands than these, catches of one fault would be endless.
MAX_NAMED_COMMANDS = 2


class Sighting(NamedTuple):
    """A finding of a case, and the catch that it belongs to."""

    signature: str
    finding: Finding


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
        source, level = sighting.finding.source, sighting.finding.level

        wanted = what(sighting.finding)

        def fails(candidate: Scenario) -> bool:
            if self.is_over:
                return False  # what is smallest by now is told as it is
            found = play_apart(self.kit, candidate) if needs_own(candidate) else pool.play(candidate)
            return any(
                each.source == source and each.level == level and what(each) == wanted for each in found.findings
            )

        smallest = shrink(scenario, fails, lambda changed: named(changed, campaign), MAX_PLAYS[level])
        replays = [run_once(smallest, self.kit, campaign) for _ in range(REPLAYS[level])]
        shown = [each for each in replays if _shows(each, source, wanted)]
        if not shown and smallest is not scenario:
            # It was made smaller in processes that had played other cases; by itself it may need more.
            smallest = scenario
            replays = [run_once(smallest, self.kit, campaign) for _ in range(REPLAYS[level])]
            shown = [each for each in replays if _shows(each, source, wanted)]
        if not shown:
            self._doubt(sighting, campaign)
            return
        best = shown[0]
        finding = next(each for each in best.findings if _is_it(each, source, wanted))
        titled = named({**smallest.source, "rules": list(finding.rules) or ["R-ERR-02"]}, campaign)
        title = f"{finding.source}: {finding.text}"[:300]
        # The finding that was hunted stands first.
        ordered = (finding, *(each for each in best.findings if each is not finding))
        result = best._replace(
            scenario=_retitled(titled, title), findings=ordered, reproduced=(len(shown), len(replays)), kind=campaign
        )
        with self._lock:
            same = [each for each in self.results if each.scenario.id == result.scenario.id]
            if not any(_shows(each, source, wanted) for each in same):
                self.results.append(result)
        self._told(f"{result.verdict} {result.scenario.id} ({len(shown)} of {len(replays)}): {title}")

    def tell_comparison(self, result: CaseResult, verdicts: Sequence[Verdict], campaign: str) -> None:
        """Take the comparison of two cases; what differs is told with the second."""
        with self._lock:
            self.examples[campaign] += 1
            self._coverage.armed.update(dict.fromkeys({"I-FRM-3", "I-FRM-4"}, 1))
            if not verdicts:
                return
            found = [Finding(each.invariant, each.rules, each.text, each.level, 0, each.steps) for each in verdicts]
            bad = any(each.level == "violation" for each in found)
            title = f"{found[0].source}: {found[0].text}"[:300]
            self.results.append(
                result._replace(
                    scenario=_retitled(result.scenario, title),
                    findings=(*found, *result.findings),
                    verdict="FAIL" if bad else "NON-STRICT",
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


def _shows(result: CaseResult, source: str, wanted: str) -> bool:
    return any(_is_it(each, source, wanted) for each in result.findings)


def _is_it(finding: Finding, source: str, wanted: str) -> bool:
    # How a wait failed, or what a process said at its end, may differ from time to time.
    return finding.source == source and (source in (*_END_OF_ALL, "step") or what(finding) == wanted)


def needs_own(scenario: Scenario) -> bool:
    """Say whether a case can't share a process with others."""
    has_restart = any(isinstance(step, Restart) for step in scenario.client)
    return has_restart or bool(scenario.arguments or scenario.env or scenario.files)


def play_apart(kit: Kit, scenario: Scenario) -> Glance:
    """Play a case in a process of its own, as if in a pool."""
    result = run_once(scenario, kit, "apart")
    steps = result.logs[-1].steps if result.logs else ()
    return Glance(scenario, result.findings, steps, dict(result.armed), True, result.verdict == "INCONCLUSIVE")


# Of these the first that is there is the only one that is told.
_END_OF_ALL = ("I-CRASH", "crash", "hang")


def sightings(glance: Glance) -> list[Sighting]:
    """Name what a case has shown, each catch once; what a busy machine may have caused is passed over."""
    found: dict[str, Sighting] = {}
    findings = glance.findings
    for source in _END_OF_ALL:
        # What is open or unanswered because the process is gone is no fault of its own.
        if fatal := [each for each in findings if each.source == source]:
            findings = tuple(fatal)
            break
    for finding in findings:
        if finding.level == "information" or (finding.is_timed and glance.is_overloaded):
            continue
        name = signature(finding, glance.steps)
        found.setdefault(name, Sighting(name, finding))
    return list(found.values())


# These are about records alone; which command led to them says nothing.
_WITHOUT_COMMANDS = frozenset({"I-EVT-12", "I-EVT-5", "I-FRM-1", "I-FRM-2"})


def signature(finding: Finding, steps: Sequence[Step]) -> str:
    """Name a catch: the invariant, and the commands among the lines that prove it, or else all of the case."""
    if finding.source in _WITHOUT_COMMANDS:
        return finding.source
    inputs = [step for step in steps if step.direction == "in" and not (step.record and is_of_kit(step.record))]
    proof = [step for step in inputs if step.number in finding.steps] or inputs
    commands = sorted({_command(step) for step in proof})
    words = "+".join(commands) if len(commands) <= MAX_NAMED_COMMANDS else "several"
    # An invariant can be broken in several ways; the process' end and a wait say nothing more of theirs.
    way = "" if finding.source in (*_END_OF_ALL, "step") else f" {zlib.crc32(what(finding).encode()):08x}"
    return f"{finding.source}@{words}{way}"


def _command(step: Step) -> str:
    if step.record is None:
        return _shape(step.line)
    kind, behaviour = step.record.get("type"), step.record.get("streamingBehavior")
    name = kind if isinstance(kind, str) and len(kind) < MAX_NAME else "no type"
    return f"{name}/{behaviour}" if isinstance(behaviour, str) else name


def _shape(line: str) -> str:
    """Say what kind of line that is no record it is, so that different faults are different catches."""
    if "[[[[[[[[" in line or '{"a":{"a":{"a":' in line:
        return "deep line"
    if any("\udc80" <= character <= "\udcff" for character in line):
        return "line of no UTF-8"
    return "line with braces" if "{" in line else "line"


def what(finding: Finding) -> str:
    """Say what a finding is about without its numbers and texts: two of the same fault have the same."""
    return _PARTICULAR.sub("", finding.text)


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
    total_s = max(0.0, end_s - time.monotonic())
    shares = sum(slot.share for slot in slots) or 1.0

    def run(slot: _Slot, number: int) -> None:
        begun_s = time.monotonic()
        limit_s = end_s if slot.share == 0 else min(end_s, begun_s + total_s * options.jobs * slot.share / shares)
        chance = random.Random(f"{options.seed} {slot.name} {number}")
        if begun_s >= end_s:
            return
        with hunt.pool() as pool:
            slot.campaign(hunt, pool, chance, lambda: time.monotonic() >= limit_s)
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
        }
        for name in wanted
    }
    return hunt.results, found
