"""Whether the agent is idle, and the tasks that wait for that.

Idle means that nothing runs and nothing will by itself: a retry that waits, deferred commands, and requests that
handlers of `agent_settled` have yet to make are not idle.
"""

import trio

from pinnace_statechart.machine import Chart


class IdleTracker:
    """Whether one agent is idle."""

    def __init__(self, chart: Chart) -> None:
        """Watch a statechart."""
        self.settling = 0
        """How many tasks still deliver `agent_settled`: requests of its handlers are yet to come."""
        self._chart = chart
        self._waiters: list[trio.Event] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, and nothing will by itself."""
        return not (self.settling or self.is_at_work)

    @property
    def is_at_work(self) -> bool:
        """Whether something runs or waits; handlers of `agent_settled` do not count."""
        state = self._chart.state
        is_switching = state.confirming or state.confirmed_switch
        is_waiting = state.deferred_commands or is_switching or state.pending_compact or state.reading or state.saving
        return bool(self._chart.run != "idle" or state.streaming or is_waiting)

    @property
    def is_switching(self) -> bool:
        """Whether a session begins or is replaced: its first or its last handlers may run."""
        return self._chart.run == "switching"

    def check(self) -> None:
        """Wake the tasks that wait, if the agent is idle."""
        if not self._waiters or not self.is_idle:
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()

    async def wait(self, *, for_commands: bool = False) -> None:
        """Wait until the agent is idle, and with `for_commands` until no command of an extension runs either."""
        await trio.lowlevel.checkpoint()
        while not self.is_idle or (for_commands and self._chart.state.running_extension_commands):
            waiter = trio.Event()
            self._waiters.append(waiter)
            await waiter.wait()
