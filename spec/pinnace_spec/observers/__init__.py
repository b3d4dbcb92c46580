"""Observers: automata that judge recorded traces of any agent, one for each invariant.

Used for other agents, for pinnace in tests, and for logs. They see records only, and are independent of the statechart.
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
