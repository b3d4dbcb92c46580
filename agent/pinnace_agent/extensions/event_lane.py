"""Events that happen where nobody may wait, kept in order until somebody can.

The agent performs what its chart decides without a checkpoint; handlers are awaited. So an event that happens in
between is put here, and the task to which it belongs drains the lane before its next step: handlers then have heard of
everything that happened before that step (R18). One lane for all runs of a session instance, so that what one run has
left is told before anything of the next. Must not know events. R14, R18, R38.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import trio

from pinnace_agent.extensions.chains import Chains
from pinnace_agent.extensions.events import Event
from pinnace_agent.flat_nursery import open_flat_nursery


class Growing(Protocol):
    """Something that still changes until somebody begins to hear of it."""

    def take(self) -> Sequence[Event]:
        """Return the events that it has become. Once; it is not in the lane any more."""
        ...


class EventLane:
    """The events that nobody has heard of yet, oldest first."""

    def __init__(self, chains: Chains) -> None:
        """Tell by `chains`."""
        self._chains = chains
        self._queue: deque[Event | Growing] = deque()
        self._lock = trio.Lock()
        self._taken = 0
        self._filled = trio.Event()

    def __len__(self) -> int:
        """Count the events that no handler has begun to hear of."""
        return len(self._queue)

    @property
    def mark(self) -> int:
        """The place behind the newest event, for `drain`."""
        return self._taken + len(self._queue)

    @property
    def newest(self) -> Event | Growing | None:
        """The newest event, while no handler has begun to hear of it."""
        return self._queue[-1] if self._queue else None

    def put(self, event: str, make: Callable[[], Event]) -> None:
        """Keep an event as it is now; made only if somebody handles it. Never waits."""
        if self._chains.has_handlers(event):
            self._append(make())

    def put_growing(self, event: Growing) -> None:
        """Keep an event as it will be when it is told. Whether somebody handles it was asked before."""
        self._append(event)

    def _append(self, event: Event | Growing) -> None:
        self._queue.append(event)
        self._filled.set()

    async def drain(self, until: int | None = None) -> None:
        """Wait until handlers have heard of everything that was put before, and of what is put meanwhile.

        Several tasks may drain: the order stays. Without events it is no checkpoint. Cancelled, the event that was
        being told is over, and the rest is there for the next who drains. Must not be called from a handler.

        Args:
            until: A `mark`: what was put after it is left to somebody else.
        """
        if not self._queue and not self._lock.locked():
            return
        async with self._lock:
            while self._queue and (until is None or self._taken < until):
                event = self._queue.popleft()
                self._taken += 1
                if isinstance(event, Event):
                    await self._chains.notify(event.type, partial(_itself, event))
                else:
                    events = event.take()
                    self._queue.extendleft(reversed(events))
                    self._taken -= len(events)  # so that marks stay where they are

    @asynccontextmanager
    async def telling(self) -> AsyncGenerator[None, None]:
        """Tell events as they come while something else is done. On leaving, all are told."""
        is_over = False

        async def tell() -> None:
            while not is_over or self._queue:
                await self._filled.wait()
                self._filled = trio.Event()
                await self.drain()

        async with open_flat_nursery() as nursery:
            nursery.start_soon(tell, name="extensions: events of calls")
            yield
            is_over = True
            self._filled.set()


def _itself(event: Event) -> Event:
    return event
