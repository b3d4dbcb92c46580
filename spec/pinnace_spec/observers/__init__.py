"""Observers: automata that judge any recorded trace of records, one for each invariant.

A judge of other agents, of our own in tests, and of logs. They see records, never the agent, and do not know the chart.
"""

from pinnace_spec.observers.judge import INVARIANTS, Judge, armed_table, judge, never_armed, observers
from pinnace_spec.observers.verdicts import Checks, End, Observer, Report, Step, Verdict

__all__ = [
    "INVARIANTS",
    "Checks",
    "End",
    "Judge",
    "Observer",
    "Report",
    "Step",
    "Verdict",
    "armed_table",
    "judge",
    "never_armed",
    "observers",
]
