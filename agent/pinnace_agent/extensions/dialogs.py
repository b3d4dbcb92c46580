"""Dialogs: questions of extensions to the client's user that wait for an answer.

Decides what an answer means and when nobody will give one. Every question ends exactly once: by its answer, by its own
time, by the cancellation of who asks, or by `close_all`; all but the cancellation give its default, which is the value
that refuses. Answers to a question that is not open, unknown or late, are dropped; an answer of the wrong kind counts
as cancelled by the user. Must not know lines, commands or extensions. Rule R-UI-01; R26, R27, E30.
"""

import math
import uuid
from collections.abc import Callable, Mapping
from typing import Generic, Literal, Protocol, TypeVar, cast

import trio

from pinnace_agent.extensions.given import given_text

Send = Callable[[Mapping[str, object]], None]
"""Takes a record for the client. Never waits."""
DialogMethod = Literal["select", "confirm", "input", "editor"]
SpanEdge = Literal["start", "end"]
OnSpan = Callable[[SpanEdge, DialogMethod, str], None]
"""Told when the first of several open dialogs begins and when the last one ends: edge, and kind and title of the
first."""
Value = TypeVar("Value")
Read = Callable[[Mapping[str, object]], Value | None]
"""Reads the value out of an answer; None: it is of the wrong kind."""


class _Question(Protocol):
    """A question as the table sees it, whatever its value is."""

    done: trio.Event

    def answer(self, response: Mapping[str, object]) -> None:
        """Take an answer."""


class _Slot(Generic[Value]):
    """One open question."""

    def __init__(self, read: Read[Value], default: Value) -> None:
        self._read = read
        self.value = default
        self.done = trio.Event()

    def answer(self, response: Mapping[str, object]) -> None:
        if response.get("cancelled") is not True:
            value = self._read(response)
            if value is not None:
                self.value = value
        self.done.set()


class DialogTable:
    """The dialogs of one session instance. Any number may be open at once."""

    def __init__(self, send: Send, on_span: OnSpan | None = None) -> None:
        """Write questions to `send`."""
        self._send = send
        self._on_span = on_span
        self._slots: dict[str, _Question] = {}
        self._asking = 0  # dialogs whose span has not ended: a slot may be gone before its task has noticed
        self._span: tuple[DialogMethod, str] | None = None
        self._closed: str | None = None

    def __len__(self) -> int:
        """Count the open ones."""
        return len(self._slots)

    @property
    def closed(self) -> str | None:
        """Why no question is asked any more; None while they are."""
        return self._closed

    async def select(
        self, title: str, options: list[str], *, timeout_s: float | None, extra: Mapping[str, object]
    ) -> str | None:
        """Let the user choose. A text that is none of the options is no choice."""

        def read(response: Mapping[str, object]) -> str | None:
            value = response.get("value")
            return value if isinstance(value, str) and value in options else None

        fields = {"title": title, "options": options}
        return await self._ask("select", title, fields, _Slot[str | None](read, None), timeout_s, extra)

    async def confirm(self, title: str, message: str, *, timeout_s: float | None, extra: Mapping[str, object]) -> bool:
        """Let the user say yes; anything else is no."""

        def read(response: Mapping[str, object]) -> bool | None:
            value = response.get("confirmed")
            return value if isinstance(value, bool) else None

        fields = {"title": title, "message": message}
        return await self._ask("confirm", title, fields, _Slot[bool](read, False), timeout_s, extra)

    async def input(
        self, title: str, placeholder: str | None, *, timeout_s: float | None, extra: Mapping[str, object]
    ) -> str | None:
        """Let the user enter a line."""
        fields = {"title": title} | ({} if placeholder is None else {"placeholder": placeholder})
        return await self._ask("input", title, fields, _Slot[str | None](_text, None), timeout_s, extra)

    async def editor(self, title: str, prefill: str | None, *, extra: Mapping[str, object]) -> str | None:
        """Let the user edit a text, for as long as it takes."""
        fields = {"title": title} | ({} if prefill is None else {"prefill": prefill})
        return await self._ask("editor", title, fields, _Slot[str | None](_text, None), None, extra)

    def answer(self, response: Mapping[str, object]) -> bool:
        """Take an `extension_ui_response`. Never raises, whatever stands in it.

        Returns:
            Whether a dialog was open under its id. If not, nothing has happened.
        """
        request_id = response.get("id")
        slot = self._slots.pop(request_id, None) if isinstance(request_id, str) else None
        if slot is None:
            return False
        slot.answer(response)
        return True

    def close_all(self, *, for_good: str | None = None) -> int:
        """Give every open question its default, at once: an abort. Returns how many there were.

        Args:
            for_good: Why nothing will be asked any more (the client is gone, the session is replaced): questions that
                come later get their default without being sent.
        """
        if for_good is not None and self._closed is None:
            self._closed = for_good
        slots, self._slots = self._slots, {}
        for slot in slots.values():
            slot.done.set()
        return len(slots)

    async def _ask(
        self,
        method: DialogMethod,
        title: str,
        fields: Mapping[str, object],
        slot: "_Slot[Value]",
        timeout_s: float | None,
        extra: Mapping[str, object],
    ) -> Value:
        limit_s = _limit(timeout_s)
        # Who is cancelled already must not ask: nobody would take the question away from the client again.
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None or limit_s <= 0:
            await trio.lowlevel.checkpoint()
            return slot.value
        request_id = str(uuid.uuid4())
        texts = shown_texts(method, {**fields, **extra})
        record: dict[str, object] = {"type": "extension_ui_request", "id": request_id, "method": method, **texts}
        if limit_s != math.inf:
            record["timeout"] = max(1, round(limit_s * 1000))
        self._slots[request_id] = slot
        self._open_span(method, title)
        try:
            self._send(record)
            with trio.move_on_after(limit_s):
                await slot.done.wait()
        finally:
            self._slots.pop(request_id, None)
            self._close_span()
        return slot.value

    def _open_span(self, method: DialogMethod, title: str) -> None:
        self._asking += 1
        if self._span is None:
            self._span = method, title
            if self._on_span is not None:
                self._on_span("start", method, title)

    def _close_span(self) -> None:
        self._asking -= 1
        if self._asking == 0 and self._span is not None:
            span, self._span = self._span, None
            if self._on_span is not None:
                self._on_span("end", *span)


def shown_texts(method: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a frame, each of which is a text or a list of texts.

    Raises:
        TypeError: One is neither, and nothing that is written as one; the text names it.
    """
    return {
        name: list(cast("list[str]", value)) if isinstance(value, list) else given_text(f"{method}: {name}", value)
        for name, value in fields.items()
    }  # cast: whoever makes a list has looked at what is in it


def _text(response: Mapping[str, object]) -> str | None:
    value = response.get("value")
    return value if isinstance(value, str) else None


def _limit(timeout_s: float | None) -> float:
    if timeout_s is None:
        return math.inf
    if math.isnan(timeout_s):
        raise ValueError("the timeout of a dialog is a number of seconds")
    return timeout_s
