"""Reads skip the state machines: what they answer, and what follows, is what the machines would have made of it."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from pinnace_spec.records.command_table import COMMAND_TABLE
from pinnace_spec.statechart.transitions import CHART, COMMANDS, JOB_TRIGGERS, STATES, Transition
from pinnace_statechart.effects import Effect
from pinnace_statechart.machine import READING_ROWS, Chart
from pinnace_statechart.triggers import Behavior, Command, InternalEvent, Trigger

TRIGGERS: Final = sorted({row.trigger for row in CHART} - {"always"})
ALL_COMMANDS: Final = {name for names in COMMANDS.values() for name in names}
READS: Final = sorted({trigger for _, trigger in READING_ROWS})


@st.composite
def triggers(draw: st.DrawFn) -> tuple[str, str, bool]:
    name = draw(st.sampled_from([*TRIGGERS, *READS, *READS, "prompt", "prompt", "prompt", "steer"]))
    return name, draw(st.sampled_from(["", "text"])), draw(st.booleans())


def trigger(chart: Chart, drawn: tuple[str, str, bool], ref: int) -> Trigger:
    name, text, flag = drawn
    if name in ALL_COMMANDS:
        behavior: Behavior | None = "steer" if name == "prompt" and flag else None
        return Command(name, ref, text or "text", behavior=behavior, mode="all", enabled=flag, unread=flag)
    return InternalEvent(name, chart.state.job if name in JOB_TRIGGERS else 0)


def step(chart: Chart, taken: Trigger) -> tuple[Effect, ...] | None:
    try:
        return chart.step(taken)
    except Exception:  # a happening that can not be: a defect, and the end of the chart
        return None


@given(st.lists(triggers(), max_size=12))
def test_a_read_without_the_machines_is_a_read_with_them(drawn: list[tuple[str, str, bool]]) -> None:
    rows: list[Transition] = []
    other_rows: list[Transition] = []
    short, whole = Chart(on_row=rows.append), Chart(on_row=other_rows.append, reading_rows={})
    for ref, each in enumerate(drawn, 1):
        taken = trigger(whole, each, ref)
        effects = step(whole, taken)

        assert step(short, taken) == effects
        assert (short.configuration, repr_of(short)) == (whole.configuration, repr_of(whole))
        assert rows == other_rows
        if effects is None:
            return


def repr_of(chart: Chart) -> dict[str, object]:
    """Everything that the extended state holds, to compare."""
    state = chart.state
    return {name: list(value) if hasattr(value := getattr(state, name), "texts") else value for name in state.__slots__}


def test_every_read_is_answered_without_the_machines_but_while_the_session_is_replaced() -> None:
    states = [state for state in STATES["run"] if state != "switching"]
    reads = [
        name
        for name, fields in COMMAND_TABLE.items()
        if not fields and any(row.trigger == name and row.effects == ("answer",) for row in CHART)
    ]

    assert reads
    assert all((state, name) in READING_ROWS for state in states for name in reads)
    assert not any(("switching", name) in READING_ROWS for name in reads)
