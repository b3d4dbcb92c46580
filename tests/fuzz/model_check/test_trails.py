"""The trails that the specification has: up to date, on the present chart, and gone by our own agent.

To choose them anew needs Spin.
"""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forked_agents import COMMAND
from tests.source_tree import REPOSITORY

from pinnace_campaigns.model_check.spin import walk
from pinnace_campaigns.model_check.trails import FOLDER, all_rows, committed, files, instrumented, read_walk
from pinnace_fuzz.judge.adapter import PiAdapter
from pinnace_fuzz.judge.campaigns.trails import load_trails
from pinnace_fuzz.judge.running import run
from pinnace_fuzz.judge.session import JudgeOptions, opened
from pinnace_spec.generate.promela.promela import model_text, sets_of
from pinnace_spec.statechart.transitions import ALWAYS, CHART

TRAILS = committed()


@pytest.fixture(scope="module")
def follow() -> Callable[..., None]:
    """Taking a path of the model on the chart that the agent runs, effect by effect."""
    bodies = runpy.run_path(str(Path(__file__).parents[2] / "spec" / "generate" / "test_promela_bodies.py"))
    found: Callable[..., None] = bodies["follow"]
    return found


def test_the_files_are_those_of_the_paths() -> None:
    """`python -P -m pinnace_campaigns.model_check.trails` writes them."""
    assert files(TRAILS) == {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("name", sorted({trail.name.rpartition("-")[0] for trail in TRAILS}))
def test_the_chart_reports_on_every_trail_what_the_model_reported(name: str, follow: Callable[..., None]) -> None:
    """Who changes a row that a trail takes chooses trails anew."""
    for trail in TRAILS:
        if trail.name.startswith(f"{name}-"):
            follow(trail.path, has_extensions=False)


def test_trails_take_rows_that_there_are() -> None:
    assert [] == [str(row) for trail in TRAILS for row in trail.rows if row not in all_rows()]


def test_a_walk_reports_the_rows_that_it_takes(spin: list[str], tmp_path: Path) -> None:
    """The model with its reports is one that Spin takes, which limits the length of its parts."""
    text, places = instrumented(model_text("run", CHART))
    [outputs] = walk(text, tmp_path, {"N": 3, "SET": list(sets_of("run")).index("core"), "REPLAY": 1}, [1])
    lines, rows = read_walk(outputs, places)
    triggered = [row for row in rows if row.trigger != ALWAYS]
    assert triggered
    assert set(rows) <= all_rows()
    assert {f"t_{row.trigger}" for row in triggered} <= {line.split()[1] for line in lines if line.startswith("> ")}


def test_the_documentation_says_how_many_there_are() -> None:
    taken = len({row for trail in TRAILS for row in trail.rows})
    pages = {name: (REPOSITORY / "docs" / name).read_text() for name in ("conformance.md", "model-checking.md")}
    assert f"{len(TRAILS)} trails take {taken} of the {len(all_rows()):,} transitions" in pages["conformance.md"]
    assert f"{len(TRAILS)} such paths are stored" in pages["model-checking.md"]


def test_trails_are_many_short_and_different() -> None:
    assert 60 <= len(TRAILS) <= 150
    assert max(sum(step.is_command for step in trail.path.steps) for trail in TRAILS) <= 6
    assert len({trail.lines for trail in TRAILS}) == len(TRAILS) == len(load_trails())
    assert len({row for trail in TRAILS for row in trail.rows}) >= 130


@pytest.mark.slow
def test_our_agent_goes_the_models_way(tmp_path: Path) -> None:
    """Some, each in a process of its own; all of them in the campaign `trails`."""
    some = load_trails()[:: len(TRAILS) // 4]
    with opened(JudgeOptions(command=COMMAND, adapter=PiAdapter(), profile="pi")) as (kit, _):
        results = [run(trail, kit, 1) for trail in some]

    assert [(each.scenario.id, "PASS") for each in results] == [(each.scenario.id, each.verdict) for each in results], [
        each.findings for each in results
    ]
