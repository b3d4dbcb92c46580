"""Sends what the user has written, when the agent is there, and keeps what is not sent in case of a crash.

A message that the agent refuses goes back into the editor. Which messages are commands of this client, `commands`
decides; whether one is queued, the agent.
"""

from collections.abc import Awaitable, Callable
from typing import cast

import pinnace
from pinnace_tui.commands import Commands
from pinnace_tui.content.transcript import ShellItem
from pinnace_tui.content.values import Record
from pinnace_tui.drafts import Drafts
from pinnace_tui.extensions import Extensions
from pinnace_tui.screens import SelectDialog, ask
from pinnace_tui.terminal import Terminal


class Sending:
    """The messages of one client."""

    def __init__(self, terminal: Terminal, commands: Commands, extensions: Extensions, drafts: Drafts | None) -> None:
        """Send nothing yet.

        Args:
            terminal: Has the editor and the agent.
            commands: Those of this client.
            extensions: Learn the text of the editor before a message: a command may read it.
            drafts: Where what was not sent is kept; None: nowhere.
        """
        self._terminal = terminal
        self._commands = commands
        self._extensions = extensions
        self._drafts = drafts
        self._has_lost_draft = False
        self._unsent: list[str] = []
        """Messages that the agent has not accepted yet."""
        self._shells: list[ShellItem] = []

    @property
    def has_shell(self) -> bool:
        """Whether a command of the user runs in the agent's shell."""
        return bool(self._shells)

    def submit(self, message: str, *, is_follow_up: bool) -> None:
        """Send a message, or do what it commands."""
        terminal = self._terminal
        terminal.view.follow()
        if (command := self._commands.find(message)) is not None:
            terminal.reports.perform(self._when_ready(command))
        elif message.startswith("!"):
            is_excluded = message.startswith("!!")
            self._run_shell(message[2:] if is_excluded else message[1:], message, is_excluded=is_excluded)
        elif message.startswith("/"):
            terminal.reports.perform(self._send_command(message, is_follow_up=is_follow_up))
        else:
            self.send(message, is_follow_up=is_follow_up)

    def send(self, message: str, *, is_follow_up: bool) -> None:
        """Send a message to the model, whatever it looks like."""

        async def send() -> None:
            terminal = self._terminal
            self._unsent.append(message)
            await terminal.connection.is_ready.wait()
            terminal.editor.remember(message)  # again, if it was written before the session was loaded
            await self._extensions.report()
            # Whether it is queued is the agent's to decide, which alone knows whether it is at work.
            try:
                await terminal.connection.client.prompt(
                    message, streaming_behavior="followUp" if is_follow_up else "steer"
                )
            except pinnace.ClientFailure:
                terminal.editor.give_back([message])
                self._unsent.remove(message)
                raise
            self._unsent.remove(message)

        self._terminal.reports.perform(send())

    async def _when_ready(self, command: Callable[[], Awaitable[None]]) -> None:
        await self._terminal.connection.is_ready.wait()
        await command()

    async def _send_command(self, message: str, *, is_follow_up: bool) -> None:
        """Send a command of the agent; ask about one that there is not, which the model would take for a prompt."""
        await self._terminal.connection.is_ready.wait()
        if (question := self._commands.doubt(message)) is not None:
            choices = ["Edit it", "Send it to the model as it is"]
            self._unsent.append(message)
            answer = await ask(self._terminal.app, SelectDialog(question, choices, marked=0))
            self._unsent.remove(message)
            if answer != choices[1]:
                self._terminal.editor.give_back([message])
                return
        self.send(message, is_follow_up=is_follow_up)

    def _run_shell(self, command: str, message: str, *, is_excluded: bool) -> None:
        command = command.strip()
        if not command:
            return

        async def run() -> None:
            terminal = self._terminal
            await terminal.connection.is_ready.wait()  # what is loaded then replaces what is shown
            item = terminal.transcript.start_shell(command, is_excluded=is_excluded)
            self._shells.append(item)
            try:
                result = await terminal.connection.client.bash(command, exclude_from_context=is_excluded or None)
            except pinnace.ClientFailure:
                terminal.transcript.end_shell(item, {"cancelled": True})
                terminal.editor.give_back([message])
                raise
            finally:
                self._shells.remove(item)
            terminal.transcript.end_shell(item, cast("Record", result))

        self._terminal.reports.perform(run())

    # --- drafts ----------------------------------------------------------------------------------------------------

    def take_drafts(self) -> list[str]:
        """Offer what clients that have ended have not sent; return what the user has to know of it."""
        if self._drafts is None:
            return []
        try:
            texts = self._drafts.take_others()
        except OSError as error:
            return [f"unsent messages of an earlier terminal can't be taken: {error}"]
        if not texts:
            return []
        self._terminal.editor.give_back(texts)
        return ["what an earlier terminal had not sent is in the editor; Ctrl+C clears it"]

    def keep_draft(self) -> None:
        """Keep what is not sent, in case the client ends without warning."""
        if self._drafts is None:
            return
        written = self._terminal.editor.text
        try:
            self._drafts.keep("\n\n".join([*self._unsent, *([written] if written.strip() else [])]))
        except OSError as error:
            if self._terminal.app.is_running and not self._has_lost_draft:
                self._has_lost_draft = True
                notice = f"what is not sent is not kept in case of a crash: {error}"
                self._terminal.transcript.notice(notice, "warning")
