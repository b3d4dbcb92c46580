"""Lets `pinnace-conform` judge the program with a fault in it, as it judges any: by its records alone.

The judge is this checkout's, the judged program a private copy's, with a fault that the judge knows nothing of: it is
found when a violation names what the catalogue says, confirmed in fresh processes like every other.
"""

import random
import sys
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.mutants.catalogue import AgentMutant, Judged
from pinnace_campaigns.mutants.trial import Copy
from pinnace_fuzz.judge.adapter import PiAdapter
from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
from pinnace_fuzz.judge.campaigns.schedule import CAMPAIGNS
from pinnace_fuzz.judge.confirming import CONFIRMATIONS
from pinnace_fuzz.judge.coverage import Coverage
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.results import BAD, CaseResult
from pinnace_fuzz.judge.running import run
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.session import JudgeOptions, opened

# How long a campaign may look for a fault.
CAMPAIGN_S: Final = 120.0
SEED: Final = 1
_ROOTS: Final = ("spec", "statechart", "agent", "rpc")


class Judgement(NamedTuple):
    """What the judge has said of a fault."""

    is_found: bool
    named: tuple[str, ...]
    """All that violations named: invariants, or rules of scenarios."""
    verdict: str
    reproduced: tuple[int, int]
    seconds: float


def command_of(root: Path) -> tuple[str, ...]:
    """Return the command that starts the program of a checkout; a home of its own has no PYTHONPATH."""
    roots = [str(root / name) for name in _ROOTS]
    start = f"import sys; sys.path[:0] = {roots!r}; from pinnace_rpc.cli.main import main; sys.exit(main())"
    return (sys.executable, "-P", "-c", start)


@contextmanager
def bench(copy: Copy) -> Generator[AgentUnderTest]:
    """Get ready to judge the program of a copy, which is asked once what it is: sound."""
    with opened(JudgeOptions(command=command_of(copy.root), adapter=PiAdapter(), profile="pi")) as (kit, _):
        yield kit


def judge(kit: AgentUnderTest, copy: Copy, mutant: AgentMutant, *, confirmations: int = CONFIRMATIONS) -> Judgement:
    """Put a fault in, let the judge look where the catalogue says, take the fault out again."""
    assert mutant.judged is not None
    begun_s = time.monotonic()
    with copy.with_fault(mutant):
        results = _results(kit, mutant.judged, confirmations)
    bad = [each for each in results if each.verdict in BAD]
    named = _named(bad)
    best = bad[0] if bad else results[0] if results else None
    return Judgement(
        mutant.judged.named in named,
        named,
        best.verdict if best else "nothing",
        best.reproduced if best else (0, 0),
        time.monotonic() - begun_s,
    )


def sound_verdicts(kit: AgentUnderTest, places: Collection[str]) -> Iterator[tuple[str, str]]:
    """Say what the judge says of scenarios without any fault: or it would find anything."""
    for scenario in load():
        if scenario.id in places:
            yield scenario.id, run(scenario, kit, 1).verdict


def _named(results: Sequence[CaseResult]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for result in results:
        for finding in result.findings:
            if finding.level == "violation":
                names = (finding.source,) if finding.source.startswith("I-") else (finding.source, *finding.rules)
                found |= dict.fromkeys(names)
    return tuple(found)


def _results(kit: AgentUnderTest, judged: Judged, confirmations: int) -> Sequence[CaseResult]:
    if judged.by in CAMPAIGNS:
        return _found_by_campaigns(kit, judged)
    scenario = next(each for each in load() if each.id == judged.by)
    return [run(scenario, kit, confirmations)]


def _found_by_campaigns(kit: AgentUnderTest, judged: Judged) -> Sequence[CaseResult]:
    """Let a campaign run until it has named the fault."""
    run = CampaignRun(kit, Coverage(), time.monotonic() + CAMPAIGN_S, SEED)
    with run.pool() as pool:
        CAMPAIGNS[judged.by].campaign(
            run,
            pool,
            random.Random(f"{SEED} {judged.by} 0"),
            lambda: run.is_over or judged.named in _named(run.results),
        )
    return run.results
