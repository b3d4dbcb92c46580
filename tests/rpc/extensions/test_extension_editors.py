"""The editor of messages that extensions draw, as a client sees it. Rule R-UI-40.

One agent has editors in both languages; each is set by a command.
"""

from pathlib import Path
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
def extension(pi):
    class Line:
        def __init__(self, screen):
            self.screen, self.text = screen, ""

        def render(self, width):
            return [f"[{self.text}]"]

        def get_text(self):
            return self.text

        def set_text(self, text):
            self.text = text

        def handle_paste(self, text):
            self.text += f"<{text}>"

        async def handle_key(self, key):
            if key == "X":
                raise RuntimeError("it can't be written")
            if key == "enter":
                self.screen.submit(self.text)
                self.text = ""
            elif key == "alt+enter":
                self.screen.submit(self.text, follow_up=True)
                self.text = ""
            elif key == "ctrl+l":
                self.screen.act("app.model.select")
            elif len(key) == 1:
                self.text += key
            else:
                return False

    @pi.command("py", description="set")
    def set_editor(ctx, args):
        makers = {"none": None, "wrong": lambda screen, theme: object()}
        made = makers.get(args, lambda screen, theme: Line(screen))
        ctx.ui.set_editor_component(made)
        ctx.ui.notify(f"{ctx.ui.get_editor_component() is made} {ctx.ui.get_editor_text()!r}")
"""
NODE: Final = """
import { CustomEditor } from "@earendil-works/pi-coding-agent";
class Shouting extends CustomEditor {
  handleInput(data) {
    if (data === "X") throw new Error("it can't be written");
    super.handleInput(data);
  }
  render(width) { return [`[${this.getText()}]`]; }
}
export default function (pi) {
  pi.registerCommand("node", {
    description: "set",
    handler: async (args, ctx) => {
      const made = args === "none" ? undefined : args === "wrong" ? () => ({}) : (...each) => new Shouting(...each);
      ctx.ui.setEditorComponent(made);
      ctx.ui.notify(`${ctx.ui.getEditorComponent() === made} '${ctx.ui.getEditorText()}'`);
    },
  });
}
"""
BOTH: Final = pytest.mark.parametrize("language", ["py", "node"])


class Edited(Extended):
    """An agent whose client lets extensions draw."""

    surface = ""
    number = 0

    def open(self, command: str, text: str = "") -> None:
        """Have an editor set, and give it a size and a text."""
        mark = self.pi.mark()
        self.command(f"/{command}")
        self.surface = str(self.pi.wait({"type": "ui_surface_open", "place": "input"}, since=mark)["surface"])
        self.pi.ask("ui_surface_input", surface=self.surface, columns=40, rows=20)
        self.send(text=text)

    def send(self, **fields: object) -> int:
        """Send an input, which nothing waits for; return its number."""
        self.number += 1
        self.pi.send({"type": "ui_surface_input", "surface": self.surface, "number": self.number, "by": "me", **fields})
        return self.number

    def answers(self, through: int) -> list[Record]:
        """Wait for the answer to an input; return the answers to this surface, without what is the same in all."""
        known = {"type": "ui_input", "surface": self.surface, "by": "me"}
        self.pi.wait({**known, "taken": through}, since=0)
        return [{name: each[name] for name in each if name not in known} for each in self.pi.found(known)]


@pytest.fixture
def edited(agent: AgentStarter, tmp_path: Path, node_program: str) -> Edited:
    """An agent with both extensions, whose client draws."""
    python, node = tmp_path / "edits.py", tmp_path / "edits.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    one = Edited(agent((), "-e", str(python), "-e", str(node), env={"PINNACE_NODE": node_program}))
    one.pi.ask("hello", surfaces=True)
    return one


def test_each_input_is_answered_in_order(edited: Edited) -> None:
    """R-UI-40: texts, keys and pastes; messages and an action are reported once; an abort ends nothing."""
    for language, pasted in (("py", "<p>"), ("node", "p")):
        edited.open(language, "draft")
        for key in ("a", "👍"):
            edited.send(data=key, key=key)
        edited.send(data="\x1b[200~p\x1b[201~")
        edited.pi.ask("abort")
        edited.send(data="\x0c", key="ctrl+l")
        edited.send(data="\r", key="enter")
        edited.send(data="b", key="b")
        edited.send(data="\x1b[13;3u", key="alt+enter")
        first = edited.number - 7
        whole = f"drafta👍{pasted}"
        assert edited.answers(edited.number) == [
            {"taken": first, "text": "draft"},
            {"taken": first + 1, "text": "drafta"},
            {"taken": first + 2, "text": "drafta👍"},
            {"taken": first + 3, "text": whole},
            {"taken": first + 4, "text": whole, "action": "app.model.select"},
            {"taken": first + 5, "text": "", "submitted": whole},
            {"taken": first + 6, "text": "b"},
            {"taken": first + 7, "text": "", "submitted": "b", "followUp": True},
        ]
        edited.command(f"/{language} none")
        edited.pi.wait({"type": "ui_surface_close", "surface": edited.surface}, since=0)
    notices = [each["message"] for each in edited.frames("notify")]
    assert ["True ''", "True ''", "true ''", "true ''"] == notices
    assert not edited.errors


def test_what_an_editor_leaves_to_the_client_is_reported(edited: Edited) -> None:
    """R-UI-40: the abort and the end too; what the editor holds is read by extensions."""
    edited.open("py", "a")
    declined = edited.send(data="\x1b", key="escape")
    assert {"taken": declined, "text": "a", "declined": True} == edited.answers(declined)[-1]
    edited.open("node", "b")
    edited.send(data="c", key="c")
    interrupted = edited.send(data="\x1b", key="escape")
    assert {"taken": interrupted, "text": "bc", "action": "app.interrupt"} == edited.answers(interrupted)[-1]
    cleared = edited.send(data="\x03", key="ctrl+c")
    edited.send(data="d", key="d")
    assert [
        {"taken": cleared, "text": "", "action": "app.clear"},
        {"taken": cleared + 1, "text": "d"},
    ] == edited.answers(cleared + 1)[-2:]
    edited.command("/py none")
    assert "True 'd'" == [each["message"] for each in edited.frames("notify")][-1]
    assert not edited.errors


@BOTH
def test_an_editor_that_fails_is_closed(edited: Edited, language: str) -> None:
    """R-UI-40: by a key, or by its factory; one that the user closes is opened when it is set again."""
    edited.open(language, "a")
    edited.pi.ask("ui_surface_input", surface=edited.surface, data="X", key="X", number=9, by="me")
    edited.pi.wait({"type": "ui_surface_close", "surface": edited.surface}, since=0)
    mark = edited.pi.mark()
    edited.command(f"/{language} wrong")
    surface = str(edited.pi.wait({"type": "ui_surface_open", "place": "input"}, since=mark)["surface"])
    edited.pi.ask("ui_surface_input", surface=surface, columns=40, rows=20)
    edited.pi.wait({"type": "ui_surface_close", "surface": surface}, since=mark)
    edited.open(language, "b")
    edited.pi.ask("ui_surface_input", surface=edited.surface, closed=True)
    edited.pi.wait({"type": "ui_surface_close", "surface": edited.surface}, since=mark)
    edited.open(language, "c")
    assert {"taken": edited.number, "text": "c"} == edited.answers(edited.number)[-1]
    failed, wrong = (text for _, text in edited.errors)
    assert "it can't be written" in failed
    assert "the factory must return" in wrong
