"""What is written for the client: one queue of lines for all sessions, and the requests that wait for its replies.

The order of `put` is the order on stdout. Memory is bounded by those that produce: they wait for `room` before they
read more. Must not know sessions.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

import trio

from pinnace_rpc.acp.translation.jsonrpc import (
    Reply,
    RequestError,
    RequestId,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)

FULL_BYTES: Final = 1024 * 1024
OnReply: TypeAlias = Callable[[Reply], None]


class Output(Protocol):
    """Where lines go."""

    async def send_all(self, data: bytes) -> None:
        """Write everything; raises `trio.BrokenResourceError` if it is closed."""
        ...


class Outbox:
    """Lines that are to be written."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._is_closed = False
        self._more = trio.lowlevel.ParkingLot()
        self._less = trio.lowlevel.ParkingLot()
        self._replies: dict[int, OnReply] = {}
        self._unanswered: dict[RequestId, None] = {}
        """In the order in which they have come."""
        self._count = 0
        self.written_bytes = 0

    def begin(self, identity: RequestId) -> bool:
        """Take a request of the client, which `respond` or `refuse` answers; False: its id is in flight."""
        if identity in self._unanswered:
            return False
        self._unanswered[identity] = None
        return True

    def respond(self, identity: RequestId, result: Mapping[str, object]) -> None:
        """Answer a request of the client."""
        self._unanswered.pop(identity, None)
        self._put(encode_result(identity, result))

    def refuse(self, identity: RequestId, error: RequestError) -> None:
        """Answer a request of the client with an error."""
        self._unanswered.pop(identity, None)
        self._put(encode_error(identity, error))

    def refuse_rest(self, error: RequestError) -> None:
        """Answer every request of the client that has no answer: none will come."""
        for identity in list(self._unanswered):
            self.refuse(identity, error)

    def refuse_line(self, identity: RequestId, error: RequestError) -> None:
        """Report an error of a line that is no request, by its id if no request has it: none gets two responses."""
        self._put(encode_error(None if identity in self._unanswered else identity, error))

    def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a notification."""
        self._put(encode_notification(method, params))

    def update(self, session_id: str, update: Mapping[str, object]) -> None:
        """Send an update of a session."""
        self.notify("session/update", {"sessionId": session_id, "update": update})

    def ask(self, method: str, params: Mapping[str, object], on_reply: OnReply) -> int:
        """Send a request; `on_reply` takes the reply, if one comes. Returns the request's id."""
        self._count += 1
        self._replies[self._count] = on_reply
        self._put(encode_request(self._count, method, params))
        return self._count

    def withdraw(self, identity: int) -> None:
        """Take a request back: the client learns of it, and a later reply is ignored."""
        if self._replies.pop(identity, None) is not None:
            self.notify("$/cancel_request", {"requestId": identity})

    def take_reply(self, reply: Reply) -> bool:
        """Pass a reply to who waits for it; False: none does."""
        if not isinstance(reply.id, int) or (on_reply := self._replies.pop(reply.id, None)) is None:
            return False
        on_reply(reply)
        return True

    async def room(self) -> None:
        """Wait until more may be put."""
        while self._size >= FULL_BYTES and not self._is_closed:
            await self._less.park()

    def close(self) -> None:
        """Take nothing more; `pump` ends when everything is written."""
        self._is_closed = True
        self._more.unpark_all()
        self._less.unpark_all()

    async def pump(self, stdout: Output) -> None:
        """Write what is put, until the outbox is closed.

        Raises:
            BrokenResourceError: stdout is closed.
        """
        while True:
            while self._lines:
                lines = b"".join(self._lines)
                self._lines.clear()
                await stdout.send_all(lines)
                self.written_bytes += len(lines)
                self._size -= len(lines)
                self._less.unpark_all()
            if self._is_closed:
                return
            await self._more.park()

    def _put(self, line: bytes) -> None:
        if not self._is_closed:
            self._lines.append(line)
            self._size += len(line)
            self._more.unpark_all()
