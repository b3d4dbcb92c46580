"""Questions of extensions and of tools: one at a time, behind the events before them.

One that was answered elsewhere, or whose call has ended, is closed.
"""

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from rich.text import Text
from textual.screen import ModalScreen

import pinnace
from pinnace_tui.content.rendering import Renderer, changes_of
from pinnace_tui.content.values import number, text, texts
from pinnace_tui.logins import Logins
from pinnace_tui.screens import EditorDialog, InputDialog, SelectDialog, ask
from pinnace_tui.terminal import Terminal

if TYPE_CHECKING:
    from pinnace import Dialogs


class Questions:
    """The questions that the agent asks the user."""

    def __init__(self, terminal: Terminal, logins: Logins) -> None:
        """Ask none yet; a login whose question the user leaves is ended by `logins`."""
        self._terminal = terminal
        self._logins = logins
        self._asking = asyncio.Lock()
        self._open: dict[str, tuple[str, asyncio.Task[str | None]]] = {}
        """By id: the call that it is about, and the task that asks."""
        self._announced: dict[str, asyncio.Event] = {}
        """By id: set when all events before it have been taken, so that its call is known."""

    def dialogs(self) -> "Dialogs":
        """Return what the client of the agent asks with."""
        return pinnace.Dialogs(select=self._ask, confirm=self._confirm, input=self._ask, editor=self._ask)

    def announce(self, identity: str) -> None:
        """Let a question be asked: the events before it have been taken."""
        self._announced.setdefault(identity, asyncio.Event()).set()

    def close(self, is_over: Callable[[str], bool]) -> None:
        """Close the open questions about calls, of which `is_over` takes the id; it is empty if there is none."""
        for call, asking in list(self._open.values()):
            if is_over(call):
                asking.cancel()

    async def _ask(self, request: Mapping[str, object]) -> str | None:
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
            self._terminal.reports.perform(self._logins.leave(provider))
        return answer

    async def _confirm(self, request: Mapping[str, object]) -> bool:
        ends_at = _ends_at(request)
        await self._is_announced(request)
        title = "\n\n".join(filter(None, [text(request, "title"), text(request, "message")]))
        # Marked is what permits nothing.
        screen = SelectDialog(title, ["Yes", "No"], self._details(request), marked=1, ends_at=ends_at)
        return await self._ask_one(request, screen) == "Yes"

    async def _is_announced(self, request: Mapping[str, object]) -> None:
        """Wait for the events before a question."""
        identity = text(request, "id")
        await self._announced.setdefault(identity, asyncio.Event()).wait()
        self._announced.pop(identity, None)

    async def _ask_one(self, request: Mapping[str, object], screen: ModalScreen[str | None]) -> str | None:
        """Ask when no other question is open; None if it was closed."""
        identity = text(request, "id")

        async def ask_alone() -> str | None:
            async with self._asking:
                return await ask(self._terminal.app, screen)

        asking = asyncio.create_task(ask_alone())
        self._open[identity] = (text(request, "toolCallId"), asking)
        try:
            return await asking
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return None
        finally:
            self._open.pop(identity, None)

    def _details(self, request: Mapping[str, object]) -> Text | None:
        """Return what the call that a question is about would change, as a diff."""
        terminal = self._terminal
        call = terminal.transcript.call(text(request, "toolCallId"))
        # The text of the question holds what `write` writes.
        lines = changes_of(call.name, call.arguments) if call is not None and call.name == "edit" else []
        if not lines:
            return None
        renderer = Renderer(terminal.app.size.width, terminal.looks.current, shows_thinking=False, shows_tools=True)
        return Text("\n").join([Text(""), renderer.diff(lines, None)])


def _ends_at(request: Mapping[str, object]) -> float | None:
    """Return when the agent takes the default answer of a question that has just come; None: it waits."""
    timeout_ms = number(request, "timeout")
    return monotonic() + timeout_ms / 1000 if timeout_ms else None
