"""Counts what a run has reached: cells of the table state x command, types of records, invariants that were armed.

An invariant that was never armed proves nothing, and neither does a cell that no scenario reaches. Knows the table's
size from the chart; whether a cell was reached is what scenarios say and campaigns infer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pinnace_fuzz.judge.results import CaseResult
from pinnace_fuzz.judge.scenarios.scenario import Cell
from pinnace_spec.observers import INVARIANTS
from pinnace_spec.profiles.generations import Generation
from pinnace_spec.statechart.names import COMMANDS, RUN_STATES, STATES, STOPPING, Region

# As scenarios name them: what streams is one state with two parts, and states that no client can distinguish are one.
_NAMES: Mapping[str, str] = {
    "llm": "streaming.llm",
    "tools": "streaming.tools",
    "persisting": "preflight",
    "compacting.prompt": "compacting.threshold",
    **dict.fromkeys(STOPPING, "aborting"),
}


def state_names() -> tuple[str, ...]:
    """Return the states of the region RUN as scenarios name them."""
    return tuple(dict.fromkeys(_NAMES.get(state, state) for state in RUN_STATES))


def other_state_names() -> tuple[str, ...]:
    """Return the states of the other regions, with their region."""
    return tuple(f"{region}.{state}" for region, states in STATES.items() if region != "run" for state in states)


def command_names() -> tuple[str, ...]:
    """Return every command of every region."""
    regions: tuple[Region, ...] = tuple(COMMANDS)
    return tuple(dict.fromkeys(command for region in regions for command in COMMANDS[region]))


def all_cells() -> list[Cell]:
    """Return the whole table."""
    return [Cell(state, command) for state in state_names() for command in command_names()]


class Coverage:
    """Adds up over cases."""

    def __init__(self) -> None:
        self.cells: Counter[Cell] = Counter()
        self.records: Counter[str] = Counter()
        self.armed: Counter[str] = Counter()

    def take(self, result: CaseResult) -> None:
        """Add a case."""
        self.cells.update(result.cells)
        self.armed.update(result.armed)
        for log in result.logs:
            self.records.update(_types(step.record for step in log.steps if step.direction == "out"))

    def report(self, generation: Generation) -> dict[str, Any]:
        """Write what was reached, and what never."""
        table = all_cells()
        return {
            "states": list(state_names()),
            "commands": list(command_names()),
            "cells": [
                {"state": cell.state, "command": cell.command, "cases": n} for cell, n in sorted(self.cells.items())
            ],
            "cells_reached": len(set(table) & self.cells.keys()),
            "cells_all": len(table),
            "records": dict(sorted(self.records.items())),
            "records_never": sorted(generation.records - self.records.keys()),
            "armed": {name: self.armed.get(name, 0) for name in sorted({*INVARIANTS, *self.armed})},
        }


def _types(records: Iterable[Mapping[str, Any] | None]) -> Iterable[str]:
    return (str(record.get("type")) for record in records if record is not None)
