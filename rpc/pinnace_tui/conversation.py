"""The conversation on the screen: of a list of any length only the visible lines are rendered.

Each item has a height, estimated until it is rendered for the first time. Before a frame the visible items are
measured, in such a way that what is on the screen stays there. At its end the view follows what is new. Changes between
two frames cost one rendering.
"""

from collections import OrderedDict
from typing import Final

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from pinnace_tui.content.heights import Heights
from pinnace_tui.content.look import Look
from pinnace_tui.content.rendering import ExtensionLines, Renderer, searched_text
from pinnace_tui.content.transcript import Transcript, TranscriptItem, UserItem
from pinnace_tui.guarded import Guarded

FRAME_S: Final = 1 / 30
# Some screens: what is scrolled back to is rendered again.
_KEPT_LINES: Final = 1000


class ConversationView(Guarded, ScrollView, can_focus=False):
    """Shows a transcript, of which it is the listener."""

    DEFAULT_CSS = """
    ConversationView { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    class Toggled(Message):
        """An item was clicked."""

        def __init__(self, item: TranscriptItem) -> None:
            """Name it."""
            super().__init__()
            self.item = item

    def __init__(self, transcript: Transcript, look: Look) -> None:
        """Show a transcript."""
        super().__init__()
        self._of_extensions: ExtensionLines | None = None
        self._transcript = transcript
        self._look = look
        self._heights = Heights()
        self._shows_thinking = False
        self._shows_tools = False
        self._thinking_label: str | None = None
        self._renderer = Renderer(80, look, shows_thinking=False, shows_tools=False)
        self._rendered: OrderedDict[TranscriptItem, tuple[int, list[Strip]]] = OrderedDict()
        self._kept_lines = 0
        self._is_following = True
        self._has_changed = False
        self._is_settling = False
        self._found: tuple[TranscriptItem, int, str] | None = None
        """What was searched for: the item, its line, and the text in lower case."""
        transcript.listener = self

    # --- the listener ----------------------------------------------------------------------------------------------

    def inserted(self, row: int) -> None:
        """Take a new item."""
        self._heights.insert(row, self._renderer.estimate(self._transcript.items[row]))
        self._has_changed = True

    def changed(self, item: TranscriptItem) -> None:
        """Render an item anew at the next frame in which it is visible."""
        self._has_changed = True

    def replaced(self) -> None:
        """Take other items."""
        self._rendered.clear()
        self._kept_lines = 0
        self._heights.reset([self._renderer.estimate(item) for item in self._transcript.items])
        self._is_following = True
        self._has_changed = True

    def redraw(self, item: TranscriptItem) -> None:
        """Render an item anew that is the same, since an extension has drawn it."""
        if (kept := self._rendered.pop(item, None)) is not None:
            self._kept_lines -= len(kept[1])
        self._has_changed = True

    def use_lines(self, of_extensions: ExtensionLines) -> None:
        """Show items as extensions draw them, from now on or by others than before."""
        self._of_extensions = of_extensions
        self._renew()

    # --- for the app -----------------------------------------------------------------------------------------------

    @property
    def is_following(self) -> bool:
        """Whether the end is shown, and will be."""
        return self._is_following

    def show(self, look: Look | None = None, *, thinking: bool | None = None, tools: bool | None = None) -> None:
        """Change the look, or what is shown whole."""
        self._look = look or self._look
        self._shows_thinking = self._shows_thinking if thinking is None else thinking
        self._shows_tools = self._shows_tools if tools is None else tools
        self._renew()

    def label_thinking(self, label: str | None) -> None:
        """Show another text for thoughts that are folded; None: that of this client."""
        if label != self._thinking_label:
            self._thinking_label = label
            self._renew()

    @property
    def shows_thinking(self) -> bool:
        """Whether thoughts are shown whole."""
        return self._shows_thinking

    @property
    def shows_tools(self) -> bool:
        """Whether calls of tools are shown whole."""
        return self._shows_tools

    def follow(self) -> None:
        """Scroll to the end, and follow it."""
        self._is_following = True
        self._has_changed = True

    def go_up(self, lines: int) -> None:
        """Scroll, up or (negative) down."""
        self.scroll_to(y=self.scroll_y - lines, animate=False, force=True)

    def go_to_prompt(self, direction: int) -> None:
        """Scroll to the next message of the user in a direction."""
        row, _ = self._heights.find(self.scroll_offset.y)
        row += direction
        while 0 <= row < len(self._heights):
            if isinstance(self._transcript.items[row], UserItem):
                self._is_following = False
                self.scroll_to(y=self._heights.top(row), animate=False, force=True)
                return
            row += direction

    @property
    def marked_line(self) -> str | None:
        """The line that a search has marked."""
        if self._found is None:
            return None
        item, line, _ = self._found
        strips = self._strips(item)
        return strips[line].text if line < len(strips) else None

    def find(self, words: str, step: int) -> bool:
        """Scroll to a line that has some words, in upper or lower case, and mark it; return whether there is one.

        Args:
            words: What to look for; nothing unmarks.
            step: 1: the next line, -1: the previous one, 0: the one that is marked, if it has them, or the next one.
                Behind the end it continues at the beginning.
        """
        items, needle = self._transcript.items, words.lower()
        if not needle or not items:
            self._found = None
            self.refresh()
            return False
        row, line = self._heights.find(self.scroll_offset.y)
        row, line = min(row, len(items) - 1), line - 1
        if self._found is not None and self._found[0] in items:
            row, line = items.index(self._found[0]), self._found[1] - (step == 0)
        direction = step or 1
        for count in range(len(items) + 1):
            at = (row + count * direction) % len(items)
            if needle not in searched_text(items[at]).lower():
                continue
            lines = self._lines_with(items[at], needle)
            if count == 0:
                lines = [each for each in lines if (each - line) * direction > 0]
            if lines:
                self._show_found(at, lines[0] if direction > 0 else lines[-1], needle)
                return True
        self._found = None
        self.refresh()
        return False

    def _lines_with(self, item: TranscriptItem, needle: str) -> list[int]:
        """Return the lines of an item that have a text; its first one, if the text is divided between lines."""
        for _ in range(2):
            if lines := [line for line, strip in enumerate(self._strips(item)) if needle in strip.text.lower()]:
                return lines
            if self.is_open(item):
                break
            self._transcript.toggle(item, is_open=True)
        return [0]

    def _show_found(self, row: int, line: int, needle: str) -> None:
        self._measure(row)
        self._found = (self._transcript.items[row], line, needle)
        self._is_following = False
        self.virtual_size = Size(self.size.width, self._heights.total)
        self.scroll_to(y=self._heights.top(row) + line, animate=False, force=True)
        self._has_changed = True

    # --- frames ----------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Begin to show what has changed, once a frame."""
        self.set_interval(FRAME_S, self.flush)

    def on_resize(self, event: events.Resize) -> None:
        """Render for another width."""
        if self.size.width != self._renderer.width:
            self._renew()
        else:
            self._has_changed = True

    def flush(self) -> None:
        """Show what has changed since the last frame."""
        if self._has_changed and self.size.height:
            self._has_changed = False
            self._settle()
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Measure what becomes visible."""
        if not self._is_settling and self.size.height:
            # The end of what is shown: items since the last frame are below it, and must not end the following.
            self._is_following = round(new_value) >= self.max_scroll_y
            self._settle()
        super().watch_scroll_y(old_value, new_value)

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the item that is clicked."""
        row, _ = self._heights.find(self.scroll_offset.y + event.y)
        if row < len(self._heights) and self.text_selection is None:
            self.post_message(self.Toggled(self._transcript.items[row]))

    def is_open(self, item: TranscriptItem) -> bool:
        """Return whether an item is shown whole."""
        return self._renderer.is_open(item)

    def _renew(self) -> None:
        """Render everything anew, with the same item at the top."""
        row, _ = self._heights.find(self.scroll_offset.y)
        self._renderer = Renderer(
            self.size.width,
            self._look,
            shows_thinking=self._shows_thinking,
            shows_tools=self._shows_tools,
            of_extensions=self._of_extensions,
            thinking_label=self._thinking_label,
        )
        self._rendered.clear()
        self._kept_lines = 0
        self._heights.reset([self._renderer.estimate(item) for item in self._transcript.items])
        if not self._is_following:
            self._scroll_now(self._heights.top(row))
        self._has_changed = True

    def _settle(self) -> None:
        """Measure the visible items; keep what is on the screen where it is."""
        height, heights = self.size.height, self._heights
        if self._is_following:
            row, room = len(heights), height
            while row > 0 and room > 0:
                row -= 1
                room -= self._measure(row)
            self._scroll_now(max(heights.total - height, 0))
            return
        y = self.scroll_offset.y
        row, line = heights.find(y)
        if row < len(heights):
            change = heights[row]
            change = self._measure(row) - change
            if line and change:  # it has come in from above: its last lines are seen
                y = max(y + change, heights.top(row))
        end = y + height
        bottom = heights.top(row)
        while row < len(heights) and bottom < end:
            bottom += self._measure(row)
            row += 1
        self._scroll_now(min(y, max(heights.total - height, 0)))

    def _measure(self, row: int) -> int:
        count = len(self._strips(self._transcript.items[row]))
        self._heights.set(row, count)
        return count

    def _strips(self, item: TranscriptItem) -> list[Strip]:
        kept = self._rendered.get(item)
        if kept is not None and kept[0] == item.version:
            self._rendered.move_to_end(item)
            return kept[1]
        strips = self._renderer.render(item)
        self._kept_lines += len(strips) - (0 if kept is None else len(kept[1]))
        self._rendered[item] = (item.version, strips)
        self._rendered.move_to_end(item)
        while self._kept_lines > _KEPT_LINES and len(self._rendered) > 1:
            _, (_, dropped) = self._rendered.popitem(last=False)
            self._kept_lines -= len(dropped)
        return strips

    def _scroll_now(self, y: int) -> None:
        self._is_settling = True
        try:
            self.virtual_size = Size(self.size.width, self._heights.total)
            if y != self.scroll_offset.y:
                self.scroll_target_y = y
                self.scroll_y = y
        finally:
            self._is_settling = False

    # --- lines -----------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Return a line of the visible part."""
        line = self.scroll_offset.y + y
        width, style = self.size.width, self.rich_style
        strip = self._line(line)
        if self._found is not None and (span := self._found_span(line, strip)) is not None:
            strip = self._marked(strip, span)
        if (selection := self.text_selection) is not None and (span := selection.get_span(line)) is not None:
            strip = self._marked(strip, span)
        return strip.apply_style(style).extend_cell_length(width, style).crop(0, width).apply_offsets(0, line)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text under a selection."""
        first = 0 if selection.start is None else selection.start.y
        last = self._heights.total - 1 if selection.end is None else selection.end.y
        lines: list[str] = []
        for line in range(first, last + 1):
            start, end = selection.get_span(line) or (0, 0)
            content = self._line(line).text
            lines.append(content[start : None if end == -1 else end].rstrip())
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show a selection."""
        self.refresh()

    def _line(self, line: int) -> Strip:
        row, rest = self._heights.find(line)
        if row >= len(self._heights):
            return Strip([])
        strips = self._strips(self._transcript.items[row])
        return strips[rest] if rest < len(strips) else Strip([])

    def _found_span(self, line: int, strip: Strip) -> tuple[int, int] | None:
        """Return the place of what was found, if it is in this line."""
        row, rest = self._heights.find(line)
        if self._found is None or row >= len(self._heights):
            return None
        item, found_line, needle = self._found
        if rest != found_line or self._transcript.items[row] is not item:
            return None
        place = strip.text.lower().find(needle)
        return None if place < 0 else (place, place + len(needle))

    def _marked(self, strip: Strip, span: tuple[int, int]) -> Strip:
        start, end = span
        first = strip.index_to_cell_position(start)
        last = strip.cell_length if end == -1 else strip.index_to_cell_position(end)
        style = Style(reverse=True)
        parts = [strip.crop(0, first), strip.crop(first, last).apply_style(style), strip.crop(last)]
        return Strip.join(parts)
