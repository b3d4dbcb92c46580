"""Events for many readers: each gets all of them, in order, from when it subscribed.

Decides what happens to readers that are slow. While nobody waits for the agent, reading pauses as soon as one of them
is a mebibyte behind: the agent notices, and waits (back-pressure). While somebody waits, for an answer, a run or the
next event, reading goes on, since pausing could mean for ever; then a slow reader gets what was kept, and after that
`FellBehind`. So memory is bounded, nothing is lost in silence, and a reader may send commands. Must not know processes.
"""

import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self, cast

import trio

from pinnace_rpc.client.events import Event
from pinnace_rpc.client.failures import ClientFailure, FellBehind
from pinnace_rpc.client.reading import Record

# Some hundred events: enough that a reader and the agent seldom wait for each other.
PAUSE_BYTES: Final = 1024 * 1024
# The longest single record; one of that size must not make a reader fall behind.
KEPT_BYTES: Final = 64 * 1024 * 1024

Loss = Callable[[], ClientFailure]
"""Makes the exception that tells why there is nothing more; a new one for each who is told."""


class Mailbox:
    """What one reader has not taken yet."""

    def __init__(self, *, has_answers: bool) -> None:
        """Begin empty; `has_answers`: it also gets the answers that somebody waits for."""
        self.has_answers = has_answers
        self.kept: deque[tuple[Record, int]] = deque()
        self.kept_bytes = 0
        self.loss: Loss | None = None
        self.is_over = False
        self.arrivals = trio.lowlevel.ParkingLot()

    def put(self, record: Record, size_bytes: int) -> None:
        """Keep a record, unless too much is kept: that is the end of this mailbox."""
        if self.kept and self.kept_bytes + size_bytes > KEPT_BYTES:
            kept_bytes = self.kept_bytes
            self.end(lambda: FellBehind(kept_bytes))
        elif not self.is_over:
            self.kept.append((record, size_bytes))
            self.kept_bytes += size_bytes
            self.arrivals.unpark_all()

    def pop(self) -> Record:
        """Take the oldest record."""
        record, size_bytes = self.kept.popleft()
        self.kept_bytes -= size_bytes
        return record

    def end(self, loss: Loss | None) -> None:
        """Let nothing more in; what is kept can still be taken."""
        if not self.is_over:
            self.is_over, self.loss = True, loss
            self.arrivals.unpark_all()


class Events:
    """The events from now on, as an async iterator. Drop it, or leave its `with`, when no more are wanted.

    Ends when the client is left; if the agent is gone before, its end raises `AgentExited`. Cancelling loses nothing.
    """

    def __init__(self, hub: "Hub", mailbox: Mailbox) -> None:
        """Read from a mailbox; `Hub.subscribe` makes both."""
        self._hub = hub
        self._mailbox = mailbox

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
            AgentExited, ProtocolError: There will be no more, and that was not asked for.
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
        """After the client was left, in any thread: take what is still there, or nothing. Raises as above."""
        if not self._mailbox.kept and self._mailbox.loss is not None:
            raise self._mailbox.loss()
        return [cast("Event", self._mailbox.pop()) for _ in range(len(self._mailbox.kept))]

    def close(self) -> None:
        """Want no more; what was kept is dropped."""
        self._mailbox.end(None)
        self._mailbox.kept.clear()
        self._mailbox.kept_bytes = 0
        self._hub.forget(self._mailbox)

    async def _has_arrived(self) -> bool:
        await trio.lowlevel.checkpoint()
        mailbox = self._mailbox
        while not mailbox.kept:
            if mailbox.is_over:
                if mailbox.loss is not None:
                    raise mailbox.loss()
                return False
            with self._hub.waiting():
                await mailbox.arrivals.park()
        return True

    def _pop(self) -> Event:
        record = self._mailbox.pop()
        self._hub.has_moved()
        return cast("Event", record)  # as the agent promises


class Hub:
    """Gives every record to every reader, and tells whoever reads stdout when to pause."""

    def __init__(self) -> None:
        # Weak: whoever breaks out of a loop over events has unsubscribed.
        self._mailboxes: weakref.WeakSet[Mailbox] = weakref.WeakSet()
        self._waiting = 0
        self._moves = trio.lowlevel.ParkingLot()
        self._loss: Loss | None = None
        self._is_over = False
        self._may_pause = True
        self.tells_settled = False
        """The agent has written an `agent_settled`, so it always will."""

    def subscribe(self, *, has_answers: bool = False) -> Events:
        """Collect events from now on; with `has_answers`, also the answers that somebody waits for."""
        mailbox = Mailbox(has_answers=has_answers)
        if self._is_over:
            mailbox.end(self._loss)
        else:
            self._mailboxes.add(mailbox)
        return Events(self, mailbox)

    def publish(self, record: Record, size_bytes: int, *, is_answer: bool = False) -> None:
        """Give a record to all readers, or an answer to those that want answers."""
        self.tells_settled = self.tells_settled or record["type"] == "agent_settled"
        for mailbox in list(self._mailboxes):
            if mailbox.has_answers or not is_answer:
                mailbox.put(record, size_bytes)

    async def room(self) -> None:
        """Wait while a reader is behind and nobody waits for the agent."""
        while self._may_pause and self._waiting == 0 and any(map(_is_behind, self._mailboxes)):
            await self._moves.park()

    def stop_pausing(self) -> None:
        """Read on whatever happens: the agent has ended or shall, and what is in its pipe is little."""
        self._may_pause = False
        self.has_moved()

    @contextmanager
    def waiting(self) -> Generator[None]:
        """While inside, somebody waits for what the agent writes: reading does not pause."""
        self._waiting += 1
        self.has_moved()
        try:
            yield
        finally:
            self._waiting -= 1

    def has_moved(self) -> None:
        """Look again whether reading may go on."""
        self._moves.unpark_all()

    def forget(self, mailbox: Mailbox) -> None:
        """Give nothing more to a reader."""
        self._mailboxes.discard(mailbox)
        self.has_moved()

    def end(self, loss: Loss | None) -> None:
        """Tell all readers, now and later, that there is nothing more: by an exception, or quietly (None)."""
        if not self._is_over:
            self._is_over, self._loss = True, loss
            for mailbox in list(self._mailboxes):
                mailbox.end(loss)
            self.stop_pausing()


def _is_behind(mailbox: Mailbox) -> bool:
    return mailbox.kept_bytes > PAUSE_BYTES and not mailbox.is_over
