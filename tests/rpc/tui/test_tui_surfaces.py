"""What extensions draw in a real terminal, by tmux: the original's own examples, used by keys.

With the components of pi's package (of release 0.87.1, the latest that `scripts/peers` has whole), and with ours.
"""

import os
import shutil
from collections.abc import Iterator
from typing import Final

import pytest
from tests.rpc.tui.terminal import environment
from tests.rpc.tui.test_tui_terminal import NEEDS_TMUX, PINNACE, RealTerminal
from tests.source_tree import REPOSITORY

from pinnace_fuzz.harness.short_folders import make_short_folder

TOOLS: Final = REPOSITORY / ".tools"
EXAMPLES: Final = TOOLS / "pi-1.5.2" / "package" / "examples" / "extensions"
WITH_COMPONENTS: Final = TOOLS / "pi-0.87.1" / "node_modules" / ".bin"
NAMES: Final = (
    "custom-header.ts custom-footer.ts overlay-test.ts plan-mode snake.ts space-invaders.ts tic-tac-toe.ts todo.ts "
    "tools.ts widget-placement.ts"
).split()
QUESTIONS: Final = """
import questionnaire from "EXAMPLES/questionnaire.ts";
export default function (pi) {
  let tool;
  questionnaire({ ...pi, registerTool: (each) => { tool = each; } });
  const options = ["red", "blue"].map((each) => ({ value: each, label: each }));
  const questions = ["one", "two"].map((id) => ({ id, label: id, prompt: `Which ${id}?`, options, allowOther: true }));
  pi.registerCommand("questions", {
    handler: async (_args, ctx) => {
      const done = await tool.execute("id", { questions }, undefined, undefined, ctx);
      ctx.ui.notify(done.content[0].text, "error"); // which stays in the conversation
    },
  });
}
"""


@pytest.fixture(params=["pi", "own"])
def terminal(request: pytest.FixtureRequest, original_pi: list[str], node_program: str) -> Iterator[RealTerminal]:
    """The terminal client with the examples."""
    assert original_pi
    folder = make_short_folder("ps-")
    env = environment(folder, PINNACE_NODE=node_program)
    if request.param == "pi":
        if not (WITH_COMPONENTS / "pi").exists():
            pytest.skip("no pi 0.87.1: scripts/peers installs it")
        env["PATH"] = f"{WITH_COMPONENTS}{os.pathsep}{env['PATH']}"
    questions = folder / "questions.ts"
    questions.write_text(QUESTIONS.replace("EXAMPLES", str(EXAMPLES)))
    flags = [word for each in [*(EXAMPLES / name for name in NAMES), questions] for word in ("-e", str(each))]
    terminal = RealTerminal(folder, [*PINNACE, "--provider", "offline", *flags], env, 80, 40)
    try:
        yield terminal
    finally:
        terminal.end()
        shutil.rmtree(folder, ignore_errors=True)


def command(terminal: RealTerminal, text: str) -> None:
    """Write a command, which the editor has whole before it is sent."""
    terminal.write(text)
    terminal.shows(f"│{text}")
    terminal.press("Enter")


def lines(screen: str, first: str, last: str) -> list[str]:
    """The rows between two texts, with these; none where one is missing."""
    rows = [row.rstrip() for row in screen.splitlines()]
    begin = next((number for number, row in enumerate(rows) if first in row), len(rows))
    end = next((number for number, row in enumerate(rows) if number > begin and last in row), begin - 1)
    return rows[begin : end + 1]


@NEEDS_TMUX
def test_the_originals_examples_are_drawn_and_used_by_keys(terminal: RealTerminal) -> None:
    """Games, overlays, lists, questions, widgets, a header and a footer, one after the other in one agent."""
    shown = (
        "shitty coding agent v1.5.2",
        "  ██████████████",
        "Above editor widget",
        "Below editor widget",
        "rehearsal",
    )
    terminal.shows(*shown)

    command(terminal, "/snake")
    terminal.shows("SNAKE │ Score: 0", "↑↓←→ or WASD to move", "╭" + "─" * 76 + "╮")
    terminal.until(lambda screen: "│/snake" not in screen)
    terminal.press("Escape")
    terminal.shows("│ ")
    terminal.until(lambda screen: "SNAKE" not in screen)

    command(terminal, "/tic-tac-toe")
    terminal.shows("Tic-Tac-Toe", "ENTER play", "Turn: X (You)")
    terminal.until(lambda screen: 9 == screen.count("│       │       │       │"))
    terminal.press("Escape")
    terminal.until(lambda screen: "ENTER play" not in screen)

    command(terminal, "/todos:2")  # the first one is of plan-mode
    terminal.shows("─── Todos ", "No todos yet. Ask the agent to add some!", "Press Escape to close")
    terminal.press("Escape")
    terminal.until(lambda screen: "Press Escape to close" not in screen)

    command(terminal, "/tools")
    terminal.shows("Tool Configuration", "→ read", "Esc to cancel")
    terminal.press("Down")
    terminal.press("Space")
    terminal.shows("→ bash")
    terminal.until(lambda screen: any("→ bash" in row and "disabled" in row for row in screen.splitlines()))
    terminal.press("Escape")
    terminal.until(lambda screen: "Tool Configuration" not in screen)

    command(terminal, "/overlay-test")
    terminal.shows("🧪 Overlay Test", "▶ Search:", "Esc cancel")
    terminal.write("what")
    terminal.shows("▶ Search: what")
    hints = "│ ↑↓ navigate • type to input • Enter select • Esc cancel            │"
    top, bottom = (f"{left}{'─' * 68}{right}" for left, right in ("╭╮", "╰╯"))
    terminal.until(lambda screen: [hints] == [row.strip() for row in lines(screen, top, bottom)[-2:-1]])
    terminal.press("Enter")
    terminal.shows('Search: "what"')

    command(terminal, "/footer")
    terminal.shows("↑0 ↓0 $0.000", "Custom footer enabled")
    terminal.until(lambda screen: "0% of 128k" not in screen)
    command(terminal, "/footer")
    terminal.shows("0% of 128k", "Default footer restored")

    command(terminal, "/questions")
    terminal.shows("Which one?", "> 1. red", "2. blue", "Type something.")
    terminal.resize(60, 40)
    terminal.shows("Which one?")
    terminal.press("Down")
    terminal.shows("> 2. blue")
    terminal.press("Enter")
    terminal.shows("Which two?", "> 1. red")
    terminal.press("Down")
    terminal.press("Down")
    terminal.press("Enter")
    terminal.write("green")
    terminal.shows("green")
    terminal.press("Enter")
    terminal.shows("Ready to submit")
    terminal.press("Enter")
    terminal.shows("user selected: 2. blue", "user wrote: green")

    command(terminal, "/invaders")
    terminal.shows("SPACE INVADERS")
    terminal.press("C-c", "C-c")  # in any case, if both come within a second
    terminal.until(lambda screen: "SPACE INVADERS" not in screen)
    command(terminal, "/plan")
    terminal.shows("⏸ plan")
    terminal.press("C-c")
    terminal.press("C-d")
    terminal.shows("[left with 0]")
