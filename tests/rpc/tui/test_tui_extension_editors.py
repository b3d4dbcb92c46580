"""Editors of extensions in a real terminal, by tmux: the original's own examples, used by keys.

With the components of pi's package (of release 0.87.1, the latest that `scripts/peers` has whole), and with ours.
"""

import os
import shutil
from collections.abc import Iterator
from typing import Final

import pytest
from tests.rpc.tui.terminal import environment
from tests.rpc.tui.test_tui_surfaces import EXAMPLES, WITH_COMPONENTS
from tests.rpc.tui.test_tui_terminal import NEEDS_TMUX, PINNACE, RealTerminal

from pinnace_fuzz.harness.short_folders import make_short_folder

MODES: Final = """
import modal from "EXAMPLES/modal-editor.ts";
import rainbow from "EXAMPLES/rainbow-editor.ts";
import border from "EXAMPLES/border-status-editor.ts";
export default function (pi) {
  const starts = {};
  const keep = (name) => (event, start) => { if (event === "session_start") starts[name] = start; };
  const made = (name) => ({ ...pi, on: keep(name) });
  modal(made("modal"));
  rainbow(made("rainbow"));
  border(made("border"));
  pi.registerCommand("use", {
    description: "use",
    handler: async (name, ctx) => {
      if (name in starts) starts[name]({ type: "session_start" }, ctx);
      else if (name === "hanging") ctx.ui.setEditorComponent((...each) => {
        const editor = new Hanging(...each);
        return editor;
      });
      else ctx.ui.setEditorComponent(undefined);
      if (name !== "border") ctx.ui.setFooter(undefined);
    },
  });
}
import { CustomEditor } from "@earendil-works/pi-coding-agent";
class Hanging extends CustomEditor {
  render(width) { return [...super.render(width), "to stop"]; }
  handleInput(data) {
    if (data === "z") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 6000);
    super.handleInput(data);
  }
}
"""


@pytest.fixture(params=["pi", "own"])
def terminal(request: pytest.FixtureRequest, original_pi: list[str], node_program: str) -> Iterator[RealTerminal]:
    """The terminal client with the examples."""
    assert original_pi
    folder = make_short_folder("pe-")
    env = environment(folder, PINNACE_NODE=node_program, PINNACE_OFFLINE_DELAY_MS="40")
    if request.param == "pi":
        if not (WITH_COMPONENTS / "pi").exists():
            pytest.skip("no pi 0.87.1: scripts/peers installs it")
        env["PATH"] = f"{WITH_COMPONENTS}{os.pathsep}{env['PATH']}"
    modes = folder / "modes.ts"
    modes.write_text(MODES.replace("EXAMPLES", str(EXAMPLES)))
    (folder / "project").mkdir(exist_ok=True)
    (folder / "project" / "plan-of-work.md").touch()
    terminal = RealTerminal(folder, [*PINNACE, "--provider", "offline", "-e", str(modes)], env, 80, 30)
    try:
        yield terminal
    finally:
        terminal.end()
        shutil.rmtree(folder, ignore_errors=True)


def use(terminal: RealTerminal, name: str, *shown: str) -> None:
    """Have another editor set."""
    terminal.write(f"/use {name}")
    terminal.shows(f"/use {name}")
    terminal.press("Enter")
    terminal.shows(*shown)


def editor(screen: str) -> list[str]:
    """The rows of the editor, without its borders; none where it is half drawn."""
    rows = [row.rstrip() for row in screen.splitlines()]
    borders = [number for number, row in enumerate(rows) if row.startswith("─")]
    return rows[borders[-2] + 1 : borders[-1]] if len(borders) > 1 else []


def holds(terminal: RealTerminal, *lines: str) -> None:
    """Wait until the editor has these lines."""
    terminal.until(lambda screen: editor(screen) == list(lines))


@NEEDS_TMUX
def test_the_originals_editors_are_used_by_keys(terminal: RealTerminal) -> None:
    """R-UI-40: modes, colours and borders; messages, history, completions, pastes, several lines, the end."""
    terminal.shows("rehearsal")
    use(terminal, "modal", " INSERT")
    terminal.write("hullo")
    holds(terminal, "hullo")
    terminal.press("Escape")
    terminal.shows(" NORMAL")
    for key in "0lxi":  # to the second letter, without it, and writing again
        terminal.write(key)
    terminal.shows(" INSERT")
    terminal.write("e")
    holds(terminal, "hello")
    terminal.paste("日本語\nsecond")
    holds(terminal, "he日本語", "secondllo")
    terminal.press("Enter")
    terminal.shows("> he日本語", "no network")
    holds(terminal, "")
    terminal.write("count to 4000")
    holds(terminal, "count to 4000")
    terminal.press("Enter")
    terminal.shows("Working", "1 2 3 4 5 6 7 8 9 10")
    terminal.write("and then?")
    terminal.press("Enter")
    terminal.shows("steering: and then?")
    terminal.write("at last")
    terminal.press("M-Enter")
    terminal.shows("follow-up: at last")
    terminal.press("Escape")
    terminal.shows(" NORMAL")
    terminal.press("Escape")
    terminal.shows("Aborted.")
    holds(terminal, "and then?", "", "at last")
    terminal.press("C-c")
    holds(terminal, "")
    terminal.write("i")
    terminal.shows(" INSERT")
    terminal.press("Up")  # twice, since pi's editor has what was cleared in no history
    terminal.press("Up")
    holds(terminal, "and then?")
    terminal.press("C-c")
    terminal.write("see @pl")
    terminal.shows("plan-of-work.md")
    terminal.press("Tab")
    holds(terminal, "see @plan-of-work.md")
    terminal.press("C-c")
    holds(terminal, "")

    use(terminal, "rainbow", "rehearsal")
    terminal.until(lambda screen: " INSERT" not in screen)
    terminal.write("ultrathink")
    holds(terminal, "ultrathink")
    terminal.until(lambda screen: "ultrathink" not in screen, "-e")  # each letter has a colour
    terminal.press("C-c")

    use(terminal, "border", "offline/rehearsal · medium ")
    terminal.write("kept")
    holds(terminal, "kept")
    terminal.press("C-c")

    use(terminal, "hanging", "to stop")
    terminal.write("azbc")
    terminal.shows("did not take a key within two seconds", "│azbc")
    terminal.press("C-c")
    terminal.press("C-d")
    terminal.shows("[left with 0]")
