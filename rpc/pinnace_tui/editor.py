"""The editor of the next message, with its history and completions.

Decides what keys mean while a message is written; what is done with a message, and with other actions, is the app's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static, TextArea

from pinnace_tui.clipboard import as_files, read_picture
from pinnace_tui.completion import (
    MOST,
    CompletionContext,
    Suggestion,
    files_of,
    place_in,
    suggest_commands,
    suggest_files,
)
from pinnace_tui.content.rendering import plain, plain_line
from pinnace_tui.fields import TextBox, with_line_ends
from pinnace_tui.input.key_data import key_data, paste_data, pasted_text, without_paste_end
from pinnace_tui.input.keys import Keys
from pinnace_tui.remote_editor import Change, RemoteEditor, Typed


def event_of(typed: Typed) -> events.Key | events.Paste:
    """Return a key or a paste as the client has it."""
    return events.Key(typed.name, typed.character) if typed.name else events.Paste(pasted_text(typed.data))


class Suggestions(Static):
    """The possible completions, above the editor."""

    DEFAULT_CSS = """
    Suggestions { height: auto; max-height: 8; display: none; padding: 0 1; }
    """

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__(markup=False)
        self.found: list[Suggestion] = []
        self._chosen = 0

    @property
    def chosen(self) -> Suggestion | None:
        """The one that is marked."""
        return self.found[self._chosen] if self.found else None

    def offer(self, found: list[Suggestion]) -> None:
        """Show other ones."""
        self.found, self._chosen = found, 0
        self._draw()

    def move(self, step: int) -> None:
        """Mark another one."""
        self._chosen = (self._chosen + step) % len(self.found)
        self._draw()

    def _draw(self) -> None:
        self.display = bool(self.found)
        lines: list[Text] = []
        first = max(self._chosen - MOST + 1, 0)
        for place, each in enumerate(self.found[first : first + MOST], first):
            mark = "→" if place == self._chosen else " "
            # Names of files and commands are those of others.
            shown = plain_line(each.label.strip() or each.text.strip())
            line = Text(f"{mark} {shown}", "bold" if place == self._chosen else "", no_wrap=True)
            if each.description.strip():
                line.append(f"  {plain(each.description.strip()).splitlines()[0]}", "dim")
            line.overflow = "ellipsis"
            lines.append(line)
        self.update(Text("\n", no_wrap=True, overflow="ellipsis").join(lines))


class Editor(TextBox):
    """A text of any number of lines; Enter submits it."""

    DEFAULT_CSS = """
    Editor { height: auto; min-height: 3; max-height: 40%; min-width: 8; border: round $primary; padding: 0; }
    Editor:focus { border: round $accent; }
    """

    class Submitted(Message):
        """The user wants the text to be sent."""

        def __init__(self, text: str, *, is_follow_up: bool) -> None:
            """Name it."""
            super().__init__()
            self.text = text
            self.is_follow_up = is_follow_up

    class Acted(Message):
        """A key of an action was pressed that is not the editor's."""

        def __init__(self, action: str) -> None:
            """Name it."""
            super().__init__()
            self.action = action

    class ShortcutPressed(Message):
        """A key of an extension was pressed."""

        def __init__(self, key: str) -> None:
            """Name it."""
            super().__init__()
            self.key = key

    class Cleared(Message):
        """The text was removed; it is in the history."""

    def __init__(self, keys: Keys, suggestions: Suggestions) -> None:
        """Begin empty."""
        super().__init__(soft_wrap=True, tab_behavior="focus", show_line_numbers=False, highlight_cursor_line=False)
        self.keys = keys
        self.folder = "."
        self.commands: Sequence[tuple[str, str]] = ()
        """Those of the client, with their descriptions."""
        self.agent_commands: Sequence[tuple[str, str]] = ()
        """Those of the agent, likewise."""
        self.ask_arguments: Callable[[str, str], Awaitable[list[Suggestion]]] | None = None
        """Returns what completes the arguments of a command; None: nothing does."""
        self.ask_text: Callable[[str, str, bool], Awaitable[tuple[str, list[Suggestion]]]] | None = None
        """Returns what extensions offer for the text before and behind the cursor, which the user has asked for or not:
        the end of the text that it takes the place of, and the completions. None: no extension completes it."""
        self._asking: asyncio.Task[None] | None = None
        self._asking_text: asyncio.Task[None] | None = None
        self._extended: CompletionContext | None = None
        """What the completions of extensions that are offered take the place of; None: they are this client's."""
        self._accepted = ""
        """The text after a completion of an extension, which is not completed again."""
        self._suggestions = suggestions
        self._history: list[str] = []
        self._place: int | None = None
        """In the history; None: a new text."""
        self._draft = ""
        self._offered = ("", (0, 0))
        """The text and the cursor that the completions are for."""
        self._files: list[str] | None = None
        self._listing: asyncio.Task[None] | None = None
        self._pasting: asyncio.Task[None] | None = None
        self.remote: RemoteEditor | None = None
        """The editor of an extension that has the keys; this one then has its text, and is not shown."""

    # --- the editor of an extension ----------------------------------------------------------------------------------

    def hold(self, content: str) -> None:
        """Have the text of the extension's editor."""
        if content != self.text:
            self.load_text(with_line_ends(content))
            self.move_cursor(self.document.end)
        self._place = None

    def held(self) -> str:
        """Return the text."""
        return self.text

    def sent(self, content: str, *, is_follow_up: bool) -> None:
        """Send a message that the extension's editor has submitted."""
        self.remember(content)
        self.post_message(self.Submitted(content, is_follow_up=is_follow_up))

    def act(self, action: str, former: str) -> None:
        """Do what the extension's editor leaves to the client."""
        if action == "app.clear" and former:
            self.remember(former)
            self.post_message(self.Cleared())
        elif action == "app.clipboard.pasteImage":
            self._pasting = asyncio.create_task(self._paste_picture())
        else:
            self.post_message(self.Acted(action))

    def decide(self, typed: Typed) -> None:
        """Do what a key means, unless it writes."""
        match action := self.keys.action(typed.name):
            case "tui.input.submit" | "app.message.followUp":
                self._submit(is_follow_up=action != "tui.input.submit")
            case "app.clear" if former := self.text:
                self._change(lambda content: content.removeprefix(former))
                self.act(action, former)
            case str() if action.startswith(("app.", "tui.altScreen.")):
                self.act(action, "")
            case _:
                pass

    def begin_remote(self, send: Callable[..., None]) -> None:
        """Give the text, and keys from now on, to the editor of an extension."""
        self._suggestions.offer([])
        self.remote = RemoteEditor(send, self)

    def end_remote(self) -> None:
        """Take back the keys, and those that the extension has not taken."""
        remote, self.remote = self.remote, None
        for each in () if remote is None else remote.left():
            # Behind what this editor has been sent already.
            if not isinstance(each, Typed):
                self.call_later(self._change, each)
            else:
                self.post_message(event_of(each))

    def _change(self, change: Change) -> None:
        """Change the text, whichever editor has it."""
        if self.remote is not None:
            self.remote.change(change)
        else:
            self.load_text(with_line_ends(change(self.text)))
            self.move_cursor(self.document.end)
            self._place = None

    def write(self, content: str) -> None:
        """Insert a text at the cursor."""
        if self.remote is not None:
            self.remote.press(Typed(paste_data(without_paste_end(content)), None))
        else:
            self.insert(with_line_ends(content))

    def _give(self, event: events.Key) -> None:
        """Give a key to the extension's editor, but for those of this client that are not about the text."""
        action = self.keys.action(event.key) or ""
        data = key_data(event.key, event.character)
        if action.startswith("tui.altScreen.") or data is None:
            self.decide(Typed("", None, event.key, event.character))
        elif self.remote is not None:
            self.remote.press(Typed(*data, event.key, event.character))

    def remember(self, message: str) -> None:
        """Add a message to the history."""
        if message.strip() and self._history[-1:] != [message]:
            self._history.append(message)

    def replace_history(self, messages: list[str]) -> None:
        """Take the history of another conversation."""
        self._history, self._place = list(messages), None

    def put(self, content: str) -> None:
        """Replace the text, with the cursor at its end."""
        self._change(lambda _: content)

    def give_back(self, messages: list[str]) -> None:
        """Put messages before the text that is being written."""
        if messages:
            self._change(lambda content: "\n\n".join([*messages, *([content] if content.strip() else [])]))

    async def on_paste(self, event: events.Paste) -> None:
        """Insert a text as it is, with the line ends of texts; paths of files as files."""
        text = with_line_ends(event.text)
        event.text = as_files(text, self.folder) or text
        if self.remote is not None:
            event.stop()
            event.prevent_default()
            self.write(event.text)

    async def _paste_picture(self) -> None:
        """Insert the path of the clipboard's picture, which the agent can read; without one, what was copied here."""
        if (path := await asyncio.to_thread(read_picture)) is not None:
            self.write(f"{path} ")
        elif self.remote is None:
            self.action_paste()
        else:
            self.write(self.app.clipboard)  # pyright: ignore[reportUnknownMemberType] - a bare App

    async def on_key(self, event: events.Key) -> None:
        """Do what a key means here, before the text area inserts it."""
        if (shortcut := self.keys.shortcut(event.key)) is not None:
            self.post_message(self.ShortcutPressed(shortcut.key))
            event.stop()
            event.prevent_default()
            return
        if self.remote is not None:
            self._give(event)
            event.stop()
            event.prevent_default()
            return
        action = self.keys.action(event.key)
        if self._suggestions.found and self._offered != (self.text, self.cursor_location):
            self._offer(is_asked=False)  # the event of the last change has not come yet
        if self._suggestions.found and self._complete(event.key, action):
            event.stop()
            event.prevent_default()
            return
        match action:
            case "tui.input.submit" | "app.message.followUp":
                self._submit(is_follow_up=action != "tui.input.submit")
            case "tui.input.newLine":
                self.insert("\n")
            case "tui.input.tab":
                self._offer(is_asked=True)
            case "tui.editor.historyPrevious" | "tui.editor.historyNext":
                self._go(-1 if action.endswith("Previous") else 1)
            case "app.clipboard.pasteImage":
                self._pasting = asyncio.create_task(self._paste_picture())
            case "app.exit" if self.text:
                return  # deletes a letter
            case "app.clear" if self.text and not self.screen.get_selected_text():
                self.remember(self.text)  # here, since the next key is for the empty editor
                self.put("")
                self.post_message(self.Cleared())
            case None if event.key == "up" and self.cursor_location[0] == 0 and self._history:
                self._go(-1)
            case None if event.key == "down" and self._place is not None and self._is_in_last_line():
                self._go(1)
            case None:
                return
            case _:
                self.post_message(self.Acted(action))
        event.stop()
        event.prevent_default()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Offer what completes the text."""
        if self.remote is None:
            self._offer(is_asked=False)

    def _is_in_last_line(self) -> bool:
        return self.cursor_location[0] == self.document.line_count - 1

    def _submit(self, *, is_follow_up: bool) -> None:
        content = self.text
        if not content.strip():
            return
        self._place, self._draft = None, ""
        if self.remote is None:
            self.clear()
        else:  # but for what is typed meanwhile
            self.remote.change(lambda text: text.removeprefix(content))
        self.remember(content)
        self.post_message(self.Submitted(content, is_follow_up=is_follow_up))

    def _go(self, step: int) -> None:
        """Show another message of the history."""
        place = len(self._history) if self._place is None else self._place
        if self._place is None:
            self._draft = self.text
        place = max(place + step, 0)
        if place >= len(self._history):
            self.put(self._draft)
        else:
            self.put(self._history[place])
            self._place = place

    # --- completion ------------------------------------------------------------------------------------------------

    def _written(self) -> CompletionContext | None:
        row, column = self.cursor_location
        return place_in(str(self.document.get_line(row))[:column], is_first=row == 0)

    def _offer(self, *, is_asked: bool) -> None:
        self._offered, self._extended = (self.text, self.cursor_location), None
        place = None if self._place is not None else self._written()
        if self.ask_text is not None and self._place is None and (is_asked or self.text != self._accepted):
            self._asking_text = asyncio.create_task(self._ask_extensions(self.ask_text, is_asked=is_asked))
        if place is None:
            self._suggestions.offer([])
            if not self._listing or self._listing.done():
                self._files = None  # listed anew for the next one
        elif place.kind == "arguments":
            self._suggestions.offer([])
            if is_asked or self.text != self._accepted:
                self._asking = asyncio.create_task(self._ask(place))
        elif place.kind == "command":
            found = suggest_commands(place.prefix, [*self.commands, *self.agent_commands])
            is_whole = [each.text.strip() for each in found] == [f"/{place.prefix}"]
            self._suggestions.offer([] if is_whole and not is_asked else found)
        elif self._files is None:
            if self._listing is None or self._listing.done():
                self._listing = asyncio.create_task(self._list())
        else:
            self._suggestions.offer(suggest_files(place.prefix, self._files))

    async def _ask(self, place: CompletionContext) -> None:
        """Offer what an extension has for arguments, if they are what is still being written."""
        found = [] if self.ask_arguments is None else await self.ask_arguments(place.command, place.prefix)
        if self._extended is None and self._written() == place and self._place is None and self.text != self._accepted:
            self._suggestions.offer(found)

    async def _ask_extensions(
        self, ask: Callable[[str, str, bool], Awaitable[tuple[str, list[Suggestion]]]], *, is_asked: bool
    ) -> None:
        """Offer what extensions have for the text in the place of what this client has, if it is still the text."""
        row, column = self.cursor_location
        offered, before = self._offered, self.get_text_range((0, 0), (row, column))
        prefix, found = await ask(before, self.text[len(before) :], is_asked)
        written = before.rpartition("\n")[2]
        if found and self._offered == offered == (self.text, self.cursor_location) and written.endswith(prefix):
            self._extended = CompletionContext("text", column - len(prefix), prefix)
            self._suggestions.offer(found)

    async def _list(self) -> None:
        self._files = await asyncio.to_thread(files_of, self.folder)
        if self._extended is None and (place := self._written()) is not None and place.kind == "file":
            self._suggestions.offer(suggest_files(place.prefix, self._files))

    def _complete(self, key: str, action: str | None) -> bool:
        """Use a key for the completions; return whether it was for them."""
        chosen, place = self._suggestions.chosen, self._extended or self._written()
        if key in {"up", "down"}:
            self._suggestions.move(-1 if key == "up" else 1)
        elif action == "app.interrupt":
            self._suggestions.offer([])
        elif chosen is None or place is None:
            return False
        elif action == "tui.input.tab" or (action == "tui.input.submit" and self._changes(place, chosen)):
            row, column = self.cursor_location
            self.replace(with_line_ends(chosen.text), (row, place.start), (row, column))
            self._suggestions.offer([])
            self._accepted = self.text if place.kind in ("arguments", "text") else ""
        else:
            return False
        return True

    def _changes(self, place: CompletionContext, chosen: Suggestion) -> bool:
        if place.kind in ("arguments", "text"):
            return chosen.text != place.prefix
        sign = "/" if place.kind == "command" else "@"
        return chosen.text.strip() != f"{sign}{place.prefix}"
