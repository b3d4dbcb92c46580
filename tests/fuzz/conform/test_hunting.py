"""Campaigns: what they generate, and what becomes of a case that breaks an invariant."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pinnace_fuzz.conform.adapter import NoAdapter
from pinnace_fuzz.conform.campaigns.arguments import argument_cases, valid
from pinnace_fuzz.conform.campaigns.framing import byte_cases
from pinnace_fuzz.conform.campaigns.interleavings import orders
from pinnace_fuzz.conform.campaigns.sequences import weights
from pinnace_fuzz.conform.cases import case
from pinnace_fuzz.conform.coverage import Coverage
from pinnace_fuzz.conform.hunting import Hunt
from pinnace_fuzz.conform.kit import Kit
from pinnace_fuzz.conform.load import LoadMeter
from pinnace_spec.commands import MODELS
from pinnace_spec.generations import generation

TINY = Path(__file__).parent / "tiny_agent.py"


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    with LoadMeter() as meter:
        adapter = NoAdapter()
        yield Kit((sys.executable, str(TINY)), adapter, adapter.capabilities, generation("seed"), tmp_path, meter)


def hunt_for(kit: Kit, fault: str) -> Hunt:
    return Hunt(kit._replace(command=(*kit.command, fault)), Coverage(), time.monotonic() + 120, seed=1)


STATE = {"send": {"id": "s", "type": "get_state"}}
CLIENT = [STATE, {"bytes": "[]\n"}, {"bytes": "null\n"}, STATE, "answered"]


def test_what_breaks_an_invariant_is_made_small_and_confirmed(kit: Kit) -> None:
    hunt = hunt_for(kit, "dies-of-null")
    with hunt.pool() as pool:
        hunt.try_case(pool, case("framing", CLIENT), "framing")
        hunt.try_case(pool, case("framing", CLIENT), "framing")

    (result,) = hunt.results
    assert ("CRASH", (3, 3)) == (result.verdict, result.reproduced)
    assert [{"bytes": "null\n"}] == result.scenario.source["client"]


def test_a_process_that_behaves_plays_many_cases(kit: Kit) -> None:
    hunt = hunt_for(kit, "")
    with hunt.pool() as pool:
        glances = [hunt.glance(pool, case("framing", [STATE, "answered"]), "framing") for _ in range(3)]

    assert [True, False, False] == [glance.was_first for glance in glances]
    assert [(), (), ()] == [glance.findings for glance in glances]


def test_nothing_is_said_of_an_agent_without_fault(kit: Kit) -> None:
    hunt = hunt_for(kit, "")
    with hunt.pool() as pool:
        for each in [*byte_cases()][:12]:
            hunt.try_case(pool, each, "framing")

    assert [] == hunt.results


def test_arguments_try_every_command_of_a_generation_as_it_should_be_first() -> None:
    known = generation("pi")
    wanted = [name for name in MODELS if name in known.commands]
    cases = [each for _, each in zip(wanted, argument_cases(known), strict=False)]

    assert wanted == [each.source["client"][1]["send"]["type"] for each in cases]
    for name in wanted:
        MODELS[name].model_validate(valid(name))


def test_interleavings_are_the_same_for_a_seed_and_others_for_another() -> None:
    def some(seed: int) -> list[str]:
        return [each.id for _, each in zip(range(300), orders(generation("pi"), Random(seed)), strict=False)]

    assert some(1) == some(1)
    assert some(1) != some(2)


def test_the_chart_says_which_commands_have_something_to_do() -> None:
    assert weights("llm")["abort"] > weights("llm")["get_state"]
