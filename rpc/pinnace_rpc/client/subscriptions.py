"""Events for many readers: each gets all of them, in order, from its subscription on.

Decides how slow readers are treated. While no call waits for the agent, reading pauses as soon as one of them is a
mebibyte behind: the agent waits (back-pressure). While a call waits, for a response, a run or the next event, reading
continues, since a pause could be a deadlock; then a slow reader gets the events that were kept, and after them
`FellBehind`. So memory is bounded, every loss is reported, and a reader may send commands. Has no access to processes.
"""

import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self, cast

from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from pinnace_rpc.client.connection.tasks import Bell
from pinnace_rpc.client.failures import ClientFailure, FellBehind
from pinnace_rpc.client.records.events import Event, Record

# Some hundred events: enough that a reader and the agent seldom wait for each other.
PAUSE_BYTES: Final = 1024 * 1024
# The longest single record; one of that size must not make a reader fall behind.
KEPT_BYTES: Final = 64 * 1024 * 1024
# A turn of the loop for each event would take asyncio longer than to read it.
_EVENTS_A_TURN: Final = 16

Loss = Callable[[], ClientFailure]
"""Creates the exception that ends the events; a new one for each reader."""


class Mailbox:
    """The events that one reader has not taken yet."""

    def __init__(self, *, has_answers: bool) -> None:
        """Begin empty; `has_answers`: it also gets the responses of pending calls."""
        self.has_answers = has_answers
        self.kept: deque[tuple[Record, int]] = deque()
        self.kept_bytes = 0
        self.loss: Loss | None = None
        self.is_over = False
        self.arrivals = Bell()

    def put(self, record: Record, size_bytes: int) -> None:
        """Keep a record, unless too much is kept: that is the end of this mailbox."""
        if self.kept and self.kept_bytes + size_bytes > KEPT_BYTES:
            kept_bytes = self.kept_bytes
            self.end(lambda: FellBehind(kept_bytes))
        elif not self.is_over:
            self.kept.append((record, size_bytes))
            self.kept_bytes += size_bytes
            self.arrivals.ring()

    def pop(self) -> Record:
        """Take the oldest record."""
        record, size_bytes = self.kept.popleft()
        self.kept_bytes -= size_bytes
        return record

    def end(self, loss: Loss | None) -> None:
        """Accept no more events; those that are kept can still be taken."""
        if not self.is_over:
            self.is_over, self.loss = True, loss
            self.arrivals.ring()


class Events:
    """The events from now on, as an async iterator. Drop it, or leave its `with`, when no more are wanted.

    Ends when the client is left; if the agent exits before, the iterator ends with `AgentExited`. Cancelling loses
    nothing.
    """

    def __init__(self, hub: "Hub", mailbox: Mailbox) -> None:
        """Read from a mailbox; `Hub.subscribe` makes both."""
        self._hub = hub
        self._mailbox = mailbox
        self._waits = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event.

        Raises:
            AgentExited, ProtocolError: There will be no more events, and the client was not closed.
            FellBehind: This reader has missed some.
        """
        if not await self._has_arrived():
            raise StopAsyncIteration
        return self._pop()

    async def take(self) -> list[Event]:
        """Wait until there are events, and take all of them; none if there will be no more. Raises as above."""
        await self._has_arrived()
        return [self._pop() for _ in range(len(self._mailbox.kept))]

    def rest(self) -> list[Event]:
        """After the client was left, in any thread: take the remaining events, or none. Raises as above."""
        if not self._mailbox.kept and self._mailbox.loss is not None:
            raise self._mailbox.loss()
        return [cast("Event", self._mailbox.pop()) for _ in range(len(self._mailbox.kept))]

    def close(self) -> None:
        """Stop; events that are not taken yet are dropped."""
        self._mailbox.end(None)
        self._mailbox.kept.clear()
        self._mailbox.kept_bytes = 0
        self._hub.forget(self._mailbox)

    async def _has_arrived(self) -> bool:
        self._waits += 1
        await (checkpoint_if_cancelled if self._waits % _EVENTS_A_TURN else checkpoint)()
        mailbox = self._mailbox
        while not mailbox.kept:
            if mailbox.is_over:
                if mailbox.loss is not None:
                    raise mailbox.loss()
                return False
            with self._hub.waiting():
                await mailbox.arrivals.wait()
        return True

    def _pop(self) -> Event:
        record = self._mailbox.pop()
        self._hub.has_moved()
        return cast("Event", record)  # as the protocol guarantees


class Hub:
    """Gives every record to every reader, and pauses the reader of stdout."""

    def __init__(self) -> None:
        # Weak: breaking out of a loop over events unsubscribes.
        self._mailboxes: weakref.WeakSet[Mailbox] = weakref.WeakSet()
        self._held: Mailbox | None = None
        self._waiting = 0
        self._moves = Bell()
        self._loss: Loss | None = None
        self._is_over = False
        self._may_pause = True
        self.writes_settled = False
        """The agent has written an `agent_settled`, so it always will."""

    def hold(self) -> None:
        """Collect events for the first reader, which subscribes later."""
        self._held = Mailbox(has_answers=False)
        self._mailboxes.add(self._held)

    def subscribe(self, *, has_answers: bool = False) -> Events:
        """Collect events from now on; with `has_answers`, also the responses of pending calls.

        The first reader that wants no answers gets what is held.
        """
        if self._held is not None and not has_answers:
            mailbox, self._held = self._held, None
            return Events(self, mailbox)
        mailbox = Mailbox(has_answers=has_answers)
        if self._is_over:
            mailbox.end(self._loss)
        else:
            self._mailboxes.add(mailbox)
        return Events(self, mailbox)

    def publish(self, record: Record, size_bytes: int, *, is_answer: bool = False) -> None:
        """Deliver a record to all readers, or a response to the readers with `has_answers`."""
        self.writes_settled = self.writes_settled or record["type"] == "agent_settled"
        for mailbox in list(self._mailboxes):
            if mailbox.has_answers or not is_answer:
                mailbox.put(record, size_bytes)

    async def room(self) -> None:
        """Wait while a reader is behind and no call waits for the agent."""
        while self._may_pause and self._waiting == 0 and any(map(_is_behind, self._mailboxes)):
            await self._moves.wait()

    def stop_pausing(self) -> None:
        """Never pause again: the agent has ended or is being ended, and its pipe holds little."""
        self._may_pause = False
        self.has_moved()

    @contextmanager
    def waiting(self) -> Generator[None]:
        """A context in which a call waits for the agent: reading does not pause."""
        self._waiting += 1
        self.has_moved()
        try:
            yield
        finally:
            self._waiting -= 1

    def has_moved(self) -> None:
        """Check whether reading may continue."""
        self._moves.ring()

    def forget(self, mailbox: Mailbox) -> None:
        """Stop delivering to a reader."""
        self._mailboxes.discard(mailbox)
        self.has_moved()

    def end(self, loss: Loss | None) -> None:
        """End all readers, now and later: by an exception, or quietly (None)."""
        if not self._is_over:
            self._is_over, self._loss = True, loss
            for mailbox in list(self._mailboxes):
                mailbox.end(loss)
            self.stop_pausing()


def _is_behind(mailbox: Mailbox) -> bool:
    return mailbox.kept_bytes > PAUSE_BYTES and not mailbox.is_over
