"""Whether the agent is idle, and who waits for that.

Idle means that nothing runs and nothing will by itself: a retry that waits, commands in line, and what was asked for
while the agent settled are not idle. Must not know why anybody waits.
"""

from collections.abc import Callable

import trio

from pinnace_agent.jobs import Jobs
from pinnace_statechart.machine import Chart


class Idleness:
    """The idleness of one agent."""

    def __init__(self, chart: Chart, jobs: Jobs) -> None:
        """Watch a chart."""
        self.settling = 0
        """How many tasks still tell that it has settled: what is asked for there is yet to come."""
        self.on_idle: Callable[[], None] | None = None
        """Called whenever it is found idle."""
        self._chart = chart
        self._jobs = jobs
        self._waiters: list[trio.Event] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, and nothing will by itself."""
        return not (self.settling or self.is_at_work)

    @property
    def is_at_work(self) -> bool:
        """Whether something runs or waits; not, that handlers are still told that the agent has settled."""
        state = self._chart.state
        is_waiting = state.line or state.asking or state.approved or state.pending_compact or state.reading
        return bool(self._chart.run != "idle" or state.period or is_waiting)

    def look(self) -> None:
        """Let those go on who wait, if it is idle."""
        if not (self._waiters or self.on_idle) or not self.is_idle:
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()
        if self.on_idle is not None:
            self.on_idle()

    def look_later(self) -> None:
        """As `look`, once the calling task has come to a checkpoint."""
        name = "look"
        if self._jobs.scope(name) is None:
            self._jobs.start(name, trio.lowlevel.checkpoint, lambda _cancelled, _failure: self.look())

    async def wait(self, *, for_commands: bool = False) -> None:
        """Wait until it is idle, and with `for_commands` until no command of an extension runs either."""
        await trio.lowlevel.checkpoint()
        while not self.is_idle or (for_commands and self._chart.state.commands):
            waiter = trio.Event()
            self._waiters.append(waiter)
            await waiter.wait()
