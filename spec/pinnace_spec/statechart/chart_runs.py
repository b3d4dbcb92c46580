"""Runs of the statechart in ITF: one state for each transition that was taken, with the variables of `chart.qnt`.

`faults` says which states do not follow from the one before by a transition, of whatever program has written the run.
Pure: texts in, texts out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, cast

from pinnace_spec.statechart.transitions import CHART, INITIAL, REGIONS, Region, Transition
from pinnace_spec.wire import itf

STATE_OF: Final[Mapping[Region, str]] = {region: f"{region}State" for region in REGIONS}
"""The variable of each region. `run` alone is a word of Quint."""
VARIABLES: Final = (*STATE_OF.values(), "takenTrigger", "takenGuard", "doneEffects")
"""Where the regions are, and the transition that has led there."""
_Row = tuple[Region, str, str, str, str | None, tuple[str, ...]]


class ChartState(NamedTuple):
    """A state of a run of the statechart."""

    configuration: Mapping[Region, str]
    trigger: str
    guard: str
    effects: tuple[str, ...]


def write_chart_run(rows: Iterable[Transition]) -> str:
    """Write a run that begins in the initial states, from the transitions that were taken."""
    configuration = dict(INITIAL)
    states = [_state(configuration, "", "", ())]
    for row in rows:
        if row.target is not None:
            configuration[row.region] = row.target
        states.append(_state(configuration, row.trigger, row.guard, row.effects))
    return itf.write(VARIABLES, states, {"source": "chart.qnt"})


def read_chart_run(text: str) -> list[ChartState]:
    """Read a run.

    Raises:
        NotItf: It is none.
    """
    found: list[ChartState] = []
    for place, state in enumerate(itf.read(text, VARIABLES).states):
        effects: object = state.get("doneEffects")
        done = cast("list[object]", effects) if isinstance(effects, list) else [None]
        words = [state.get(name) for name in (*STATE_OF.values(), "takenTrigger", "takenGuard")]
        if not all(isinstance(each, str) for each in (*words, *done)):
            raise itf.NotItf(f"state {place} has a variable that is no text")
        configuration: dict[Region, str] = {region: str(state[name]) for region, name in STATE_OF.items()}
        found.append(ChartState(configuration, str(words[-2]), str(words[-1]), tuple(map(str, done))))
    return found


def faults(states: Sequence[ChartState], rows: Sequence[Transition] = CHART) -> Iterator[str]:
    """Yield what is wrong with a run: where it begins, and states that no transition leads to."""
    if not states or states[0].configuration != INITIAL:
        yield "state 0 is not the initial state"
    known: set[_Row] = {(row.region, row.source, row.trigger, row.guard, row.target, row.effects) for row in rows}
    for place, (before, after) in enumerate(pairwise(states), 1):
        if not any(_leads(region, before, after, known) for region in REGIONS):
            yield f"state {place} does not follow from the one before by {after.trigger or 'nothing'}"


def _leads(region: Region, before: ChartState, after: ChartState, known: set[_Row]) -> bool:
    """Return whether one transition of a region leads from a state to the next."""
    if {**before.configuration, region: after.configuration[region]} != after.configuration:
        return False
    source, target = before.configuration[region], after.configuration[region]
    rows: list[_Row] = [(region, source, after.trigger, after.guard, target, after.effects)]
    if source == target:
        rows.append((region, source, after.trigger, after.guard, None, after.effects))
    return any(row in known for row in rows)


def _state(configuration: Mapping[Region, str], trigger: str, guard: str, effects: Sequence[str]) -> itf.State:
    places = {STATE_OF[region]: configuration[region] for region in REGIONS}
    return {**places, "takenTrigger": trigger, "takenGuard": guard, "doneEffects": [*effects]}
