"""Trails: paths of the model checker's model as scripts of clients, of the specification's folder `trails`.

Any agent can play them, and only the observers judge it: to leave the model's path is not a violation; a script that
can't be continued then ends. An agent that follows the statechart must also follow the model's path.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from pinnace_fuzz.judge.campaigns.cases import ANSWER, SETTINGS, named
from pinnace_fuzz.judge.campaigns.findings import sightings
from pinnace_fuzz.judge.playing.pool import Glance
from pinnace_fuzz.judge.playing.recording import seen
from pinnace_fuzz.judge.results import BAD
from pinnace_fuzz.judge.running import run as run_scenario
from pinnace_fuzz.judge.scenarios.expression import Expression
from pinnace_fuzz.judge.scenarios.files import read_file, shared_setups
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_spec import data

if TYPE_CHECKING:
    from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
    from pinnace_fuzz.judge.playing.pool import Pool

NAME = "trails"
FOLDER = "trails"
# What a process that plays several cases puts before the ids of each.
_OF_CASE = re.compile(r"^\d+\.")


def load_trails() -> list[Scenario]:
    """Read every trail."""
    setups = shared_setups(data.FOLDER / "scenarios")
    return [each for path in sorted((data.FOLDER / FOLDER).glob("*.yaml")) for each in read_file(path, setups)]


def trails(run: "CampaignRun", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """Play every trail once, or every one of the shard, in an order of the seed's."""
    found = run.shard.part([each for each in load_trails() if run.fits(each)], run.seed)
    chance.shuffle(found)
    for trail in found:
        if is_over():
            return
        source = {key: value for key, value in trail.source.items() if key != "expect"}
        source["settings"] = {**SETTINGS, **trail.settings}
        source["llm"] = [*source.get("llm", ()), ANSWER]
        if not run.kit.is_ours:
            source["client"] = loosened(source["client"])
        scenario = named(source, NAME)
        glance = run.glance(pool, scenario, NAME)
        if not run.kit.is_ours:
            # The script is the model's, which is not binding for other agents.
            glance = glance._replace(findings=tuple(each for each in glance.findings if each.source != "step"))
        for sighting in sightings(glance):
            if run.claim(sighting):
                run.follow_up(pool, scenario, sighting, NAME)
        if run.kit.is_ours and not follows(trail, glance, is_sandboxed=run.kit.is_sandboxed):
            result = run_scenario(trail, run.kit)
            if result.verdict in BAD:
                run.results.append(result._replace(kind=NAME))
            elif result.verdict != "PASS":
                run.unconfirmed[NAME] += 1


def loosened(client: Sequence[Any]) -> list[Any]:
    """Leave out waits for requests to the model: an agent on another path would run into their timeouts."""
    steps: list[Any] = []
    for step in client:
        gate = str((as_object(step) or {}).get("reached", ""))
        if gate.startswith("t"):
            steps.append({"try": "tool_start"})
        elif not gate.startswith("l"):
            steps.append(step)
    return steps


def follows(trail: Scenario, glance: Glance, *, is_sandboxed: bool) -> bool:
    """Return whether an agent has followed the model's path."""
    records = list(_own_records(glance, is_sandboxed))
    return all(Expression(text).match(records).is_match for text in trail.expect)


def _own_records(glance: Glance, is_sandboxed: bool) -> Iterator[Mapping[str, Any]]:
    for each in seen(glance.steps, (), None, is_sandboxed=is_sandboxed):
        own = each.record.get("id")
        yield {**each.record, "id": _OF_CASE.sub("", own)} if isinstance(own, str) else each.record
