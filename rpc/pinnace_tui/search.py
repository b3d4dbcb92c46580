"""The line in which the conversation is searched. Which lines have the words is the view's to find."""

from typing import Final

from textual import events
from textual.message import Message
from textual.widgets import Input

from pinnace_tui.fields import LineInput

_STEPS: Final = {"enter": 1, "ctrl+g": 1, "down": 1, "shift+enter": -1, "ctrl+shift+g": -1, "up": -1}


class SearchLine(LineInput):
    """Words to search for: Enter, Ctrl+G and Down go to the next line that has them, Up to the previous one."""

    DEFAULT_CSS = """
    SearchLine, SearchLine:focus { border: none; height: 1; padding: 0 1; display: none; }
    """

    class Sought(Message):
        """A line with these words is wanted: the next one, the previous one, or (0) also the present one."""

        def __init__(self, words: str, step: int) -> None:
            """Name them."""
            super().__init__()
            self.words = words
            self.step = step

    class Closed(Message):
        """The search is over."""

    def __init__(self) -> None:
        """Begin closed."""
        super().__init__(placeholder="search: Enter next · Up previous · Escape close", select_on_focus=False)

    def open(self, words: str) -> None:
        """Take the keys, and search for words; for the last ones if there are none."""
        self.display = True
        self.value = words or self.value
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while words are written."""
        event.stop()
        self.post_message(self.Sought(event.value, 0))

    async def on_key(self, event: events.Key) -> None:
        """Go on, or close."""
        if event.key in _STEPS:
            self.post_message(self.Sought(self.value, _STEPS[event.key]))
        elif event.key in {"escape", "ctrl+c"}:
            self.post_message(self.Closed())
        else:
            return
        event.stop()
        event.prevent_default()
