"""Work and hidden thoughts in a real terminal, as the original's own examples set them, by tmux."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.tui.terminal import environment, terminal
from tests.rpc.tui.test_tui_surfaces import EXAMPLES, command
from tests.rpc.tui.test_tui_terminal import NEEDS_TMUX, PINNACE, RealTerminal

from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_tui.content.look import LOOKS, Look

NAMES: Final = "working-message-test.ts working-indicator.ts hidden-thinking-label.ts".split()
# Of the examples' own colours, or the nearest of 256.
COLOURED: Final = re.compile(
    r"\x1b\[38;(?:2;255;179;186|5;217)m●.*\x1b\[38;(?:2;155;86;63|5;95)mWorking\.\.\. \(custom\)"
)
FOLDING: Final = """
export default function (pi) {
  pi.registerCommand("fold", {
    handler: async (args, { ui }) => {
      const before = ui.getToolsExpanded();
      ui.setToolsExpanded(!before);
      ui.setStatus("fold", `unfolded before: ${before}`);
    },
  });
  pi.registerMarkdownTransformer((markdown, { isStreaming }) => markdown.replaceAll("-->", isStreaming ? "…" : "→"));
  pi.registerToolRenderer((name, next) =>
    name === "ls" ? { renderCall: (args) => ({ render: () => [`lists ${args.path}`], invalidate() {} }) } : next());
  pi.registerCommand("hide", { handler: async (args, { ui }) => ui.setWorkingVisible(false) });
}
"""
SCRIPT: Final = r"""
turns:
  - thinking: ["First this,\n", "then that."]
    text: to --> fro
    tools: [{name: ls, arguments: {path: .}}, {name: bash, arguments: {command: seq 20}}]
  - text: that --> it
    hang: true
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = make_short_folder("pd-")
    (made / "folding.mjs").write_text(FOLDING)
    (made / "script.yaml").write_text(SCRIPT)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def line(screen: str, words: str) -> str:
    """The first row that has these words, if one has."""
    return next((row.strip() for row in screen.splitlines() if words in row), "")


@NEEDS_TMUX
@pytest.mark.skipif(not EXAMPLES.exists(), reason="no pi 1.5.2: scripts/peers judged installs it")
def test_work_and_thoughts_are_shown_as_the_examples_set_them(folder: Path, node_program: str) -> None:
    """R-UI-30 to R-UI-33: words, a sign with its colour, no sign, no line; a label; folding; renderers, Markdown."""
    env = environment(folder, PINNACE_NODE=node_program, PINNACE_OFFLINE_SCRIPT=str(folder / "script.yaml"))
    files = [*(EXAMPLES / name for name in NAMES), folder / "folding.mjs"]
    flags = [word for each in files for word in ("-e", str(each))]
    words = [*PINNACE, "--provider", "offline", "--thinking", "low", *flags]
    terminal = RealTerminal(folder, words, env, 90, 40)
    try:
        terminal.shows("0% of 128k", "Indicator: custom spinner")
        command(terminal, "/working-indicator dot")
        terminal.shows("Indicator: static dot")
        command(terminal, "work --> rest")
        terminal.shows("▸ Pondering... (2 lines)", "● Working... (custom)", "… 14 more lines")
        terminal.shows("> work → rest", "to → fro", "✗ lists .", "that … it")
        terminal.until(lambda screen: line(screen, "(custom)").startswith("● Working... (custom) "))
        terminal.until(lambda screen: line(screen, "(custom)").endswith(" s · Escape: abort"))
        terminal.until(lambda screen: COLOURED.search(line(screen, "(custom)")) is not None, "-e")
        command(terminal, "/working-indicator none")
        terminal.shows("Indicator: hidden")
        terminal.until(lambda screen: line(screen, "(custom)").startswith("Working... (custom) "))
        command(terminal, "/thinking-label Musing")
        terminal.shows("▸ Musing (2 lines)")
        command(terminal, "/thinking-label")
        terminal.shows("▸ Thinking (2 lines)")
        command(terminal, "/fold")
        terminal.shows("unfolded before: false", "\n 14\n")
        terminal.press("C-o")
        terminal.shows("… 14 more lines")
        command(terminal, "/fold")
        terminal.shows("unfolded before: false", "\n 14\n")
        command(terminal, "/fold")
        terminal.shows("unfolded before: true", "… 14 more lines")
        command(terminal, "/hide")
        terminal.until(lambda screen: "Escape: abort" not in screen)
        terminal.press("Escape")
        terminal.shows("Aborted.", "that → it")
    finally:
        terminal.end()


def test_themes_of_a_trusted_project_are_used_and_named_to_extensions(tmp_path: Path) -> None:
    """R-UI-22: once the agent reports the trust; a wanted theme may be among them, a wrong one is reported."""
    extension = tmp_path / "names.py"
    extension.write_text(
        "def extension(pi):\n    @pi.command('names', description='names')\n"
        "    def names(ctx, args):\n        ui = ctx.ui\n"
        "        ui.set_status('names', f'{ui.theme.name} {ui.get_all_themes()}')\n"
    )
    env = environment(tmp_path)
    (tmp_path / "project" / ".pi" / "themes").mkdir(parents=True)
    asked: list[str] = []

    def looks_of(project: str) -> tuple[list[Look], list[str]]:
        asked.append(project)
        return [*LOOKS, replace(LOOKS[1], name="project")], ["a.json: wrong"]

    async def check(flag: str, *, is_trusted: bool) -> None:
        flags = ("-e", str(extension), flag)
        async with terminal(tmp_path, *flags, env=env, look="project", looks_of=looks_of) as screen:
            await screen.shows("a.json: wrong" if is_trusted else "no theme project; there are dark, light")
            screen.editor.put("/names")
            await screen.press("enter")
            own = "dark', 'light', 'high-contrast'"
            expected = f"project ['{own}, 'project']" if is_trusted else f"dark ['{own}]"
            await screen.until(lambda: expected in screen.line("#footer"))

    asyncio.run(check("--approve", is_trusted=True))
    assert {str(tmp_path / "project")} == set(asked)
    asked.clear()
    asyncio.run(check("--no-approve", is_trusted=False))
    assert asked == []
