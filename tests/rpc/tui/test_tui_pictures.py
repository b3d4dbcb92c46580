"""The screens of docs/terminal.md are what the client shows; with UPDATE_SCREENS=1 they are written anew."""

import asyncio
import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.tui.terminal import TIMEOUT_S, Screen, environment, terminal

from pinnace_tui.content.transcript import ToolItem
from pinnace_tui.conversation import ConversationView
from pinnace_tui.screens import Dialog

DRAWN_S: Final = 2.0 if os.environ.get("UPDATE_SCREENS") else TIMEOUT_S
PICTURES: Final = Path(__file__).parents[3] / "docs" / "terminal"
SCRIPT: Final = {
    "delay_ms": 0,
    "turns": [
        {
            "thinking": "The greeting is in one place.\nI change it there, then run the tests.",
            "text": "I change the greeting.",
            "tools": [
                {
                    "name": "edit",
                    "arguments": {
                        "path": "hello.py",
                        "edits": [{"oldText": 'print("Hello")', "newText": 'print(f"Hello, {name}")'}],
                    },
                }
            ],
        },
        {
            "text": '## Done\n\n- `greet` takes a **name**: 你好 works as well\n\n```python\ngreet("Ada")\n```',
            "usage": {"input": 1200, "output": 80},
        },
    ],
}
PROGRAM: Final = 'def greet(name):\n    print("Hello")\n'


async def pictures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Hold a conversation; return the screens."""
    env = environment(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr("pinnace_tui.footer._version", lambda: "1.0")
    (folder / "project" / "hello.py").write_text(PROGRAM)
    (folder / "model.json").write_text(json.dumps(SCRIPT))
    flags = ("--model", "../model.json", "--tool-approval", "ask", "--name", "greeting")
    found: dict[str, str] = {}
    async with terminal(folder, *flags, env=env, size=(80, 32)) as screen:
        await screen.say("Greet people by their names")
        await screen.until(lambda: isinstance(screen.app.screen, Dialog))
        await screen.shows("edits[0].newText", "Deny")
        found["approval"] = await picture(screen, "approval")
        await screen.press("down", "enter")
        await screen.shows("greet(")
        await screen.is_settled()
        await screen.until(lambda: "↓" in screen.line("#footer") and "↓0 " not in screen.line("#footer"))
        await screen.shows("↑1.")
        leave_out_durations(screen)
        found["conversation"] = await picture(screen, "conversation")
        screen.app.looks.use("light")
        await screen.pilot.resize_terminal(40, 30)
        await screen.shows("greet(", "> Greet people by their names")
        found["narrow"] = await picture(screen, "narrow")
    return found


def leave_out_durations(screen: Screen) -> None:
    """A call that takes a second has its duration shown; the machine may be busy."""
    for item in screen.app.transcript.items:
        if isinstance(item, ToolItem) and item.duration_ms:
            item.duration_ms = 0
            screen.app.transcript.toggle(item, is_open=screen.app.query_one(ConversationView).is_open(item))


async def picture(screen: Screen, name: str) -> str:
    """Return the screen once it is the one of the page, or as it is in the end: it is drawn in several steps."""
    path = PICTURES / f"{name}.svg"
    kept = path.read_text() if path.exists() else ""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAWN_S):
            while stable(screen.app.export_screenshot()) != kept:
                await screen.pilot.pause(0.05)
    return stable(screen.app.export_screenshot())


def stable(svg: str) -> str:
    """Leave out what differs from run to run: ids, and fonts that a viewer would load from elsewhere."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = re.sub(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]&#160;Working&#160;\d&#160;", "⠋&#160;Working&#160;0&#160;", svg)
    return re.sub(r"path:&#160;(\S*?hello\.py)((?:&#160;)*)", _path, svg).rstrip() + "\n"


def _path(found: re.Match[str]) -> str:
    """Return a path of an ordinary home, as wide as the one of the test."""
    width = len(found[1]) + found[2].count("&#160;")
    return "path:&#160;" + "/home/user/project/hello.py".ljust(width).replace(" ", "&#160;")


def test_the_pictures_of_the_page_are_what_the_client_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not in TMPDIR: its path is as wide as that of the pictures.
    short = Path(tempfile.mkdtemp(prefix="pt-", dir="/tmp"))
    try:
        found = asyncio.run(pictures(short, monkeypatch))
    finally:
        shutil.rmtree(short)
    for name, svg in found.items():
        path = PICTURES / f"{name}.svg"
        if os.environ.get("UPDATE_SCREENS"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(svg)
        elif path.read_text() != svg:
            (tmp_path / f"{name}.svg").write_text(svg)
            pytest.fail(f"{path} differs from {tmp_path / name}.svg; if that is right, run this with UPDATE_SCREENS=1")
