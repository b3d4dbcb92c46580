"""A durable host, its agent and attached clients from one seed: the same trace again, and no broken rule."""

import tomllib
from typing import Any

import pytest
from click.testing import CliRunner
from tests.source_tree import REPOSITORY

from pinnace_fuzz.simulation.cli import main
from pinnace_fuzz.simulation.hosted.history import simulate_hosted
from pinnace_fuzz.simulation.program import DEFAULT_HOST, DEFAULT_PROGRAM, UnknownProgram, load_host, load_program

SEEDS: dict[str, Any] = tomllib.loads((REPOSITORY / "tests" / "data" / "simulation-seeds.toml").read_text())
PROGRAM, HOST = load_program(DEFAULT_PROGRAM), load_host(DEFAULT_HOST)


@pytest.mark.parametrize("seed", [int(each) for each in SEEDS["hosted"]])
def test_a_hosted_seed_that_has_found_something_finds_nothing_more(seed: int) -> None:
    """R-HST-01 to R-HST-03, R-QUE-12, R-QUE-14, R-SES-05, R-SES-06."""
    assert () == simulate_hosted(seed, PROGRAM, HOST).findings


def test_more_hosted_seeds_find_nothing() -> None:
    """The same, as a campaign."""
    first, count = SEEDS["more_hosted"]["first"], SEEDS["more_hosted"]["count"]

    assert [] == [
        each for seed in range(first, first + count) for each in simulate_hosted(seed, PROGRAM, HOST).findings
    ]


def test_a_hosted_seed_gives_the_same_trace_again() -> None:
    """Whatever was played between; processes are stopped, crash, and crash with the machine."""
    first, _, again = (simulate_hosted(seed, PROGRAM, HOST).trace for seed in (23, 8, 23))

    assert first.lines == again.lines
    kinds = {line.split()[3] for line in first.lines}
    assert {"boot", "crash", "stop", "continue", "disk"} <= kinds


def test_a_finding_of_a_hosted_history_is_printed_with_its_command() -> None:
    """The command plays it again."""
    silent = "tests.fuzz.simulation.silent_agent:serve"
    found = CliRunner().invoke(main, ["--hosted", "--seed", "4", "--steps", "1", "--agent", silent])

    assert found.exit_code == 1
    assert f"replay: pinnace-simulate --seed 4 --steps 1 --hosted --agent {silent} --trace" in found.stdout


def test_a_host_that_can_not_be_loaded_is_a_usage_error() -> None:
    """It names what was expected."""
    with pytest.raises(UnknownProgram, match=r"nowhere:serve: no host can be loaded: .*; expected module:function"):
        load_host("nowhere:serve")
