"""Calls of all tools that extensions draw, and Markdown that they change, as a client sees them. R-UI-32, R-UI-33.

One agent has extensions in both languages.
"""

from pathlib import Path
from typing import Final

import pytest
from tests.rpc.extensions.test_items import Drawn

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
def extension(pi):
    @pi.tool_renderer
    def draw(item):
        return [f"py {item.kind} {item.name}"] if item.name == "ls" else None

    @pi.call_renderer("grep")
    def grep(item):
        return ["py grep"]

    @pi.markdown_transformer(message_types=["assistant", "summary"])
    def change(markdown, item):
        if "fails" in markdown:
            raise RuntimeError("on purpose")
        return None if "left" in markdown else f"{markdown} [py {item.name} {item.is_partial}]"
"""
NODE: Final = """
export default function (pi) {
  const shown = (...lines) => ({ render: () => lines, invalidate() {} });
  pi.registerTool({
    name: "own", label: "own", description: "own", parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [] }), renderCall: () => shown("own"),
  });
  pi.registerToolRenderer((name, next) =>
    name.startsWith("mcp__") ? { renderCall: () => shown("first " + name) } : next());
  pi.registerMarkdownTransformer((markdown) => `${markdown} never`);
  pi.registerMarkdownTransformer((markdown, { messageType, isStreaming, availableWidth, messageId }) =>
    markdown.includes("long") ? "x\\n".repeat(600)
      : `${markdown} [node ${messageType} ${isStreaming} ${availableWidth} ${messageId}]\\n\\x1b[2Jend`,
  { messageTypes: ["user", "assistant"] });
}
"""
SECOND: Final = """
export default function (pi) {
  const shown = (...lines) => ({ render: () => lines, invalidate() {} });
  pi.registerToolRenderer((name, next) =>
    name === "bad" ? { renderCall() { throw new Error("on purpose"); } }
      : next() ?? { renderCall: (args) => shown(`second ${name} ${args.a}`), renderResult: () => shown("result") });
}
"""


@pytest.fixture
def drawn(agent: AgentStarter, node_program: str, tmp_path: Path) -> Drawn:
    flags: list[str] = []
    for name, text in (("one.mjs", NODE), ("two.py", PYTHON), ("three.mjs", SECOND)):
        (tmp_path / name).write_text(text)
        flags += ["-e", str(tmp_path / name)]
    made = Drawn(agent((), *flags, "--surfaces", env={"PINNACE_NODE": node_program}))
    made.pi.ask("get_state")  # which waits until the extensions are loaded
    return made


def test_calls_of_every_tool_are_drawn_by_what_extensions_choose(drawn: Drawn) -> None:
    """R-UI-32: of tools that are not registered, too; what is left is drawn by the tool's own, or by the client."""
    state = drawn.pi.ask("get_state")
    assert "warnings" not in state
    named = [(each["kind"], each["name"], each["framed"]) for each in state["itemRenderers"] if each["name"] == "*"]
    assert [("call", "*", True), ("result", "*", True)] == named

    def lines(kind: str, name: str) -> list[str] | None:
        record = drawn.ask(f"{kind} {name}", kind, name, arguments={"a": 5}, content=[])
        found: list[str] | None = record.get("lines")
        return found

    assert ["first mcp__x"] == lines("call", "mcp__x")
    assert lines("result", "mcp__x") is None
    assert ["second gone 5"] == lines("call", "gone")
    assert ["result"] == lines("result", "gone")
    assert ["own"] == lines("call", "own")
    assert ["py call ls"] == lines("call", "ls")
    assert ["py result ls"] == lines("result", "ls")
    assert ["py grep"] == lines("call", "grep")
    assert lines("call", "bash") is None
    assert not drawn.pi.found({"type": "extension_error"})
    assert lines("call", "bad") is None
    [error] = drawn.pi.found({"type": "extension_error"})
    assert "on purpose" in error["error"]


def test_markdown_is_changed_by_all_extensions_in_their_order(drawn: Drawn) -> None:
    """R-UI-33: of the types that each has chosen; one that fails changes nothing; too many lines are left."""
    listed = [each["name"] for each in drawn.pi.ask("get_state")["itemRenderers"] if each["kind"] == "markdown"]
    assert {"user", "assistant", "summary"} == set(listed)

    def lines(name: str, content: str, **fields: object) -> list[str] | None:
        record = drawn.ask(content, "markdown", name, **{"id": "", "content": content, **fields})
        found: list[str] | None = record.get("lines")
        return found

    node = ["a [node assistant true 30 undefined]", "end [py assistant True]"]
    assert node == lines("assistant", "a", isPartial=True)
    assert ["b [node user false 30 e1]", "end"] == lines("user", "b", id="e1")
    assert ["c", "d [py summary False]"] == lines("summary", "c\nd")
    assert ["left"] == lines("summary", "left")
    assert lines("assistant-thinking", "e") is None
    assert lines("user", "long") is None
    assert ["fails"] == lines("summary", "fails")
    assert ["fails too"] == lines("summary", "fails too")
    [error] = drawn.pi.found({"type": "extension_error"})
    assert "renderer of markdown summary: " in error["error"]
