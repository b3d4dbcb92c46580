"""edit and write as the original has them: the same calls on the same files, each through a whole agent.

What release 1.5.2 answered is kept in tests/data, so that this runs without it. Where it is present it must still
answer so. To record anew, delete the file and run this with the original.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.tools.recorded_tool import Comparison, RecordedTool

from pinnace_campaigns.trials.tool_trials import FileContent, Trial

# DEVIATION D-15: what stands behind the fixed beginning of an error.
ADVICE: Final = re.compile(
    r"^((?:Could not find|Found \d+ occurrences of|No changes made to|edits\[\d+\] and|(?:\S+ )?oldText).*?\.) .*",
    re.DOTALL,
)


def edit(content: str | bytes, *pairs: tuple[str, str], path: str = "{c}/f") -> Trial:
    return Trial("edit", {"path": path, "edits": [{"oldText": a, "newText": b} for a, b in pairs]}, {"f": content}, {})


def call(content: str | bytes, /, **args: object) -> Trial:
    return Trial("edit", {"path": "{c}/f", **args}, {"f": content}, {})


def write(path: object, content: object = "new\n", /, files: dict[str, FileContent] | None = None) -> Trial:
    return Trial("write", {"path": path, "content": content}, files or {}, {})


def differs(trial: Trial, why: str, **ours: object) -> Trial:
    return trial._replace(ours=ours, why=why)


def numbered(count: int, end: str = "\n") -> str:
    return "".join(f"line {number}{end}" for number in range(1, count + 1))


A_TO_B: Final = {"oldText": "a", "newText": "b"}

PATCH: Final = "--- {{c}}/f\n+++ {{c}}/f\n@@ -1,1 +1,1 @@\n-{}\n+{}\n"
BLANK: Final = "What is blank is only looked for as it is: folded it would be nothing, which is everywhere."
FORMS: Final = "A file whose name has the other normal form of Unicode is the one that is meant."
TYPOGRAPHY: Final = "Quotes, dashes and blanks that an edit does not change stay as they are, not only on other lines."
BYTES: Final = "Bytes that are no text stay what they are, where the original writes U+FFFD for them."
NULL: Final = "null for a text is an empty one, not the word."
OWN_WORDS: Final = "What no system says but a runtime is said in words of our own."

TRIALS: Final = (
    # Exact texts.
    edit("one\ntwo\nthree\n", ("two", "TWO")),
    edit("one\ntwo\nthree", ("three", "3")),
    edit("one\ntwo\nthree", ("three", "3\n")),
    edit("one\ntwo\nthree\n", ("three\n", "3")),
    edit("one", ("one", "")),
    edit("one\ntwo\n", ("one\ntwo\n", "")),
    edit("one\ntwo\n", ("one\n", "")),
    edit("one\n", ("one", "one\ntwo\nthree")),
    edit("\tone\n    two\n", ("\tone\n    two", "x")),
    edit("a$1b\n", ("$1", "$& $$ $1 \\1")),
    edit("a\\nb\n", ("\\n", "\\t")),
    edit("one two\n", ("one", "two"), ("two", "one")),
    edit("a b c\n", ("c", "a"), ("a", "b"), ("b", "c")),
    edit("abcd", ("ab", "1"), ("cd", "2")),
    edit("ab\ncd\n", ("ab\n", "1\n"), ("cd\n", "2\n")),
    edit(numbered(9), ("line 2\n", ""), ("line 8\n", "")),
    edit(numbered(12), ("line 2\n", "LINE 2\n"), ("line 11\n", "LINE 11\n")),
    edit(numbered(13), ("line 2\n", "LINE 2\n"), ("line 11\n", "LINE 11\n")),
    edit(numbered(13), ("line 2\n", "LINE 2\n"), ("line 12\n", "LINE 12\n")),
    edit(numbered(100), ("line 50\n", "LINE 50\nand more\n")),
    edit(numbered(99), ("line 99\n", "line 99\nline 100\n")),
    edit(numbered(100), ("line 1\n", "")),
    edit(numbered(1000), ("line 3\n", "LINE 3\n"), ("line 500\n", ""), ("line 998\n", "x\ny\n")),
    edit(numbered(60), ("line 10\n", "x\nline 11\n"), ("line 30\n", ""), ("line 50\n", "line 49\nline 50\n")),
    edit("".join(f"{number}\n{number}\n" for number in range(40)), ("7\n7\n8\n", "7\nseven\n7\n8\n")),
    edit("x\nsame\nsame\nsame\ny\n", ("x\nsame\n", "x\nsame\nsame\n")),
    edit("{\n  a\n}\n{\n  b\n}\n", ("{\n  b\n}\n", "{\n  b\n}\n{\n  c\n}\n")),
    edit("a\nb\nc\nd\ne\n", ("a\nb\nc\nd\ne\n", "a\nB\nc\nD\ne\n")),
    edit("é 😀 日本\n", ("😀", "🚀é")),
    # Refusals.
    edit("one\n", ("nope", "x")),
    edit("one\ntwo\n", ("one", "1"), ("nope", "x")),
    edit("dup\ndup\nend\n", ("dup", "x")),
    edit("aaaa\n", ("aa", "x")),
    edit("dup\ndup\nend\n", ("end", "x"), ("dup", "x")),
    edit("one\n", ("", "x")),
    edit("one\n", ("nope", "x"), ("", "x")),
    edit("one\n", ("one", "one")),
    edit("one\ntwo\n", ("one", "one"), ("two", "two")),
    edit("one\ntwo\n", ("one", "one"), ("two", "TWO")),
    edit("one two three\n", ("one two", "x"), ("two three", "y")),
    edit("one two three\n", ("two three", "x"), ("one two", "y")),
    edit("one two three\n", ("two", "x"), ("one two three", "y")),
    edit("one\n", ("one", "x"), ("one", "x")),
    edit("One\n", ("one", "x")),
    edit("  one\n", ("    one", "x")),
    edit("\tone\n", ("    one", "x")),
    edit("", ("a", "b")),
    edit("a\n", ("\n", "")),
    edit("a\n", ("a\n\n", "")),
    differs(
        edit("a\n", ("   ", "b")),
        BLANK,
        content=["Could not find the exact text in {c}/f."],
        isError=True,
        details={},
        changed={},
    ),
    differs(
        edit("a   b\n", ("   ", "b")),
        BLANK,
        content=["Successfully replaced 1 block(s) in {c}/f."],
        isError=False,
        details={"diff": "-1 a   b\n+1 abb", "patch": PATCH.format("a   b", "abb"), "firstChangedLine": 1},
        changed={"f": "abb\n"},
    ),
    edit("a \n \nb\n", (" \n \n", "x")),
    differs(
        edit("a\n", ("\ufeff", "b")),
        BLANK,
        content=["Could not find the exact text in {c}/f."],
        isError=True,
        details={},
        changed={},
    ),
    # Folded texts: each kind of character, and what is left of the lines.
    edit("say 'hi'\n", ("say \u2018hi\u2019", "bye")),
    edit("say \u201ahi\u201b\n", ("say 'hi'", "bye")),
    edit('say "hi"\n', ("say \u201chi\u201d", "bye")),
    edit("say \u201ehi\u201f\n", ('say "hi"', "bye")),
    edit("a\u2010b\u2011c\u2012d\u2013e\u2014f\u2015g\u2212h\n", ("a-b-c-d-e-f-g-h", "dashes")),
    edit("a\u00a0b\u2002c\u2003d\u2009e\u200af\u202fg\u205fh\u3000i\n", ("a b c d e f g h i", "spaces")),
    edit("a\u2000b\u2001c\n", ("a b c", "quads")),
    edit("a\u1680b\n", ("a b", "x")),
    edit("a\u200bb\n", ("a b", "x")),
    edit("one   \ntwo\t\nthree\n", ("one\ntwo\nthree", "x")),
    edit("one\ntwo\n", ("one  \ntwo", "x")),
    edit("one\u3000\u00a0\ntwo\n", ("one\ntwo", "x")),
    edit("one\x1c\ntwo\n", ("one\ntwo", "x")),
    edit("one\ufeff\ntwo\n", ("one\ntwo", "x")),
    edit("one\x85\ntwo\n", ("one\ntwo", "x")),
    edit("one\u2028\ntwo\n", ("one\ntwo", "x")),
    edit("\ufb01ne \u2460 \uff21\n", ("fine 1 A", "x")),
    edit("e\u0301te\u0301\n", ("\u00e9t\u00e9", "x")),
    edit("x\u2026y\n", ("x...y", "z")),
    edit("\u00bd\n", ("1\u20442", "half")),
    differs(
        edit("before \u2019 \nsay \u2019hi\u2019 and more   \nafter \u2019 \n", ("say 'hi'", "bye")),
        TYPOGRAPHY,
        changed={"f": "before ’ \nbye and more   \nafter ’ \n"},
        details={
            "diff": " 1 before ’ \n-2 say ’hi’ and more   \n+2 bye and more   \n 3 after ’ ",
            "patch": (
                "--- {c}/f\n+++ {c}/f\n@@ -1,3 +1,3 @@\n"
                " before ’ \n-say ’hi’ and more   \n+bye and more   \n after ’ \n"
            ),
            "firstChangedLine": 2,
        },
    ),
    differs(
        edit("keep \u2013 \none \u2013 \nkeep \u2013 \ntwo\t\n", ("one -\nkeep", "1\nkeep"), ("two\n", "2\n")),
        TYPOGRAPHY,
        changed={"f": "keep – \n1 \nkeep – \n2\t\n"},
        details={
            "diff": " 1 keep – \n-2 one – \n+2 1 \n 3 keep – \n-4 two\t\n+4 2\t",
            "patch": "--- {c}/f\n+++ {c}/f\n@@ -1,4 +1,4 @@\n keep – \n-one – \n+1 \n keep – \n-two\t\n+2\t\n",
            "firstChangedLine": 2,
        },
    ),
    edit("\u2018a\u2019 \u2018b\u2019\n", ("'a'", "1"), ("'b'", "2")),
    edit("one \u2014 two\nthree \u2014 four\n", ("one - two\n", "x\n"), ("three - four\n", "y\n")),
    edit("one \u2014 two\nthree\n", ("one - two\n", ""), ("three\n", "3\n")),
    differs(
        edit("one \u2014 two", ("- two", "- 2")),
        TYPOGRAPHY,
        changed={"f": "one — 2"},
        details={
            "diff": "-1 one — two\n+1 one — 2",
            "patch": (
                "--- {c}/f\n+++ {c}/f\n@@ -1,1 +1,1 @@\n"
                "-one — two\n\\ No newline at end of file\n+one — 2\n\\ No newline at end of file\n"
            ),
            "firstChangedLine": 1,
        },
    ),
    edit("a\u2019\nb\u2019\nc\u2019\n", ("a'\nb'\n", "x\n")),
    differs(
        edit("a\u2019\nb\u2019\nc\u2019\n", ("'\nb'\nc", "x")),
        TYPOGRAPHY,
        changed={"f": "ax’\n"},
        details={
            "diff": "-1 a’\n-2 b’\n-3 c’\n+1 ax’",
            "patch": "--- {c}/f\n+++ {c}/f\n@@ -1,3 +1,1 @@\n-a’\n-b’\n-c’\n+ax’\n",
            "firstChangedLine": 1,
        },
    ),
    edit("a\u2019\nb\u2019\nc\n", ("a'", "x"), ("c", "C")),
    # A part of a character is not the character.
    edit("cafe\u0301\n", ("cafe ", "tea")),
    edit("cafe\u0301 au lait\n", ("cafe\t", "tea")),
    edit("cafe\u0301\n", ("\u0301 ", "tea")),
    edit("cafe\u0301\n", ("cafe\u0301 ", "tea")),
    edit("cafe\u0301\n", ("caf\u00e9 ", "tea")),
    edit("cafe\u0301\n", ("cafe", "tea")),
    edit("say\u2019\ncafe\u0301\n", ("say'", "1"), ("cafe ", "tea")),
    edit("say\u2019\ncafe\u0301\n", ("say'", "1"), ("cafe", "tea")),
    edit("\u1112\u1161\u11ab\n", ("\u1112\u1161 ", "x")),
    edit("A\u030a\n", ("A ", "x")),
    edit("\uff76\uff9e\n", ("\uff76 ", "x")),
    edit("\ufb01n\n", ("in ", "x")),
    edit("cafeteria\n", ("cafe ", "tea")),
    # Twins.
    edit("one\none  \n", ("one\n", "x\n")),
    edit("say 'hi'\nsay \u2018hi\u2019\n", ("say 'hi'", "x")),
    edit("a-b a\u2013b\n", ("a\u2013b", "x")),
    edit("one \nx\none\n", ("one \n", "y\n")),
    edit("A\n\uff21\n", ("A", "x")),
    # Line ends.
    edit("one\r\ntwo\r\nthree\r\n", ("two", "TWO")),
    edit("one\r\ntwo\r\nthree\r\n", ("one\ntwo\n", "1\n2\n3\n")),
    edit("one\r\ntwo\r\nthree\r\n", ("one\r\ntwo", "1\r\n2")),
    edit("one\ntwo\n", ("one\r\ntwo", "1\r\n2")),
    edit("one\rtwo\rthree\r", ("two", "2\n2")),
    edit("one\rtwo\n", ("one\ntwo", "1\n2")),
    edit("one\r\ntwo\nthree\r\nfour\n", ("one", "1\nI")),
    edit("one\r\ntwo\nthree\r\nfour\n", ("two", "2\nII")),
    edit("one\r\ntwo\nthree\r\nfour\n", ("two\nthree", "2\n3\n4"), ("four\n", "4\n5\n")),
    edit("one\r\ntwo\nthree", ("three", "3\n3")),
    edit("one\ntwo\r\nthree", ("three", "3\n3")),
    edit("one\r\ntwo", ("two", "2\n2")),
    edit("one", ("one", "1\n1")),
    edit("one\r\n\r\ntwo\r\n", ("\n\n", "\n")),
    edit("a\r\n\nb\n", ("\n", "")),
    edit("a\rb\nc\n", ("b", "1\n2")),
    edit("a\r\r\nb\n", ("b", "c")),
    edit("a\rX\nb", ("X", "")),
    edit("one \u2014 two\r\nthree  \r\nfour\n", ("one - two", "1\n2")),
    differs(
        edit("one \u2014 two\r\nthree  \nfour\r\n", ("two\nthree\n", "2\n3\n")),
        TYPOGRAPHY,
        changed={"f": "one — 2\r\n3  \r\nfour\r\n"},
        details={
            "diff": "-1 one — two\n-2 three  \n+1 one — 2\n+2 3  \n 3 four",
            "patch": "--- {c}/f\n+++ {c}/f\n@@ -1,3 +1,3 @@\n-one — two\n-three  \n+one — 2\n+3  \n four\n",
            "firstChangedLine": 1,
        },
    ),
    edit("say\u2019\r\nx\r\n", ("say'\nx\n", "one\ntwo\nthree\n")),
    differs(
        edit("one \u2014\r\ntwo x\nthree\n", ("one -\ntwo", "1\n2"), ("x", "y\nz")),
        TYPOGRAPHY,
        changed={"f": "1\r\n2 y\nz\nthree\n"},
    ),
    differs(
        edit("one \u2014\ntwo x\r\nthree\n", ("one -\ntwo", "1\n2"), ("x", "y\nz")),
        TYPOGRAPHY,
        changed={"f": "1\n2 y\r\nz\r\nthree\n"},
    ),
    differs(
        edit("one \u2014 \u2014 a\r\ntwo\nthree \u2014\n", ("- a\ntwo", "1\n2"), ("three -", "y\nz")),
        TYPOGRAPHY,
        changed={"f": "one — 1\r\n2\ny\nz\n"},
        details={
            "diff": "-1 one — — a\n-2 two\n-3 three —\n+1 one — 1\n+2 2\n+3 y\n+4 z",
            "patch": "--- {c}/f\n+++ {c}/f\n@@ -1,3 +1,4 @@\n-one — — a\n-two\n-three —\n+one — 1\n+2\n+y\n+z\n",
            "firstChangedLine": 1,
        },
    ),
    edit("a\rX\nb", ("X", "\n")),
    edit("a\r\nX\rY\n", ("X\n", "\n")),
    edit("a\rb\r\nc", ("b\n", "")),
    edit("a\rb\rc\n", ("b\n", "\n")),
    edit("\u2014 \r\n \nx", ("- \n\nx", "y")),
    # Byte order mark, and bytes that are no text.
    edit("\ufeffone\ntwo\n", ("one", "1")),
    edit("\ufeffone\ntwo\n", ("\ufeffone", "1")),
    edit("\ufeffone\r\ntwo\r\n", ("two", "2\n3")),
    edit("\ufeff\ufeffone\n", ("one", "1")),
    edit("a\0b\n", ("a\0b", "c")),
    differs(edit(b"a\xff\nb\n", ("b", "c")), BYTES, changed={"f": "bytes b'a\\xff\\nc\\n'"}),
    differs(
        edit(b"a\xff\nb\n", ("a\ufffd", "c")),
        BYTES,
        content=["Could not find the exact text in {c}/f."],
        isError=True,
        details={},
        changed={},
    ),
    edit("a\n", ("a", "\ud83d\ude00")),
    # Paths.
    edit("a\n", ("a", "b"), path="@{c}/f"),
    edit("a\n", ("a", "b"), path="{work}/{c}/../{c}/f"),
    edit("a\n", ("a", "b"), path="file://{work}/{c}/f"),
    edit("a\n", ("a", "b"), path="{c}/nope"),
    edit("a\n", ("a", "b"), path="{c}"),
    edit("a\n", ("a", "b"), path=""),
    edit("a\n", ("a", "b"), path="{c}/f/x"),
    edit("a\n", ("a", "b"), path="~/nothing"),
    differs(
        Trial("edit", {"path": "{c}/e\u00e9", "edits": [A_TO_B]}, {"ee\u0301": "a"}, {}),
        FORMS,
        content=["Successfully replaced 1 block(s) in {c}/e\u00e9."],
        isError=False,
        details={
            "diff": "-1 a\n+1 b",
            "patch": (
                "--- {c}/e\u00e9\n+++ {c}/e\u00e9\n@@ -1,1 +1,1 @@\n"
                "-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
            ),
            "firstChangedLine": 1,
        },
        changed={"ee\u0301": "b"},
    ),
    Trial("edit", {"path": "{c}/l", "edits": [A_TO_B]}, {"f": "a", "l": Path("f")}, {}),
    Trial("edit", {"path": "{c}/l", "edits": [A_TO_B]}, {"l": Path("nowhere")}, {}),
    Trial("edit", {"path": "{c}/l", "edits": [A_TO_B]}, {"l": Path("l")}, {}),
    # Arguments.
    call("a\n", edits='[{"oldText": "a", "newText": "b"}]'),
    call("a\n", edits='{"oldText": "a", "newText": "b"}'),
    call("a\n", edits=A_TO_B),
    call("a\n", edits=[A_TO_B, {"oldText": "\n", "newText": "!"}], oldText="x", newText="y"),
    call("a\nc\n", **A_TO_B),
    call("a\nc\n", edits=[A_TO_B], oldText="c", newText="d"),
    call("a\nc\n", edits=A_TO_B, oldText="c", newText="d"),
    call("a\nc\n", edits='[{"oldText": "a", "newText": "b"}]', oldText="c", newText="d"),
    call("a\nc\n", edits=[], oldText="c", newText="d"),
    call("a\nc\n", edits=None, oldText="c", newText="d"),
    call("a\n", edits=[A_TO_B], oldText=None, newText=None),
    call("a\n", edits=[A_TO_B], oldText="", newText=""),
    call("a\n", oldText="a"),
    call("a\n", edits=[{**A_TO_B, "why": 1}], reason="x"),
    call("a\n", edits=[]),
    call("a\n"),
    call("a\n", edits=None),
    call("a\n", edits="[]"),
    call("a\n", edits="not JSON"),
    call("a\n", edits='"a"'),
    call("a\n", edits=5),
    call("a\n", edits=["a"]),
    call("a\n", edits=[{"oldText": "a"}]),
    call("a\n", edits=[{"newText": "a"}]),
    call("a\n", edits=[{}]),
    call("a\n", edits=[{"oldText": ["a"], "newText": {}}]),
    call("1\n", edits=[{"oldText": 1, "newText": True}]),
    differs(
        call("a\n", edits=[{"oldText": "a", "newText": None}]),
        NULL,
        details={"diff": "-1 a\n+1 ", "patch": PATCH.format("a", ""), "firstChangedLine": 1},
        changed={"f": "\n"},
    ),
    call("a\n", edits=[[A_TO_B]]),
    differs(call("a\n", path=None, edits=[A_TO_B]), NULL, content=["EISDIR: illegal operation on a directory, read"]),
    Trial("edit", {"edits": [A_TO_B]}, {}, {}),
    Trial("edit", {"file_path": "{c}/f", "edits": [A_TO_B]}, {"f": "a"}, {}),
    # write.
    write("{c}/f"),
    write("{c}/f", "new\n", {"f": "old\r\nand longer"}),
    write("{c}/a/b/c", "deep"),
    write("{c}/f", ""),
    write("{c}/f", "", {"f": "old"}),
    write("{c}/f", "one\r\ntwo\rthree\n"),
    write("{c}/f", "\ufeffmark"),
    write("{c}/f", "é 😀 日本\n"),
    write("{c}/f", "a\0b\x1b[0m"),
    write("{c}/f", "x" * 200_000),
    write("@{c}/f"),
    write("file://{work}/{c}/a%20b"),
    write("{c}/a\u00a0b\u2003c"),
    write("{c}/f/"),
    differs(write("{c}/é", "new", {"e\u0301": "old"}), FORMS, changed={"e\u0301": "new"}),
    write("{work}/{c}/../{c}/./f"),
    write("{c}"),
    write(""),
    write("{c}/f/x", "new", {"f": "old"}),
    write("{c}/l", "new", {"f": "old", "l": Path("f")}),
    write("{c}/l", "new", {"l": Path("nowhere")}),
    write("{c}/l", "new", {"l": Path("l")}),
    write("{c}/" + "x" * 300),
    differs(write("{c}/a\0b"), OWN_WORDS, content=["Not a path, since it contains a NUL character: '{c}/a\\x00b'"]),
    write("/dev/null"),
    write("{c}/f", 5),
    differs(write("{c}/f", None), NULL, changed={"f": ""}),
    write("{c}/f", True),
    write("{c}/f", ["a"]),
    write("{c}/f", {"a": 1}),
    differs(
        write(None),
        NULL,
        content=["EISDIR: illegal operation on a directory, open '{work}'"],
        isError=True,
        details={},
    ),
    Trial("write", {"path": "{c}/f"}, {}, {}),
    Trial("write", {"content": "x"}, {}, {}),
    Trial("write", {}, {}, {}),
    Trial("write", {"path": "{c}/f", "content": "x", "mode": "0600"}, {}, {}),
)


def settled(record: dict[str, Any]) -> dict[str, Any]:
    """Leave out the advice of an error."""
    return (
        {**record, "content": [ADVICE.sub(r"\1", text) for text in record["content"]]} if record["isError"] else record
    )


# Each record of a streamed answer holds all its calls.
CALLS_A_TURN: Final = 25
TOOL: Final = RecordedTool("edit-tool", TRIALS, settled=settled, turn={"calls_a_turn": CALLS_A_TURN})


@pytest.mark.parametrize("index", range(len(TRIALS)))
def test_a_call_is_answered_as_by_the_original(index: int, comparison: Comparison) -> None:
    comparison.check(index)


@pytest.mark.peer
@pytest.mark.slow
def test_the_original_still_answers_so(original_pi: list[str], tmp_path: Path) -> None:
    TOOL.check_original(original_pi, tmp_path)
