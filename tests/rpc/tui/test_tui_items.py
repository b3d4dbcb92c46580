"""Items that extensions draw in a real terminal, by tmux: the original's own examples, beside its own screen."""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.tui.terminal import environment
from tests.rpc.tui.test_tui_surfaces import EXAMPLES, WITH_COMPONENTS, command
from tests.rpc.tui.test_tui_terminal import NEEDS_TMUX, PINNACE, RealTerminal

from pinnace_fuzz.harness.short_folders import make_short_folder

NAMES: Final = "message-renderer.ts entry-renderer.ts minimal-mode.ts todo.ts".split()
ORIGINAL: Final = WITH_COMPONENTS / "pi"
OF_ORIGINAL: Final = Path("@earendil-works", "pi-coding-agent", "examples", "extensions")
PROGRESS: Final = """
export default function (pi) {
  pi.registerTool({
    name: "progress", label: "progress", description: "progress", parameters: { type: "object", properties: {} },
    renderShell: "self",
    async execute(id, params, signal, onUpdate) {
      onUpdate({ content: [{ type: "text", text: "half" }], details: { done: 1 } });
      await new Promise((resolve) => pi.events.on("go", resolve));
      return { content: [{ type: "text", text: "whole" }], details: { done: 2 } };
    },
    renderCall(args, theme, context) {
      const second = () => (context.state.ticked ? "ticked" : "-");
      if (!context.state.timer && context.isPartial) {
        context.state.timer = setTimeout(() => { context.state.ticked = true; context.invalidate(); }, 1);
      }
      return { render: (width) => [`<${"=".repeat(width - 2)}>`, second()], invalidate() {} };
    },
    renderResult(result, { isPartial }) {
      return { render: () => [`${result.details.done} of 2${isPartial ? " so far" : ""}`], invalidate() {} };
    },
  });
  pi.registerCommand("go", { handler: async () => pi.events.emit("go", 1) });
}
"""
SCRIPT: Final = """
turns:
  - tools: [{name: bash, arguments: {command: printf 'one\\ntwo\\n'}}]
  - text: that was bash
  - tools: [{name: todo, arguments: {action: add, text: buy milk}}]
  - text: that was todo
  - tools: [{name: progress, arguments: {}}]
  - text: that was progress
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = make_short_folder("pi-")
    (made / "progress.mjs").write_text(PROGRESS)
    (made / "script.yaml").write_text(SCRIPT)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def rows(screen: str, first: str, count: int) -> list[str]:
    """The rows from the one that begins with a text on; none where it is not there."""
    found = [row.rstrip() for row in screen.splitlines()]
    place = next((number for number, row in enumerate(found) if row.strip().startswith(first)), len(found))
    return found[place : place + count]


@NEEDS_TMUX
@pytest.mark.skipif(not ORIGINAL.exists(), reason="no pi 0.87.1: scripts/peers installs it")
def test_items_are_drawn_as_the_original_draws_them(folder: Path, node_program: str) -> None:
    """Messages, entries, calls and their results, folded and whole; release 0.87.1 has the two examples as well."""
    env = environment(folder, PINNACE_NODE=node_program, PINNACE_OFFLINE_SCRIPT=str(folder / "script.yaml"))
    files = [*(EXAMPLES / name for name in NAMES), folder / "progress.mjs"]
    flags = [word for each in files for word in ("-e", str(each))]
    terminal = RealTerminal(folder, [*PINNACE, "--provider", "offline", *flags], env, 60, 40)
    other = folder / "o"
    path = f"{Path(node_program).parent}{os.pathsep}{env['PATH']}"
    with_renderers = [word for name in NAMES[:2] for word in ("-e", str(ORIGINAL.parent.parent / OF_ORIGINAL / name))]
    original = RealTerminal(
        other, [str(ORIGINAL), "--no-session", *with_renderers], environment(other, PATH=path), 60, 40
    )
    try:
        for each in (terminal, original):
            each.shows("0% of 128k" if each is terminal else "Use /login")
            each.write("/status warn the disk is full")
            each.shows("the disk is full")
            each.press("Enter")
            each.shows("[WARN] the disk is full")
            each.write("/status-card hello")
            each.shows("/status-card hello")
            each.press("Enter")
            each.shows("[status] hello")
        for first in ("[WARN]", "[status]"):
            row = partial(rows, first=first, count=1)
            terminal.until(lambda screen, row=row: [] != row(screen) == row(original.screen()))  # type: ignore[misc]

        command(terminal, "list")
        terminal.shows("that was bash", " ● $ printf 'one\\ntwo\\n'")  # until then it is drawn as any other
        terminal.until(lambda screen: "one" not in [row.strip() for row in screen.splitlines()])
        command(terminal, "add")
        terminal.shows("that was todo")
        drawn = [' ● todo add "buy milk"', "   ✓ Added #1 buy milk"]
        terminal.until(lambda screen: drawn == rows(screen, "● todo", 2))
        terminal.press("C-o")
        terminal.shows("   one", "   two", "  at ")
        command(terminal, "work")
        terminal.shows("ticked", "1 of 2 so far", "=>")  # within the bar for scrolling
        terminal.until(lambda screen: ["ticked", "1 of 2 so far"] == rows(screen, "<=", 3)[1:])
        command(terminal, "/go")
        terminal.shows("2 of 2", "that was progress")
        terminal.until(lambda screen: "so far" not in screen)
    finally:
        original.end()
        terminal.end()
