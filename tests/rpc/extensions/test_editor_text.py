"""The text of the client's editor, as extensions read and set it. Rule R-UI-21.

One agent has extensions in both languages.
"""

from pathlib import Path
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
def extension(pi):
    @pi.shortcut("f7")
    def read(ctx):
        ctx.ui.notify(ctx.ui.get_editor_text())

    @pi.shortcut("f8")
    def change(ctx):
        ctx.ui.set_editor_text("by Python")
        ctx.ui.paste_to_editor("!")
        ctx.ui.notify(ctx.ui.get_editor_text())
"""
NODE: Final = """
export default function (pi) {
  pi.registerShortcut("f9", { handler: (ctx) => ctx.ui.notify(ctx.ui.getEditorText()) });
  pi.registerShortcut("f10", {
    handler: (ctx) => {
      ctx.ui.setEditorText("by Node");
      ctx.ui.pasteToEditor("?");
      ctx.ui.notify(ctx.ui.getEditorText());
    },
  });
}
"""


@pytest.fixture
def one(agent: AgentStarter, tmp_path: Path, node_program: str) -> Extended:
    """An agent with both extensions."""
    python, node = tmp_path / "text.py", tmp_path / "text.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    return Extended(agent((), "-e", str(python), "-e", str(node), env={"PINNACE_NODE": node_program}))


def test_both_languages_read_what_the_client_has_reported(one: Extended) -> None:
    """R-UI-21: or what either has set since; the next session has the same; a client that draws no more has none."""

    def report(text: str) -> None:
        one.pi.ask("ui_surface_input", surface="editor", text=text)

    def pressed(key: str) -> str:
        one.pi.ask("get_shortcuts")  # which waits until the extensions are loaded
        assert one.pi.ask("run_shortcut", key=key)["started"]
        return one.notice()

    one.pi.ask("hello", surfaces=True)
    report("written\nhere 👩‍👧")
    assert pressed("f7") == pressed("f9") == "written\nhere 👩‍👧"
    assert pressed("f8") == pressed("f9") == "by Python"
    assert pressed("f10") == pressed("f7") == "by Node"
    texts = [(each["text"], each.get("paste")) for each in one.frames("set_editor_text")]
    assert texts == [("by Python", None), ("!", True), ("by Node", None), ("?", True)]
    report("kept")
    one.pi.ask("new_session")
    assert pressed("f7") == pressed("f9") == "kept"
    one.pi.ask("hello", surfaces=False)
    report("unheard")
    assert "" == pressed("f7") == pressed("f9")
    assert not one.errors
