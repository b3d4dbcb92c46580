"""Watches over runs that nobody watches: turns, cost and time, each as much as the user allows.

Decides when a limit is used up; what then happens is the chart's, for which it is an `abort` that nobody waits for.
Counts from the moment at which the agent becomes busy until it has settled. Turns and cost end a run where it would go
on, so that the calls of the last answer are carried out; time ends it at once. Must not know records or jobs' work.
Rules R-LIM-01, R-LIM-02.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from pinnace_agent.jobs import Jobs
from pinnace_agent.resources.settings import RunLimits
from pinnace_spec.limits import LimitName
from pinnace_spec.messages import Usage
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import NOBODY, Command, Happening, Trigger

# After these the run goes on in any case, or most likely: another request, or the same one once more.
_GOING_ON: Final = frozenset({"tools_done", "llm_length", "llm_transient", "llm_overflow"})
_ANSWERS: Final = frozenset({"llm_tool_calls", "llm_length", "llm_stop"})
# Where an abort would find nothing that it could end, or what it would end is ending.
_DEAF: Final = frozenset({"idle", "aborting", "switching"})


@dataclass(slots=True)
class _Period:
    """What was taken since the agent became busy."""

    number: int
    turns: int = 0
    cost: float = 0.0
    is_over_time: bool = False


class LimitWatch:
    """Submits an `abort` when a limit is used up."""

    def __init__(self, limits: RunLimits, chart: Chart, jobs: Jobs, submit: Callable[[Trigger], None]) -> None:
        """Watch nothing yet."""
        self._limits = limits
        self._chart = chart
        self._jobs = jobs
        self._submit = submit
        self._period: _Period | None = None
        self._last_number = 0

    def look(self) -> None:
        """Begin to count if the agent has become busy. To be called after every step."""
        if self._period is not None or not self._chart.state.period:
            return
        self._last_number += 1
        self._period = _Period(self._last_number)
        if self._limits.max_run_s is not None:
            self._jobs.start(_timer_name(self._last_number), self._keep_time, lambda _cancelled, _failure: None)

    def settled(self) -> None:
        """Stop counting."""
        if self._period is not None:
            self._jobs.cancel(_timer_name(self._period.number))
            self._period = None

    def run_begins(self) -> None:
        """End a run at its beginning if its time was over while nothing could be ended."""
        if self._period is not None and self._period.is_over_time:
            self._end("maxRunSeconds")

    def spend(self, usage: Usage) -> None:
        """Count what something has cost."""
        if self._period is not None:
            self._period.cost += usage["cost"]["total"]

    def before(self, happening: Happening) -> None:
        """Count what a run is about to report, and end the run if it must not go on after that."""
        period, state = self._period, self._chart.state
        if period is None or happening.job != state.job or self._chart.run not in {"llm", "tools"}:
            return
        period.turns += happening.name in _ANSWERS
        if happening.name in _GOING_ON or (state.owed and happening.name != "llm_tool_calls"):
            if self._is_used_up(period.turns, self._limits.max_turns):
                self._end("maxTurns")
            elif self._is_used_up(period.cost, self._limits.max_cost):
                self._end("maxCost")

    def _is_used_up(self, used: float, limit: float | None) -> bool:
        return limit is not None and used >= limit

    def _end(self, limit: LimitName) -> None:
        self._submit(Command("abort", NOBODY, limit=limit))

    async def _keep_time(self) -> None:
        assert self._limits.max_run_s is not None
        period = self._period
        await trio.sleep(self._limits.max_run_s)
        if period is not None and period is self._period:
            period.is_over_time = True
            if self._chart.run not in _DEAF:
                self._end("maxRunSeconds")


def _timer_name(number: int) -> str:
    return f"limit:{number}"
