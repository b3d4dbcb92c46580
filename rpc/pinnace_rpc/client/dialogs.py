"""Dialogs of extensions: selects the callback, and the answer. Without a callback the answer is no, at once.

So an agent never waits for a program without a user. The answer is also no if a callback raises, takes longer than the
dialog's timeout, or returns a value that was not offered. An exception that is not an `Exception` (SystemExit, for
instance) also closes the client. Has no access to the transport. Source: R-UI-01.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, cast

from anyio import move_on_after

from pinnace_rpc.client.records.events import Record
from pinnace_rpc.client.records.ui_requests import Confirm, Editor, Input, Select

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Callback: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]]

_LOGGER: Final = logging.getLogger("pinnace.client")
# These wait for no answer. Whether an unknown method waits is not known; the agent ignores an answer too many.
_SHOWN: Final = frozenset({"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogs:
    """The callbacks. None: the answer is no.

    A callback gets the request as it is and returns the answer; None means cancelled. With `Client` it may be async,
    and must not block; with `BlockingClient` it is a plain function, called in a thread of its own. When another client
    has answered, an async callback is cancelled; the answer of a plain one is dropped.
    """

    select: Callback[Select, str | None] | None = None
    confirm: Callback[Confirm, bool] | None = None
    input: Callback[Input, str | None] | None = None
    editor: Callback[Editor, str | None] | None = None


def is_dialog(record: Record) -> bool:
    """Return whether the agent waits for an answer to this `extension_ui_request`."""
    return isinstance(record.get("id"), str) and record.get("method") not in _SHOWN


def callback_of(dialogs: Dialogs, record: Record) -> Callback[Record, object] | None:
    """Select the callback."""
    callbacks: Mapping[object, object] = {
        "select": dialogs.select,
        "confirm": dialogs.confirm,
        "input": dialogs.input,
        "editor": dialogs.editor,
    }
    # The request's method is the callback's.
    return cast("Callback[Record, object] | None", callbacks.get(record.get("method")))


def refusal(record: Record) -> dict[str, object]:
    """Answer no."""
    answer: dict[str, object] = {"confirmed": False} if record.get("method") == "confirm" else {"cancelled": True}
    return _response(record, answer)


async def answer_of(callback: Callback[Record, object], record: Record) -> dict[str, object]:
    """Call the callback, within the dialog's timeout; return the response to send.

    Raises:
        BaseException: What the callback raised, unless it is an `Exception`, which is logged and means no.
    """
    timeout = record.get("timeout")
    with move_on_after(timeout / 1000 if isinstance(timeout, int) else None):
        try:
            value = callback(record)
            if inspect.isawaitable(value):
                value = await cast("Awaitable[object]", value)
        except Exception:  # the boundary to foreign code: its fault must not end the conversation
            _LOGGER.exception("a callback for the dialog %s has failed; it is answered with no", record.get("method"))
            return refusal(record)
        return _worded(record, value)
    return refusal(record)


def _worded(record: Record, value: object) -> dict[str, object]:
    if record.get("method") == "confirm":
        return _response(record, {"confirmed": value is True})
    options = record.get("options")
    if isinstance(value, str) and (not isinstance(options, list) or value in options):
        return _response(record, {"value": value})
    if value is not None:
        _LOGGER.error(
            "the dialog %s got %r, which was not offered; it is answered with no", record.get("method"), value
        )
    return refusal(record)


def _response(record: Record, answer: Mapping[str, object]) -> dict[str, object]:
    return {"type": "extension_ui_response", "id": record["id"], **answer}
