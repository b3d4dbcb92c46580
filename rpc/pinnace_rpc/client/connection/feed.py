"""Events and pieces of text for a reader in another thread than the client's.

Between a `Portal` and the public classes for blocking and asyncio programs. Independent of how they wait.
"""

from collections import deque

from pinnace_rpc.client.client import Client
from pinnace_rpc.client.connection.portal import Portal
from pinnace_rpc.client.failures import ClientClosed
from pinnace_rpc.client.records.events import Event
from pinnace_rpc.client.runs import TextStream
from pinnace_rpc.client.subscriptions import Events


class Feed:
    """The events from now on."""

    def __init__(self, portal: Portal[Client]) -> None:
        """Begin to collect. Never waits: later calls of this thread are executed after it.

        Raises:
            ClientClosed: The client is not open.
        """
        self.taken: deque[Event] = deque()
        """The fetched events. The reader's thread takes them from the left."""
        self._client = portal.context
        self._events: Events | None = None
        if not portal.post(self._subscribe):
            raise ClientClosed

    async def fetch(self) -> None:
        """In the client's thread: wait for events and move all of them to `taken`; raises as `Events`.

        All that are there, since going to another thread for each takes longer than reading it. A reader that is
        interrupted while it waits loses none: they are in `taken`.
        """
        if self._events is not None:
            self.taken.extend(await self._events.take())

    def take_rest(self) -> None:
        """After the client was closed, in any thread: move the remaining events to `taken`. Raises as `Events`."""
        if self._events is not None:
            self.taken.extend(self._events.rest())

    def close(self) -> None:
        """In the client's thread: stop collecting."""
        if self._events is not None:
            self._events.close()

    def _subscribe(self) -> None:
        self._events = self._client.events()


async def next_piece(stream: TextStream) -> str | None:
    """In the client's thread: wait for the next piece; None at the end. Raises as `TextStream`."""
    return await anext(stream, None)
