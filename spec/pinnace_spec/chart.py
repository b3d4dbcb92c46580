"""The statechart as rows: what may happen in which state, and what then happens. Names only, no behaviour.

Five orthogonal regions, each a flat machine, and one extended state behind them (queues, line, flags):

- **run**: the conversation. idle, preflight, llm and tools (a run is open), retrying (the delay), compacting.manual,
  compacting.threshold, compacting.overflow, aborting (a cancelled job unwinds), switching (a session is replaced).
- **session**: quiet or asking, while a session command is validated and extensions are asked. RUN goes on meanwhile.
- **shell**: quiet or running, the `bash` commands of the client. They never block RUN.
- **ui**: quiet; answers to dialogs.
- **io**: open, draining or closing (stdin ended or a signal came), closed.

A row is taken when its region is in `source`, its `trigger` happens and its `guard` (a name, empty: always) holds; the
rows of a state are tried in order. `target` None means that the state stays. `effects` are names of actions, in the
order of what they write. Trigger `always` is tried after every other trigger until nothing applies (SCXML: eventless).

The table is total: for each command and each state of the region that answers it there is a row, and the last one has
no guard; refusals are rows too. WARNING: guards and actions are bound by name in the statechart package, and a test
compares both sets; a new name here needs a body there.

This module must not know what a guard computes, what an effect writes, or that there is a clock.
"""

from typing import Final

from pinnace_spec.chart_names import (
    ALWAYS,
    COMMANDS,
    HAPPENINGS,
    INITIAL,
    JOB_TRIGGERS,
    REGIONS,
    STATES,
    Region,
    Row,
)
from pinnace_spec.chart_regions import REGION_ROWS
from pinnace_spec.chart_run import RUN_ROWS

__all__ = [
    "ALWAYS",
    "CHART",
    "COMMANDS",
    "HAPPENINGS",
    "INITIAL",
    "JOB_TRIGGERS",
    "REGIONS",
    "STATES",
    "Region",
    "Row",
]

CHART: Final[tuple[Row, ...]] = (*RUN_ROWS, *REGION_ROWS)
