"""Runs of the statechart in ITF, and the specification in Quint that has the same variables."""

import json
import random
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from tests.source_tree import REPOSITORY
from tests.statechart.test_chart_model import ALL_COMMANDS, QuickChart, Watcher, make_command

from pinnace_spec import data
from pinnace_spec.generate.quint import KNOWN
from pinnace_spec.statechart.chart_runs import STATE_OF, ChartState, faults, read_chart_run, write_chart_run
from pinnace_spec.statechart.transitions import CHART, INITIAL, Region, Transition
from pinnace_spec.wire.itf import NotItf
from pinnace_statechart.triggers import InternalEvent

NODE = REPOSITORY / ".tools" / "node22" / "bin" / "node"
QUINT = REPOSITORY / ".tools" / "quint" / "node_modules" / "@informalsystems" / "quint" / "dist" / "src" / "cli.js"
REGION_OF: Final[Mapping[str, Region]] = {variable: region for region, variable in STATE_OF.items()}
has_quint = pytest.mark.skipif(not QUINT.exists(), reason="no quint: scripts/peers installs it")


def walked(seed: int, moves: int = 30) -> Watcher:
    """Take random commands, and random reports of jobs that live, until the process has ended."""
    chance = random.Random(seed)
    watcher = Watcher(kind=QuickChart)
    watcher.step(InternalEvent("instance_began", enabled=chance.random() < 0.3))
    for ref in range(1, moves):
        able: list[Callable[[], None]] = [partial(watcher.report, name) for name in watcher.reports()]
        able += [watcher.end_shell] * bool(watcher.shells) + [watcher.end_command] * bool(watcher.commands)
        command = make_command(chance.choice(ALL_COMMANDS), ref, chance.randrange(3))
        if able and chance.random() < 0.6:
            chance.choice(able)()
        elif chance.random() < 0.03:
            watcher.step(InternalEvent(chance.choice(["stop_abort", "stop_drain"])))
        elif not watcher.closed:
            watcher.step(command)
        if watcher.closed:
            break
    return watcher


@pytest.mark.parametrize("first", range(0, 1_000, 50))
def test_a_run_that_is_written_is_read_and_steps_through_the_table(first: int) -> None:
    """A thousand random runs of the statechart: each state follows by a transition, to where the statechart is."""
    taken: set[Transition] = set()
    for seed in range(first, first + 50):
        watcher = walked(seed)
        states = read_chart_run(write_chart_run(watcher.taken))

        assert [] == [*faults(states)]
        assert states[-1].configuration == watcher.chart.configuration
        assert len(states) == len(watcher.taken) + 1
        taken.update(watcher.taken)
        check_known(states)
    assert len({row.trigger for row in taken}) > 40


def check_known(states: Sequence[ChartState]) -> None:
    """Hold the guards that the specification knows to what it requires for them."""
    for before, after in pairwise(states):
        for variable, required in re.findall(r'(\w+) == "(\w+)"', KNOWN.get(after.guard, "")):
            assert before.configuration[REGION_OF[variable]] == required, after


Change = Callable[[list[ChartState]], list[ChartState]]


def last(**changes: Any) -> Change:
    """Return what changes the last state of a run."""

    def change(states: list[ChartState]) -> list[ChartState]:
        return [*states[:-1], states[-1]._replace(**changes)]

    return change


def another_beginning(states: list[ChartState]) -> list[ChartState]:
    return [states[0]._replace(configuration={**INITIAL, "run": "llm"}), *states[1:]]


def nothing_at_all(_: list[ChartState]) -> list[ChartState]:
    return []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (another_beginning, "state 0 is not"),
        (last(effects=("explode",)), "does not follow"),
        (last(trigger="nothing"), "does not follow from the one before by nothing"),
        (last(guard="held"), "does not follow"),
        (last(configuration={**INITIAL, "io": "closed", "shell": "running"}), "does not follow"),
        (nothing_at_all, "state 0 is not"),
    ],
)
def test_a_state_that_does_not_follow_is_found(change: Change, said: str) -> None:
    states = read_chart_run(write_chart_run(walked(2).taken))

    assert any(said in fault for fault in faults(change(states)))


@pytest.mark.parametrize(("name", "value"), [("runState", 7), ("doneEffects", "start_run"), ("doneEffects", [1])])
def test_a_variable_of_another_type_is_refused(name: str, value: object) -> None:
    document = json.loads(write_chart_run([]))
    document["states"][0][name] = value

    with pytest.raises(NotItf, match="state 0 has a variable that is no text"):
        read_chart_run(json.dumps(document))


def test_the_specification_has_every_transition() -> None:
    text = data.text("chart.qnt")

    for row in CHART:
        assert f'"{row.source}"' in text
        assert f'"{row.trigger}", "{row.guard}", ' in text
        assert json.dumps([*row.effects]) in text


@has_quint
@pytest.mark.slow
def test_quint_takes_the_specification_and_its_runs_are_runs_of_the_table(tmp_path: Path) -> None:
    """It finds no error of types, and no run that breaks the invariants; a run that it writes can be read."""
    specification = tmp_path / "chart.qnt"
    specification.write_text(data.text("chart.qnt"))
    command = [str(NODE), str(QUINT), "run", "--backend=typescript", "--invariant=known and closedIsQuiet"]
    command += ["--max-steps=20", "--max-samples=20", "--seed=1", "--out-itf=run.itf.json", "chart.qnt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    states = read_chart_run((tmp_path / "run.itf.json").read_text())
    assert len(states) == 21
    assert [] == [*faults(states)]
