"""Listeners of extensions to the input of the terminal, as a client sees them. Rule R-UI-42.

One agent has extensions in both languages, of which each adds and removes its listener by a command.
"""

from pathlib import Path
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
import trio

def extension(pi):
    removers, interfaces = [], []

    async def hear(data):
        if data == "h":
            try:
                await trio.sleep_forever()
            finally:
                interfaces[0].notify("it was ended")
        if data in "ef":
            raise RuntimeError("on purpose")
        if data == "o":
            return {"data": 5}
        return {"x": {"consume": True}, "y": {"data": "y!"}}.get(data)

    @pi.command("py")
    def listen(ctx, args):
        interfaces.append(ctx.ui)
        if args:
            removers.pop()()
        else:
            removers.append(ctx.ui.on_terminal_input(hear))
"""
NODE: Final = """
export default function (pi) {
  let remove;
  pi.registerCommand("node", {
    handler: async (args, ctx) => {
      if (args) { remove(); remove(); return; }
      remove = ctx.ui.onTerminalInput((data) => {
        if (data === "e") throw new Error("on purpose, too");
        if (data === "n") return { consume: true };
        return data === "y!" ? { data: "" + data + "?" } : undefined;
      });
      ctx.ui.onTerminalInput((data) => data === "y!?" ? { data: "z" } : undefined)
        || ctx.ui.notify("no remover");
    },
  });
}
"""


class Heard(Extended):
    """An agent whose client lets extensions listen."""

    surface = ""
    number = 0

    def listen(self, command: str) -> None:
        """Have a listener added that opens the surface."""
        mark = self.pi.mark()
        self.command(f"/{command}")
        self.surface = str(self.pi.wait({"type": "ui_surface_open", "place": "keys"}, since=mark)["surface"])

    def send(self, data: str) -> int:
        """Send a key, which nothing waits for; return its number."""
        self.number += 1
        self.pi.send(
            {"type": "ui_surface_input", "surface": self.surface, "number": self.number, "by": "me", "data": data}
        )
        return self.number

    def left(self, *keys: str) -> list[str]:
        """Send keys and return what is left of each."""
        first = self.number + 1
        for each in keys:
            self.send(each)
        known = {"type": "ui_input", "surface": self.surface, "by": "me"}
        self.pi.wait({**known, "taken": self.number}, since=0)
        found = [each for each in self.pi.found(known) if each["taken"] >= first]
        assert list(range(first, self.number + 1)) == [each["taken"] for each in found]
        return [str(each["text"]) for each in found]


@pytest.fixture
def heard(agent: AgentStarter, tmp_path: Path, node_program: str) -> Heard:
    """An agent with both extensions, whose client draws."""
    python, node = tmp_path / "hears.py", tmp_path / "hears.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    one = Heard(agent((), "-e", str(python), "-e", str(node), env={"PINNACE_NODE": node_program}))
    one.pi.ask("hello", surfaces=True)
    return one


def test_listeners_of_both_languages_see_the_keys(heard: Heard) -> None:
    """R-UI-42: in their order; failures are reported once, and leave the key; an abort ends nothing."""
    heard.listen("py")
    heard.command("/node")
    paste = "\\x1b[200~x y\\x1b[201~"
    assert ["a", "", "z", "", paste, ""] == heard.left("a", "x", "y", "n", paste, "")
    heard.pi.ask("abort")
    assert ["e", "f", "e", "o"] == heard.left("e", "f", "e", "o")
    assert [("terminal_input", "RuntimeError: on purpose"), ("terminal_input", "on purpose, too")] == heard.errors
    heard.command("/py remove")
    assert ["x", "y"] == heard.left("x", "y")
    heard.pi.ask("hello", surfaces=False)
    heard.pi.wait({"type": "ui_surface_close", "surface": heard.surface}, since=0)
    mark = heard.pi.mark()
    heard.pi.ask("hello", surfaces=True)
    heard.surface = str(heard.pi.wait({"type": "ui_surface_open", "place": "keys"}, since=mark)["surface"])
    assert [""] == heard.left("n")
    heard.pi.ask("new_session")
    heard.pi.wait({"type": "ui_surface_close", "surface": heard.surface}, since=0)


def test_a_listener_that_hangs_ends_with_its_surface(heard: Heard) -> None:
    """R-UI-42: which the client closes; other commands are answered, and a listener that is added has keys."""
    heard.listen("py")
    heard.send("h")
    heard.send("a")
    assert heard.pi.ask("get_state")["isStreaming"] is False
    heard.pi.ask("ui_surface_input", surface=heard.surface, closed=True)
    heard.pi.wait({"type": "ui_surface_close", "surface": heard.surface}, since=0)
    assert "it was ended" == heard.notice()
    assert not heard.pi.found({"type": "ui_input"})
    heard.listen("node")
    assert ["", "a"] == heard.left("x", "a")
    assert not heard.errors
