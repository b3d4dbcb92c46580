"""Editors with the real adapters from one seed: the same trace again, and no broken rule."""

import tomllib
from typing import Any

import pytest
from click.testing import CliRunner
from tests.source_tree import REPOSITORY

from pinnace_fuzz.simulation.cli import main
from pinnace_fuzz.simulation.editors.history import Programs, simulate_editors
from pinnace_fuzz.simulation.program import (
    DEFAULT_ADAPTER,
    DEFAULT_HOST,
    DEFAULT_PROGRAM,
    UnknownProgram,
    load_adapter,
    load_host,
    load_program,
)

SEEDS: dict[str, Any] = tomllib.loads((REPOSITORY / "tests" / "data" / "simulation-seeds.toml").read_text())
PROGRAMS = Programs(load_program(DEFAULT_PROGRAM), load_host(DEFAULT_HOST), load_adapter(DEFAULT_ADAPTER))


@pytest.mark.parametrize("seed", [int(each) for each in SEEDS["editors"]])
def test_a_seed_of_editors_that_has_found_something_finds_nothing_more(seed: int) -> None:
    """The observers of both versions, R-ACP-29, R-ACP-102, R-QUE-12, R-SES-05, R-SES-06."""
    assert () == simulate_editors(seed, PROGRAMS).findings


def test_more_seeds_of_editors_find_nothing() -> None:
    """The same, as a campaign."""
    first, count = SEEDS["more_editors"]["first"], SEEDS["more_editors"]["count"]

    assert [] == [each for seed in range(first, first + count) for each in simulate_editors(seed, PROGRAMS).findings]


def test_the_kinds_of_histories_exclude_each_other() -> None:
    """A usage error names both."""
    done = CliRunner().invoke(main, ["--hosted", "--editors"])

    assert done.exit_code == 2
    assert "--hosted and --editors" in done.output


def test_an_adapter_that_can_not_be_loaded_is_a_usage_error() -> None:
    """It names what was expected."""
    with pytest.raises(UnknownProgram, match=r"nowhere:serve: no adapter can be loaded: .*; expected module:function"):
        load_adapter("nowhere:serve")
