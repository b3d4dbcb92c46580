"""The whole agent from one seed: the same trace again, no broken rule, and faults of an agent are found."""

import os
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from click.testing import CliRunner
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.simulation import scheduling
from pinnace_fuzz.simulation.cli import main
from pinnace_fuzz.simulation.history import simulate
from pinnace_fuzz.simulation.program import DEFAULT_PROGRAM, UnknownProgram, load_program

SEEDS: dict[str, Any] = tomllib.loads((REPOSITORY / "tests" / "data" / "simulation-seeds.toml").read_text())
PROGRAM = load_program(DEFAULT_PROGRAM)
SILENT = "tests.fuzz.simulation.silent_agent:serve"


@pytest.mark.parametrize("seed", [int(each) for each in SEEDS["quick"]])
def test_a_seed_that_has_found_something_finds_nothing_more(seed: int) -> None:
    """R-QUE-12 to R-QUE-14, R-SES-05, R-SES-07, and the observers."""
    assert () == simulate(seed, PROGRAM).findings


def test_more_seeds_find_nothing() -> None:
    """The same, as a campaign."""
    first, count = SEEDS["more"]["first"], SEEDS["more"]["count"]

    assert [] == [each for seed in range(first, first + count) for each in simulate(seed, PROGRAM).findings]


def test_a_seed_gives_the_same_trace_again() -> None:
    """Whatever was played between."""
    first, _, again = (simulate(seed, PROGRAM).trace for seed in (0, 8, 0))

    assert first.lines == again.lines
    assert len(first.lines) > 50


@pytest.mark.parametrize("hosted", [(), ("--hosted",), ("--editors",)], ids=["agent", "host", "editors"])
def test_seeds_give_the_same_traces_in_every_process(hosted: tuple[str, ...]) -> None:
    """With other hashes of texts, byte for byte."""
    printed = [
        subprocess.run(
            [
                sys.executable,
                "-P",
                "-c",
                "from pinnace_fuzz.simulation.cli import main; main()",
                *hosted,
                "--digests",
                "--steps",
                "12000",
            ],
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert printed[0] == printed[1]
    assert printed[0].count(b"\n") >= 5


def test_a_history_that_is_another_one_when_it_is_repeated_is_found() -> None:
    """The first line in which the traces differ is printed."""
    restless = "tests.fuzz.simulation.restless_agent:serve"
    options = ["--steps", "1", "--repeat", "2"]
    same, other = (CliRunner().invoke(main, [*options, *more]) for more in (["--seed", "3"], ["--agent", restless]))

    assert 0 == same.exit_code
    assert 1 == other.exit_code
    assert "seed 0: its traces differ in line 3:" in other.stdout


def test_an_agent_that_answers_nothing_is_found() -> None:
    """Nothing can run and something is owed; the seed and the step are printed."""
    found = CliRunner().invoke(main, ["--seed", "4", "--steps", "1", "--agent", SILENT])

    assert found.exit_code == 1
    assert "stalled: nothing happens, and owed are:" in found.stdout
    assert "replay: pinnace-simulate --seed 4 --steps 1" in found.stdout


def test_an_agent_that_can_not_be_loaded_is_a_usage_error() -> None:
    """It names what was expected."""
    with pytest.raises(UnknownProgram, match=r"nowhere:serve: no agent can be loaded: .*; expected module:function"):
        load_program("nowhere:serve")


def test_a_trio_that_can_not_be_scheduled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed release can."""
    scheduling.check_trio()
    monkeypatch.delattr(scheduling._RUN, "_ALLOW_DETERMINISTIC_SCHEDULING")

    with pytest.raises(scheduling.UnsupportedTrio, match="it lacks _ALLOW_DETERMINISTIC_SCHEDULING"):
        scheduling.check_trio()
