"""The running statechart: flat state machines built from the transitions, behind one typed `step`.

Each trigger of a region is a flat synchronous `transitions.Machine`, one for all statecharts of a process: only the
model, which has the name of the state, is of each. Its conditions are the guards; its only callback records which
transition was taken. Both get the context of the step. The actions of the transition run after the state has changed,
so that an error in one cannot hide a half-taken transition: it propagates out of `step`. Pure: no clock, no trio, no
input or output.

A machine takes about 45 us more for the four steps of a prompt than with transitions stripped of their hooks: under 2 %
of the time until its first delta. A read of 30 us would take twice as long, so rows that change nothing are taken
without the machines (tests/benchmarks/statechart.py).

Must not know any state or trigger by name but `always` and the job triggers, whose numbers it checks.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from transitions import Event, Machine, State

from pinnace_spec.statechart.names import RUN_OPEN
from pinnace_spec.statechart.transitions import (
    ALWAYS,
    CHART,
    INITIAL,
    JOB_TRIGGERS,
    REGIONS,
    STATES,
    Region,
    Transition,
)
from pinnace_statechart.actions import ACTIONS
from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import Effect
from pinnace_statechart.guards import GUARDS
from pinnace_statechart.state import ExtendedState
from pinnace_statechart.triggers import InternalEvent, Trigger

_JOB_TRIGGERS: Final = frozenset(JOB_TRIGGERS)
_ALWAYS: Final = InternalEvent(ALWAYS)
READ_ONLY: Final = frozenset({"answer"})
"""Actions that change neither the extended state nor the configuration."""
# More eventless rows in one step than this means that two of them undo each other. The longest real chain is the
# length of the line plus four.
MAX_CHAIN: Final = 100_000


def _by_trigger() -> dict[tuple[Region, str], dict[str, list[Transition]]]:
    """Return the rows by region and trigger, then by state."""
    found: dict[tuple[Region, str], dict[str, list[Transition]]] = {}
    for row in CHART:
        found.setdefault((row.region, row.trigger), {}).setdefault(row.source, []).append(row)
    return found


_ROWS: Final = _by_trigger()


def reading_rows(read_only: frozenset[str]) -> Mapping[tuple[str, str], Transition]:
    """Return the rows that change nothing, by the state of RUN and the trigger: no guard, no target, read-only actions.

    Behind such a row there is nothing to do either: eventless rows depend on what has changed, and were tried before.
    So its actions are the whole step.
    """
    others = {trigger for region, trigger in _ROWS if region != "run"}
    return {
        (source, trigger): rows[0]
        for (region, trigger), states in _ROWS.items()
        if region == "run" and trigger not in others
        for source, rows in states.items()
        if len(rows) == 1 and not rows[0].guard and rows[0].target is None and read_only.issuperset(rows[0].effects)
    }


READING_ROWS: Final = reading_rows(READ_ONLY)


class ChartError(Exception):
    """The rows do not say what happens: a defect of the chart, never of a client."""


class _Region:
    """The model object that `transitions` moves: nothing but the name of the state."""

    __slots__ = ("state",)

    def __init__(self, state: str) -> None:
        self.state = state


def _note(row: Transition, context: StepContext) -> None:
    context.taken.append(row)


def _event(region: Region, name: str) -> Event:
    """Return the rows of a trigger as a machine has them. Most processes never need most of them."""
    machine = Machine(
        model=None, states=_STATES[region], initial=INITIAL[region], auto_transitions=False, send_event=False
    )
    for rows in _ROWS[region, name].values():
        for row in rows:
            machine.add_transition(
                row.trigger,
                row.source,
                row.target,
                conditions=GUARDS[row.guard] if row.guard else None,
                after=partial(_note, row),
            )
    return machine.events[name]


_STATES: Final = {region: [State(name) for name in STATES[region]] for region in REGIONS}
# Whole ones alone, since several threads may have a statechart each.
_EVENTS: Final[dict[tuple[Region, str], Event]] = {}


class Chart:
    """The state of one agent process as its specification describes it.

    `step` is not re-entrant: what an effect causes is a further trigger of its own.
    """

    def __init__(
        self,
        state: ExtendedState | None = None,
        on_row: Callable[[Transition], None] | None = None,
        reading_rows: Mapping[tuple[str, str], Transition] = READING_ROWS,
    ) -> None:
        """Begin in the initial state.

        Args:
            state: Extended state to start with; a fresh one by default.
            on_row: Called with every row that is taken, for coverage.
            reading_rows: Those that are taken without the machines; none of them makes no difference but to time.
        """
        self._context = StepContext(dict(INITIAL), state or ExtendedState())
        self._on_row = on_row
        self._reading_rows = reading_rows
        self._is_stepping = False
        self._is_defective = False
        """A step has raised: what the state is now, no row describes."""
        self._is_settled = False
        """No eventless row can be taken, as after each step."""
        self._regions = {region: _Region(INITIAL[region]) for region in REGIONS}

    @property
    def state(self) -> ExtendedState:
        """The extended state; for reading only."""
        return self._context.state

    @property
    def configuration(self) -> dict[Region, str]:
        """The state of each region; a copy."""
        return dict(self._context.configuration)

    @property
    def run(self) -> str:
        """The state of region RUN."""
        return self._context.configuration["run"]

    @property
    def has_open_run(self) -> bool:
        """Whether RUN is between `agent_start` and `agent_end`."""
        return self._context.configuration["run"] in RUN_OPEN

    def restore(self, configuration: dict[Region, str], state: ExtendedState) -> None:
        """Put the chart into a configuration that it was in before: for searches, and for resuming from a record."""
        self._context.state = state
        self._context.configuration.update(configuration)
        for region, name in configuration.items():
            self._regions[region].state = name
        self._is_settled = False

    def step(self, trigger: Trigger) -> tuple[Effect, ...]:
        """Take one trigger with all that follows from it, and return what it asks for, in order.

        A job's trigger with the number of another job is dropped: the result is empty.

        Whatever it raises is a defect of the chart and ends its life: every later call raises `ChartError`.

        Raises:
            ChartError: No row fits, `step` was called from within a step, or an earlier step has raised.
        """
        if self._is_defective:
            raise ChartError("the statechart can't be used after a defect")
        try:
            return self._step(trigger)
        except Exception:
            self._is_defective = True
            raise

    def _step(self, trigger: Trigger) -> tuple[Effect, ...]:
        if self._is_stepping:
            raise ChartError("step is not re-entrant")
        if trigger.name in _JOB_TRIGGERS and self._is_stale(trigger):
            return ()
        context = self._context
        context.effects = []
        reading = self._reading_rows.get((context.configuration["run"], trigger.name))
        if reading is not None and self._is_settled:
            self._read(reading, trigger)
            return tuple(context.effects)
        self._is_stepping = True
        self._is_settled = False
        context.raised.append(trigger)
        for _ in range(MAX_CHAIN):
            if context.raised:
                self._dispatch(context.raised.pop(0))
            elif not self._eventless():
                break
        else:
            raise ChartError("eventless rows without end")
        self._is_stepping = False
        self._is_settled = True
        return tuple(context.effects)

    def _read(self, row: Transition, trigger: Trigger) -> None:
        """Take a row that changes nothing, without the machines: clients ask more often than they command."""
        context = self._context
        context.trigger = trigger
        if self._on_row is not None:
            self._on_row(row)
        for name in row.effects:
            ACTIONS[name](context)

    def _is_stale(self, trigger: Trigger) -> bool:
        job = trigger.job if isinstance(trigger, InternalEvent) else 0
        if trigger.name.startswith("ask_"):
            living = self.state.confirming_job
        elif trigger.name.startswith("save_"):
            living = self.state.saving_job
        else:
            living = self.state.reading_job if trigger.name.startswith("text_") else self.state.job
        return job == 0 or job != living

    def _dispatch(self, trigger: Trigger) -> None:
        taken = [self._fire(region, trigger) for region in REGIONS if self._knows(region, trigger.name)]
        if not any(taken):
            raise ChartError(f"no row for {trigger.name} in {self._context.configuration}")

    def _eventless(self) -> bool:
        """Take one eventless row, RUN before IO: the process leaves only when nothing else is to be done."""
        return any(self._fire(region, _ALWAYS) for region in reversed(REGIONS) if self._knows(region, ALWAYS))

    def _knows(self, region: Region, name: str) -> bool:
        return self._context.configuration[region] in _ROWS.get((region, name), ())

    def _fire(self, region: Region, trigger: Trigger) -> bool:
        context = self._context
        context.trigger = trigger
        context.taken.clear()
        model = self._regions[region]
        event = _EVENTS.get((region, trigger.name))
        if event is None:
            event = _EVENTS[region, trigger.name] = _event(region, trigger.name)
        if not event.trigger(model, context):
            return False
        row = context.taken.pop()
        if self._on_row is not None:
            self._on_row(row)
        for name in row.effects:
            ACTIONS[name](context)
        context.configuration[region] = model.state
        return True
