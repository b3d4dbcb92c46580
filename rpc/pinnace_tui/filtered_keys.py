"""Keys and pastes that extensions see first (R-UI-42), and those that wait behind them: all are done in their order.

What answers a question is not seen: it goes to the question at once. Ctrl+C twice takes the keys from the extensions,
whatever they do with them. Must not know what draws.
"""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from textual import events
from textual.app import App
from textual.message import Message

from pinnace_tui.content.values import Record
from pinnace_tui.editor import Editor, event_of
from pinnace_tui.input.key_data import key_data, paste_data
from pinnace_tui.remote_editor import KeyFilter, Typed

AGAIN_S: Final = 1.0
"""How soon a second Ctrl+C must come to take the keys from what an extension has."""


class FilteredKeys:
    """The keys of one client, and the extensions that see them first, if there are any."""

    def __init__(self, app: App[str], editor: Editor) -> None:
        """Begin without extensions that see keys.

        Args:
            app: Does the keys.
            editor: Has those that were typed before a question came.
        """
        self._app = app
        self._editor = editor
        self._filter: KeyFilter | None = None
        self._send: Callable[..., None] | None = None
        self._passing: deque[events.Key | events.Paste] = deque()
        """Keys and pastes that extensions have seen, on their way."""
        self._interrupted_at = 0.0

    @property
    def are_seen(self) -> bool:
        """Whether extensions see the keys."""
        return self._filter is not None

    def begin(self, send: Callable[..., None]) -> None:
        """Have extensions see the keys; `send` sends fields of `ui_surface_input`, and never waits."""
        self.end()
        self._send, self._filter = send, KeyFilter(send, self._deliver)

    def take(self, record: Record) -> None:
        """Take a `ui_input` that is about keys."""
        if self._filter is not None:
            self._filter.take(record)

    def is_overdue(self) -> bool:
        """Return whether a key has waited for too long; called every `CHECK_S` seconds."""
        return self._filter is not None and self._filter.is_overdue()

    def give_up(self) -> None:
        """Take the keys from the extensions; what they have not answered is done."""
        if self._send is not None:
            self._send(closed=True)
        self.end()

    def end(self) -> None:
        """Do what the extensions have not answered: they are gone."""
        former, self._filter = self._filter, None
        if former is not None:
            former.end()

    def takes(self, event: events.Key | events.Paste) -> bool:
        """Return whether a key or a paste is done later, since an extension sees it first.

        What answers a question goes to it at once; what was meant for what is beneath answers none.
        """
        keys, is_beneath = self._filter, len(self._app.screen_stack) > 1
        if self._passing and self._passing[0] is event:
            self._passing.popleft()
            if is_beneath:
                self._editor.post_message(event)
            return is_beneath
        if is_beneath or (keys is None and not self._passing):
            return False
        if isinstance(event, events.Paste):
            typed = Typed(paste_data(event.text), None)
        else:
            data, key = key_data(event.key, event.character) or ("", None)
            typed = Typed(data, key, event.key, event.character)
        if keys is None:  # behind those that are on their way
            self._deliver(typed, typed.data)
            return True
        keys.press(typed)
        if typed.name == "ctrl+c":
            now, before = monotonic(), self._interrupted_at
            self._interrupted_at = now
            if now - before < AGAIN_S:
                self.give_up()
        return True

    def _deliver(self, typed: Typed, left: str) -> None:
        """Do a key or a paste that extensions have seen, or what they have left of it."""
        given: list[Message] = [event_of(typed)]
        if left != typed.data:
            from pinnace_tui.input.decoder import InputDecoder  # which the driver has loaded

            decoder = InputDecoder()
            given = [*decoder.feed(left.encode("utf-8", "replace")), *decoder.expire()]
        for each in given:
            if isinstance(each, events.Key | events.Paste):
                self._passing.append(each)
                self._app.post_message(each)
