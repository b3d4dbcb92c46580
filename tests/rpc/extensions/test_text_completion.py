"""Completions of the text of the editor, as a client sees them. Rule R-UI-41.

One agent has extensions in both languages, of which each adds its providers by a command.
"""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
import trio
from pinnace.extensions import Completion

def extension(pi):
    async def issues(before, after):
        word = before.split()[-1]
        return word, [Completion(f"{word}1", "One", "The first"), f"{word}2{after}"]

    async def hangs(before, after):
        if before.endswith("hang"):
            await trio.sleep_forever()

    def fails(before, after):
        if before.endswith("odd"):
            return 5
        if before.endswith("fail"):
            raise RuntimeError("on purpose")

    @pi.command("py")
    def add(ctx, args):
        ctx.ui.add_autocomplete_provider(hangs)
        ctx.ui.add_autocomplete_provider(fails)
        ctx.ui.add_autocomplete_provider(issues, triggers="#")
        try:
            ctx.ui.add_autocomplete_provider(5)
        except TypeError as error:
            ctx.ui.notify(str(error))
"""
NODE: Final = """
export default function (pi) {
  const over = (current, more) => ({
    getSuggestions: (...each) => current.getSuggestions(...each),
    applyCompletion: (...each) => current.applyCompletion(...each),
    ...more,
  });
  const add = {
    tickets: (current) => over(current, {
      triggerCharacters: ["$"],
      async getSuggestions(lines, line, column, { signal, force }) {
        const prefix = /[$]\\w*$/.exec(lines[line].slice(0, column))?.[0];
        if (prefix === undefined) return current.getSuggestions(lines, line, column, { signal, force });
        return { prefix, items: [{ value: `${prefix}-${line}-${force}`, label: "Ticket" }] };
      },
      applyCompletion(lines, line, column, item, prefix) {
        if (!prefix.startsWith("$")) return current.applyCompletion(lines, line, column, item, prefix);
        const made = [...lines];
        made[line] = `${lines[line].slice(0, column - prefix.length)}<${item.value}>${lines[line].slice(column)}`;
        return { lines: made, cursorLine: line, cursorCol: 0 };
      },
    }),
    more: (current) => over(current, {
      async getSuggestions(lines, line, column, options) {
        const found = await current.getSuggestions(lines, line, column, options);
        return found && lines[line].startsWith("/n") ? { ...found, items: [...found.items, { value: "more" }] } : found;
      },
    }),
    fails: (current) => over(current, {
      async getSuggestions(lines, ...each) {
        if (lines[0].endsWith("fail")) throw new Error("on purpose");
        if (lines[0].endsWith("hang")) await new Promise(() => {});
        return current.getSuggestions(lines, ...each);
      },
    }),
    odd: () => 5,
  };
  pi.registerCommand("node", {
    handler: async (args, ctx) => {
      for (const each of args.split(" ")) ctx.ui.addAutocompleteProvider(add[each]);
      let refusal;
      try { ctx.ui.addAutocompleteProvider(5); } catch (error) { refusal = error; }
      ctx.ui.notify(refusal.message);
    },
  });
}
"""


@pytest.fixture
def completed(agent: AgentStarter, tmp_path: Path, node_program: str) -> Extended:
    """An agent with both extensions, whose client draws."""
    python, node = tmp_path / "issues.py", tmp_path / "tickets.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    one = Extended(agent((), "-e", str(python), "-e", str(node), env={"PINNACE_NODE": node_program}))
    one.pi.ask("hello", surfaces=True)
    return one


def completions(one: Extended, prefix: str, after: str = "", **more: bool) -> dict[str, Any]:
    """Return the answer for a text."""
    found: dict[str, Any] = one.pi.ask("get_completions", name="", prefix=prefix, after=after, **more)
    return found


def values(one: Extended, prefix: str, **more: bool) -> list[str]:
    """Return the completions of a text."""
    return [each["value"] for each in completions(one, prefix, "", **more)["completions"]]


def add(one: Extended, command: str) -> None:
    """Have an extension add its providers, and a wrong one."""
    one.command(command)
    assert "function" in one.notice()


def test_providers_of_both_languages_complete_the_text(completed: Extended) -> None:
    """R-UI-41: the last one first; by their signs or when asked; what the client has itself is not answered."""
    one = completed
    assert [] == values(one, "$1")
    add(one, "/node tickets more")
    one.pi.wait({"type": "ui_display", "completes": True}, since=0)
    assert completions(one, "a\n$1", " b") == {
        "prefix": "$1",
        "completions": [{"value": "<$1-1-false>", "label": "Ticket"}],
    }
    assert ["<$1-0-true>"] == values(one, "a$1", force=True)
    for text in ("a$1", "a", "/py", "see @"):
        assert [] == values(one, text), text
    assert ["/node ", "/more "] == values(one, "/n")
    add(one, "/py")
    assert completions(one, "fix #", "!") == {
        "prefix": "#",
        "completions": [{"value": "#1", "label": "One", "description": "The first"}, {"value": "#2!"}],
    }
    assert ["<$-0-false>"] == values(one, "$")
    one.pi.ask("new_session")
    assert [{"type": "ui_display", "completes": True}, {"type": "ui_display"}] == one.pi.found({"type": "ui_display"})
    assert [] == values(one, "$1")
    assert not one.errors


def test_a_provider_that_fails_or_hangs_costs_itself_alone(completed: Extended) -> None:
    """R-UI-41: the others are asked; it is reported once; a later question does not wait for it."""
    one = completed
    add(one, "/node tickets fails odd")
    add(one, "/py")
    for _ in range(2):
        assert ["<$1-0-false>"] == values(one, "$1")
        assert ["#odd1", "#odd2"] == values(one, "#odd")
        assert ["<$odd-0-false>"] == values(one, "$odd")
        assert ["<$fail-0-false>"] == values(one, "$fail")
    one.pi.send({"id": "early", "type": "get_completions", "name": "", "prefix": "$hang"})
    assert ["<$1-0-false>"] == values(one, "$1")
    assert {"completions": []} == one.pi.wait_response("early")["data"]
    assert ["<$hang-0-false>"] == values(one, "$hang")
    assert one.errors == [
        ("completion", "addAutocompleteProvider: the factory must return a provider, which has getSuggestions"),
        ("completion", "TypeError: a provider of completions must return None, or a text and a list, not 5"),
        ("completion", "on purpose"),
        ("completion", "TimeoutError: the completions of the text took longer than 2 s"),
    ]
