"""The terminal client: composes the screen, starts and leaves the agent, gives each part the events that concern it.

    connection   the public client; one task reads its events, another loads state when it has changed
    transcript   what the events have made of the conversation; the view shows it once a frame
    session      loads both again when events are not enough
    sending      messages of the user; actions: keys; commands: those with a slash
    extensions   what those of the agent have of this client; surfaces: what they draw; questions: what they ask

Must not know how the agent is started: `main` does.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from textual import events
from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Resize

import pinnace
from pinnace_tui.actions import Actions
from pinnace_tui.commands import Commands
from pinnace_tui.connection import Connection
from pinnace_tui.content.look import LOOKS, Look
from pinnace_tui.content.rendering import plain_line
from pinnace_tui.content.transcript import (
    CustomItem,
    EntryItem,
    ShellItem,
    SummaryItem,
    ThinkingItem,
    ToolItem,
    Transcript,
)
from pinnace_tui.content.values import Record, text, texts
from pinnace_tui.conversation import ConversationView
from pinnace_tui.drafts import Drafts
from pinnace_tui.drawn_items import DrawnItems
from pinnace_tui.editor import Editor, Suggestions
from pinnace_tui.extensions import Extensions
from pinnace_tui.filtered_keys import FilteredKeys
from pinnace_tui.guarded import Guarded
from pinnace_tui.input.keys import Keys
from pinnace_tui.lines import Lines
from pinnace_tui.looks import STYLE_VARIABLES, Looks, LooksOf
from pinnace_tui.questions import Questions
from pinnace_tui.remote_editor import CHECK_S
from pinnace_tui.reporting import Reports
from pinnace_tui.screens import Dialog
from pinnace_tui.search import SearchLine
from pinnace_tui.sending import Sending
from pinnace_tui.session import Session
from pinnace_tui.surfaces import KINDS, Surfaces
from pinnace_tui.terminal import Terminal
from pinnace_tui.work_line import WORK, WorkLine
from pinnace_tui.working import WorkingDisplay

if TYPE_CHECKING:
    from pinnace import AsyncioClient, Dialogs
    from pinnace_tui.input.decoder import BackgroundReported
    from pinnace_tui.input.driver import InputFailed, TerminalDriver

Connect = Callable[["Dialogs"], "AsyncioClient"]

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
# Events after which state or usage are others.
_TELLING: Final = frozenset(
    "agent_start agent_settled turn_end compaction_start compaction_end thinking_level_changed session_info_changed "
    "session_changed agent_restarted truncated warning".split()
)
_QUESTIONS: Final = frozenset({"select", "confirm", "input", "editor"})
# Some milliseconds of work.
_EVENTS_A_TURN: Final = 50
_PAUSE_S: Final = 0.005
# How often the work line is drawn.
_DRAW_S: Final = 0.1
# How often the text of the editor is reported to the agent.
_REPORT_S: Final = 0.1
# How often the draft is kept.
_DRAFT_S: Final = 1.0


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

    def __init__(  # noqa: PLR0913 - by name
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
        self._device: TerminalDriver | None = None  # the driver is made by the next line
        super().__init__()
        self._connect = connect
        self._first_messages = list(messages)
        self._opens_sessions = opens_sessions
        self._notices = list(notices)
        self._ended_by = 0
        """The exit code of a signal."""
        self._conversation: asyncio.Task[None] | None = None
        self.left = asyncio.Event()
        """The agent has been left; the client ends."""
        self.keys = keys or Keys()
        self.transcript = Transcript()
        self.connection = Connection()
        self.looks = Looks(self, looks, look, looks_of)
        self._view = ConversationView(self.transcript, self.looks.current)
        self.looks.changed = self._view.show
        self._suggestions = Suggestions()
        self._editor = Editor(self.keys, self._suggestions)
        self._search = SearchLine()
        self._lines = Lines(self, self.keys, agent)
        self.reports = Reports(self, self.transcript, drafts)
        terminal = Terminal(
            app=self,
            connection=self.connection,
            transcript=self.transcript,
            view=self._view,
            editor=self._editor,
            search=self._search,
            lines=self._lines,
            keys=self.keys,
            looks=self.looks,
            reports=self.reports,
            leave=self.leave,
        )
        self._filtered_keys = FilteredKeys(self, self._editor)
        warn = partial(self.transcript.notice, level="warning")
        self._surfaces = Surfaces(self, self._editor, self._lines.footer, self._filtered_keys, warn)
        self._drawn_items = DrawnItems(self._view.redraw, self.transcript.is_growing)
        self._work = WorkLine(self._lines.work, self.connection, self.keys, self._offer_again)
        self._extensions = Extensions(terminal, self._surfaces, self._drawn_items, self._work)
        self.session = Session(terminal, self._drawn_items, self._work)
        self._commands = Commands(terminal, self.session, self._extensions)
        self._questions = Questions(terminal, self._commands.logins)
        self.sending = Sending(terminal, self._commands, self._extensions, drafts)
        self._actions = Actions(
            terminal,
            commands=self._commands,
            extensions=self._extensions,
            sending=self.sending,
            session=self.session,
            work=self._work,
        )
        self._editor.commands = self._commands.listed()
        self._editor.ask_arguments = self._commands.complete

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the variables of styles that themes of Textual do not have."""
        return dict(STYLE_VARIABLES)

    # --- the screen ------------------------------------------------------------------------------------------------

    def get_driver_class(self) -> type[Driver]:
        """Return the driver of the terminal."""
        chosen = super().get_driver_class()
        if chosen is not LinuxDriver:  # of the environment, or on another system
            return chosen
        from pinnace_tui.input.driver import TerminalDriver

        return TerminalDriver

    def take_terminal(self, terminal: "TerminalDriver") -> None:
        """Take the terminal, whose title extensions may set, and which is restored when the process is ended."""
        self._device = terminal
        for each in _ENDING_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self._end, each)

    def compose(self) -> ComposeResult:
        """Return what is on the screen, from top to bottom."""
        lines, surfaces = self._lines, self._surfaces
        yield lines.title
        yield surfaces.header
        yield self._view
        yield lines.work
        yield lines.queue
        yield lines.above
        yield surfaces.above
        yield self._suggestions
        yield surfaces.instead
        yield self._editor
        yield self._search
        yield lines.below
        yield surfaces.below
        yield surfaces.bottom
        yield lines.footer

    def on_mount(self) -> None:
        """Start the agent."""
        self.app_resume_signal.subscribe(self, self._redraw)  # pyright: ignore[reportUnknownMemberType] - a bare App
        self._lines.draw_footer()
        self._notices += self.sending.take_drafts()
        if self._device is not None:
            self._device.ask_for_background()
        self.set_interval(_DRAW_S, self._work.draw)
        self.set_interval(_DRAFT_S, self.sending.keep_draft)
        self.set_interval(_REPORT_S, self._extensions.report)
        self.set_interval(CHECK_S, self._surfaces.check)
        # The editor is there first: what the agent needs takes longer to import than the editor to be drawn.
        self.call_after_refresh(self._start)

    def _redraw(self, _: App[object]) -> None:
        """Draw everything: another program had the terminal."""
        self.refresh(layout=True)

    def on_resize(self, event: Resize) -> None:
        """Lay out the footer anew, for the width that the screen is about to have."""
        self._lines.draw_footer(event.size.width)
        self._surfaces.fit(event.size)

    def on_background_reported(self, event: "BackgroundReported") -> None:
        """Take the theme for the terminal's background, if none was chosen."""
        self.looks.fit(is_dark=event.is_dark)

    # --- start and end ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._conversation = asyncio.create_task(self._converse())

    async def _converse(self) -> None:
        failure: str | None = None
        keeping: list[asyncio.Task[None]] = []
        try:
            await asyncio.to_thread(_load_client)
            async with self._connect(self._questions.dialogs()) as client:
                with client.events() as events:
                    self.connection.current = client
                    await self._extensions.offer()
                    await self.session.reload()
                    self.connection.is_ready.set()
                    keeping += [
                        asyncio.create_task(self.session.keep_current()),
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
            self.reports.fail(error)
            failure = f"the terminal client has a defect: {type(error).__name__}: {error}"
        finally:
            for each in keeping:
                each.cancel()
            self.connection.current = None
            self.left.set()
            self.exit(failure, return_code=self._ended_by or self.return_code or 0)

    def _begin(self) -> None:
        """Show what was wrong at the start, since the conversation is loaded now; do what the command line asks for."""
        for notice in self._notices:
            self.transcript.notice(notice, "warning")
        if self._opens_sessions:
            self.reports.perform(self._commands.resume(""))
        for message in self._first_messages:
            self.sending.send(message, is_follow_up=True)

    async def leave(self) -> None:
        """End the client; a running agent of the host goes on."""
        if self._conversation is not None:
            self._conversation.cancel()
        else:
            self.exit(return_code=self._ended_by)

    def _end(self, number: signal.Signals) -> None:
        """Leave, as a signal wants; a second one ends the process at once."""
        self.sending.keep_draft()
        for each in _ENDING_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(each)
        self._ended_by = 128 + number
        self.reports.perform(self.leave())

    def report_failure(self, error: Exception) -> None:
        """Report what a handler of the client has raised."""
        self.reports.fail(error)

    def on_input_failed(self, event: "InputFailed") -> None:
        """Report input that could not be decoded."""
        self.reports.fail(event.error)

    # --- events of the agent ---------------------------------------------------------------------------------------

    def _take_guarded(self, event: Record) -> None:
        try:
            if text(event, "type") not in KINDS:
                self._take(event)
            elif not self._drawn_items.take(event):
                self._surfaces.take(event)
        except Exception as error:
            self.reports.fail(error)

    def _take(self, event: Record) -> None:  # noqa: PLR0912 - one case a record
        kind = text(event, "type")
        if not self.session.take(event):
            return
        match kind:
            case "agent_settled":
                self._questions.close(bool)
            case "tool_execution_end":
                self._questions.close(lambda call: call == text(event, "toolCallId"))
            case "queue_update":
                self._lines.draw_queue(texts(event, "steering"), texts(event, "followUp"))
            case "extension_ui_request" if event.get("method") in _QUESTIONS:
                self._questions.announce(text(event, "id"))
            case "extension_ui_request" if event.get("method") == "setTitle":
                self._set_title(text(event, "title"))
            case "extension_ui_request":
                self._extensions.show(event)
            case "ui_theme" if not self.looks.use(name := text(event, "theme")):
                problem = f"An extension has chosen the theme {name}, which does not exist; there are "
                self.transcript.notice(problem + ", ".join(self.looks.names()), "warning")
            case "ui_display":
                self._extensions.use(WorkingDisplay.read(event))
            case "login_start":
                self._commands.logins.take(event)
            case "ui_tools_expanded":
                self._view.show(tools=event.get("expanded") is True)
            case "message_end" | "truncated" if kind == "truncated" or self.transcript.has_gap:
                self.reports.perform(self.session.reload())
            case "agent_restarted":
                self._questions.close(lambda _: True)
                self.reports.perform(self._take_restart(event))
            case "session_changed":
                leaf = event.get("leafId")
                followed = self.session.follow(text(event, "sessionId"), leaf if isinstance(leaf, str) else None)
                self.reports.perform(followed)
            case _:
                pass
        if kind in WORK:
            self._work.take(kind)
        if kind in _TELLING:
            self.session.expire()

    async def _take_restart(self, event: Record) -> None:
        """Show what another process of the agent has."""
        await self._extensions.offer()
        await self.session.reload()
        reason = text(event, "reason")
        cut = "; its run was cut" if event.get("interrupted") is True else ""
        self.transcript.notice(f"The agent was started again ({reason}){cut}.", "warning")

    def _offer_again(self) -> None:
        """Let extensions draw here again: the host has ended what was drawn."""
        self.reports.perform(self._extensions.offer())

    def _set_title(self, title: str) -> None:
        """Show a title, and have the terminal show it, as an extension wants."""
        self._lines.draw_title(title)
        if self._device is not None:
            self._device.set_title(plain_line(title).replace("\N{REPLACEMENT CHARACTER}", ""))

    # --- events of the screen --------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Handle an event; an input that is older than the open question is dropped."""
        if isinstance(event, events.InputEvent) and not event.is_forwarded:
            top = next(reversed(self.screen_stack), None)
            if isinstance(top, Dialog) and not top.can_take(event):
                return
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            if self._filtered_keys.takes(event):
                return
            # The editor takes the keys without having the focus: while it is an extension's.
            if len(self.screen_stack) == 1 and self._surfaces.has_editors_keys(self.screen.focused):
                self._editor.post_message(
                    events.Paste(event.text)
                    if isinstance(event, events.Paste)
                    else events.Key(event.key, event.character)
                )
                return
        await super().on_event(event)

    def on_editor_submitted(self, event: Editor.Submitted) -> None:
        """Send a message, or do what it commands."""
        self.sending.submit(event.text, is_follow_up=event.is_follow_up)

    def on_editor_acted(self, event: Editor.Acted) -> None:
        """Do what a key means."""
        self._actions.act(event.action)

    def on_editor_shortcut_pressed(self, event: Editor.ShortcutPressed) -> None:
        """Let an extension do what it does at a key."""
        self.reports.perform(self._actions.run_shortcut(event.key))

    def on_editor_cleared(self, _: Editor.Cleared) -> None:
        """Leave, if that is wanted again in a moment."""
        self._actions.note_cleared()

    def on_conversation_view_toggled(self, event: ConversationView.Toggled) -> None:
        """Fold or unfold an item."""
        if isinstance(event.item, ThinkingItem | ToolItem | ShellItem | SummaryItem | CustomItem | EntryItem):
            self.transcript.toggle(event.item, is_open=not self._view.is_open(event.item))

    def on_search_line_sought(self, event: SearchLine.Sought) -> None:
        """Show a line of the conversation that has some words."""
        is_found = self._view.find(event.words, event.step)
        self._search.set_class(bool(event.words) and not is_found, "-invalid")
        if event.words and event.step and not is_found:
            self.reports.show(f"nothing found: {event.words}")

    def on_search_line_closed(self, _: SearchLine.Closed) -> None:
        """Return to the editor."""
        self._search.display = False
        self._view.find("", 0)
        self._surfaces.focus()


def _load_client() -> None:
    """Import, in a thread, what the agent and its first answer need; the editor takes keys meanwhile."""
    _ = pinnace.AsyncioClient
    from pinnace_tui.content import markdown

    _ = markdown
