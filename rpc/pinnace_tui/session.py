"""The session as this client shows it: its conversation and its state, loaded when they are others than is known.

Events change the conversation as they come. Where that is not enough (another session, a gap, another process of the
agent) both are loaded again, and events that overlap with the answer are applied once more.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pinnace
from pinnace_tui.content.rendering import plain
from pinnace_tui.content.transcript import warning_line
from pinnace_tui.content.values import Record, objects, text
from pinnace_tui.drawn_items import DrawnItems
from pinnace_tui.footer import branch_of, welcome
from pinnace_tui.input.keys import Shortcut
from pinnace_tui.shown_warnings import ShownWarnings
from pinnace_tui.terminal import Terminal
from pinnace_tui.work_line import WorkLine

if TYPE_CHECKING:
    from pinnace import AsyncioClient

# A row of events costs one loading of the state.
_PAUSE_S: Final = 0.1


class Session:
    """The session of one client."""

    def __init__(self, terminal: Terminal, drawn_items: DrawnItems, work: WorkLine) -> None:
        """Begin without one."""
        self._terminal = terminal
        self._drawn_items = drawn_items
        self._work = work
        self._warnings = ShownWarnings(terminal.transcript)
        self._is_state_due = asyncio.Event()
        self._loaded: tuple[str, str | None] = "", None
        """The session and its last entry, when it was loaded."""
        self._loading = asyncio.Lock()
        self._overlapping: list[Record] | None = None
        """Events since entries were asked for: those behind the answer may be taken before it, and would be lost."""
        self.commands: list[tuple[str, str]] = []
        """The agent's commands, with their descriptions."""

    def take(self, event: Record) -> bool:
        """Take an event into the conversation; return whether it is news, and not a warning that was shown already."""
        if self._warnings.note(event):
            return False
        self._terminal.transcript.apply(event)
        if self._overlapping is not None:
            self._overlapping.append(event)
        return True

    def last_words(self) -> list[str]:
        """Return what stays in the terminal when the client has left: the last answer, and how to continue."""
        transcript, shown = self._terminal.transcript, self._terminal.lines.shown
        lines = [plain(answer)] if (answer := transcript.last_answer()) else []
        if shown.agent:
            lines.append(f"To return to the agent: pinnace attach --tui {shown.agent}")
        elif text(shown.state, "sessionFile") and transcript.prompts():
            lines.append("To continue this session: pinnace --continue")
        return lines

    # --- the state -------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Have the state loaded again soon: an event has changed it, or what was used."""
        self._is_state_due.set()

    async def keep_current(self) -> None:
        """Load the state again whenever it has expired."""
        while True:
            await self._is_state_due.wait()
            self._is_state_due.clear()
            with suppress(pinnace.ClientFailure):
                await self.refresh()
            await asyncio.sleep(_PAUSE_S)

    async def refresh(self) -> None:
        """Load the state again; and the conversation, if the session is another one."""
        connection, lines = self._terminal.connection, self._terminal.lines
        state = await self._load_state(connection.client)
        if self._use_drawn_items(state):
            await self.reload()  # entries that are shown now, or not any more
        self._show_warnings()
        lines.shown.stats = cast("Record", await connection.client.get_session_stats())
        lines.draw_footer()
        if self._loaded[0] not in ("", session := text(state, "sessionId")):
            async with self._loading:  # its event may be having it loaded
                is_loaded = self._loaded[0] == session
            if not is_loaded:
                await self.reload()

    async def _load_state(self, client: "AsyncioClient") -> Record:
        """Load the state; not whether the agent works, if an event has changed that meanwhile."""
        known = self._work.changes
        state = cast("Record", await client.get_state())
        lines, editor = self._terminal.lines, self._terminal.editor
        lines.shown.state = state
        editor.folder = text(state, "cwd") or str(Path.cwd())
        lines.shown.branch = branch_of(editor.folder)
        if known == self._work.changes:
            self._work.take_state(state)
        lines.draw_footer()
        return state

    def _show_warnings(self) -> None:
        """Show what the agent warns of and was not shown in this conversation."""
        self._warnings.show(map(warning_line, objects(self._terminal.lines.shown.state, "warnings")))

    def _use_drawn_items(self, state: Record) -> bool:
        """Have items drawn by the extensions that do so now; return whether other entries are shown."""
        transcript = self._terminal.transcript
        if self._drawn_items.use(state):
            self._terminal.view.use_lines(self._drawn_items)
        former, transcript.entry_types = transcript.entry_types, self._drawn_items.entry_types
        return former != transcript.entry_types

    # --- the conversation ------------------------------------------------------------------------------------------

    async def follow(self, session: str | None, leaf: str | None) -> None:
        """Show the conversation that is current now, unless it was loaded since: an event and a response report it.

        Args:
            session: The session that is current; None: as before.
            leaf: The last entry of its conversation.
        """
        async with self._loading:
            is_shown = session in (None, self._loaded[0]) and leaf == self._loaded[1]
        if not is_shown:
            await self.reload()

    async def reload(self) -> None:
        """Load the conversation and the state again."""
        terminal, client = self._terminal, self._terminal.connection.client
        async with self._loading:
            state = await self._load_state(client)
            self._use_drawn_items(state)
            self._drawn_items.forget()
            overlapping = await self._load_conversation(client, text(state, "sessionId"))
        if not terminal.transcript.items:
            terminal.transcript.notice(welcome(state, terminal.keys))
        # What has come meanwhile is shown.
        self._warnings.begin(overlapping)
        self._show_warnings()
        self._warnings.show(await terminal.looks.take_state(state))
        terminal.editor.replace_history(terminal.transcript.prompts())
        terminal.lines.shown.stats = cast("Record", await client.get_session_stats())
        terminal.lines.draw_footer()
        await self._load_queue(client)
        commands = await client.get_commands()
        self.commands = [(each["name"], each.get("description", "")) for each in commands["commands"]]
        terminal.editor.agent_commands = self.commands
        await self._bind_shortcuts(client)

    async def _load_conversation(self, client: "AsyncioClient", session: str) -> list[Record]:
        """Load the conversation of a session; return the events that have come meanwhile, which are applied again."""
        transcript = self._terminal.transcript
        leaf: str | None = None
        overlapping: list[Record] = []
        self._overlapping = overlapping
        try:
            entries = await client.get_entries()
        except pinnace.CommandFailed:  # of an agent of an older generation
            messages = await client.get_messages()
            transcript.load_messages(cast("list[Record]", messages["messages"]))
        else:
            transcript.load_entries(cast("list[Record]", entries["entries"]), entries["leafId"])
            leaf = entries["leafId"]
        finally:
            self._overlapping = None
        self._loaded = session, leaf
        for event in overlapping:
            transcript.apply(event)
        return overlapping

    async def _load_queue(self, client: "AsyncioClient") -> None:
        with suppress(pinnace.CommandFailed):
            waiting = (await client.get_queue())["messages"]
            self._terminal.lines.draw_queue(
                [each["text"] for each in waiting if each["kind"] == "steer"],
                [each["text"] for each in waiting if each["kind"] == "followUp"],
            )

    async def _bind_shortcuts(self, client: "AsyncioClient") -> None:
        """Give extensions the keys that they want, and show which they can't have."""
        listed: list[Record] = []
        with suppress(pinnace.CommandFailed):  # an agent of an older version has none
            listed = objects(cast("Record", await client.get_shortcuts()), "shortcuts")
        shortcuts = [Shortcut(text(each, "key"), text(each, "description"), text(each, "path")) for each in listed]
        for problem in self._terminal.keys.bind(shortcuts):
            self._terminal.transcript.notice(problem, "warning")
