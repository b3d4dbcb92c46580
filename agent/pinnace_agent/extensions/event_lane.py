"""Events that happen where nobody may wait, kept in order until somebody can.

The agent performs what its chart decides without a checkpoint; handlers are awaited. So an event that happens in
between is put here, and the task to which it belongs drains the lane before its next step: handlers then have heard of
everything that happened before that step (R18). Must not know events. R14, R18, R38.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from pinnace_agent.extensions.chains import Chains
from pinnace_agent.extensions.events import Event


class EventLane:
    """The events of one run, oldest first."""

    def __init__(self, chains: Chains) -> None:
        """Tell by `chains`."""
        self._chains = chains
        self._queue: deque[Event] = deque()
        self._lock = trio.Lock()

    def __len__(self) -> int:
        """Count the events that no handler has begun to hear of."""
        return len(self._queue)

    def put(self, event: str, make: Callable[[], Event]) -> None:
        """Keep an event as it is now; made only if somebody handles it. Never waits."""
        if self._chains.has_handlers(event):
            self._queue.append(make())

    async def drain(self) -> None:
        """Wait until handlers have heard of everything that was put before, and of what is put meanwhile.

        Several tasks may drain: the order stays. Without events it is no checkpoint. Cancelled, the event that was
        being told is over, and the rest is there for the next who drains. Must not be called from a handler.
        """
        if not self._queue and not self._lock.locked():
            return
        async with self._lock:
            while self._queue:
                event = self._queue.popleft()
                await self._chains.notify(event.type, partial(_itself, event))


def _itself(event: Event) -> Event:
    return event
