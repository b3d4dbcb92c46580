"""What the keys of actions do, but for those of the text, which are the editor's."""

from time import monotonic
from typing import Final, cast

from pinnace_tui.commands import Commands
from pinnace_tui.content.values import Record, mapping
from pinnace_tui.extensions import Extensions
from pinnace_tui.external_editor import edited, editor_program
from pinnace_tui.input.keys import in_words
from pinnace_tui.queueing import queued_texts
from pinnace_tui.sending import Sending
from pinnace_tui.session import Session
from pinnace_tui.terminal import Terminal
from pinnace_tui.work_line import WorkLine

# How soon a second Ctrl+C must come to leave.
_AGAIN_S: Final = 1.0


class Actions:
    """The actions of one client."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        commands: Commands,
        extensions: Extensions,
        sending: Sending,
        session: Session,
        work: WorkLine,
    ) -> None:
        """Serve a client."""
        self._terminal = terminal
        self._commands = commands
        self._extensions = extensions
        self._sending = sending
        self._session = session
        self._work = work
        self._cleared_at = 0.0

    def act(self, action: str) -> None:  # noqa: PLR0912 - one case an action
        """Do an action, by its name in the keybindings."""
        view, commands, perform = self._terminal.view, self._commands, self._terminal.reports.perform
        match action:
            case "app.interrupt":
                perform(self._interrupt())
            case "app.clear":
                self._clear()
            case "app.exit":
                perform(self._terminal.leave())
            case "app.suspend":
                self._terminal.app.action_suspend_process()
            case "app.editor.external":
                self._edit_outside()
            case "app.model.select":
                perform(commands.model(""))
            case "app.model.cycleForward":
                perform(self._cycle("cycle_model"))
            case "app.thinking.cycle":
                perform(self._cycle("cycle_thinking_level"))
            case "app.thinking.toggle":
                view.show(thinking=not view.shows_thinking)
            case "app.tools.expand":
                view.show(tools=not view.shows_tools)
            case "app.message.copy":
                perform(commands.copy(""))
            case "app.message.dequeue":
                perform(self._dequeue())
            case "app.message.queue":
                perform(commands.queue(""))
            case "app.session.new":
                perform(commands.new(""))
            case "app.session.tree":
                perform(commands.tree(""))
            case "app.session.fork":
                perform(commands.fork(""))
            case "app.session.resume":
                perform(commands.resume(""))
            case "tui.altScreen.search":
                self._terminal.search.open("")
            case _:
                self._scroll(action)

    def _scroll(self, action: str) -> None:
        view = self._terminal.view
        page = max(view.size.height - 1, 1)
        match action:
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

    async def run_shortcut(self, key: str) -> None:
        """Let an extension do what it does at a key."""
        await self._extensions.report()
        if not (await self._terminal.connection.client.run_shortcut(key))["started"]:
            self._terminal.reports.show(f"no extension has the key {in_words(key)} any more", "warning")

    def note_cleared(self) -> None:
        """Leave, if that is wanted again in a moment: the text was removed."""
        self._cleared_at = monotonic()

    def _clear(self) -> None:
        """Copy what is selected; with an empty editor leave, if this is the second time."""
        terminal = self._terminal
        screen = terminal.app.screen
        if screen.get_selected_text():
            screen.action_copy_text()
            screen.clear_selection()
            return
        if monotonic() - self._cleared_at < _AGAIN_S:
            terminal.reports.perform(terminal.leave())
            return
        self._cleared_at = monotonic()
        terminal.reports.show("Ctrl+C again leaves")

    async def _interrupt(self) -> None:
        """Abort what runs, and take queued messages back."""
        connection = self._terminal.connection
        if self._sending.has_shell and not self._work.is_running:
            await connection.client.abort_bash()
            return
        if not self._work.is_running and not self._work.is_compacting:
            return
        answer = cast("Record", await connection.client.abort(queue="clear") or {})
        self._terminal.editor.give_back(queued_texts(mapping(answer, "cleared")))

    async def _dequeue(self) -> None:
        """Take queued messages back, to be edited."""
        cleared = cast("Record", await self._terminal.connection.client.clear_queue())
        self._terminal.editor.give_back(queued_texts(cleared))

    async def _cycle(self, command: str) -> None:
        if await self._terminal.connection.client.request(command) is None:
            self._terminal.reports.show("there is no other one")
        await self._session.refresh()

    def _edit_outside(self) -> None:
        """Edit the text in the user's own editor; it stays as it is if that fails."""
        terminal, program = self._terminal, editor_program()
        content = terminal.editor.text
        with terminal.app.suspend():
            content, problem = edited(program, content)
        if problem:
            terminal.reports.show(f"{program}: {problem}; the text is as it was", "error")
        else:
            terminal.editor.put(content)
