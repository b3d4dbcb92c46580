"""Items of the conversation that extensions draw, as a client sees them. Rule R-UI-13.

One agent draws with extensions in both languages: the same items, by the same fields.
"""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
import trio

def extension(pi):
    kept = {}

    @pi.call_renderer("py")
    def call(item):
        item.state["calls"] = item.state.get("calls", 0) + 1
        kept[item.id] = item
        return [f"{item.arguments['a']} {item.width} {item.is_expanded} {item.state['calls']}"]

    @pi.result_renderer("py", framed=False)
    def result(item):
        class Shown:
            def render(self, width):
                return [f"{item.text} {item.details} {item.is_partial} {item.is_error} {item.state['calls']}"]
        return Shown()

    @pi.message_renderer("py-note")
    def note(message, item, theme):
        return None if item.text == "plain" else theme.bold(message["content"]) + "\\n" + str(item.details)

    @pi.entry_renderer("py-card")
    def card(entry, item, theme):
        return ["\\x1b]0;title\\x07" + entry["data"]["text"]] * 1000

    @pi.call_renderer("py-bad")
    def bad(item):
        raise RuntimeError("it can't be drawn")

    @pi.call_renderer("py-slow")
    async def slow(item):
        await trio.sleep_forever()

    @pi.command("py-again")
    def again(ctx, args):
        kept[args].request_render()
"""
NODE: Final = """
export default function (pi) {
  const kept = {};
  const tool = (name, renderers) => pi.registerTool({
    name, label: name, description: name, parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [] }), ...renderers,
  });
  const shown = (...lines) => ({ render: () => lines, invalidate() {} });
  tool("node", {
    renderShell: "self",
    renderCall(args, theme, context) {
      context.state.calls = (context.state.calls ?? 0) + 1;
      kept[context.toolCallId] = context;
      return { render: (width) => [`${args.a} ${width} ${context.expanded} ${context.state.calls}`], invalidate() {} };
    },
    renderResult(result, options, theme, context) {
      const words = [result.content[0].text, result.details.d, options.isPartial, context.isError, context.state.calls];
      return shown(words.join(" "));
    },
  });
  tool("node-bad", { renderCall() { throw new Error("it can't be drawn"); } });
  tool("node-slow", { renderCall: () => shown("never") });
  pi.registerMessageRenderer("node-note", (message, { expanded }, theme) =>
    message.content === "plain" ? undefined : shown(theme.bold(message.content), String(message.details.d)));
  pi.registerEntryRenderer("node-card", (entry) => shown(...Array(1000).fill("\\x1b]0;title\\x07" + entry.data.text)));
  pi.registerCommand("node-again", { handler: async (args) => kept[args].invalidate() });
}
"""
BOTH: Final = pytest.mark.parametrize("language", ["py", "node"])


class Drawn(Extended):
    """An agent whose client draws."""

    def ask(self, surface: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        """Have an item drawn; return the record that answers."""
        mark = self.pi.mark()
        item = {"kind": kind, "name": name, "id": "c1", **fields}
        self.pi.ask("ui_surface_input", surface=surface, columns=30, item=item)
        return self.next(surface, mark)

    def next(self, surface: str, mark: int) -> dict[str, Any]:
        found: dict[str, Any] = self.pi.wait({"surface": surface}, since=mark)
        return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("items")
    python, node = folder / "draws.py", folder / "draws.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    return ["-e", str(python), "-e", str(node)]


@pytest.fixture
def drawn(agent: AgentStarter, files: list[str], node_program: str, tmp_path: Path) -> Drawn:
    made = Drawn(agent((), *files, "--surfaces", env={"PINNACE_NODE": node_program}))
    made.pi.ask("get_state")  # which waits until the extensions are loaded
    return made


def test_items_are_drawn_with_what_the_client_sends(drawn: Drawn) -> None:
    """R-UI-13: in both languages alike; the renderers of a call share a state, and one may ask to draw again."""
    listed = drawn.pi.ask("get_state")["itemRenderers"]
    for language, flag in (("py", "True"), ("node", "true")):
        found = {each["kind"]: each["framed"] for each in listed if each["name"] == language}
        assert {"call": language == "py", "result": False} == found
        call = drawn.ask(f"{language}1", "call", language, arguments={"a": 5}, expanded=True)
        assert [f"5 30 {flag} 1"] == call["lines"]
        content = [{"type": "text", "text": "out"}]
        details = {"d": 7}
        result = drawn.ask(f"{language}2", "result", language, content=content, details=details, isPartial=True)
        about = f"{details} True False" if language == "py" else "7 true false"
        assert [f"out {about} 1"] == result["lines"]
        mark = drawn.pi.mark()
        drawn.command(f"/{language}-again c1")
        assert [f"5 30 {flag} 2"] == drawn.next(f"{language}1", mark)["lines"]

        note = drawn.ask(f"{language}3", "message", f"{language}-note", content="hello", details={"d": 1})
        assert "\x1b[1mhello\x1b[22m" == note["lines"][0]
        plain = drawn.ask(f"{language}3", "message", f"{language}-note", content="plain")
        assert "ui_surface_close" == plain["type"]
        card = drawn.ask(f"{language}4", "entry", f"{language}-card", data={"text": "shown"})
        assert 500 == len(card["lines"])
        assert ["shown", "… 501 more lines"] == [card["lines"][0], card["lines"][-1]]
    other = drawn.ask("none", "call", "read", arguments={})
    assert "ui_surface_close" == other["type"]
    drawn.pi.ask("ui_surface_input", surface="py1", closed=True)
    drawn.command("/py-again c1")
    drawn.pi.ask("hello", surfaces=False)
    assert "itemRenderers" not in drawn.pi.ask("get_state")
    closed = [each["surface"] for each in drawn.pi.found({"type": "ui_surface_close"})]
    assert ["py3", "node3", "none", "py2", "py4", "node1", "node2", "node4"] == closed
    assert 2 == len(drawn.pi.found({"type": "ui_surface_draw", "surface": "py1"}))


@BOTH
def test_a_renderer_that_fails_leaves_the_item_to_the_client(drawn: Drawn, language: str) -> None:
    """R-UI-13: the surface is closed, and the failure is reported once."""
    for surface in ("a", "b"):
        closed = drawn.ask(surface, "call", f"{language}-bad", arguments={})
        assert "ui_surface_close" == closed["type"]
    [error] = drawn.pi.found({"type": "extension_error"})
    assert "render" == error["event"]
    assert "can't be drawn" in error["error"]


def test_a_slow_renderer_is_not_called_again(drawn: Drawn) -> None:
    """R-UI-13: after two seconds the item is the client's, as are those of this renderer from then on."""
    assert "ui_surface_close" == drawn.ask("a", "call", "py-slow", arguments={})["type"]
    assert "ui_surface_close" == drawn.ask("b", "call", "py-slow", arguments={})["type"]
    [error] = drawn.pi.found({"type": "extension_error"})
    assert "is not called again" in error["error"]
