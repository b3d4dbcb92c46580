"""Whether the agent works, by its events and its state, and the line that shows it, or why it can't be seen."""

from collections.abc import Callable
from time import localtime, monotonic, strftime, time
from typing import Final

from textual.widgets import Static

from pinnace_tui.connection import Connection
from pinnace_tui.content.values import Record
from pinnace_tui.input.keys import Keys
from pinnace_tui.lines import show_drawn, show_plain
from pinnace_tui.working import DEFAULT_DISPLAY, WorkingDisplay

WORK: Final = frozenset("agent_start agent_settled compaction_start compaction_end agent_restarted".split())
"""Events by which it is known whether the agent works."""


class WorkLine:
    """The work of the agent."""

    def __init__(self, line: Static, connection: Connection, keys: Keys, regained: Callable[[], None]) -> None:
        """Begin without work.

        Args:
            line: Shows it.
            connection: To the agent; one that is lost is shown.
            keys: The one that aborts is shown.
            regained: Called when a connection that was lost is there again.
        """
        self._line = line
        self._connection = connection
        self._keys = keys
        self._regained = regained
        self._display = WorkingDisplay()
        """How extensions want work to be shown."""
        self._since: float | None = None
        self._is_compacting = False
        self._lost_at = 0.0
        """When the connection to an agent of the host was lost, in seconds since the epoch; 0: it is there."""
        self.changes = 0
        """How many events have changed it: a state that was asked for before the last one says nothing of it."""

    @property
    def is_running(self) -> bool:
        """Whether the agent does a run."""
        return self._since is not None

    @property
    def is_compacting(self) -> bool:
        """Whether the agent compacts the conversation."""
        return self._is_compacting

    def take(self, kind: str) -> None:
        """Take an event, one of `WORK`."""
        match kind:
            case "agent_start":
                self._since = self._since or monotonic()
            case "agent_settled" | "agent_restarted":
                self._since = None
            case _:
                self._is_compacting = kind == "compaction_start"
        self.changes += 1
        self.draw()

    def take_state(self, state: Record) -> None:
        """Take a state that no event has overtaken."""
        self._is_compacting = state.get("isCompacting") is True
        self._since = (self._since or monotonic()) if state.get("isStreaming") is True else None
        self.draw()

    def use(self, display: WorkingDisplay) -> None:
        """Show work as extensions want it."""
        self._display = display
        self.draw()

    def draw(self) -> None:
        """Show how long the agent has worked; called again and again."""
        since, line = self._since, self._line
        if not self._connection.is_ready.is_set():
            show_plain(line, ["… the agent is being started"])
            return
        if self._connection.is_lost:
            now = time()
            self._lost_at = self._lost_at or now
            when = f"{strftime('%H:%M:%S', localtime(self._lost_at))} ({now - self._lost_at:.0f} s)"
            show_plain(line, [f"✗ The connection to the agent is lost since {when}: attaching again"])
            return
        if self._lost_at:  # the host has ended what was drawn here
            self._lost_at = 0.0
            self._regained()
        display = DEFAULT_DISPLAY if self._is_compacting else self._display
        if (since is None and not self._is_compacting) or not display.is_visible:
            if line.display:
                show_plain(line, [])
            return
        spent = 0 if since is None else int(monotonic() - since)
        what = "Compacting" if self._is_compacting else display.message
        keys = dict(self._keys.rows()).get("app.interrupt", "")
        shown = f"{what} {spent} s · {keys}: abort"
        if sign := display.sign(monotonic()):
            shown = f"{sign} {shown}"
        show_drawn(line, [shown])
