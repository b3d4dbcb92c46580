"""The terminal client with a real agent, on a screen in memory."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Final

from tests.source_tree import PYTHONPATH
from textual.pilot import Pilot
from textual.widgets import Static

from pinnace import AsyncioClient, Dialogs
from pinnace_tui.app import TerminalClient
from pinnace_tui.editor import Editor
from pinnace_tui.screens import Dialog

TIMEOUT_S: Final = 60.0


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return that of an agent with a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    home = folder / "home"
    (home / "agent").mkdir(parents=True, exist_ok=True)
    (folder / "project").mkdir(exist_ok=True)
    return {
        **kept,
        "HOME": str(home),
        "PI_CODING_AGENT_DIR": str(home / "agent"),
        "PYTHONPATH": PYTHONPATH,
        "PINNACE_OFFLINE_DELAY_MS": "0",
        "PINNACE_NODE": "/nowhere/node",
        "GIT_CEILING_DIRECTORIES": str(folder),
        **more,
    }


class Screen:
    """A client under test: its keys, and what it shows."""

    def __init__(self, app: TerminalClient, pilot: Pilot[str]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def text(self) -> str:
        """The text of the screen, row by row."""
        return "\n".join(shown(self.app.export_screenshot()))

    @property
    def editor(self) -> Editor:
        return self.app.screen_stack[0].query_one(Editor)

    def line(self, selector: str) -> str:
        """The text of a line of the client."""
        return str(self.app.screen_stack[0].query_one(selector, Static).render())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not condition():
                    await self.pilot.pause(0.05)
        except TimeoutError:
            raise AssertionError(f"not reached; the screen:\n{self.text}") from None

    async def shows(self, *texts: str) -> None:
        """Wait until all of these are on the screen, in one line or, as behind a long path, folded."""

        def are_shown() -> bool:
            text = self.text
            folded = " ".join(text.split())
            return all(each in text or each in folded for each in texts)

        await self.until(are_shown)

    async def press(self, *keys: str) -> None:
        """Press keys, once the question that is open, if any, takes them."""
        await self.takes_keys()
        await self.pilot.press(*keys)

    async def takes_keys(self) -> None:
        """Wait until the question that is open, if any, takes keys."""
        top = self.app.screen
        await self.until(lambda: not isinstance(top, Dialog) or top.is_drawn)

    async def say(self, message: str, key: str = "enter") -> None:
        """Write a message and submit it."""
        self.editor.put(message)
        await self.pilot.press(key)

    async def is_settled(self) -> None:
        """Wait until the agent does nothing."""
        await self.until(lambda: not self.app.screen_stack[0].query_one("#work", Static).display)


_TEXT: Final = re.compile(r"<text[^>]* x=\"([\d.]+)\" y=\"([\d.]+)\"[^>]*>(.*?)</text>", re.DOTALL)
_CELL: Final = 12.2


def shown(svg: str) -> list[str]:
    """Return the rows of an exported screen."""
    rows: dict[float, str] = {}
    for x, y, content in _TEXT.findall(svg):
        if "-title" not in content:
            row = rows.get(float(y), "")
            rows[float(y)] = row.ljust(round(float(x) / _CELL)) + unescape(content).replace("\N{NO-BREAK SPACE}", " ")
    return [rows[y] for y in sorted(rows)]


@asynccontextmanager
async def terminal(
    folder: Path,
    *flags: str,
    size: tuple[int, int] = (80, 24),
    env: Mapping[str, str] | None = None,
    attached: str | None = None,
    is_view: bool = False,
    **options: object,
) -> AsyncIterator[Screen]:
    """Open a client on an agent with the offline model; leave it at the end.

    With `is_view` on a sub-agent, which works.
    """
    env = dict(env or environment(folder))
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--protocol", "1.5"]
    flags = () if is_view else ("--provider", "offline", *flags)

    def connect(dialogs: Dialogs) -> AsyncioClient:
        if attached is not None:
            return AsyncioClient.attach(attached, cwd=folder / "project", env=env, dialogs=dialogs, flags=flags)
        return AsyncioClient([*command, *flags], cwd=folder / "project", env=env, dialogs=dialogs)

    app = TerminalClient(connect, agent=attached or "", **options)  # type: ignore[arg-type] # those of the caller
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, pilot)
        screen.editor.cursor_blink = False
        await screen.until(lambda: "no model" not in screen.line("#footer"))
        if not is_view:
            await screen.is_settled()
        yield screen
        await app.leave()
        await app.left.wait()
    assert app.reports.last_failure == ""
