"""What extensions have of the keys: an editor (R-UI-40), to which they go; a filter (R-UI-42), which sees them first.

Each key is kept until the extension has taken it, so that nothing that is typed is lost when it fails: the client's own
editor, which has the same text, then takes what is left, in order. A change of the whole text waits until the extension
has taken every key before it, and keys behind it wait for it. Must not know what draws, nor widgets.
"""

import secrets
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from pinnace_tui.content.values import Record, number, text

PATIENCE: Final = 8
"""For how many checks the same key may wait: two seconds, and not those in which the client itself did not run."""
CHECK_S: Final = 0.25


class Typed(NamedTuple):
    """A key or a paste."""

    data: str
    """What a terminal sends for it."""
    key: str | None
    """Its name as in `keybindings.json`."""
    name: str = ""
    """Its name as the client has it."""
    character: str | None = None


Change = Callable[[str], str]
"""Makes another text of that which an editor holds."""


class OwnEditor(Protocol):
    """The client's own editor, which has the text of the extension's."""

    def hold(self, content: str) -> None:
        """Have a text, which the extension's editor has."""
        ...

    def held(self) -> str:
        """Return its text."""
        ...

    def sent(self, content: str, *, is_follow_up: bool) -> None:
        """Send a message that the extension's editor has submitted."""
        ...

    def act(self, action: str, former: str) -> None:
        """Do an action; `former` is the text before it."""
        ...

    def decide(self, typed: Typed) -> None:
        """Do what a key means that the extension leaves to the client."""
        ...


class NumberedInputs:
    """What was sent to an extension and is kept until it is answered."""

    def __init__(self, send: Callable[..., None]) -> None:
        """Send fields of `ui_surface_input` with `send`, which never waits."""
        self._send = send
        self._by = secrets.token_hex(8)
        self._number = 0
        self._unanswered: deque[tuple[int, Typed | None]] = deque()
        self._checked = (0, 0)
        """The oldest number without an answer, and how often it was found."""

    def is_overdue(self) -> bool:
        """Return whether the same input has waited for too long; called every `CHECK_S` seconds."""
        oldest = self._unanswered[0][0] if self._unanswered else 0
        self._checked = (oldest, self._checked[1] + 1 if oldest and oldest == self._checked[0] else 0)
        return self._checked[1] >= PATIENCE

    def _send_typed(self, typed: Typed) -> None:
        self._count(typed)
        self._send(data=typed.data, number=self._number, by=self._by, **({"key": typed.key} if typed.key else {}))

    def _count(self, typed: Typed | None) -> None:
        self._number += 1
        self._unanswered.append((self._number, typed))

    def _answered(self, taken: float) -> Typed | None:
        """Forget what was answered; returns the newest of it."""
        answered: Typed | None = None
        while self._unanswered and self._unanswered[0][0] <= taken:
            answered = self._unanswered.popleft()[1]
        return answered


class KeyFilter(NumberedInputs):
    """What sees the keys before the client does anything."""

    def __init__(self, send: Callable[..., None], deliver: Callable[[Typed, str], None]) -> None:
        """Send as `NumberedInputs` does; `deliver` does a key or a paste, or what is left of it."""
        super().__init__(send)
        self._deliver = deliver

    def press(self, typed: Typed) -> None:
        """Give it a key or a paste."""
        self._send_typed(typed)

    def take(self, record: Record) -> None:
        """Take a `ui_input`: what is left of the oldest input is done."""
        if text(record, "by") == self._by:
            answered = self._answered(number(record, "taken") or 0)
            if answered is not None:
                self._deliver(answered, text(record, "text"))

    def end(self) -> None:
        """Do what has no answer as it is, in order; there is none from now on."""
        while self._unanswered:
            typed = self._unanswered.popleft()[1]
            if typed is not None:
                self._deliver(typed, typed.data)


class RemoteEditor(NumberedInputs):
    """One editor of an extension, which has the keys."""

    def __init__(self, send: Callable[..., None], own: OwnEditor) -> None:
        """Begin with the text that the client's own editor has.

        Args:
            send: Sends fields of `ui_surface_input`. Never waits.
            own: The client's own editor.
        """
        super().__init__(send)
        self._own = own
        self._set_at = 0
        """The number of the newest text that was sent: what the editor held before it is over."""
        self._waiting: deque[Typed | Change] = deque()
        self._send_text()

    def press(self, typed: Typed) -> None:
        """Give it a key or a paste."""
        self._waiting.append(typed)
        self._proceed()

    def change(self, change: Change) -> None:
        """Change its text when it has taken all keys before."""
        self._waiting.append(change)
        self._proceed()

    def take(self, record: Record) -> None:
        """Take a `ui_input`; those for other clients only say what the editor holds."""
        taken, is_mine = number(record, "taken") or 0, text(record, "by") == self._by
        if not is_mine:
            if not self._unanswered and not self._waiting:
                self._own.hold(text(record, "text"))
            return
        answered = self._answered(taken)
        former = self._own.held()
        if taken >= self._set_at:
            self._own.hold(text(record, "text"))
        if submitted := text(record, "submitted"):
            self._own.sent(submitted, is_follow_up=record.get("followUp") is True)
        if action := text(record, "action"):
            self._own.act(action, former)
        if record.get("declined") is True and answered is not None:
            self._own.decide(answered)
        self._proceed()

    def left(self) -> list[Typed | Change]:
        """Return what it has not taken, in order; it takes no more."""
        left: list[Typed | Change] = [typed for _, typed in self._unanswered if typed is not None]
        left += self._waiting
        self._unanswered.clear()
        self._waiting.clear()
        return left

    def _proceed(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, Typed):
                self._send_typed(first)
            elif self._unanswered:
                return
            else:
                self._own.hold(first(self._own.held()))
                self._send_text()
            self._waiting.popleft()

    def _send_text(self) -> None:
        self._count(None)
        self._set_at = self._number
        self._send(text=self._own.held(), number=self._number, by=self._by)
