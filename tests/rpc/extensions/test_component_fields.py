"""The plain `Input` and `Editor` that extensions of pi use where pi's own package is not installed.

One process of node takes all keys.
"""

import json
import subprocess
from typing import Final

import pytest
from tests.source_tree import REPOSITORY

MODULES: Final = REPOSITORY / "agent" / "pinnace_agent" / "node_extensions" / "runner" / "modules"
SCRIPT: Final = """
import { Editor, Input } from "MODULES/tui.cjs";
const results = {};
for (const [name, { text, keys, kind }] of Object.entries(CASES)) {
  const field = kind === "Input" ? new Input() : new Editor();
  const changes = [];
  const sent = [];
  field.focused = true;
  field.onChange = (each) => changes.push(each);
  field.onSubmit = (each) => { sent.push(each); field.addToHistory?.(each); };
  field.setText(text);
  for (const key of keys) field.handleInput(key);
  results[name] = { text: field.getText(), changes, sent, cursor: field.cursor, lines: field.render(12) };
}
console.log(JSON.stringify(results));
"""
LEFT, RIGHT, UP, DOWN, DELETE = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[3~"
FAMILY: Final = "👩‍👧"
# By name: the text, the keys, and the text that is left.
CASES: Final[dict[str, tuple[str, list[str], str]]] = {
    "Backspace removes a surrogate pair": ("a👍", ["\x7f"], "a"),
    "Backspace removes a family": (f"a{FAMILY}", ["\x7f"], "a"),
    "Backspace removes a letter with its accent": ("e\u0301", ["\x7f"], ""),
    "Backspace at the beginning": ("ab", ["\x01", "\x7f"], "ab"),
    "Left goes before a pair": ("a👍", [LEFT, "x"], "ax👍"),
    "Right goes behind a pair": ("👍b", ["\x01", RIGHT, "x"], "👍xb"),
    "Delete removes a pair": ("👍b", ["\x01", DELETE], "b"),
    "C-d removes a family": (f"{FAMILY}b", ["\x01", "\x04"], "b"),
    "C-a and C-e are of a line": ("ab\ncd", ["\x01", "x", "\x05", "y"], "ab\nxcdy"),
    "C-k": ("abcd", [LEFT, LEFT, "\x0b"], "ab"),
    "C-k joins lines at their end": ("a\nb", [UP, "\x05", "\x0b"], "ab"),
    "C-u": ("abcd", [LEFT, LEFT, "\x15"], "cd"),
    "C-u joins lines at their beginning": ("a\nb", ["\x01", "\x15"], "ab"),
    "C-w": ("one two", ["\x17"], "one "),
    "Up and Down keep the column": ("👍b\ncd", [LEFT, UP, "x", DOWN, "y"], "👍xb\ncdy"),
    "a paste is one insertion": ("a", ["\x1b[200~b\r\nc\x1b[201~"], "ab\nc"),
    "Enter sends, Up has it again": ("sent", ["\r", "n", "e", "w", "\x01", UP], "sent"),
    "Down returns to the draft": ("sent", ["\r", "n", "\x01", UP, DOWN], "n"),
    "Up with a text goes to its beginning": ("sent", ["\r", "a", "b", UP, "x"], "xab"),
}


@pytest.fixture(scope="module")
def results(node_program: str) -> dict[str, dict[str, object]]:
    """What is left of all cases, and of one for an input."""
    given: dict[str, object] = {name: {"text": text, "keys": keys} for name, (text, keys, _) in CASES.items()}
    given["input"] = {"text": "a👍", "keys": [LEFT, "\x7f"], "kind": "Input"}
    given["changes"] = {"text": "a", "keys": ["b", "\r"]}
    script = SCRIPT.replace("MODULES", str(MODULES)).replace("CASES", json.dumps(given), 1)
    done = subprocess.run(
        [node_program, "--input-type=module", "-e", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert not done.returncode, done.stderr
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def test_keys_change_a_text(results: dict[str, dict[str, object]]) -> None:
    """By graphemes, lines and words."""
    assert {name: results[name]["text"] for name in CASES} == {name: text for name, (_, _, text) in CASES.items()}


def test_a_cursor_shows_a_whole_grapheme(results: dict[str, dict[str, object]]) -> None:
    """Also in an input of one line."""
    assert "👍" == results["input"]["text"]
    assert ["> \x1b[7m👍\x1b[27m"] == results["input"]["lines"]


def test_each_change_is_reported_also_the_one_before_a_submission(results: dict[str, dict[str, object]]) -> None:
    """As pi's editor reports them: `setText` too, and an empty text before `onSubmit`."""
    assert ["a", "ab", ""] == results["changes"]["changes"]
    assert ["ab"] == results["changes"]["sent"]
