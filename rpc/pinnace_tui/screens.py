"""Questions over the conversation: dialogs of extensions, and lists to choose from.

A dialog shows its text whole and as it is, never as markup. Leaving one without an answer is None. On a terminal that
is narrower than a question can be, its right side is cut off: a part without a width can't be drawn. Keys that were
pressed before a question could be seen answer nothing: they were meant for what was there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import ClassVar, Final, TypeVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from pinnace_tui.content.rendering import plain_line, whole
from pinnace_tui.fields import LineInput, Options, TextBox, with_line_ends
from pinnace_tui.guarded import Guarded

Answer = TypeVar("Answer")

_MOST_SHOWN: Final = 2000


async def ask(app: App[str], screen: ModalScreen[Answer]) -> Answer | None:
    """Show a question; return its answer. A question whose asker is cancelled is closed."""
    answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    def take(value: Answer | None) -> None:
        if not answer.done():
            answer.set_result(value)

    # In the app's own task, whichever task asks.
    app.call_later(app.push_screen, screen, take)
    try:
        return await answer
    finally:
        if not answer.done() or answer.cancelled():
            app.call_later(_remove, app, screen)


async def _remove(app: App[str], screen: ModalScreen[Answer]) -> None:
    if screen in app.screen_stack:
        _ = screen.dismiss(None)


class Dialog(Guarded, ModalScreen[str | None]):
    """A question with a text; the answer is a text."""

    DEFAULT_CSS = """
    Dialog { align: center bottom; }
    Dialog > Vertical { width: 100%; min-width: 16; height: auto; max-height: 90%; padding: 0 1; }
    Dialog > Vertical { border: round $accent; background: $surface; }
    Dialog VerticalScroll { height: auto; max-height: 60vh; }
    Dialog OptionList { height: auto; max-height: 12; background: $surface; }
    Dialog OptionList, Dialog OptionList:focus { border: none; }
    Dialog Input { border: round $primary; }
    Dialog TextArea { height: 12; border: round $primary; }
    Dialog .hint { text-style: dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel", show=False),
        Binding("ctrl+c", "leave", "Cancel", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "Scroll", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll", show=False, priority=True),
    ]

    def __init__(self, title: str, details: Text | None = None, ends_at: float | None = None) -> None:
        """Ask.

        Args:
            title: The text.
            details: Shown below it.
            ends_at: When the question is closed without an answer, as `monotonic` counts; None: never.
        """
        super().__init__()
        self._title = title
        self._details = details
        self._ends_at = ends_at
        self._time_left = Static(classes="hint", markup=False)
        self._time_left.display = ends_at is not None
        self._seen_at: float | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether it could be seen by now, so that it takes inputs."""
        return self._seen_at is not None

    def can_take(self, event: events.InputEvent) -> bool:
        """Return whether an input came after the question was drawn."""
        return self._seen_at is not None and event.time >= self._seen_at

    def _note_drawn(self) -> None:
        self._seen_at = events.Event().time  # by the clock of inputs

    def on_mount(self) -> None:
        """Show the time that is left."""
        self.call_after_refresh(self._note_drawn)
        if self._ends_at is not None:
            self._show_time_left(self._ends_at)
            self.set_interval(0.5, partial(self._show_time_left, self._ends_at))

    def _show_time_left(self, ends_at: float) -> None:
        self._time_left.update(f"closes in {max(ends_at - monotonic(), 0):.0f} s, without an answer")

    async def action_leave(self) -> None:
        """Answer nothing."""
        _ = self.dismiss(None)

    def action_scroll(self, direction: int) -> None:
        """Scroll the text."""
        scrolled = self.query_one(VerticalScroll)
        scrolled.scroll_relative(y=direction * max(scrolled.size.height - 1, 1), animate=False)

    def text_parts(self) -> ComposeResult:
        """Return the text, which may be long."""
        first, _, rest = whole(self._title).partition("\n")
        with VerticalScroll(can_focus=False):
            yield Static(Content.from_rich_text(Text(first, "bold")))
            if rest.strip():
                yield Static(Content(rest.strip("\n")))
            if self._details is not None:
                yield Static(Content.from_rich_text(self._details))
        yield self._time_left


class Notice(Dialog):
    """A text that is shown until it is left; nothing is answered."""

    def compose(self) -> ComposeResult:
        """Show the text."""
        with Vertical():
            yield from self.text_parts()


class SelectDialog(Dialog):
    """Choose one of some texts."""

    def __init__(
        self,
        title: str,
        options: Sequence[str],
        details: Text | None = None,
        *,
        marked: int | None = None,
        ends_at: float | None = None,
    ) -> None:
        """Ask; `marked` is the option that Enter chooses at first; None: none, before a key has marked one."""
        super().__init__(title, details, ends_at)
        self._options = options
        self._marked = marked

    def compose(self) -> ComposeResult:
        """Show the question."""
        with Vertical():
            yield from self.text_parts()
            yield Options(*(Content(whole(option)) for option in self._options))

    def on_mount(self) -> None:
        """Begin with the marked option."""
        options = self.query_one(OptionList)
        options.highlighted = self._marked
        options.focus()

    async def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer."""
        _ = self.dismiss(self._options[event.option_index])


class InputDialog(Dialog):
    """Enter one line."""

    def __init__(
        self,
        title: str,
        placeholder: str = "",
        value: str = "",
        *,
        ends_at: float | None = None,
        is_secret: bool = False,
    ) -> None:
        """Ask; what is entered is not shown if it is secret."""
        super().__init__(title, ends_at=ends_at)
        self._placeholder, self._value, self._is_secret = placeholder, value, is_secret

    def compose(self) -> ComposeResult:
        """Show the question."""
        with Vertical():
            yield from self.text_parts()
            yield LineInput(
                plain_line(self._value), placeholder=plain_line(self._placeholder), password=self._is_secret
            )

    def on_mount(self) -> None:
        """Begin in the line."""
        self.query_one(Input).focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer."""
        _ = self.dismiss(event.value)


class EditorDialog(Dialog):
    """Edit a text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "answer", "Answer", show=False, priority=True),
        Binding("ctrl+j", "newline", "New line", show=False, priority=True),
        Binding("enter", "answer", "Answer", show=False, priority=True),
    ]

    def __init__(self, title: str, value: str = "") -> None:
        """Ask."""
        super().__init__(title)
        self._value = value

    def compose(self) -> ComposeResult:
        """Show the question."""
        with Vertical():
            yield from self.text_parts()
            yield TextBox(with_line_ends(self._value))
            yield Static("Enter: answer · Ctrl+J: new line · Escape: cancel", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Begin in the text."""
        editor = self.query_one(TextBox)
        editor.focus()
        editor.move_cursor(editor.document.end)

    async def action_answer(self) -> None:
        """Answer with the text."""
        _ = self.dismiss(self.query_one(TextBox).text)

    def action_newline(self) -> None:
        """Begin a line."""
        self.query_one(TextBox).insert("\n")


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen from a list."""

    index: int
    action: str = "choose"
    """What to do with it."""


class Picker(Guarded, ModalScreen[Choice | None]):
    """A list with a line that filters it. Other keys than Enter may choose, too."""

    DEFAULT_CSS = """
    Picker { align: center bottom; }
    Picker > Vertical { width: 100%; min-width: 16; height: auto; max-height: 90%; padding: 0 1; }
    Picker > Vertical { border: round $accent; background: $surface; }
    Picker OptionList { height: auto; max-height: 60vh; background: $surface; }
    Picker OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
    Picker OptionList, Picker OptionList:focus { border: none; }
    Picker Input, Picker Input:focus { border: none; height: 1; padding: 0; background: $surface; }
    Picker .hint { text-style: dim; }
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[str],
        *,
        current: int = 0,
        actions: Mapping[str, str] | None = None,
        hint: str = "",
    ) -> None:
        """Offer rows, `actions` by key."""
        super().__init__()
        self._title, self._rows, self._current, self._hint = title, rows, current, hint
        self._actions = actions or {}
        self._shown: list[int] = []

    def compose(self) -> ComposeResult:
        """Show the list."""
        with Vertical():
            yield Static(Content.from_rich_text(Text(self._title, "bold")))
            yield LineInput(placeholder="type to filter")
            yield Options()
            if self._hint:
                yield Static(self._hint, classes="hint", markup=False)

    def on_mount(self) -> None:
        """Begin with all rows."""
        self._filter("")
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the rows that have the words."""
        self._filter(event.value)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Choose."""
        await self._choose("choose")

    async def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Choose by a click."""
        await self._choose("choose")

    async def on_key(self, event: events.Key) -> None:
        """Move in the list while the filter has the focus."""
        options = self.query_one(OptionList)
        match event.key:
            case "escape" | "ctrl+c":
                _ = self.dismiss(None)
            case "up":
                options.action_cursor_up()
            case "down":
                options.action_cursor_down()
            case "pageup":
                options.action_page_up()  # type: ignore[no-untyped-call]
            case "pagedown":
                options.action_page_down()  # type: ignore[no-untyped-call]
            case key if key in self._actions:
                await self._choose(self._actions[key])
            case _:
                return
        event.stop()
        event.prevent_default()

    async def _choose(self, action: str) -> None:
        place = self.query_one(OptionList).highlighted
        if place is not None and place < len(self._shown):
            _ = self.dismiss(Choice(self._shown[place], action))

    def _filter(self, words: str) -> None:
        wanted = words.lower().split()
        found = [index for index, row in enumerate(self._rows) if all(word in row.lower() for word in wanted)]
        near = found
        if len(found) > _MOST_SHOWN:
            first = max(min(self._current - _MOST_SHOWN // 2, len(found) - _MOST_SHOWN), 0) if not wanted else 0
            near = found[first : first + _MOST_SHOWN]
        self._shown = near
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Content(plain_line(self._rows[index])) for index in near])
        if near:
            options.highlighted = near.index(self._current) if not wanted and self._current in near else 0
