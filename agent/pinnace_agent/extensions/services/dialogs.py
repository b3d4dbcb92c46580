"""Dialogs: questions of extensions to the client's user that wait for an answer.

Every question ends exactly once: by its answer, by its timeout, by cancellation of the asking task, or by `close_all`.
A timeout and `close_all` return the default, which is the negative answer. A question that ends without an answer is
taken back with one `extension_ui_resolved`, before anything that its end causes. Answers to an unknown or closed
question are dropped; an answer of the wrong kind counts as cancelled by the user. Has no access to framing, commands or
extensions. Rules R-UI-01, R-UI-02, R-UI-08.
"""

import math
from collections.abc import Callable, Mapping
from typing import Generic, Literal, Protocol, TypeVar, cast

import trio

from pinnace_agent.core.surroundings import random_uuid
from pinnace_agent.extensions.ports.arguments import given_text
from pinnace_spec.records.messages import DialogMethod

Send = Callable[[Mapping[str, object]], None]
"""Takes a record for the client. Never waits."""
SpanEdge = Literal["start", "end"]
OnSpan = Callable[[SpanEdge, DialogMethod, str], None]
"""Called when the first of several open dialogs starts and when the last one ends: edge, and kind and title of the
first."""
Value = TypeVar("Value")
Read = Callable[[Mapping[str, object]], Value | None]
"""Reads the value of an answer; None: it is of the wrong kind."""


class _Question(Protocol):
    """An open question of any type of value."""

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
        self._asking = 0  # dialogs whose span has not ended: a slot may be removed before its task runs again
        self._span: tuple[DialogMethod, str] | None = None
        self._closed: str | None = None

    def __len__(self) -> int:
        """Return the number of open dialogs."""
        return len(self._slots)

    @property
    def closed(self) -> str | None:
        """Why no question is sent any more; None while questions are sent."""
        return self._closed

    async def select(
        self, title: str, options: list[str], *, timeout_s: float | None, extra: Mapping[str, object]
    ) -> str | None:
        """Let the user choose. An answer that is none of the options is ignored."""

        def read(response: Mapping[str, object]) -> str | None:
            value = response.get("value")
            return value if isinstance(value, str) and value in options else None

        fields = {"title": title, "options": options}
        return await self._ask("select", title, fields, _Slot[str | None](read, None), timeout_s, extra)

    async def confirm(self, title: str, message: str, *, timeout_s: float | None, extra: Mapping[str, object]) -> bool:
        """Ask for confirmation; every other answer denies."""

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
        """Take an `extension_ui_response`. Never raises.

        Returns:
            Whether a dialog with its id was open. If not, the response was dropped.
        """
        request_id = response.get("id")
        slot = self._slots.pop(request_id, None) if isinstance(request_id, str) else None
        if slot is None:
            return False
        slot.answer(response)
        return True

    def close_all(self, *, for_good: str | None = None) -> int:
        """End every open question with its default, at once, as an abort does. Returns their number.

        Args:
            for_good: Why no question will be sent any more (the client is gone, the session was replaced): later
                questions return their default without being sent.
        """
        if for_good is not None and self._closed is None:
            self._closed = for_good
        slots, self._slots = self._slots, {}
        for request_id, slot in slots.items():
            self._take_back(request_id, "cancelled")
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
        # A cancelled task must not send a question: the client would never be asked to close it.
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None or limit_s <= 0:
            await trio.lowlevel.checkpoint()
            return slot.value
        request_id = random_uuid()
        texts = shown_texts(method, {**fields, **extra})
        record: dict[str, object] = {"type": "extension_ui_request", "id": request_id, "method": method, **texts}
        if limit_s != math.inf:
            record["timeout"] = max(1, round(limit_s * 1000))
        self._slots[request_id] = slot  # it may be declined while it is sent
        self._open_span(method, title)
        reason: Literal["timeout", "cancelled"] = "cancelled"
        try:
            self._send(record)
            with trio.move_on_after(limit_s) as limit:
                await slot.done.wait()
            reason = "timeout" if limit.cancelled_caught else reason
        finally:
            if self._slots.pop(request_id, None) is not None:
                self._take_back(request_id, reason)
            self._close_span()
        return slot.value

    def _take_back(self, request_id: str, reason: Literal["timeout", "cancelled"]) -> None:
        self._send({"type": "extension_ui_resolved", "id": request_id, "reason": reason})

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
    """Return the fields of a record for the client, each a string or a list of strings.

    Raises:
        TypeError: A field is neither, and can't be converted; the text names it.
    """
    return {
        name: list(cast("list[str]", value)) if isinstance(value, list) else given_text(f"{method}: {name}", value)
        for name, value in fields.items()
    }  # cast: the callers checked the items of lists


def _text(response: Mapping[str, object]) -> str | None:
    value = response.get("value")
    return value if isinstance(value, str) else None


def _limit(timeout_s: float | None) -> float:
    if timeout_s is None:
        return math.inf
    if math.isnan(timeout_s):
        raise ValueError("the timeout of a dialog must be a number of seconds")
    return timeout_s
