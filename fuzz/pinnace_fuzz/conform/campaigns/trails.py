"""Trails: paths of the model checker's model as scripts of clients, of the specification's folder `trails`.

Any agent is taken along them, and the observers alone judge: an agent that goes another way than the model does nothing
wrong by that, and where a script can't be played on it ends. Who follows the chart must go the model's way, too.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from pinnace_fuzz.conform.cases import ANSWER, SETTINGS, named
from pinnace_fuzz.conform.catches import sightings
from pinnace_fuzz.conform.expression import Expression
from pinnace_fuzz.conform.pool import Glance
from pinnace_fuzz.conform.recording import seen
from pinnace_fuzz.conform.results import BAD
from pinnace_fuzz.conform.running import run
from pinnace_fuzz.conform.scenario import Scenario
from pinnace_fuzz.conform.scenario_files import read_file, shared_setups
from pinnace_fuzz.conform.shapes import as_object
from pinnace_spec import data

if TYPE_CHECKING:
    from pinnace_fuzz.conform.hunting import Hunt
    from pinnace_fuzz.conform.pool import Pool

NAME = "trails"
FOLDER = "trails"
# What a process that plays several cases puts before the ids of each.
_OF_CASE = re.compile(r"^\d+\.")


def load_trails() -> list[Scenario]:
    """Read every trail."""
    setups = shared_setups(data.FOLDER / "scenarios")
    return [each for path in sorted((data.FOLDER / FOLDER).glob("*.yaml")) for each in read_file(path, setups)]


def trails(hunt: "Hunt", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """Play every trail once, in an order of the seed's."""
    found = [each for each in load_trails() if hunt.fits(each)]
    chance.shuffle(found)
    for trail in found:
        if is_over():
            return
        source = {key: value for key, value in trail.source.items() if key != "expect"}
        source["settings"] = {**SETTINGS, **trail.settings}
        source["llm"] = [*source.get("llm", ()), ANSWER]
        if not hunt.kit.is_ours:
            source["client"] = loosened(source["client"])
        scenario = named(source, NAME)
        glance = hunt.glance(pool, scenario, NAME)
        if not hunt.kit.is_ours:
            # The script is the model's, which binds nobody else.
            glance = glance._replace(findings=tuple(each for each in glance.findings if each.source != "step"))
        for sighting in sightings(glance):
            if hunt.claim(sighting):
                hunt.follow_up(pool, scenario, sighting, NAME)
        if hunt.kit.is_ours and not follows(trail, glance):
            result = run(trail, hunt.kit)
            if result.verdict in BAD:
                hunt.results.append(result._replace(kind=NAME))
            elif result.verdict != "PASS":
                hunt.unconfirmed[NAME] += 1


def loosened(client: Sequence[Any]) -> list[Any]:
    """Leave out waits for the model to be asked: who goes another way would be waited for long, and in vain."""
    steps: list[Any] = []
    for step in client:
        gate = str((as_object(step) or {}).get("reached", ""))
        if gate.startswith("t"):
            steps.append({"try": "tool_start"})
        elif not gate.startswith("l"):
            steps.append(step)
    return steps


def follows(trail: Scenario, glance: Glance) -> bool:
    """Say whether an agent has gone the model's way."""
    records = list(_own_records(glance))
    return all(Expression(text).match(records).is_match for text in trail.expect)


def _own_records(glance: Glance) -> Iterator[Mapping[str, Any]]:
    for each in seen(glance.steps, (), None):
        own = each.record.get("id")
        yield {**each.record, "id": _OF_CASE.sub("", own)} if isinstance(own, str) else each.record
