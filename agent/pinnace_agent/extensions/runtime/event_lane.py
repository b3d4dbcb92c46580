"""A queue of events that happen where no task can await handlers.

The agent performs the effects of the statechart without a checkpoint, but handlers are awaited. Events that happen in
between are put here, and the task that they belong to drains the lane before its next step, so that handlers have run
for everything that happened before that step. All runs of a session instance share one lane, so that events of
one run are delivered before those of the next.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import trio

from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.extensions.events.events import Event
from pinnace_agent.extensions.handlers.chains import Chains


class GrowingEvent(Protocol):
    """An event that grows until it is delivered."""

    def take(self) -> Sequence[Event]:
        """Return the final events. Called once, after it was taken out of the lane."""
        ...


class EventLane:
    """The events that were not delivered yet, oldest first."""

    def __init__(self, chains: Chains) -> None:
        """Deliver events with `chains`."""
        self._chains = chains
        self._queue: deque[Event | GrowingEvent] = deque()
        self._lock = trio.Lock()
        self._taken = 0
        self._filled = trio.Event()

    def __len__(self) -> int:
        """Return the number of events whose delivery has not started."""
        return len(self._queue)

    @property
    def mark(self) -> int:
        """The position behind the newest event, for `drain`."""
        return self._taken + len(self._queue)

    @property
    def newest(self) -> Event | GrowingEvent | None:
        """The newest event whose delivery has not started."""
        return self._queue[-1] if self._queue else None

    def put(self, event: str, make: Callable[[], Event]) -> None:
        """Queue an event, created only if it has a handler. Never waits."""
        if self._chains.has_handlers(event):
            self._append(make())

    def put_growing(self, event: GrowingEvent) -> None:
        """Queue an event that grows until its delivery. The caller has checked that it has a handler."""
        self._append(event)

    def _append(self, event: Event | GrowingEvent) -> None:
        self._queue.append(event)
        self._filled.set()

    async def drain(self, until: int | None = None) -> None:
        """Deliver all queued events, including those queued meanwhile, and wait for their handlers.

        Several tasks may drain; the order stays. Not a checkpoint without events. Cancelling drops the event whose
        delivery has started; the rest stays queued. Must not be called from a handler.

        Args:
            until: A `mark`: events queued after it are left in the lane.
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
                    self._taken -= len(events)  # so that marks stay valid

    @asynccontextmanager
    async def delivering(self) -> AsyncGenerator[None, None]:
        """Deliver events as they come during the block. On leaving, all were delivered."""
        is_over = False

        async def deliver() -> None:
            while not is_over or self._queue:
                await self._filled.wait()
                self._filled = trio.Event()
                await self.drain()

        async with open_flat_nursery() as nursery:
            nursery.start_soon(deliver, name="extensions: events of calls")
            yield
            is_over = True
            self._filled.set()


def _itself(event: Event) -> Event:
    return event
