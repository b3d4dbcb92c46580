"""The lines around the conversation: title, work, queue, widgets of extensions, footer.

They are held, since they are drawn by events and timers, which also come before and after they are on the screen.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from textual.app import App
from textual.content import Content
from textual.widgets import Static

from pinnace_tui.content.drawn_lines import drawn
from pinnace_tui.content.rendering import plain
from pinnace_tui.footer import FooterState, footer
from pinnace_tui.input.keys import Keys

Value = TypeVar("Value")

_MOST_QUEUED_SHOWN: Final = 5


class Lines:
    """The lines of one client; one without a text is hidden."""

    def __init__(self, app: App[str], keys: Keys, agent: str) -> None:
        """Show nothing yet.

        Args:
            app: Has the width.
            keys: Those of the queue are shown below it.
            agent: The name of an agent of the host.
        """
        self._app = app
        self._keys = keys
        self.title = Static(id="title", markup=False)
        self.work = Static(id="work", markup=False)
        self.queue = Static(id="queue", markup=False)
        self.above = Static(id="above", markup=False)
        self.below = Static(id="below", markup=False)
        self.footer = Static(id="footer", markup=False)
        self.shown = FooterState(agent=agent)
        """What the footer shows when it is drawn."""
        self._statuses: dict[str, str] = {}
        self._widgets: dict[str, tuple[bool, list[str]]] = {}

    def draw_title(self, title: str) -> None:
        """Show the title that an extension has set."""
        show_plain(self.title, [title] if title else [])

    def draw_footer(self, width: int | None = None) -> None:
        """Show the footer for a width; None: that of the screen."""
        drawn_footer = footer(self.shown, max((self._app.size.width if width is None else width) - 2, 1))
        self.footer.update(Content.from_rich_text(drawn_footer))

    def set_status(self, key: str, status: str) -> None:
        """Show a status of an extension in the footer; an empty one removes it."""
        _set(self._statuses, key, status or None)
        self.shown.statuses = self._statuses
        self.draw_footer()

    def set_widget(self, key: str, lines: list[str], *, is_below: bool) -> None:
        """Show a widget of an extension above or below the editor; one without lines is removed."""
        _set(self._widgets, key, (is_below, lines) if lines else None)
        for place, wanted in ((self.above, False), (self.below, True)):
            # Widgets have colours of extensions, the other lines have none.
            of_place = [line for is_there, each in self._widgets.values() if is_there is wanted for line in each]
            show_drawn(place, of_place)

    def draw_queue(self, steering: Sequence[str], follow_ups: Sequence[str]) -> None:
        """Show the queued messages, and the keys that change them."""
        lines = [f"steering: {each}" for each in steering] + [f"follow-up: {each}" for each in follow_ups]
        lines = [line.replace("\n", " ") for line in lines]
        if len(lines) > _MOST_QUEUED_SHOWN:
            lines[_MOST_QUEUED_SHOWN:] = [f"… {len(lines) - _MOST_QUEUED_SHOWN} more"]
        keys = dict(self._keys.rows())
        hints = {"app.message.dequeue": "take them back", "app.message.queue": "change one"}
        if lines and (shown := [f"{keys[action]}: {hint}" for action, hint in hints.items() if action in keys]):
            lines.append(" · ".join(shown))
        show_plain(self.queue, lines)


def show_plain(place: Static, lines: Sequence[str]) -> None:
    """Show lines as they are, without what changes a terminal; without any the place is hidden."""
    place.display = bool(lines)
    place.update(Content(plain("\n".join(lines))))


def show_drawn(place: Static, lines: Sequence[str]) -> None:
    """Show lines with their colours; without any the place is hidden."""
    place.display = bool(lines)
    place.update(Content.from_rich_text(drawn(lines)))


def _set(values: "dict[str, Value]", key: str, value: "Value | None") -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
