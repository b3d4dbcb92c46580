"""Extensions of the agent, as this client serves them: they draw here, know its editor and theme, and complete texts.

An agent of an older generation has none that do.
"""

from contextlib import suppress
from typing import Any, cast

import pinnace
from pinnace_tui.completion import Suggestion
from pinnace_tui.content.transcript import Level
from pinnace_tui.content.values import Record, objects, text, texts
from pinnace_tui.drawn_items import DrawnItems
from pinnace_tui.surfaces import Surfaces
from pinnace_tui.terminal import Terminal
from pinnace_tui.work_line import WorkLine
from pinnace_tui.working import WorkingDisplay


class Extensions:
    """What the agent's extensions have of one client."""

    def __init__(self, terminal: Terminal, surfaces: Surfaces, drawn_items: DrawnItems, work: WorkLine) -> None:
        """Offer nothing yet."""
        self._terminal = terminal
        self._surfaces = surfaces
        self._drawn_items = drawn_items
        self._work = work
        self._is_drawing = False
        """Whether the agent knows surfaces."""
        self._reported_text = ""
        """What the agent knows of the editor."""
        self._reported_look: tuple[str, bool, list[str]] | None = None
        """What it knows of the theme, whether outputs of tools are unfolded, and the themes."""

    async def offer(self) -> None:
        """Let extensions draw here, as from the beginning; an agent of an older generation has none that can."""
        self._surfaces.close_all()
        self._reported_text = ""
        self._is_drawing = False
        self._drawn_items.forget()
        self.use(WorkingDisplay())
        with suppress(pinnace.CommandFailed):
            self._reported_look = name, tools, names = self._look_now()
            client = self._terminal.connection.client
            await client.request("hello", surfaces=True, themes=names, theme=name, toolsExpanded=tools)
            self._is_drawing = True

    def use(self, display: WorkingDisplay) -> None:
        """Show work and hidden thoughts as extensions want them."""
        self._terminal.view.label_thinking(display.thinking_label)
        self._terminal.editor.ask_text = self._complete_text if display.completes else None
        self._work.use(display)

    def show(self, request: Record) -> None:
        """Show what an extension reports, or has set; a request of another kind is left alone."""
        terminal = self._terminal
        match request.get("method"):
            case "notify":
                levels: dict[str, Level] = {"warning": "warning", "error": "error"}
                terminal.reports.show(text(request, "message"), levels.get(text(request, "notifyType"), "info"))
            case "setStatus":
                terminal.lines.set_status(text(request, "statusKey"), text(request, "statusText"))
            case "setWidget":
                is_below = request.get("widgetPlacement") == "belowEditor"
                lines = texts(request, "widgetLines")
                terminal.lines.set_widget(text(request, "widgetKey"), lines, is_below=is_below)
            case "set_editor_text" if request.get("paste") is True:
                terminal.editor.write(text(request, "text"))
            case "set_editor_text":
                terminal.editor.put(text(request, "text"))
            case _:
                pass

    async def report(self) -> None:
        """Report the text of the editor and the theme, which extensions may read, if they have changed."""
        connection, content, look = self._terminal.connection, self._terminal.editor.text, self._look_now()
        client = connection.current
        if client is None or not self._is_drawing or connection.is_lost:
            return
        with suppress(pinnace.ClientFailure):
            if content != self._reported_text:
                self._reported_text = content
                await client.request("ui_surface_input", surface="editor", text=content)
            if look != self._reported_look:
                self._reported_look = look
                await client.request("hello", theme=look[0], toolsExpanded=look[1], themes=look[2])

    def _look_now(self) -> tuple[str, bool, list[str]]:
        """Return the theme, whether outputs of tools are unfolded, and the themes that there are."""
        looks = self._terminal.looks
        return looks.current.name, self._terminal.view.shows_tools, looks.names()

    async def complete(self, command: str, prefix: str, **more: Any) -> tuple[str, list[Suggestion]]:
        """Return what extensions offer, and the end of the text that it takes the place of.

        Args:
            command: Whose arguments they are; empty: those of the text of the editor.
            prefix: What is written before the cursor.
            more: Other fields of `get_completions`.
        """
        try:
            answer = cast("Record", await self._terminal.connection.client.get_completions(command, prefix, **more))
        except pinnace.ClientFailure:  # an agent of an older version has none; a lost connection is shown elsewhere
            return "", []
        found = objects(answer, "completions")
        shown = [Suggestion(text(each, "value"), text(each, "description"), text(each, "label")) for each in found]
        return text(answer, "prefix"), shown

    async def _complete_text(self, before: str, after: str, is_asked: bool) -> tuple[str, list[Suggestion]]:
        """Return what extensions offer for the text of the editor, and the end of it that this takes the place of."""
        return await self.complete("", before, after=after, force=is_asked)
