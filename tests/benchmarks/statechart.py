"""What the library `transitions` costs the steps of a prompt, as documented and without the hooks that no row uses.

    .venv/bin/python tests/benchmarks/statechart.py

Each figure is the shortest of many series, in us of processor time; the variants take turns. `read` is one `get_state`,
`read in a machine` the same without the way past the machines for rows that change nothing.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from transitions import EventData, Machine
from transitions.core import Transition

from pinnace_statechart.machine import READING_ROWS, Chart
from pinnace_statechart.triggers import Command, InternalEvent

SERIES: Final = 60
PROMPTS: Final = 60
READS: Final = 400


class Stripped(Transition):
    """One guard, one callback, no hooks."""

    def execute(self, event_data: EventData) -> bool:
        """Move if the guard allows it."""
        if not all(cast("Callable[[], bool]", each.func)() for each in self.conditions):
            return False
        if self.dest is not None and self.dest != self.source:
            event_data.machine.set_state(self.dest, event_data.model)
        for note in self.after:
            cast("Callable[[], None]", note)()
        return True


def prompt(chart: Chart) -> None:
    """Take a prompt from its command to the end of its run."""
    chart.step(Command("prompt", 1, "hi"))
    for name in ("preflight_ok", "synced", "llm_stop"):
        chart.step(InternalEvent(name, chart.state.job))
    assert chart.run == "idle"


def read(chart: Chart) -> None:
    """Take a read."""
    chart.step(Command("get_state", 1))


def cost(operation: Callable[[], object], count: int) -> float:
    """Return the processor time of one operation, in us."""
    begun = time.process_time()
    for _ in range(count):
        operation()
    return (time.process_time() - begun) / count * 1e6


def chart(transition: type[Transition], reading_rows: Any) -> Chart:
    """Return a chart whose machines know all triggers that are measured; they are added when they first come."""
    Machine.transition_cls = transition
    made = Chart(reading_rows=reading_rows)
    for operation in (prompt, read, prompt, read):
        operation(made)
    return made


def main() -> None:
    """Print the figures."""
    measured: dict[str, tuple[Callable[[], object], int]] = {}
    for name, transition in (("documented", Transition), ("stripped", Stripped)):
        measured[f"{name}: prompt"] = partial(prompt, chart(transition, READING_ROWS)), PROMPTS
        measured[f"{name}: read"] = partial(read, chart(transition, READING_ROWS)), READS
        measured[f"{name}: read in a machine"] = partial(read, chart(transition, {})), READS
    shortest = dict.fromkeys(measured, float("inf"))
    for _ in range(SERIES):
        for name, (operation, count) in measured.items():
            shortest[name] = min(shortest[name], cost(operation, count))
    for name, value in shortest.items():
        print(f"{name:32} {value:8.2f}")


if __name__ == "__main__":
    main()
