"""Sorts what a server sends: what the library gets, what the agent takes itself, and how much of it.

The library starts a task for each notification, in no order: progress, logs and changes of lists are taken here, in the
order in which they come. A server that sends notifications without end is read no faster than it may, and is cut off
when it does not stop.
"""

import math
from collections.abc import Mapping
from typing import Final, Protocol

import orjson
import trio
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from pinnace_agent.config.server_entries import is_number
from pinnace_agent.files.relaxed_json import is_object
from pinnace_agent.mcp import limits
from pinnace_agent.mcp.ports import LinkLost
from pinnace_agent.mcp.wire.surrogates import without_lone_surrogates


class ServerListener(Protocol):
    """Takes what a server reports unasked. No method waits."""

    def progressed(self, token: object, value: float, total: float | None, message: str | None) -> None:
        """Take the progress of the call whose token it is."""

    def logged(self, params: Mapping[str, object]) -> None:
        """Take a `notifications/message`."""

    def changed(self, what: str) -> None:
        """Take the change of a list: `tools`, `prompts` or `resources`."""

    def task_changed(self, task_id: str) -> None:
        """Take a change of the state of a task."""

    def listening(self, what: Mapping[str, object] | None) -> None:
        """Take notice of the changes that the server reports from now on; None: all that it was asked for."""

    def refused(self, request_id: object) -> None:
        """Take notice that the server has answered a request with an error."""

    def refuse(self, request_id: object, text: str) -> None:
        """Answer a request with an error."""

    @property
    def has_calls(self) -> bool:
        """Whether the server is at work for the agent."""
        ...


class IncomingMessages:
    """The messages of one connection."""

    def __init__(self, listener: ServerListener) -> None:
        """Have taken none."""
        self._listener = listener
        self._invalid = 0
        self._open: set[object] = set()
        """The ids of the server's requests that have no answer."""
        self._count: float = limits.NOTIFICATIONS_PER_S
        self._bytes: float = limits.NOTIFICATION_BYTES_PER_S
        """What may still come now; filled up again with time."""
        self._filled_s = trio.current_time()
        self._flooding_since_s = math.inf

    def answered(self, request_id: object) -> None:
        """Take notice that a request of the server has its answer."""
        self._open.discard(request_id)

    async def take(self, data: bytes) -> JSONRPCMessage | None:
        """Return the message for the library that a line is; None: there is none. Waits while the server floods.

        Raises:
            LinkLost: The server sends too much of what is not asked for, or nothing that is JSON.
        """
        try:
            raw: object = orjson.loads(without_lone_surrogates(data))
            message = jsonrpc_message_adapter.validate_python(raw, by_name=False)
        except (orjson.JSONDecodeError, ValidationError, RecursionError):
            self.invalid()
            return None
        self.valid()
        return message if await self.sort(message, len(data)) else None

    def invalid(self) -> None:
        """Count something that is no message.

        Raises:
            LinkLost: There were too many in a row.
        """
        self._invalid += 1
        if self._invalid >= limits.INVALID_LINES:
            raise LinkLost(f"{self._invalid} lines in a row that are no messages")

    def valid(self) -> None:
        """Take notice of a message."""
        self._invalid = 0

    async def sort(self, message: JSONRPCMessage, size: int = 0) -> bool:
        """Return whether a message is for the library. Waits while the server floods.

        Raises:
            LinkLost: The server sends too much of what is not asked for.
        """
        if isinstance(message, JSONRPCRequest):
            if len(self._open) >= limits.OPEN_REQUESTS:
                self._listener.refuse(message.id, "too many requests at once")
                return False
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification):
            await self._pace(size)
            return not self._notification(message.method, message.params or {})
        elif isinstance(message, JSONRPCError):
            self._listener.refused(message.id)
        return True

    def _notification(self, method: str, params: Mapping[str, object]) -> bool:
        """Take a notification; False: it is for the library."""
        match method:
            case "notifications/progress":
                value, total, text = params.get("progress"), params.get("total"), params.get("message")
                if is_number(value):
                    self._listener.progressed(
                        params.get("progressToken"),
                        float(value),
                        float(total) if is_number(total) else None,
                        text if isinstance(text, str) else None,
                    )
            case "notifications/message":
                self._listener.logged(params)
            case "notifications/tools/list_changed":
                self._listener.changed("tools")
            case "notifications/prompts/list_changed":
                self._listener.changed("prompts")
            case "notifications/resources/list_changed" | "notifications/resources/updated":
                self._listener.changed("resources")
            case "notifications/tasks/status" | "notifications/tasks" if isinstance(task := params.get("taskId"), str):
                self._listener.task_changed(task)
            case "notifications/subscriptions/acknowledged":
                what = params.get("notifications")
                self._listener.listening(what if is_object(what) else None)
            case "notifications/cancelled":
                return False
            case _:
                pass
        return True

    async def _pace(self, size: int) -> None:
        """Wait as long as the server is ahead of what it may send. Progress of a call is what it was asked for."""
        if self._listener.has_calls:
            return
        now_s = trio.current_time()
        passed_s, self._filled_s = now_s - self._filled_s, now_s
        self._count = min(self._count + passed_s * limits.NOTIFICATIONS_PER_S, limits.NOTIFICATIONS_PER_S) - 1
        room = limits.NOTIFICATION_BYTES_PER_S
        self._bytes = min(self._bytes + passed_s * room, room) - size
        wait_s = max(-self._count / limits.NOTIFICATIONS_PER_S, -self._bytes / room, 0.0)
        if wait_s == 0.0:
            self._flooding_since_s = math.inf
            return
        self._flooding_since_s = min(self._flooding_since_s, now_s)
        if now_s - self._flooding_since_s > limits.FLOOD_S:
            raise LinkLost(f"it has been sending notifications without end for {limits.FLOOD_S:g} seconds")
        await trio.sleep(wait_s)


REFUSED: Final = -32000
"""The code of a request of the server that is refused unread."""
