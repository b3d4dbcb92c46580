"""The terminal client: composes the screen, takes the events of the agent, sends what the user writes.

    connection   the public client; one task reads its events, another loads state when it has changed
    transcript   what the events have made of the conversation; the view shows it once a frame
    questions    one at a time; one that was answered elsewhere, or whose call has ended, is closed

A message that the agent refuses goes back into the editor. Must not know how the agent is started: `main` does.
"""

import asyncio
import os
import shlex
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import localtime, monotonic, strftime, time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.content import Content
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen
from textual.theme import BUILTIN_THEMES, Theme
from textual.widgets import Static

import pinnace
from pinnace_tui.commands import Commands, queued_texts
from pinnace_tui.completion import Suggestion
from pinnace_tui.content.drawn_lines import drawn
from pinnace_tui.content.look import LOOKS, Look
from pinnace_tui.content.rendering import Renderer, changes_of, plain, plain_line
from pinnace_tui.content.transcript import (
    CustomItem,
    EntryItem,
    Level,
    ShellItem,
    SummaryItem,
    ThinkingItem,
    ToolItem,
    Transcript,
    warning_line,
)
from pinnace_tui.content.values import Record, mapping, number, objects, text, texts
from pinnace_tui.conversation import ConversationView
from pinnace_tui.drafts import Drafts
from pinnace_tui.drawn_items import DrawnItems
from pinnace_tui.editor import Editor, Suggestions, event_of
from pinnace_tui.footer import FooterState, branch_of, footer, welcome
from pinnace_tui.guarded import Guarded
from pinnace_tui.input.key_data import key_data, paste_data
from pinnace_tui.input.keys import Keys, Shortcut, in_words
from pinnace_tui.remote_editor import CHECK_S, Typed
from pinnace_tui.screens import Dialog, EditorDialog, InputDialog, SelectDialog
from pinnace_tui.search import SearchLine
from pinnace_tui.surfaces import AGAIN_S, KINDS, Surfaces
from pinnace_tui.working import DEFAULT_DISPLAY, WorkingDisplay

if TYPE_CHECKING:
    from pinnace import AsyncioClient, Dialogs
    from pinnace_tui.input.decoder import BackgroundReported
    from pinnace_tui.input.driver import InputFailed

Answer = TypeVar("Answer")
Connect = Callable[["Dialogs"], "AsyncioClient"]
LooksOf = Callable[[str], tuple[list[Look], list[str]]]

# Events after which state or usage are others.
_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_TELLING: Final = frozenset(
    "agent_start agent_settled turn_end compaction_start compaction_end thinking_level_changed session_info_changed "
    "session_changed agent_restarted truncated warning".split()
)
# Events by which it is known whether the agent works.
_WORK: Final = frozenset("agent_start agent_settled compaction_start compaction_end agent_restarted".split())
_LINES: Final = ("title", "work", "queue", "above", "below", "footer")
_MOST_QUEUED_SHOWN: Final = 5
_QUESTIONS: Final = frozenset({"select", "confirm", "input", "editor"})
# Some milliseconds of work.
_EVENTS_A_TURN: Final = 50
_PAUSE_S: Final = 0.005
# How often the text of the editor is reported to the agent.
_REPORT_S: Final = 0.1
# How often the draft is kept.
_DRAFT_S: Final = 1.0


class TakesTitle(Protocol):
    """A terminal with a title."""

    def set_title(self, title: str) -> None:
        """Set the title."""

    def ask_for_background(self) -> None:
        """Ask for the background."""


def _is_listed(event: Record) -> bool:
    """Return whether `warnings` of the state list the same: a handler may fail in the same way again."""
    kind = text(event, "type")
    return kind == "warning" or (kind == "extension_error" and text(event, "event") == "load")


class TerminalClient(Guarded, App[str], inherit_bindings=False):
    """The client's screen; it returns the text of an error with which it has ended, or None."""

    TITLE = "pinnace"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Editor"
    CSS = """
    #title { height: auto; text-style: bold; display: none; padding: 0 1; }
    #above, #below, #queue, #work { height: auto; padding: 0 1; display: none; }
    #queue { color: $text-muted; }
    #work { color: $warning; }
    #footer { height: auto; padding: 0 1; color: $text-muted; }
    OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
        background: $selected-background; color: $foreground; text-style: bold;
    }
    /* Above the conversation, not over the editor and the questions, which are at the bottom. */
    ToastRack { dock: top; align: right top; margin: 0; }
    """

    def __init__(  # noqa: PLR0913, PLR0915 - by name; a line for each part
        self,
        connect: Connect,
        *,
        keys: Keys | None = None,
        looks: Sequence[Look] = LOOKS,
        look: str | None = None,
        agent: str = "",
        messages: Sequence[str] = (),
        opens_sessions: bool = False,
        notices: Sequence[str] = (),
        drafts: Drafts | None = None,
        looks_of: LooksOf | None = None,
    ) -> None:
        """Prepare; the agent is started when the screen is there.

        Args:
            connect: Makes the client.
            keys: The keys of actions.
            looks: The themes.
            look: The name of the first one.
            agent: The name of an agent of the host.
            messages: Sent when the agent is there.
            opens_sessions: Whether to begin with the list of sessions.
            notices: Shown at the beginning.
            drafts: Where what was not sent is kept; None: nowhere.
            looks_of: Returns the themes with those of a trusted project, by its folder, and what is wrong with them.
        """
        self._terminal: TakesTitle | None = None  # the driver is made by the next line
        super().__init__()
        self._connect = connect
        self.keys = keys or Keys()
        self._own_looks, self._looks_of = looks, looks_of
        self._looks = {each.name: each for each in looks}
        self._wanted_look = look
        """The name of a theme that was not found yet; None: there is none."""
        self._look = self._looks.get(look or "") or looks[0]
        self.transcript = Transcript()
        self._view = ConversationView(self.transcript, self._look)
        self._suggestions = Suggestions()
        self._editor = Editor(self.keys, self._suggestions)
        # Held, since they are drawn by events and timers, which also come before and after they are on the screen.
        self._lines = {name: Static(id=name, markup=False) for name in _LINES}
        self._editor.ask_arguments = self._complete_arguments
        self._search = SearchLine()
        self._surfaces = Surfaces(self, self._editor, self._lines["footer"], self._take_over, self._deliver)
        self._drawn_items = DrawnItems(self._view.redraw, self.transcript.is_growing)
        self._commands = Commands(self)
        self._shown = FooterState(agent=agent)
        self._statuses: dict[str, str] = {}
        self._widgets: dict[str, tuple[bool, list[str]]] = {}
        self._first_messages = list(messages)
        self._opens_sessions = opens_sessions
        self._notices = list(notices)
        self._warned: set[str] = set()
        """Warnings that were shown: the state lists what records have reported, and the reverse."""
        self._client: AsyncioClient | None = None
        self._is_drawing = False
        """Whether the agent knows surfaces."""
        self._reported = ""
        """What the agent knows of the editor."""
        self._taken_over: set[str] = set()
        self._passing: deque[events.Key | events.Paste] = deque()
        """Keys and pastes that extensions have seen, on their way."""
        self._interrupted_at = 0.0
        self._reported_look: tuple[str, bool, list[str]] | None = None
        """What it knows of the theme, whether outputs of tools are unfolded, and the themes."""
        self._work_display = WorkingDisplay()
        """How extensions want work to be shown."""
        self._is_ready = asyncio.Event()
        self.left = asyncio.Event()
        """The agent has been left; the client ends."""
        self._questions = asyncio.Lock()
        self._open_questions: dict[str, tuple[str, asyncio.Task[str | None]]] = {}
        """By id: the call that it is about, and the task that asks."""
        self._announced: dict[str, asyncio.Event] = {}
        """By id of a question: set when all events before it have been taken, so that its call is known."""
        self._working_since: float | None = None
        self._is_compacting = False
        self._work_changes = 0
        self._ended_by = 0
        """The exit code of a signal."""
        self._lost_at = 0.0
        """When the connection to an agent of the host was lost, in seconds since the epoch; 0: it is there."""
        self._shells: list[ShellItem] = []
        self._is_state_due = asyncio.Event()
        self._cleared_at = 0.0
        self._drafts = drafts
        self._has_lost_draft = False
        self.last_failure = ""
        """The defect that was reported last."""
        self._unsent: list[str] = []
        """Messages that the agent has not accepted yet."""
        self._loaded: tuple[str, str | None] = "", None  # the session and its last entry, when it was loaded
        self._loading = asyncio.Lock()
        self._overlapping: list[Record] | None = None
        """Events since entries were asked for: those behind the answer may be taken before it, and would be lost."""
        self._conversation: asyncio.Task[None] | None = None
        self._add_looks(looks)
        self._has_named_look = look in self._looks
        self._is_dark_terminal = True
        """Whether the terminal's background is dark: what it has reported, or else what most have."""
        self._wear(self._look)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the variables of styles that themes of Textual do not have."""
        return {"selected-background": LOOKS[0]["selectedBg"]}

    @property
    def client(self) -> "AsyncioClient":
        """The client of the agent.

        Raises:
            CommandFailed: The agent is still being started.
        """
        if self._client is None:
            raise pinnace.CommandFailed("start", "the agent is still being started", None)
        return self._client

    def take_terminal(self, terminal: TakesTitle) -> None:
        """Take the terminal, whose title extensions may set, and which is restored when the process is ended."""
        self._terminal = terminal
        for each in _ENDING_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self._end, each)

    def _end(self, number: signal.Signals) -> None:
        """Leave, as a signal wants; a second one ends the process at once."""
        self.keep_draft()
        for each in _ENDING_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(each)
        self._ended_by = 128 + number
        self._perform(self.leave())

    def get_driver_class(self) -> type[Driver]:
        """Return the driver of the terminal."""
        chosen = super().get_driver_class()
        if chosen is not LinuxDriver:  # of the environment, or on another system
            return chosen
        from pinnace_tui.input.driver import TerminalDriver

        return TerminalDriver

    def compose(self) -> ComposeResult:
        """Return what is on the screen, from top to bottom."""
        lines, surfaces = self._lines, self._surfaces
        yield lines["title"]
        yield surfaces.header
        yield self._view
        yield lines["work"]
        yield lines["queue"]
        yield lines["above"]
        yield surfaces.above
        yield self._suggestions
        yield surfaces.instead
        yield self._editor
        yield self._search
        yield lines["below"]
        yield surfaces.below
        yield surfaces.bottom
        yield lines["footer"]

    def on_mount(self) -> None:
        """Start the agent."""
        self.app_resume_signal.subscribe(self, self._redraw)  # pyright: ignore[reportUnknownMemberType] - a bare App
        self._editor.commands = self._commands.listed()
        self._draw_footer()
        self._take_drafts()
        if self._terminal is not None:
            self._terminal.ask_for_background()
        self.set_interval(0.1, self._draw_work)
        self.set_interval(_DRAFT_S, self.keep_draft)
        self.set_interval(_REPORT_S, self._report_editor)
        self.set_interval(CHECK_S, self._surfaces.check)
        # The editor is there first: what the agent needs takes longer to import than the editor to be drawn.
        self.call_after_refresh(self._start)

    # --- drafts and failures ---------------------------------------------------------------------------------------

    def _take_drafts(self) -> None:
        """Offer what clients that have ended have not sent."""
        if self._drafts is None:
            return
        try:
            texts = self._drafts.take_others()
        except OSError as error:
            self._notices.append(f"unsent messages of an earlier terminal can't be taken: {error}")
            return
        if texts:
            self._editor.give_back(texts)
            self._notices.append("what an earlier terminal had not sent is in the editor; Ctrl+C clears it")

    def keep_draft(self) -> None:
        """Keep what is not sent, in case the client ends without warning."""
        if self._drafts is None:
            return
        try:
            self._drafts.keep("\n\n".join([*self._unsent, *([self._editor.text] if self._editor.text.strip() else [])]))
        except OSError as error:
            if self.is_running and not self._has_lost_draft:
                self._has_lost_draft = True
                notice = f"what is not sent is not kept in case of a crash: {error}"
                self.transcript.notice(notice, "warning")

    def report_failure(self, error: Exception) -> None:
        """Report a defect of the client, which costs the key or the event alone."""
        if self._drafts is not None:
            self._drafts.log(error)
        notice = f"The terminal client has a defect ({type(error).__name__}: {error}); it continues."
        if notice != self.last_failure:  # the next key may have the same
            self.last_failure = notice
            self.transcript.notice(notice, "error")

    def on_input_failed(self, event: "InputFailed") -> None:
        """Report input that could not be decoded."""
        self.report_failure(event.error)

    # --- the conversation ------------------------------------------------------------------------------------------

    def _redraw(self, _: App[object]) -> None:
        """Draw everything: another program had the terminal."""
        self.refresh(layout=True)

    def _start(self) -> None:
        self._conversation = asyncio.create_task(self._converse())

    def on_resize(self, event: Resize) -> None:
        """Lay out the footer anew, for the width that the screen is about to have."""
        self._draw_footer(event.size.width)
        self._surfaces.fit(event.size)

    async def _converse(self) -> None:
        failure: str | None = None
        await asyncio.to_thread(_load_client)
        dialogs = pinnace.Dialogs(
            select=self._ask_extension, confirm=self._confirm, input=self._ask_extension, editor=self._ask_extension
        )
        keeping: list[asyncio.Task[None]] = []
        try:
            async with self._connect(dialogs) as client:
                with client.events() as events:
                    self._client = client
                    await self._offer_surfaces()
                    await self.reload()
                    self._is_ready.set()
                    keeping += [
                        asyncio.create_task(self._keep_state()),
                        asyncio.create_task(self._surfaces.serve(client)),
                        asyncio.create_task(self._drawn_items.serve(client)),
                    ]
                    self._begin()
                    while batch := await events.take():
                        # The screen and the keys have their turn, however much comes.
                        for count, event in enumerate(batch, 1):
                            self._take_guarded(cast("Record", event))
                            if count % _EVENTS_A_TURN == 0:
                                await asyncio.sleep(0)
                        await asyncio.sleep(_PAUSE_S)
        except pinnace.AgentExited as exited:
            # An extension may end it in order, by `ctx.shutdown()`.
            failure = None if exited.exit_code == 0 else exited.stderr_tail.strip() or str(exited)
        except (pinnace.ClientFailure, OSError) as error:
            failure = str(error)
        except Exception as error:
            self.report_failure(error)
            failure = f"the terminal client has a defect: {type(error).__name__}: {error}"
        finally:
            for each in keeping:
                each.cancel()
            self._client = None
            self.left.set()
            self.exit(failure, return_code=self._ended_by or self.return_code or 0)

    async def _offer_surfaces(self) -> None:
        """Let extensions draw here; an agent of an older generation has none that can."""
        self._surfaces.close_all()
        self._reported = ""
        self._is_drawing = False
        self._drawn_items.forget()
        self._take_display(WorkingDisplay())
        with suppress(pinnace.CommandFailed):
            self._reported_look = name, tools, names = self._look_now()
            await self.client.request("hello", surfaces=True, themes=names, theme=name, toolsExpanded=tools)
            self._is_drawing = True

    def _take_display(self, display: "WorkingDisplay") -> None:
        """Show work and hidden thoughts as extensions want them."""
        self._work_display = display
        self._view.label_thinking(display.thinking_label)
        self._editor.ask_text = self._complete_text if display.completes else None
        self._draw_work()

    async def _report_editor(self) -> None:
        """Report the text of the editor and the theme, which extensions may read, if they have changed."""
        client, content, look = self._client, self._editor.text, self._look_now()
        if client is None or not self._is_drawing or not client.is_connected:
            return
        with suppress(pinnace.ClientFailure):
            if content != self._reported:
                self._reported = content
                await client.request("ui_surface_input", surface="editor", text=content)
            if look != self._reported_look:
                self._reported_look = look
                await client.request("hello", theme=look[0], toolsExpanded=look[1], themes=look[2])

    def _look_now(self) -> tuple[str, bool, list[str]]:
        """Return the theme, whether outputs of tools are unfolded, and the themes that there are."""
        return self._look.name, self._view.shows_tools, self.look_names()

    async def _use_looks_of(self, state: Record) -> None:
        """Have the themes of the project, if it is trusted; report what is wrong, and a theme that is missing."""
        looks, problems = list(self._own_looks), list[str]()
        if self._looks_of is not None and state.get("projectTrusted") is True and (folder := text(state, "cwd")):
            looks, problems = await asyncio.to_thread(self._looks_of, folder)
        self._add_looks([each for each in looks if self._looks.get(each.name) != each])
        self._looks = {each.name: each for each in looks}
        if (changed := self._looks.get(self._look.name, self._look)) != self._look:
            self._wear(changed)
            self._view.show(changed)
        if (wanted := self._wanted_look) is not None and not self.use_look(wanted):
            problems = [*problems, f"no theme {wanted}; there are {', '.join(self._looks)}"]
        self._wanted_look = None
        for problem in problems:
            if problem not in self._warned:  # as the lines of the agent's warnings
                self._warned.add(problem)
                self.transcript.notice(problem, "warning")

    def _add_looks(self, looks: Sequence[Look]) -> None:
        """Let the app have themes."""
        for each in looks:
            self.register_theme(_theme(each))
            self.register_theme(_theme(each, is_transparent=True))

    def _take_over(self, place: str) -> None:
        """Report once that the client itself has the keys again."""
        if place not in self._taken_over:
            self._taken_over.add(place)
            notice = "An extension's editor did not take a key within two seconds: the client's own has taken over."
            if place == "keys":
                notice = "An extension that sees the keys first did not answer within two seconds: it sees none now."
            self.transcript.notice(notice, "warning")

    def _begin(self) -> None:
        """Show what was wrong at the start, since the conversation is loaded now; do what the command line asks for."""
        for notice in self._notices:
            self.transcript.notice(notice, "warning")
        if self._opens_sessions:
            self._perform(self._commands.resume(""))
        for message in self._first_messages:
            self._send(message, is_follow_up=True)

    def _take_guarded(self, event: Record) -> None:
        try:
            if text(event, "type") not in KINDS:
                self._take(event)
            elif not self._drawn_items.take(event):
                self._surfaces.take(event)
        except Exception as error:
            self.report_failure(error)

    def _take(self, event: Record) -> None:  # noqa: PLR0912 - one case a record
        kind = text(event, "type")
        if _is_listed(event):
            if (line := warning_line(event)) in self._warned:
                return
            self._warned.add(line)
        self.transcript.apply(event)
        if self._overlapping is not None:
            self._overlapping.append(event)
        match kind:
            case "agent_start":
                self._working_since = self._working_since or monotonic()
            case "agent_settled":
                self._working_since = None
                self._close_questions(bool)
            case "tool_execution_end":
                self._close_questions(lambda call: call == text(event, "toolCallId"))
            case "compaction_start" | "compaction_end":
                self._is_compacting = kind == "compaction_start"
            case "queue_update":
                self._draw_queue(texts(event, "steering"), texts(event, "followUp"))
            case "extension_ui_request" if event.get("method") in _QUESTIONS:
                self._announced.setdefault(text(event, "id"), asyncio.Event()).set()
            case "extension_ui_request":
                self._show_of_extension(event)
            case "ui_theme" if not self.use_look(name := text(event, "theme")):
                problem = f"An extension has chosen the theme {name}, which does not exist; there are "
                self.transcript.notice(problem + ", ".join(self._looks), "warning")
            case "ui_display":
                self._take_display(WorkingDisplay.read(event))
            case "login_start":
                self._commands.logins.take(event)
            case "ui_tools_expanded":
                self._view.show(tools=event.get("expanded") is True)
            case "message_end" | "truncated" if kind == "truncated" or self.transcript.has_gap:
                self._perform(self.reload())
            case "agent_restarted":
                self._working_since = None
                self._close_questions(lambda _: True)
                self._perform(self._take_restart(event))
            case "session_changed":
                leaf = event.get("leafId")
                self._perform(self.follow(text(event, "sessionId"), leaf if isinstance(leaf, str) else None))
            case _:
                pass
        if kind in _WORK:
            self._work_changes += 1
            self._draw_work()
        if kind in _TELLING:
            self._is_state_due.set()

    async def _take_restart(self, event: Record) -> None:
        """Show what another process of the agent has."""
        await self._offer_surfaces()
        await self.reload()
        reason = text(event, "reason")
        cut = "; its run was cut" if event.get("interrupted") is True else ""
        self.transcript.notice(f"The agent was started again ({reason}){cut}.", "warning")

    async def _keep_state(self) -> None:
        while True:
            await self._is_state_due.wait()
            self._is_state_due.clear()
            with suppress(pinnace.ClientFailure):
                await self.refresh_state()
            await asyncio.sleep(0.1)

    async def refresh_state(self) -> None:
        """Load the state again; and the conversation, if the session is another one."""
        known = self._work_changes
        state = cast("Record", await self.client.get_state())
        self._take_state(state, is_current=known == self._work_changes)
        if self._draw_items(state):
            await self.reload()  # entries that are shown now, or not any more
        self._show_warnings()
        self._shown.stats = cast("Record", await self.client.get_session_stats())
        self._draw_footer()
        if self._loaded[0] not in ("", session := text(state, "sessionId")):
            async with self._loading:  # its event may be having it loaded
                is_loaded = self._loaded[0] == session
            if not is_loaded:
                await self.reload()

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
        client = self.client
        async with self._loading:
            known = self._work_changes
            state = cast("Record", await client.get_state())
            self._take_state(state, is_current=known == self._work_changes)
            self._draw_items(state)
            self._drawn_items.forget()
            leaf: str | None = None
            overlapping: list[Record] = []
            self._overlapping = overlapping
            try:
                entries = await client.get_entries()
            except pinnace.CommandFailed:  # of an agent of an older generation
                messages = await client.get_messages()
                self.transcript.load_messages(cast("list[Record]", messages["messages"]))
            else:
                self.transcript.load_entries(cast("list[Record]", entries["entries"]), entries["leafId"])
                leaf = entries["leafId"]
            finally:
                self._overlapping = None
            self._loaded = text(state, "sessionId"), leaf
            for event in overlapping:
                self.transcript.apply(event)
        if not self.transcript.items:
            self.transcript.notice(welcome(state, self.keys))
        # What has come meanwhile is shown.
        self._warned = {warning_line(event) for event in overlapping if _is_listed(event)}
        self._show_warnings()
        await self._use_looks_of(state)
        self._editor.replace_history(self.transcript.prompts())
        self._shown.stats = cast("Record", await client.get_session_stats())
        self._draw_footer()
        with suppress(pinnace.CommandFailed):
            queue = await client.get_queue()
            waiting = queue["messages"]
            self._draw_queue(
                [each["text"] for each in waiting if each["kind"] == "steer"],
                [each["text"] for each in waiting if each["kind"] == "followUp"],
            )
        commands = await client.get_commands()
        names = [(each["name"], each.get("description", "")) for each in commands["commands"]]
        self._commands.of_agent = {name for name, _ in names}
        self._editor.commands = [*self._commands.listed(), *names]
        await self._bind_shortcuts(client)

    def _draw_items(self, state: Record) -> bool:
        """Have items drawn by the extensions that do so now; return whether other entries are shown."""
        if self._drawn_items.use(state):
            self._view.use_lines(self._drawn_items)
        former, self.transcript.entry_types = self.transcript.entry_types, self._drawn_items.entry_types
        return former != self.transcript.entry_types

    async def _bind_shortcuts(self, client: "AsyncioClient") -> None:
        """Give extensions the keys that they want, and show which they can't have."""
        listed: list[Record] = []
        with suppress(pinnace.CommandFailed):  # an agent of an older version has none
            listed = objects(cast("Record", await client.get_shortcuts()), "shortcuts")
        shortcuts = [Shortcut(text(each, "key"), text(each, "description"), text(each, "path")) for each in listed]
        for problem in self.keys.bind(shortcuts):
            self.transcript.notice(problem, "warning")

    def _show_warnings(self) -> None:
        """Show what the agent warns of and was not shown in this conversation: none is part of the session."""
        for warning in objects(self._shown.state, "warnings"):
            if (line := warning_line(warning)) not in self._warned:
                self._warned.add(line)
                self.transcript.notice(line, "warning")

    def _take_state(self, state: Record, *, is_current: bool) -> None:
        """Take what `get_state` has returned; not whether the agent works, if an event has changed that meanwhile."""
        self._shown.state = state
        folder = text(state, "cwd") or str(Path.cwd())
        self._editor.folder = folder
        self._shown.branch = branch_of(folder)
        if is_current:
            self._is_compacting = state.get("isCompacting") is True
            is_working = state.get("isStreaming") is True
            self._working_since = (self._working_since or monotonic()) if is_working else None
            self._draw_work()
        self._draw_footer()

    # --- messages of the user --------------------------------------------------------------------------------------

    def on_editor_submitted(self, event: Editor.Submitted) -> None:
        """Send a message, or do what it commands."""
        message = event.text
        self._view.follow()
        if (command := self._commands.find(message)) is not None:
            self._perform(self._when_ready(command))
        elif message.startswith("!"):
            is_excluded = message.startswith("!!")
            self._run_shell(message[2:] if is_excluded else message[1:], message, is_excluded=is_excluded)
        elif message.startswith("/"):
            self._perform(self._send_command(message, is_follow_up=event.is_follow_up))
        else:
            self._send(message, is_follow_up=event.is_follow_up)

    async def _send_command(self, message: str, *, is_follow_up: bool) -> None:
        """Send a command of the agent; ask about one that there is not, which the model would take for a prompt."""
        await self._is_ready.wait()
        if (question := self._commands.doubt(message)) is not None:
            choices = ["Edit it", "Send it to the model as it is"]
            self._unsent.append(message)
            answer = await self.ask(SelectDialog(question, choices, marked=0))
            self._unsent.remove(message)
            if answer != choices[1]:
                self._editor.give_back([message])
                return
        self._send(message, is_follow_up=is_follow_up)

    def last_words(self) -> list[str]:
        """Return what stays in the terminal when the client has left: the last answer, and how to continue."""
        lines = [plain(answer)] if (answer := self.transcript.last_answer()) else []
        if self._shown.agent:
            lines.append(f"To return to the agent: pinnace attach --tui {self._shown.agent}")
        elif text(self._shown.state, "sessionFile") and self.transcript.prompts():
            lines.append("To continue this session: pinnace --continue")
        return lines

    async def _when_ready(self, command: Callable[[], Awaitable[None]]) -> None:
        await self._is_ready.wait()
        await command()

    def _send(self, message: str, *, is_follow_up: bool) -> None:
        async def send() -> None:
            self._unsent.append(message)
            await self._is_ready.wait()
            self._editor.remember(message)  # again, if it was written before the session was loaded
            await self._report_editor()  # a command may read it
            # Whether it is queued is the agent's to decide, which alone knows whether it is at work.
            try:
                await self.client.prompt(message, streaming_behavior="followUp" if is_follow_up else "steer")
            except pinnace.ClientFailure:
                self._editor.give_back([message])
                self._unsent.remove(message)
                raise
            self._unsent.remove(message)

        self._perform(send())

    def _run_shell(self, command: str, message: str, *, is_excluded: bool) -> None:
        command = command.strip()
        if not command:
            return

        async def run() -> None:
            await self._is_ready.wait()  # what is loaded then replaces what is shown
            item = self.transcript.start_shell(command, is_excluded=is_excluded)
            self._shells.append(item)
            try:
                result = await self.client.bash(command, exclude_from_context=is_excluded or None)
            except pinnace.ClientFailure:
                self.transcript.end_shell(item, {"cancelled": True})
                self._editor.give_back([message])
                raise
            finally:
                self._shells.remove(item)
            self.transcript.end_shell(item, cast("Record", result))

        self._perform(run())

    def _perform(self, work: Awaitable[None]) -> None:
        """Do something beside the conversation; report what the agent refuses."""

        async def perform() -> None:
            try:
                await work
            except pinnace.CommandFailed as failure:
                self.report(failure.error, "error")
            except pinnace.ClientFailure as failure:
                self.report(str(failure), "error")
            except Exception as error:
                self.report_failure(error)

        self.run_worker(perform(), group="commands", exit_on_error=True)

    # --- actions ---------------------------------------------------------------------------------------------------

    def on_editor_acted(self, event: Editor.Acted) -> None:
        """Do what a key means."""
        self.act(event.action)

    def on_editor_shortcut_pressed(self, event: Editor.ShortcutPressed) -> None:
        """Let an extension do what it does at a key."""
        self._perform(self._run_shortcut(event.key))

    async def _complete_arguments(self, command: str, prefix: str) -> list[Suggestion]:
        """Return what an extension offers for the arguments of its command, or this client for one of its own."""
        if not self._is_ready.is_set():
            return []
        if command in self._commands.of_agent:
            return (await self._completions(command, prefix))[1]
        try:
            return await self._commands.complete(command, prefix)
        except pinnace.ClientFailure:  # as for extensions
            return []

    async def _complete_text(self, before: str, after: str, is_asked: bool) -> tuple[str, list[Suggestion]]:
        """Return what extensions offer for the text of the editor, and the end of it that this takes the place of."""
        return await self._completions("", before, after=after, force=is_asked)

    async def _completions(self, name: str, prefix: str, **more: Any) -> tuple[str, list[Suggestion]]:
        try:
            answer = cast("Record", await self.client.get_completions(name, prefix, **more))
        except pinnace.ClientFailure:  # an agent of an older version has none; a lost connection is shown elsewhere
            return "", []
        found = objects(answer, "completions")
        shown = [Suggestion(text(each, "value"), text(each, "description"), text(each, "label")) for each in found]
        return text(answer, "prefix"), shown

    async def _run_shortcut(self, key: str) -> None:
        await self._report_editor()
        if not (await self.client.run_shortcut(key))["started"]:
            self.report(f"no extension has the key {in_words(key)} any more", "warning")

    def act(self, action: str) -> None:  # noqa: PLR0912 - one case an action
        """Do an action, by its name in the keybindings."""
        view, page = self._view, max(self._view.size.height - 1, 1)
        match action:
            case "app.interrupt":
                self._perform(self._interrupt())
            case "app.clear":
                self._clear()
            case "app.exit":
                self._perform(self.leave())
            case "app.suspend":
                self.action_suspend_process()
            case "app.editor.external":
                self._edit_outside()
            case "app.model.select":
                self._perform(self._commands.model(""))
            case "app.model.cycleForward":
                self._perform(self._cycle("cycle_model"))
            case "app.thinking.cycle":
                self._perform(self._cycle("cycle_thinking_level"))
            case "app.thinking.toggle":
                view.show(thinking=not view.shows_thinking)
            case "app.tools.expand":
                view.show(tools=not view.shows_tools)
            case "app.message.copy":
                self._perform(self._commands.copy(""))
            case "app.message.dequeue":
                self._perform(self._dequeue())
            case "app.message.queue":
                self._perform(self._commands.queue(""))
            case "app.session.new":
                self._perform(self._commands.new(""))
            case "app.session.tree":
                self._perform(self._commands.tree(""))
            case "app.session.fork":
                self._perform(self._commands.fork(""))
            case "app.session.resume":
                self._perform(self._commands.resume(""))
            case "tui.altScreen.search":
                self.search("")
            case "tui.altScreen.bottom":
                view.follow()
            case "tui.altScreen.previousPrompt" | "tui.altScreen.nextPrompt":
                view.go_to_prompt(-1 if "previous" in action else 1)
            case _:
                steps = {
                    "tui.altScreen.pageUp": page,
                    "tui.altScreen.pageDown": -page,
                    "tui.altScreen.halfPageUp": page // 2,
                    "tui.altScreen.halfPageDown": -page // 2,
                    "tui.altScreen.lineUp": 1,
                    "tui.altScreen.lineDown": -1,
                    "tui.altScreen.top": 1 << 40,
                }
                view.go_up(steps.get(action, 0))

    async def _interrupt(self) -> None:
        """Abort what runs, and take queued messages back."""
        if self._shells and self._working_since is None:
            await self.client.abort_bash()
            return
        if self._working_since is None and not self._is_compacting:
            return
        answer = cast("Record", await self.client.abort(queue="clear") or {})
        self._editor.give_back(queued_texts(mapping(answer, "cleared")))

    async def _dequeue(self) -> None:
        """Take queued messages back, to be edited."""
        self._editor.give_back(queued_texts(cast("Record", await self.client.clear_queue())))

    async def _cycle(self, command: str) -> None:
        if await self.client.request(command) is None:
            self.report("there is no other one")
        await self.refresh_state()

    def on_editor_cleared(self, _: Editor.Cleared) -> None:
        """Leave, if that is wanted again in a moment."""
        self._cleared_at = monotonic()

    def _clear(self) -> None:
        """Copy what is selected; with an empty editor leave, if this is the second time."""
        if self.screen.get_selected_text():
            self.screen.action_copy_text()
            self.screen.clear_selection()
            return
        if monotonic() - self._cleared_at < 1:
            self._perform(self.leave())
            return
        self._cleared_at = monotonic()
        self.report("Ctrl+C again leaves")

    def _edit_outside(self) -> None:
        """Edit the text in the user's own editor; it stays as it is if that fails."""
        program = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "nano"
        content, problem = self._editor.text, ""
        with self.suspend():  # which does not take the terminal back after an exception
            try:
                content = _edited(program, content)
            except subprocess.CalledProcessError as error:
                problem = f"it has ended with exit code {error.returncode}"
            except (OSError, ValueError) as error:
                problem = str(error)
        if problem:
            self.report(f"{program}: {problem}; the text is as it was", "error")
        else:
            self._editor.put(content)

    def on_conversation_view_toggled(self, event: ConversationView.Toggled) -> None:
        """Fold or unfold an item."""
        if isinstance(event.item, ThinkingItem | ToolItem | ShellItem | SummaryItem | CustomItem | EntryItem):
            self.transcript.toggle(event.item, is_open=not self._view.is_open(event.item))

    async def leave(self) -> None:
        """End the client; a running agent of the host goes on."""
        if self._conversation is not None:
            self._conversation.cancel()
        else:
            self.exit(return_code=self._ended_by)

    # --- questions -------------------------------------------------------------------------------------------------

    async def ask(self, screen: ModalScreen[Answer]) -> Answer | None:
        """Show a question; return its answer."""
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def take(value: Answer | None) -> None:
            if not answer.done():
                answer.set_result(value)

        # In the app's own task, whichever task asks.
        self.call_later(self.push_screen, screen, take)
        try:
            return await answer
        finally:
            if not answer.done() or answer.cancelled():
                self.call_later(self._remove, screen)

    async def on_event(self, event: events.Event) -> None:
        """Handle an event; an input that is older than the open question is dropped."""
        if isinstance(event, events.InputEvent) and not event.is_forwarded:
            top = next(reversed(self.screen_stack), None)
            if isinstance(top, Dialog) and not top.can_take(event):
                return
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded and self._is_seen_first(event):
            return
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded and self._is_for_editor():
            given = (
                events.Paste(event.text) if isinstance(event, events.Paste) else events.Key(event.key, event.character)
            )
            self._editor.post_message(given)
            return
        await super().on_event(event)

    def _is_seen_first(self, event: events.Key | events.Paste) -> bool:
        """Return whether a key or a paste is done later, since an extension sees it first.

        What answers a question goes to it at once; what was meant for what is beneath answers none.
        """
        keys, is_beneath = self._surfaces.filter, len(self.screen_stack) > 1
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
                self._surfaces.give_up_filter()
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
                self.post_message(each)

    def _is_for_editor(self) -> bool:
        """Return whether the editor takes the keys without having the focus: while it is an extension's."""
        screen = self.screen
        return len(self.screen_stack) == 1 and self._surfaces.has_editors_keys(screen.focused)

    async def _remove(self, screen: ModalScreen[Answer]) -> None:
        if screen in self.screen_stack:
            _ = screen.dismiss(None)

    async def _ask_extension(self, request: Mapping[str, object]) -> str | None:
        ends_at = _ends_at(request)
        await self._is_announced(request)
        match request.get("method"):
            case "select":
                options, kinds = texts(request, "options"), texts(request, "optionKinds")
                # What an option of an extension permits is not known: an Enter alone chooses none.
                marked = kinds.index("reject_once") if "reject_once" in kinds[: len(options)] else None
                details = self._details(request)
                screen: ModalScreen[str | None] = SelectDialog(
                    text(request, "title"), options, details, marked=marked, ends_at=ends_at
                )
            case "input":
                screen = InputDialog(text(request, "title"), text(request, "placeholder"), ends_at=ends_at)
            case _:
                screen = EditorDialog(text(request, "title"), text(request, "prefill"))
        answer = await self._ask_one(request, screen)
        if answer is None and (provider := text(request, "loginProvider")):
            self._perform(self._commands.logins.leave(provider))
        return answer

    async def _is_announced(self, request: Mapping[str, object]) -> None:
        """Wait for the events before a question."""
        identity = text(request, "id")
        await self._announced.setdefault(identity, asyncio.Event()).wait()
        self._announced.pop(identity, None)

    async def _confirm(self, request: Mapping[str, object]) -> bool:
        ends_at = _ends_at(request)
        await self._is_announced(request)
        title = "\n\n".join(filter(None, [text(request, "title"), text(request, "message")]))
        # Marked is what permits nothing.
        screen = SelectDialog(title, ["Yes", "No"], self._details(request), marked=1, ends_at=ends_at)
        return await self._ask_one(request, screen) == "Yes"

    async def _ask_one(self, request: Mapping[str, object], screen: ModalScreen[str | None]) -> str | None:
        """Ask when no other question is open; None if it was closed."""
        identity = text(request, "id")

        async def ask() -> str | None:
            async with self._questions:
                return await self.ask(screen)

        asking = asyncio.create_task(ask())
        self._open_questions[identity] = (text(request, "toolCallId"), asking)
        try:
            return await asking
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return None
        finally:
            self._open_questions.pop(identity, None)

    def _details(self, request: Mapping[str, object]) -> Text | None:
        """Return what the call that a question is about would change, as a diff."""
        call = self.transcript.call(text(request, "toolCallId"))
        # The text of the question holds what `write` writes.
        lines = changes_of(call.name, call.arguments) if call is not None and call.name == "edit" else []
        if not lines:
            return None
        renderer = Renderer(self.size.width, self._look, shows_thinking=False, shows_tools=True)
        return Text("\n").join([Text(""), renderer.diff(lines, None)])

    def _close_question(self, identity: str) -> None:
        if (found := self._open_questions.get(identity)) is not None:
            found[1].cancel()

    def _close_questions(self, is_over: Callable[[str], bool]) -> None:
        for identity, (call, _) in list(self._open_questions.items()):
            if is_over(call):
                self._close_question(identity)

    def _show_of_extension(self, request: Record) -> None:
        match request.get("method"):
            case "notify":
                level = text(request, "notifyType")
                levels: Mapping[str, Level] = {"warning": "warning", "error": "error"}
                self.report(text(request, "message"), levels.get(level, "info"))
            case "setStatus":
                _set(self._statuses, text(request, "statusKey"), text(request, "statusText") or None)
                self._shown.statuses = self._statuses
                self._draw_footer()
            case "setWidget":
                lines = texts(request, "widgetLines")
                is_below = request.get("widgetPlacement") == "belowEditor"
                _set(self._widgets, text(request, "widgetKey"), (is_below, lines) if lines else None)
                self._draw_widgets()
            case "setTitle":
                title = text(request, "title")
                self._draw("title", [title] if title else [])
                if self._terminal is not None:
                    self._terminal.set_title(plain_line(title).replace("\N{REPLACEMENT CHARACTER}", ""))
            case "set_editor_text" if request.get("paste") is True:
                self._editor.write(text(request, "text"))
            case "set_editor_text":
                self._editor.put(text(request, "text"))
            case _:
                pass

    def on_search_line_sought(self, event: SearchLine.Sought) -> None:
        """Show a line of the conversation that has some words."""
        is_found = self._view.find(event.words, event.step)
        self._search.set_class(bool(event.words) and not is_found, "-invalid")
        if event.words and event.step and not is_found:
            self.report(f"nothing found: {event.words}")

    def on_search_line_closed(self, _: SearchLine.Closed) -> None:
        """Return to the editor."""
        self._search.display = False
        self._view.find("", 0)
        self._surfaces.focus()

    # --- for commands ----------------------------------------------------------------------------------------------

    def put_text(self, content: str) -> None:
        """Replace the text of the editor."""
        self._editor.put(content)

    def give_back(self, messages: list[str]) -> None:
        """Put messages before the text of the editor."""
        self._editor.give_back(messages)

    def report(self, message: str, level: Level = "info") -> None:
        """Show a message for a moment; an error stays in the conversation."""
        if level == "error":
            self.transcript.notice(message, "error")
        else:
            self.notify(plain(message), severity="warning" if level == "warning" else "information", markup=False)

    def copy(self, content: str) -> None:
        """Copy a text to the clipboard of the terminal."""
        self.copy_to_clipboard(content)

    def search(self, words: str) -> None:
        """Search the conversation."""
        self._search.display = True
        self._search.value = words or self._search.value
        self._search.focus()

    def look_names(self) -> list[str]:
        """Return the names of the themes."""
        return list(self._looks)

    @property
    def look_name(self) -> str:
        """The name of the theme that is shown."""
        return self._look.name

    def use_look(self, name: str) -> bool:
        """Use a theme; return whether there is one of this name."""
        look = self._looks.get(name)
        if look is None:
            return False
        self._has_named_look = True
        self._wear(look)
        self._view.show(look)
        return True

    def _wear(self, look: Look) -> None:
        """Use a theme: on the terminal's own background, unless it could not be read there."""
        self._look = look
        is_own = look.is_dark is self._is_dark_terminal and not look.keeps_background
        self.theme = _transparent(look.name) if is_own else look.name

    def on_background_reported(self, event: "BackgroundReported") -> None:
        """Take the theme for the terminal's background, if none was chosen."""
        self._is_dark_terminal = event.is_dark
        fitting = [look for look in LOOKS if look.is_dark is event.is_dark and not look.keeps_background]
        self._wear(self._look if self._has_named_look else fitting[0])
        self._view.show(self._look)

    # --- drawing ---------------------------------------------------------------------------------------------------

    def _draw(self, name: str, lines: Sequence[str]) -> None:
        shown = self._lines[name]
        shown.display = bool(lines)
        shown.update(Content(plain("\n".join(lines))))

    def _draw_footer(self, width: int | None = None) -> None:
        drawn = footer(self._shown, max((self.size.width if width is None else width) - 2, 1))
        self._lines["footer"].update(Content.from_rich_text(drawn))

    def _draw_widgets(self) -> None:
        for name, wanted in (("above", False), ("below", True)):
            # Widgets have colours of extensions, the other lines have none.
            lines = [line for is_below, lines in self._widgets.values() if is_below is wanted for line in lines]
            self._lines[name].display = bool(lines)
            self._lines[name].update(Content.from_rich_text(drawn(lines)))

    def _draw_queue(self, steering: Sequence[str], follow_ups: Sequence[str]) -> None:
        lines = [f"steering: {each}" for each in steering] + [f"follow-up: {each}" for each in follow_ups]
        lines = [line.replace("\n", " ") for line in lines]
        if len(lines) > _MOST_QUEUED_SHOWN:
            lines[_MOST_QUEUED_SHOWN:] = [f"… {len(lines) - _MOST_QUEUED_SHOWN} more"]
        keys = dict(self.keys.rows())
        hints = {"app.message.dequeue": "take them back", "app.message.queue": "change one"}
        if lines and (shown := [f"{keys[action]}: {hint}" for action, hint in hints.items() if action in keys]):
            lines.append(" · ".join(shown))
        self._draw("queue", lines)

    def _draw_work(self) -> None:
        since = self._working_since
        if not self._is_ready.is_set():
            self._draw("work", ["… the agent is being started"])
            return
        if self._client is not None and not self._client.is_connected:
            now = time()
            self._lost_at = self._lost_at or now
            when = f"{strftime('%H:%M:%S', localtime(self._lost_at))} ({now - self._lost_at:.0f} s)"
            self._draw("work", [f"✗ The connection to the agent is lost since {when}: attaching again"])
            return
        if self._lost_at:  # the host has ended what was drawn here
            self._lost_at = 0.0
            self._perform(self._offer_surfaces())
        display = DEFAULT_DISPLAY if self._is_compacting else self._work_display
        if (since is None and not self._is_compacting) or not display.is_visible:
            if self._lines["work"].display:
                self._draw("work", [])
            return
        spent = 0 if since is None else int(monotonic() - since)
        what = "Compacting" if self._is_compacting else display.message
        keys = dict(self.keys.rows()).get("app.interrupt", "")
        line = f"{what} {spent} s · {keys}: abort"
        if sign := display.sign(monotonic()):
            line = f"{sign} {line}"
        self._lines["work"].display = True
        self._lines["work"].update(Content.from_rich_text(drawn([line])))


def _ends_at(request: Mapping[str, object]) -> float | None:
    """Return when the agent takes the default answer of a question that has just come; None: it waits."""
    timeout_ms = number(request, "timeout")
    return monotonic() + timeout_ms / 1000 if timeout_ms else None


def _edited(program: str, content: str) -> str:
    """Return a text as a program has changed it.

    Raises:
        CalledProcessError: The program has failed.
        OSError, ValueError: It could not be started, or has left no text in UTF-8.
    """
    with tempfile.TemporaryDirectory(prefix="pinnace-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(content, "utf-8")
        subprocess.run([*shlex.split(program), str(path)], check=True)
        return path.read_text("utf-8").removesuffix("\n")


def _load_client() -> None:
    """Import, in a thread, what the agent and its first answer need; the editor takes keys meanwhile."""
    _ = pinnace.AsyncioClient
    from pinnace_tui.content import markdown

    _ = markdown


def _set(values: "dict[str, Answer]", key: str, value: "Answer | None") -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _transparent(name: str) -> str:
    return f"{name} on the terminal's background"


def _theme(look: Look, *, is_transparent: bool = False) -> Theme:
    background = "ansi_default" if is_transparent else look.background
    surface = "ansi_default" if is_transparent else look.surface
    variables = BUILTIN_THEMES["ansi-dark" if look.is_dark else "ansi-light"].variables if is_transparent else {}
    return Theme(
        name=_transparent(look.name) if is_transparent else look.name,
        ansi=is_transparent,
        variables={**variables, "selected-background": look["selectedBg"]},
        primary=look["border"],
        accent=look["accent"],
        foreground=look["text"],
        background=background,
        surface=surface,
        panel=surface,
        success=look["success"],
        warning=look["warning"],
        error=look["error"],
        dark=look.is_dark,
    )
