"""What clients are shown of servers and of calls: ten changes a second of each at most, and the last one always."""

import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.mcp.ports import OnProgress
from pinnace_agent.mcp.server import Server

_EVERY_S: Final = 0.1
_MOST_ERROR_CHARS: Final = 4_000

State = Mapping[str, object]


def state_of(server: Server, tools: int) -> State:
    """Return the state of a server with so many tools that models may see, as in `mcp_status`."""
    entry = server.entry
    state: dict[str, object] = {
        "name": server.name,
        "state": server.state,
        "source": entry.scope,
        "transport": entry.transport,
        "tools": tools,
    }
    if server.error and server.state != "connected":
        state["error"] = server.error[:_MOST_ERROR_CHARS]
    return state


class StateReports:
    """Publishes the states of all servers."""

    def __init__(
        self,
        servers: Callable[[], Sequence[Server]],
        tools: Callable[[Server], int],
        publish: Callable[[Sequence[State]], None],
    ) -> None:
        """Publish nothing yet.

        Args:
            servers: Returns the servers.
            tools: Returns how many tools of one models may see.
            publish: Takes all states; must not wait.
        """
        self._servers = servers
        self._tools = tools
        self._publish = publish
        self._shown: dict[str, State] = {}
        self._due_s: dict[str, float] = {}
        """By name, when a server may be published again."""
        self._changed = trio.Event()

    def changed(self) -> None:
        """Have what differs published, now or soon."""
        self._changed.set()

    def publish(self) -> float | None:
        """Publish what may be published now. Returns when more may be; None: everything was."""
        now_s = trio.current_time()
        former, self._shown = self._shown, {}
        next_s: float | None = None
        for server in self._servers():
            state, shown = state_of(server, self._tools(server)), former.get(server.name)
            if state == shown:
                pass
            elif shown is not None and now_s < (due_s := self._due_s.get(server.name, now_s)):
                state, next_s = shown, due_s if next_s is None else min(due_s, next_s)
            else:
                self._due_s[server.name] = now_s + _EVERY_S
            self._shown[server.name] = state
        if self._shown != former:
            self._publish(tuple(self._shown.values()))
        return next_s

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            if (due_s := self.publish()) is not None:
                await trio.sleep_until(due_s)
                self._changed.set()


@asynccontextmanager
async def paced(show: Callable[[str], None]) -> AsyncGenerator[OnProgress, None]:
    """Yield what takes the progress of a call, and pass it on until the call has ended. Never holds the call up.

    Args:
        show: Takes a text that replaces the one before; must not wait.
    """
    waiting: str | None = None
    shown_s = -math.inf
    came = trio.Event()

    def flush() -> None:
        nonlocal waiting, shown_s
        if waiting is not None:
            show(waiting)
            waiting, shown_s = None, trio.current_time()

    def take(value: float, total: float | None, message: str | None) -> None:
        nonlocal waiting
        waiting = message or (f"Progress {value:g}" if total is None else f"Progress {value:g}/{total:g}")
        if trio.current_time() - shown_s >= _EVERY_S:
            flush()
        else:
            came.set()

    async def pass_on() -> None:
        nonlocal came
        while True:
            await came.wait()
            came = trio.Event()
            await trio.sleep_until(shown_s + _EVERY_S)
            flush()

    async with open_flat_nursery() as nursery:
        nursery.start_soon(pass_on)
        try:
            yield take
        finally:
            nursery.cancel_scope.cancel()
            flush()
