"""The models hold within small bounds, and paths of the model are what the real program does.

Searches with more commands, and many more paths, are commands of their own: docs/model-checking.md.
"""

import os
from pathlib import Path

import pytest

from pinnace_campaigns.model_check.__main__ import search
from pinnace_campaigns.model_check.campaign import play_all
from pinnace_campaigns.model_check.spin import Verdict
from pinnace_spec.generate.promela.properties import CLAIMED, ModelName

pytestmark = [pytest.mark.peer, pytest.mark.slow]

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SEARCHES: list[tuple[ModelName, str, int]] = [
    ("run", "all", 3),
    ("run", "limits", 4),
    ("run", "extensions", 3),
    ("tools", "all", 3),
    ("shells", "all", 2),
]
LONG_SEARCHES: list[tuple[ModelName, str, int]] = [
    ("run", "all", 4),
    ("run", "settings", 3),
    ("run", "extensions", 4),
    ("tools", "all", 4),
    ("shells", "shells", 3),
    ("shells", "dialogs", 3),
]
# Played in every run of the suite; the next ones by command.
PLAYED = 200 if IS_LONG else 5


def holds(found: list[tuple[str, Verdict]]) -> None:
    for claim, verdict in found:
        assert (0, "", True) == (verdict.errors, verdict.property, verdict.is_complete), (claim, verdict.path)
        assert verdict.states > 1_000, "too few to have looked at anything"


@pytest.mark.parametrize(("model", "chosen", "commands"), [*SEARCHES, *(LONG_SEARCHES if IS_LONG else [])])
def test_no_reachable_state_breaks_an_assertion(
    spin: list[str], model: ModelName, chosen: str, commands: int, tmp_path: Path
) -> None:
    """Every order of commands, reports and the end of input, within the bound."""
    holds(search(model, chosen, commands, tmp_path, optimise=0))


def test_every_formula_holds(spin: list[str], tmp_path: Path) -> None:
    """Settled at last, answered at last, delivered or visibly held, and the process can always end."""
    holds(search("run", "all", 3 if IS_LONG else 2, tmp_path, claims=[each.name for each in CLAIMED], optimise=0))


@pytest.mark.parametrize("chosen", ["core", "barriers", "queues", "retries"])
def test_the_program_does_what_the_model_does_on_random_paths(spin: list[str], chosen: str, tmp_path: Path) -> None:
    """Answers, brackets, deliveries, queues and agent_settled in exactly the model's order."""
    counts = play_all(chosen, 6, range(1, 10 * PLAYED), tmp_path, most=PLAYED)

    assert () == counts.disagreements
    assert counts.played == PLAYED
