"""Requests to the client for files that it has offered to serve, each ended exactly once.

A request ends by its answer, by its time, by the withdrawal of the offer, or by the cancellation of the call that asks.
Answers to an unknown or ended request are dropped; one that is not as it must be counts as a refusal. Has no access to
framing, commands or files. Rules R-FIL-02 to R-FIL-05.
"""

from collections.abc import Collection, Mapping
from typing import Final

import trio

from pinnace_agent.client_files.common_texts import CommonTexts
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.core.surroundings import random_uuid
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_spec.records.messages import FileMethod
from pinnace_spec.wire.json_text import encode_record

READ_S: Final = 10.0
"""How long a read waits. An editor has the text in its memory; then the disk is the better source."""
WRITE_S: Final = 30.0
"""How long a write waits. It may save to a remote disk, format, or ask its user."""
ABORTED_WRITE_S: Final = 0.5
"""How long an aborted call waits for a write, which the client may complete all the same."""
_MAX_ERROR_CHARS: Final = 1000


class ClientRefused(Exception):
    """The client has not done it. The text is its reason."""


class Unavailable(ClientRefused):
    """The request was not sent, or the client can't do this at all: nothing has happened."""


class Unanswered(Exception):
    """Whether the client has done it is unknown. The text says why."""


class _Request:
    """One open request."""

    def __init__(self) -> None:
        self.response: Mapping[str, object] | None = None
        """The answer; None: the request was given up."""
        self.ended = trio.Event()


class ClientRequests:
    """The requests of one process. Any number may be open at once."""

    def __init__(self, emitter: Emitter) -> None:
        """Begin without an offer; write requests to `emitter`."""
        self._emitter = emitter
        self._offered: frozenset[FileMethod] = frozenset()
        self._open: dict[str, _Request] = {}
        self._is_closed = False
        self.common = CommonTexts()
        """What the client and the disk had in common, which is known as long as the client."""

    def __len__(self) -> int:
        """Return the number of open requests."""
        return len(self._open)

    def offers(self, *methods: FileMethod) -> bool:
        """Return whether the client serves all of these."""
        return self._offered.issuperset(methods)

    def offer(self, methods: Collection[FileMethod]) -> None:
        """Take what the client offers from now on. Requests end unanswered if it withdraws anything."""
        if self._is_closed:
            return
        former, self._offered = self._offered, frozenset(methods)
        if former - self._offered:
            self._give_up()

    def close(self) -> None:
        """The client is gone: end every request unanswered, and send no more."""
        self._is_closed = True
        self._offered = frozenset()
        self._give_up()

    def answer(self, response: Mapping[str, object]) -> bool:
        """Take a `client_response`. Never raises.

        Returns:
            Whether a request with its id was open. If not, the response was dropped.
        """
        identity = response.get("id")
        request = self._open.pop(identity, None) if isinstance(identity, str) else None
        if request is None:
            return False
        request.response = response
        request.ended.set()
        return True

    async def read(self, path: str, call_id: str) -> str:
        """Return what the client has of a file. Cancelling leaves the request at once.

        Args:
            path: Absolute.
            call_id: The call of a tool that asks.

        Raises:
            ClientRefused: It was refused, or not sent.
            Unanswered: It was not answered in time.
        """
        response = await self._ask("read_text_file", {"toolCallId": call_id, "path": path}, READ_S)
        content = response.get("content")
        if not isinstance(content, str):
            raise ClientRefused("the answer has no content")
        return content

    async def write(self, path: str, content: str, call_id: str) -> None:
        """Have the client write a file. Cancelling waits `ABORTED_WRITE_S` for the answer.

        Args:
            path: Absolute.
            content: All of the file.
            call_id: The call of a tool that asks.

        Raises:
            Unavailable: Nothing was sent, or the client can't write at all.
            ClientRefused: The client has refused.
            Unanswered: Whether it was written is unknown.
        """
        fields = {"toolCallId": call_id, "path": path, "content": content}
        await self._ask("write_text_file", fields, WRITE_S, after_abort_s=ABORTED_WRITE_S)

    async def _ask(
        self, method: FileMethod, fields: Mapping[str, object], limit_s: float, *, after_abort_s: float = 0.0
    ) -> Mapping[str, object]:
        """Return the answer to a request, which is a success."""
        identity = random_uuid()
        record = {
            "type": "client_request",
            "id": identity,
            "method": method,
            **fields,
            "timeout": round(limit_s * 1000),
        }
        if not _is_shown_whole(record):
            raise Unavailable("it holds a key of this process, which no client gets")
        deadline = trio.current_time() + limit_s
        with trio.move_on_at(deadline) as sending:
            await self._emitter.room()
        if sending.cancelled_caught:
            raise ClientRefused("the client reads no requests")
        if not self.offers(method):
            raise Unavailable("the client does not serve files any more")
        request = self._open[identity] = _Request()
        try:
            self._emitter.emit(record)
            await _ended(request, deadline, after_abort_s)
        finally:
            self._open.pop(identity, None)
        return self._checked(method, request, limit_s)

    def _checked(self, method: FileMethod, request: _Request, limit_s: float) -> Mapping[str, object]:
        response = request.response
        if response is None:
            raise Unanswered(
                "the client that serves it is gone"
                if request.ended.is_set()
                else f"the client has not answered in {limit_s:g} seconds"
            )
        if response.get("success") is True:
            return response
        error = response.get("error")
        text = error[:_MAX_ERROR_CHARS] if isinstance(error, str) and error.strip() else "the client has refused"
        if response.get("errorCode") == "unsupported":
            self._offered -= {method}
            raise Unavailable(text)
        raise ClientRefused(text)

    def _give_up(self) -> None:
        requests, self._open = self._open, {}
        for request in requests.values():
            request.ended.set()


async def _ended(request: _Request, deadline: float, after_abort_s: float) -> None:
    """Wait for the end of a request until its deadline; when cancelled, a little longer."""
    try:
        with trio.move_on_at(deadline):
            await request.ended.wait()
    except trio.Cancelled:
        if after_abort_s:
            with trio.move_on_after(after_abort_s, shield=True):
                await request.ended.wait()
        raise


def _is_shown_whole(record: Mapping[str, object]) -> bool:
    """Return whether the client gets a record as it is: a file that is written without its keys would lose them."""
    if not REDACTOR.is_active:
        return True
    line = encode_record(record)
    return REDACTOR.line(line) == line
