"""The table of campaigns, and the schedule that runs them side by side until the time is over."""

import random
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pinnace_fuzz.judge.at_once import processors
from pinnace_fuzz.judge.campaigns.arguments import arguments
from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
from pinnace_fuzz.judge.campaigns.faults import faults
from pinnace_fuzz.judge.campaigns.framing import framing
from pinnace_fuzz.judge.campaigns.interleavings import interleavings
from pinnace_fuzz.judge.campaigns.sequences import sequences
from pinnace_fuzz.judge.campaigns.trails import trails
from pinnace_fuzz.judge.coverage import Coverage
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.pool import Pool
from pinnace_fuzz.judge.progress import duration
from pinnace_fuzz.judge.results import CaseResult

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase

Campaign = Callable[[CampaignRun, Pool, Random, Callable[[], bool]], None]
"""Plays cases until it has no more, or the function reports that its time is over."""


class CampaignShare(NamedTuple):
    """A campaign and its share of the time; 0: all that is left."""

    campaign: Campaign
    share: float


CAMPAIGNS: Mapping[str, CampaignShare] = {
    "interleavings": CampaignShare(interleavings, 0.25),
    "arguments": CampaignShare(arguments, 0.15),
    "framing": CampaignShare(framing, 0.15),
    "faults": CampaignShare(faults, 0.12),
    "trails": CampaignShare(trails, 0.08),
    "sequences": CampaignShare(sequences, 0.0),
}


class _Slot(NamedTuple):
    name: str
    campaign: Campaign
    share: float


def run_campaigns(
    kit: AgentUnderTest, options: Any, end_s: float, coverage: Coverage, database: "ExampleDatabase | None" = None
) -> tuple[list[CaseResult], Mapping[str, Mapping[str, Any]]]:
    """Let every campaign run, `options.jobs` at a time or one a processor, until `end_s`.

    Args:
        kit: How the agent is started.
        options: Of the run.
        end_s: On the monotonic clock.
        coverage: Takes what the cases reach.
        database: The examples that this run shares with others.

    Returns:
        The confirmed cases, and what each campaign has done.
    """
    jobs = options.jobs or processors()
    run = CampaignRun(kit, coverage, end_s, options.seed, options.log, options.shard, database)
    wanted = [name for name in CAMPAIGNS if options.campaigns is None or name in options.campaigns]
    slots = [_Slot(name, CAMPAIGNS[name].campaign, CAMPAIGNS[name].share) for name in wanted]
    options.watch(lambda: _said(run, end_s - time.monotonic()))
    seconds: dict[str, float] = {}
    defects: dict[str, str] = {}
    total_s = max(0.0, end_s - time.monotonic())
    # The last one gets the time that the others leave; without it they share all of it.
    shares = 1.0 if any(slot.share == 0 for slot in slots) else sum(slot.share for slot in slots) or 1.0

    def work(slot: _Slot, number: int) -> None:
        begun_s = time.monotonic()
        limit_s = end_s if slot.share == 0 else min(end_s, begun_s + total_s * jobs * slot.share / shares)
        # A shard draws other cases than the others.
        part = "" if options.shard.is_whole else f" {options.shard}"
        chance = random.Random(f"{options.seed} {slot.name} {number}{part}")
        if begun_s >= end_s:
            return
        try:
            with run.pool() as pool:
                slot.campaign(run, pool, chance, lambda: time.monotonic() >= limit_s)
        except Exception as fault:  # findings so far are reported all the same
            defects[slot.name] = f"{type(fault).__name__}: {fault}"
            options.log(f"{slot.name}: the tester itself failed\n{traceback.format_exc()}")
        seconds[slot.name] = seconds.get(slot.name, 0.0) + time.monotonic() - begun_s
        options.log(f"{slot.name}: {run.examples[slot.name]} cases in {seconds[slot.name]:.0f} s")

    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="run") as workers:
        tasks = [workers.submit(work, slot, 0) for slot in slots]
        last = slots[-1] if slots else None
        # The last one has no end of its own: idle workers join it.
        tasks += [workers.submit(work, last, number) for number in range(1, jobs) if last is not None]
        for task in tasks:
            task.result()
    found = {
        name: {
            "examples": run.examples[name],
            "seconds": round(seconds.get(name, 0.0), 1),
            "caught": sum(1 for each in run.results if each.kind == name),
            "unconfirmed": run.unconfirmed[name],
            **({"fault": defects[name]} if name in defects else {}),
        }
        for name in wanted
    }
    return run.results, found


def _said(run: CampaignRun, left_s: float) -> str:
    """Say how far the campaigns are, while they work in other threads."""
    bad = sum(each.is_bad for each in list(run.results))
    return f"{sum(list(run.examples.values()))} generated cases, {bad} findings, {duration(left_s)} left"
