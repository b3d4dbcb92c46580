"""Trails of the model checker: scripts of clients that once broke a faulty chart, played against the agent.

Read from the specification's folder `trails`, in the form of scenarios; none there means nothing to do.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from pinnace_fuzz.conform.cases import SETTINGS, named
from pinnace_fuzz.conform.scenario_files import read_file, shared_setups
from pinnace_spec import data

if TYPE_CHECKING:
    from pinnace_fuzz.conform.hunting import Hunt
    from pinnace_fuzz.conform.pool import Pool

NAME = "trails"
FOLDER = "trails"


def trails(hunt: "Hunt", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """Play every trail once."""
    setups = shared_setups(data.FOLDER / "scenarios")
    for path in sorted((data.FOLDER / FOLDER).rglob("*.yaml")):
        for scenario in read_file(path, setups):
            if is_over():
                return
            if hunt.fits(scenario):
                source = {**scenario.source, "settings": {**SETTINGS, **scenario.settings}}
                hunt.try_case(pool, named(source, NAME), NAME)
