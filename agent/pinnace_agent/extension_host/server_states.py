"""The MCP servers of a session, as clients see them: in `get_state`, and by a record at each change.

What `get_state` has of a server is what its last record had. Knows no server: the extension that connects them
publishes all of them, at each change and no more often than clients can use. Rule R-MCP-01.
"""

from collections.abc import Callable, Mapping, Sequence

State = Mapping[str, object]


class ServerStates:
    """The states of one process's servers: those of one session instance at a time."""

    def __init__(self, emit: Callable[[Mapping[str, object]], None] | None) -> None:
        """Have none.

        Args:
            emit: Takes the records; None: no client reads them.
        """
        self._emit = emit
        self._states: dict[object, State] = {}

    @property
    def all(self) -> Sequence[State]:
        """The states, in the order of the configuration."""
        return tuple(self._states.values())

    def publish(self, servers: Sequence[State]) -> None:
        """Take the states of all servers, and emit a record for each that differs from the one before."""
        former, self._states = self._states, {each["name"]: each for each in servers}
        for name, state in self._states.items():
            if state != former.get(name):
                self._record(state)
        for name in former.keys() - self._states.keys():
            gone = {key: value for key, value in former[name].items() if key != "error"}
            self._record({**gone, "state": "closed", "tools": 0})

    def clear(self) -> None:
        """Forget the servers of a session instance that has ended; the next one publishes its own."""
        self._states = {}

    def _record(self, state: State) -> None:
        if self._emit is not None:
            self._emit({"type": "mcp_status", **state})
