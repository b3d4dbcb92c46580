"""The chart at work: flat state machines built from the rows, behind one typed `step`.

Each region is a flat synchronous `transitions.Machine`. Its conditions are the guards, its only callback notes which
row was taken; the actions of the row run after the state has moved, so that an error in one cannot leave a half-taken
transition unseen: it leaves `step`. Pure: no clock, no trio, no input or output.

Must not know any state or trigger by name but `always` and the job triggers, whose numbers it checks.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

from transitions import EventData, Machine
from transitions.core import Transition

from pinnace_spec.chart import ALWAYS, CHART, INITIAL, JOB_TRIGGERS, REGIONS, STATES, Region, Row
from pinnace_statechart.actions import ACTIONS
from pinnace_statechart.context import StepContext
from pinnace_statechart.effects import Effect
from pinnace_statechart.guards import GUARDS
from pinnace_statechart.state import ExtendedState
from pinnace_statechart.triggers import Happening, Trigger

_JOB_TRIGGERS: Final = frozenset(JOB_TRIGGERS)
_KNOWN: Final = frozenset((row.region, row.source, row.trigger) for row in CHART)
_ALWAYS: Final = Happening(ALWAYS)
READ_ONLY: Final = frozenset({"answer"})
"""Actions that change neither the extended state nor the configuration."""
# More eventless rows in one step than this means that two of them undo each other. The longest real chain is the
# length of the line plus four.
MAX_CHAIN: Final = 100_000


def reading_rows(read_only: frozenset[str]) -> Mapping[tuple[str, str], Row]:
    """Return the rows that change nothing, by the state of RUN and the trigger: no guard, no target, read-only actions.

    Behind such a row there is nothing to do either: eventless rows depend on what has changed, and were tried before.
    So its actions are the whole step.
    """
    candidates: dict[tuple[Region, str, str], list[Row]] = {}
    regions: dict[str, set[Region]] = {}
    for row in CHART:
        candidates.setdefault((row.region, row.source, row.trigger), []).append(row)
        regions.setdefault(row.trigger, set()).add(row.region)
    return {
        (source, trigger): row
        for (region, source, trigger), (row, *others) in candidates.items()
        if region == "run" and len(regions[trigger]) == 1 and not others
        if not row.guard and row.target is None and read_only.issuperset(row.effects)
    }


READING_ROWS: Final = reading_rows(READ_ONLY)


class ChartError(Exception):
    """The rows do not say what happens: a defect of the chart, never of a client."""


class _RowTransition(Transition):
    """One guard, one callback, no hooks of others: several are tried for each command, so they have to be light."""

    def execute(self, event_data: EventData) -> bool:
        """Move if the guard allows it, and note the row."""
        if not all(cast("Callable[[], bool]", condition.func)() for condition in self.conditions):
            return False
        if self.dest is not None and self.dest != self.source:
            event_data.machine.set_state(self.dest, event_data.model)
        for note in self.after:
            cast("Callable[[], None]", note)()
        return True


class _Machine(Machine):
    """A machine of such transitions."""

    transition_cls = _RowTransition


class _Region:
    """The model object that `transitions` moves: nothing but the name of the state."""

    state: str


class Chart:
    """The state of one agent process as its specification describes it.

    `step` is not re-entrant: what an effect causes is a further trigger of its own.
    """

    def __init__(
        self,
        state: ExtendedState | None = None,
        on_row: Callable[[Row], None] | None = None,
        reading_rows: Mapping[tuple[str, str], Row] = READING_ROWS,
    ) -> None:
        """Build the machines from the rows.

        Args:
            state: Extended state to start with; a fresh one by default.
            on_row: Called with every row that is taken, for coverage.
            reading_rows: Those that are taken without the machines; none of them makes no difference but to time.
        """
        self._context = StepContext(dict(INITIAL), state or ExtendedState())
        self._on_row = on_row
        self._reading_rows = reading_rows
        self._taken: list[Row] = []
        self._stepping = False
        self._is_settled = False
        """No eventless row can be taken, as after each step."""
        self._regions: dict[Region, _Region] = {region: _Region() for region in REGIONS}
        self._machines = {region: self._build(region) for region in REGIONS}

    def _build(self, region: Region) -> Machine:
        machine = _Machine(
            model=self._regions[region],
            states=list(STATES[region]),
            initial=INITIAL[region],
            auto_transitions=False,
            send_event=False,
        )
        for row in CHART:
            if row.region == region:
                machine.add_transition(
                    row.trigger,
                    row.source,
                    row.target,
                    conditions=partial(GUARDS[row.guard], self._context) if row.guard else None,
                    after=partial(self._note, row),
                )
        return machine

    def _note(self, row: Row) -> None:
        self._taken.append(row)

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

        Raises:
            ChartError: No row fits, or `step` was called from an effect. The chart must not be used any more.
        """
        if self._stepping:
            raise ChartError("step is not re-entrant")
        if trigger.name in _JOB_TRIGGERS and self._is_stale(trigger):
            return ()
        context = self._context
        context.effects = []
        reading = self._reading_rows.get((context.configuration["run"], trigger.name))
        if reading is not None and self._is_settled:
            self._read(reading, trigger)
            return tuple(context.effects)
        self._stepping = True
        self._is_settled = False
        context.raised.append(trigger)
        for _ in range(MAX_CHAIN):
            if context.raised:
                self._dispatch(context.raised.pop(0))
            elif not self._eventless():
                break
        else:
            raise ChartError("eventless rows without end")
        self._stepping = False
        self._is_settled = True
        return tuple(context.effects)

    def _read(self, row: Row, trigger: Trigger) -> None:
        """Take a row that changes nothing, without the machines: clients ask more often than they command."""
        context = self._context
        context.trigger = trigger
        if self._on_row is not None:
            self._on_row(row)
        for name in row.effects:
            ACTIONS[name](context)

    def _is_stale(self, trigger: Trigger) -> bool:
        job = trigger.job if isinstance(trigger, Happening) else 0
        if trigger.name.startswith("ask_"):
            living = self.state.asking_job
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
        return (region, self._context.configuration[region], name) in _KNOWN

    def _fire(self, region: Region, trigger: Trigger) -> bool:
        context = self._context
        context.trigger = trigger
        self._taken.clear()
        model = self._regions[region]
        self._machines[region].events[trigger.name].trigger(model)
        if not self._taken:
            return False
        row = self._taken.pop()
        if self._on_row is not None:
            self._on_row(row)
        for name in row.effects:
            ACTIONS[name](context)
        context.configuration[region] = model.state
        return True
