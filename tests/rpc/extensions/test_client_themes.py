"""The themes of the client, as extensions see and choose them. Rule R-UI-22.

One agent has extensions in both languages.
"""

import json
from pathlib import Path
from typing import Final

from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
def extension(pi):
    @pi.on("session_start")
    def begin(ctx, event):
        ctx.ui.notify(f"at the start: {ctx.ui.set_theme('early').success}")

    @pi.command("py")
    def choose(ctx, args):
        ui = ctx.ui
        got = ui.get_theme(args)
        done = ui.set_theme(args if got is None else got)
        ui.notify(f"{ui.get_all_themes()} {got and got.name} {done.success} {done.error} {ui.theme.name}")
"""
NODE: Final = """
export default function (pi) {
  pi.registerCommand("node", {
    handler: async (args, { ui }) => {
      const got = ui.getTheme(args);
      const done = ui.setTheme(got ?? args);
      ui.notify(JSON.stringify([ui.getAllThemes(), got?.name, done, ui.setTheme({ name: "none" })]));
    },
  });
}
"""


def test_both_languages_choose_a_theme_of_the_client(agent: AgentStarter, tmp_path: Path, node_program: str) -> None:
    """R-UI-22: before it has named them, any; then one of its own; none from a client that draws nothing."""
    python, node = tmp_path / "themes.py", tmp_path / "themes.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    flags = ("--surfaces", "-e", str(python), "-e", str(node))
    one = Extended(agent((), *flags, env={"PINNACE_NODE": node_program}))

    def shown(command: str) -> str:
        one.command(command)
        return one.notice()

    def chosen() -> list[str]:
        return [each["theme"] for each in one.pi.found({"type": "ui_theme"})]

    assert "at the start: True" == one.notice()
    one.pi.ask("hello", surfaces=True, themes=["dark", "light"], theme="dark")
    assert "['dark', 'light'] light True None light" == shown("/py light")
    assert "['dark', 'light'] None False Theme not found: other light" == shown("/py other")
    listed = [{"name": "dark"}, {"name": "light"}]
    refused = {"success": False, "error": "Theme not found: none"}
    assert [listed, "dark", {"success": True}, refused] == json.loads(shown("/node dark"))
    assert ["early", "light", "dark"] == chosen()
    one.pi.ask("hello", theme="light")
    assert "['dark', 'light'] None False Theme not found: x light" == shown("/py x")
    one.pi.ask("hello", surfaces=False)
    refused = {"success": False, "error": "Theme switching not supported in RPC mode"}
    assert [[], None, refused, refused] == json.loads(shown("/node dark"))
    assert ["early", "light", "dark"] == chosen()
    assert not one.errors
