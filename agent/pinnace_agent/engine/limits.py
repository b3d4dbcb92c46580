"""Limits of unattended runs: turns, cost and time, each as much as the user allows.

Decides when a limit is reached; to the statechart that is an `abort` without a reply. Counts from the moment at which
the agent becomes busy until it has settled. Turns and cost end a run where it would continue, so that the calls of the
last answer are executed; time ends it at once. Rules R-LIM-01, R-LIM-02.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from pinnace_agent.config.settings import RunLimits
from pinnace_agent.core.jobs import Jobs
from pinnace_spec.records.messages import Usage
from pinnace_spec.rules.limits import LimitName
from pinnace_spec.statechart.names import STOPPING
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import NO_REPLY, Command, InternalEvent, Trigger

# After these the run continues, certainly or most likely: by another request, or the same one again.
_CONTINUING: Final = frozenset({"tools_done", "llm_length", "llm_transient", "llm_overflow"})
_ANSWERS: Final = frozenset({"llm_tool_calls", "llm_length", "llm_stop"})
# States in which an abort has nothing to end, or in which the work is ending already.
NOT_ABORTABLE: Final = frozenset({"idle", *STOPPING, "switching"})


@dataclass(slots=True)
class _Interval:
    """What was used since the agent became busy."""

    number: int
    turns: int = 0
    cost: float = 0.0
    is_over_time: bool = False


class LimitWatch:
    """Submits an `abort` when a limit is reached."""

    def __init__(
        self, limits: Callable[[], RunLimits], chart: Chart, jobs: Jobs, submit: Callable[[Trigger], None]
    ) -> None:
        """Watch nothing yet; `limits` returns the current ones, which change only between runs."""
        self._read_limits = limits
        self._chart = chart
        self._jobs = jobs
        self._submit = submit
        self._interval: _Interval | None = None
        self._last_number = 0

    @property
    def _limits(self) -> RunLimits:
        return self._read_limits()

    def check(self) -> None:
        """Begin to count if the agent has become busy. Called after every step."""
        if self._interval is not None or not self._chart.state.streaming:
            return
        self._last_number += 1
        self._interval = _Interval(self._last_number)
        if self._limits.max_run_s is not None:
            keep_time = partial(self._keep_time, self._limits.max_run_s)
            self._jobs.start(_timer_name(self._last_number), keep_time, lambda _cancelled, _failure: None)

    def settled(self) -> None:
        """Stop counting."""
        if self._interval is not None:
            self._jobs.cancel(_timer_name(self._interval.number))
            self._interval = None

    def run_begins(self) -> None:
        """End a run at its beginning if its time ended while nothing could be aborted."""
        if self._interval is not None and self._interval.is_over_time:
            self._end("maxRunSeconds")

    def spend(self, usage: Usage) -> None:
        """Count the cost of a request."""
        if self._interval is not None:
            self._interval.cost += usage["cost"]["total"]

    @property
    def cost_left(self) -> float | None:
        """What may be spent yet; None: as much as it takes."""
        limit = self._limits.max_cost
        return None if limit is None else limit - (0 if self._interval is None else self._interval.cost)

    def before(self, event: InternalEvent) -> None:
        """Count what a run is about to report, and end the run if it must not continue."""
        interval, state = self._interval, self._chart.state
        if interval is None or event.job != state.job or self._chart.run not in {"llm", "tools"}:
            return
        interval.turns += event.name in _ANSWERS
        if event.name in _CONTINUING or (state.has_deliverable and event.name != "llm_tool_calls"):
            if self._is_used_up(interval.turns, self._limits.max_turns):
                self._end("maxTurns")
            elif self._is_used_up(interval.cost, self._limits.max_cost):
                self._end("maxCost")

    def _is_used_up(self, used: float, limit: float | None) -> bool:
        return limit is not None and used >= limit

    def _end(self, limit: LimitName) -> None:
        self._submit(Command("abort", NO_REPLY, limit=limit))

    async def _keep_time(self, max_run_s: float) -> None:
        interval = self._interval
        await trio.sleep(max_run_s)
        if interval is not None and interval is self._interval:
            interval.is_over_time = True
            if self._chart.run not in NOT_ABORTABLE:
                self._end("maxRunSeconds")


def _timer_name(number: int) -> str:
    return f"limit:{number}"
