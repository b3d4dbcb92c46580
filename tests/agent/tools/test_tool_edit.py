"""The edit tool: what matches, what is refused, and that nothing else of the file changes."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.text.diff import line_diff
from pinnace_agent.tools.text.match import Edit, find_matches, normalise
from pinnace_agent.tools.text.replacement import (
    TextReplacement,
    exact_replacements,
    lf_text,
    replaced_source,
    replaced_text,
)
from pinnace_agent.tools.validation import validate_arguments

EDIT = EditTool()


async def edit(folder: Path, *pairs: tuple[str, str], path: str = "f.txt") -> ToolResult:
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    return await call(folder, {"path": path, "edits": edits})


async def call(folder: Path, raw: dict[str, object]) -> ToolResult:
    context = ToolContext(str(folder), "c1", lambda _: None, {})
    return await EDIT.execute(validate_arguments(EDIT, raw), context)


def write(folder: Path, text: str) -> None:
    (folder / "f.txt").write_bytes(text.encode("utf-8", "surrogateescape"))


def content(folder: Path) -> str:
    return (folder / "f.txt").read_bytes().decode("utf-8", "surrogateescape")


async def refusal(folder: Path, *pairs: tuple[str, str]) -> str:
    before = content(folder)
    with pytest.raises(ToolError) as caught:
        await edit(folder, *pairs)

    assert content(folder) == before
    return str(caught.value)


async def test_one_text_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, "line1\nline2\nline3\n")
    result = await edit(tmp_path, ("line2", "LINE2"))

    assert content(tmp_path) == "line1\nLINE2\nline3\n"
    assert result == ToolResult(
        [{"type": "text", "text": "Successfully replaced 1 block(s) in f.txt."}],
        {
            "diff": " 1 line1\n-2 line2\n+2 LINE2\n 3 line3",
            "patch": "--- f.txt\n+++ f.txt\n@@ -1,3 +1,3 @@\n line1\n-line2\n+LINE2\n line3\n",
            "firstChangedLine": 2,
        },
    )


async def test_all_edits_are_looked_up_in_the_original(tmp_path: Path) -> None:
    write(tmp_path, "a b c\n")
    result = await edit(tmp_path, ("c", "a"), ("a", "b"), ("b", "c"))

    assert content(tmp_path) == "b c a\n"
    assert result.content == [{"type": "text", "text": "Successfully replaced 3 block(s) in f.txt."}]


async def test_texts_that_touch_do_not_overlap(tmp_path: Path) -> None:
    write(tmp_path, "abcd")
    await edit(tmp_path, ("ab", "1"), ("cd", "2"))

    assert content(tmp_path) == "12"


async def test_refusals_of_one_edit(tmp_path: Path) -> None:
    write(tmp_path, "dup\ndup\nend\n")

    assert (await refusal(tmp_path, ("nope", "x"))).startswith("Could not find the exact text in f.txt. ")
    assert (await refusal(tmp_path, ("dup", "x"))).startswith("Found 2 occurrences of the text in f.txt. ")
    assert (await refusal(tmp_path, ("end", "end"))).startswith("No changes made to f.txt. ")
    assert await refusal(tmp_path, ("", "x")) == "oldText must not be empty in f.txt."


async def test_refusals_of_several_edits_name_the_edit(tmp_path: Path) -> None:
    write(tmp_path, "dup\ndup\nend\nlast\n")
    good = ("end", "END")

    assert (await refusal(tmp_path, good, ("nope", "x"))).startswith("Could not find edits[1] in f.txt. ")
    assert (await refusal(tmp_path, good, ("dup", "x"))).startswith("Found 2 occurrences of edits[1] in f.txt. ")
    assert await refusal(tmp_path, good, ("", "x")) == "edits[1].oldText must not be empty in f.txt."
    assert (await refusal(tmp_path, ("d\nlast", "x"), ("end\n", "y"))).startswith(
        "edits[1] and edits[0] overlap in f.txt. "
    )
    assert (await refusal(tmp_path, good, ("last", "LAST"), good)).startswith("edits[0] and edits[2] overlap")
    assert (await refusal(tmp_path, ("end", "end"), ("last", "last"))).startswith("No changes made to f.txt. ")


async def test_an_empty_edit_is_refused_before_any_is_looked_up(tmp_path: Path) -> None:
    write(tmp_path, "x")

    assert "must not be empty" in await refusal(tmp_path, ("nope", "y"), ("", "z"))


async def test_no_edits_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "x")

    with pytest.raises(ToolError, match=r"^Edit tool input is invalid\. edits must contain at least one"):
        await call(tmp_path, {"path": "f.txt", "edits": []})


async def test_a_missing_file_is_reported_by_its_code(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^Could not edit file: missing\.txt\. Error code: ENOENT\.$"):
        await edit(tmp_path, ("a", "b"), path="missing.txt")


async def test_a_folder_and_a_pipe_can_not_be_edited(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ToolError, match=r"^EISDIR: illegal operation on a directory, read$"):
        await edit(tmp_path, ("a", "b"), path=".")
    with trio.fail_after(30), pytest.raises(ToolError, match="Error code: EINVAL"):
        await edit(tmp_path, ("a", "b"), path="pipe")


@pytest.mark.parametrize(
    "raw",
    [
        {"edits": '[{"oldText": "a", "newText": "b"}]'},
        {"edits": '{"oldText": "a", "newText": "b"}'},
        {"edits": {"oldText": "a", "newText": "b"}},
        {"oldText": "a", "newText": "b"},
        {"edits": [], "oldText": "a", "newText": "b"},
        {"edits": [{"oldText": "a", "newText": "b", "why": 1}], "reason": "x"},
    ],
)
async def test_other_forms_of_an_edit_are_understood(raw: dict[str, object], tmp_path: Path) -> None:
    write(tmp_path, "a")
    await call(tmp_path, {"path": "f.txt", **raw})

    assert content(tmp_path) == "b"


@given(
    st.lists(st.fixed_dictionaries({"oldText": st.text(min_size=1), "newText": st.text()}), min_size=1, max_size=3),
    st.lists(st.sampled_from(["whole", "each", "line ends"]), max_size=3),
)
def test_edits_may_be_encoded_at_any_depth(edits: list[dict[str, str]], steps: list[str]) -> None:
    """R-TOL-04: several times, each by itself, with real line ends in the strings."""
    given: object = edits
    for step in steps:
        if step == "each" and isinstance(given, list):
            given = [json.dumps(each) for each in given]
        elif step == "line ends" and isinstance(given, str):
            given = given if "\\\\n" in given else given.replace("\\n", "\n")
        else:
            given = json.dumps(given)

    assert EDIT.prepare({"path": "f", "edits": given}) == {"path": "f", "edits": edits}


@pytest.mark.parametrize("edits", ["no JSON", 5, '"text"', ["x"], None])
async def test_invalid_edits_are_rejected(edits: object, tmp_path: Path) -> None:
    write(tmp_path, "a")

    with pytest.raises(ToolError, match=r'^Validation failed for tool "edit":\n  - edits'):
        await call(tmp_path, {"path": "f.txt", "edits": edits})


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("\ufeffa\nb\n", "a", "A", "\ufeffA\nb\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\nc", "c", "c\nd", "a\r\nb\r\nc\r\nd"),
        ("a\rb\rc", "b", "x\ny", "a\rx\ry\rc"),
        ("a\r\nb\nc\n", "a", "a\nx", "a\r\nx\r\nb\nc\n"),
        ("a\r\nb\nc\n", "b", "b\nx", "a\r\nb\nx\nc\n"),
        ("a\nb\rc\nd\r\n", "b", "b\nx", "a\nb\nx\rc\nd\r\n"),
        ("a\r\nb\nc", "a\nb", "ab", "ab\nc"),
        ("one", "one", "one\ntwo", "one\ntwo"),
        ("a\udcff\nb\udc80\n", "b", "B", "a\udcff\nB\udc80\n"),
    ],
    ids=["bom", "crlf", "last line", "cr", "mixed 1", "mixed 2", "lone cr", "joined", "none", "no utf-8"],
)
async def test_what_is_not_replaced_stays_byte_by_byte(
    before: str, old: str, new: str, after: str, tmp_path: Path
) -> None:
    write(tmp_path, before)
    await edit(tmp_path, (old, new))

    assert content(tmp_path) == after


async def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    write(tmp_path, "\ufeffa\n")
    details = (await edit(tmp_path, ("a\n", "b\n"))).details

    assert details is not None
    assert details["diff"] == "-1 a\n+1 b"


async def test_an_old_text_with_crlf_matches(tmp_path: Path) -> None:
    write(tmp_path, "a\nb\n")
    await edit(tmp_path, ("a\r\nb", "x\r\ny"))

    assert content(tmp_path) == "x\ny\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("say “hi”\n", 'say "hi"', 'say "ho"', "say “ho”\n"),
        ("say “hi” – it’s\n", 'say "hi"', "say 'hi'", "say 'hi' – it’s\n"),
        (
            "p(“a”) + “b”  \nq(‘c’)\t\nend\n",
            'p("a") + "b"\nq(\'c\')',
            "p(\"x\")\nq('c', 1)",
            "p(“x”)  \nq(‘c’, 1)\t\nend\n",
        ),
        ("one “a”\ntwo\n", 'one "a"\ntwo', 'one "a"\nnew "b"\ntwo', 'one “a”\nnew "b"\ntwo\n'),
        ("d\u00e9j\u00e0 “vu”\n", 'de\u0301ja\u0300 "vu"', 'de\u0301ja\u0300 "lu"', "d\u00e9j\u00e0 “lu”\n"),
        ("a — b\nkeep — this  \n", "a - b", "c", "c\nkeep — this  \n"),
        ("x = 1   \ny = 2\t\nz — \n", "x = 1\ny = 2", "x = 3", "x = 3\t\nz — \n"),
        ("a\u00a0b\n", "a b", "c", "c\n"),
        ("ﬁle and “more”  \n", "file", "files", "files and “more”  \n"),
        ("ﬁle and “more”  \n", "ile", "iles", 'files and "more"\n'),  # a part of a ligature: the line is rewritten
        ("“a” x “b”\nrest “c”\n", '"a"', "1", "1 x “b”\nrest “c”\n"),
        ("“a”\n“b”\n", '"a"\n', "", "“b”\n"),
        ("“a”\r\n“b”\r\n", '"a"', "x\ny", "x\r\ny\r\n“b”\r\n"),
    ],
)
async def test_typography_and_trailing_blanks_do_not_matter(
    before: str, old: str, new: str, after: str, tmp_path: Path
) -> None:
    write(tmp_path, before)
    await edit(tmp_path, (old, new))

    assert content(tmp_path) == after


async def test_two_fuzzy_edits_of_a_line_are_both_made(tmp_path: Path) -> None:
    write(tmp_path, "“a” and “b” and “c”  \nnext “d”\n")
    await edit(tmp_path, ('"c"', "3"), ('"a"', "1"), ('"b" and', "2"))

    assert content(tmp_path) == "1 and 2 3  \nnext “d”\n"


async def test_one_fuzzy_edit_makes_all_fuzzy(tmp_path: Path) -> None:
    write(tmp_path, "exact  \n“fuzzy”\nother  \n")
    await edit(tmp_path, ("exact", "EXACT"), ('"fuzzy"', "FUZZY"))

    assert content(tmp_path) == "EXACT  \nFUZZY\nother  \n"


@pytest.mark.parametrize("before", [" a\n", "A\n", "\ta\n"])
async def test_leading_blanks_and_case_do_matter(before: str, tmp_path: Path) -> None:
    write(tmp_path, before)

    assert "Could not find" in await refusal(tmp_path, ("\n a" if before == " a\n" else "  a", "b"))


async def test_a_twin_that_differs_in_blanks_only_makes_a_text_ambiguous(tmp_path: Path) -> None:
    write(tmp_path, "end\nx\nend  \n")

    assert "Found 2 occurrences" in await refusal(tmp_path, ("end\n", "END\n"))


async def test_blanks_alone_are_matched_exactly(tmp_path: Path) -> None:
    write(tmp_path, "a    b\n")
    await edit(tmp_path, ("    ", " "))

    assert content(tmp_path) == "a b\n"


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f", "''''\"\"\"\""),
        ("a\u2010\u2011\u2012\u2013\u2014\u2015\u2212b", "a-------b"),
        ("a\u00a0\u2002\u200a\u202f\u205f\u3000b", "a      b"),
        ("x \t\u00a0\u3000\ufeff\n y", "x\n y"),
        ("x\x1c\x85\n", "x\x1c\x85\n"),
        ("\t x", "\t x"),
        ("e\u0301 ① Ａ", "é 1 A"),
    ],
)
def test_the_normal_form_of_a_text(raw: str, plain: str) -> None:
    assert normalise(raw) == plain


async def test_half_a_character_is_not_written(tmp_path: Path) -> None:
    write(tmp_path, "a")
    await edit(tmp_path, ("a", "x\ud800y"))

    assert content(tmp_path) == "x\ufffdy"


async def test_a_change_that_is_no_utf_8_can_be_sent(tmp_path: Path) -> None:
    write(tmp_path, "a\udcff\n")
    details = (await edit(tmp_path, ("a", "b"))).details

    assert details is not None
    assert details["diff"] == "-1 a\ufffd\n+1 b\ufffd"


async def test_edits_of_one_file_in_one_turn_are_made_in_order(tmp_path: Path) -> None:
    for _ in range(10):
        write(tmp_path, "0")
        contexts = [ToolContext(str(tmp_path), str(index), lambda _: None, {}) for index in range(4)]

        async def step(context: ToolContext) -> None:
            index = int(context.call_id)
            edits = [{"oldText": f"{index}", "newText": f"{index + 1}"}]
            await EDIT.execute({"path": "f.txt", "edits": edits}, context)

        async with trio.open_nursery() as nursery:
            for context in contexts:
                nursery.start_soon(step, context)
        assert content(tmp_path) == "4"


async def test_a_cancelled_edit_leaves_the_file(tmp_path: Path) -> None:
    write(tmp_path, "a")
    with trio.CancelScope() as scope:
        scope.cancel()
        await edit(tmp_path, ("a", "b"))

    assert scope.cancelled_caught
    assert content(tmp_path) == "a"


# What changed, shown.


def diff_of(old: str, new: str, *replacements: TextReplacement) -> list[str]:
    return line_diff(old, new, replacements, "f").diff.split("\n")


def test_far_changes_are_shown_apart() -> None:
    old = "".join(f"{number}\n" for number in range(1, 41))
    replacements = [
        TextReplacement(old.index("10\n"), old.index("10\n") + 2, "ten"),
        TextReplacement(old.index("30\n"), old.index("30\n") + 2, "a\nb"),
    ]
    new = replaced_text(old, replacements)

    assert diff_of(old, new, *replacements) == [
        "    ...",
        *(f"  {number} {number}" for number in range(6, 10)),
        "-10 10",
        "+10 ten",
        *(f" {number} {number}" for number in range(11, 15)),
        "    ...",
        *(f" {number} {number}" for number in range(26, 30)),
        "-30 30",
        "+30 a",
        "+31 b",
        *(f" {number} {number}" for number in range(31, 35)),
        "    ...",
    ]


@pytest.mark.parametrize(("between", "gaps"), [(8, 0), (9, 1)])
def test_changes_close_together_show_all_that_is_between(between: int, gaps: int) -> None:
    old = "x\n" + "same\n" * between + "y\n"
    replacements = [TextReplacement(0, 1, "X"), TextReplacement(len(old) - 2, len(old) - 1, "Y")]
    new = replaced_text(old, replacements)

    assert sum(line.endswith(" ...") for line in diff_of(old, new, *replacements)) == gaps


def test_a_long_replacement_shows_only_the_lines_that_differ() -> None:
    old = "".join(f"{number}\n" for number in range(9))
    new = old.replace("4\n", "four\n")

    assert [line for line in diff_of(old, new, TextReplacement(0, len(old), new)) if line[0] != " "] == [
        "- 5 4",
        "+ 5 four",
    ]


_texts = st.lists(st.sampled_from(["", "a", "b", "  c", "é"]), min_size=1, max_size=25).map("\n".join)


@st.composite
def changed_texts(draw: st.DrawFn) -> tuple[str, list[TextReplacement]]:
    text = draw(_texts)
    places = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=6)))
    pairs = zip(places[::2], places[1::2], strict=False)
    return text, [TextReplacement(start, end, draw(_texts)) for start, end in pairs]


@given(changed_texts())
def test_patch_turns_the_old_text_into_the_new(case: tuple[str, list[TextReplacement]]) -> None:
    old, replacements = case
    new = replaced_text(old, replacements)
    if old == new:
        return
    result = line_diff(old, new, replacements, "f")

    assert apply_patch(old, result.patch) == new
    numbered = {line for line in result.diff.split("\n") if line.startswith("+")}
    width = len(str(max(old.count("\n"), new.count("\n")) + 1))
    lines = new.split("\n")
    for line in numbered:
        number, text = int(line[1 : 1 + width]), line[2 + width :]
        assert lines[number - 1] == text


def apply_patch(old: str, patch: str) -> str:
    """Apply a unified patch strictly: every line of context must be there."""
    source = old.splitlines(keepends=True)
    result: list[str] = []
    position = 0
    lines = patch.split("\n")[2:-1]
    index = 0
    while index < len(lines):
        _, old_range, new_range, _ = lines[index].split(" ")
        start, count = (int(part) for part in old_range[1:].split(","))
        new_start = int(new_range[1:].split(",")[0])
        start -= 1 if count else 0
        result += source[position:start]
        position = start
        assert len(result) == (new_start - 1 if int(new_range.split(",")[1]) else new_start)
        index += 1
        while index < len(lines) and not lines[index].startswith("@@"):
            line, marker = lines[index][1:] + "\n", lines[index][0]
            if index + 1 < len(lines) and lines[index + 1].startswith("\\"):
                line = line[:-1]
                index += 1
            if marker in " -":
                assert source[position] == line
                position += 1
            if marker in " +":
                result.append(line)
            index += 1
    return "".join(result + source[position:])


def test_the_patch_program_takes_a_patch(tmp_path: Path) -> None:
    if subprocess.run(["which", "patch"], capture_output=True, check=False).returncode:
        pytest.skip("patch is not installed")
    old, new = "a\nb\nc", "a\nB\nc\nd\n"
    (tmp_path / "f").write_text(old)
    patch = line_diff(old, new, [TextReplacement(2, 5, "B\nc\nd\n")], "f").patch
    subprocess.run(["patch", "f"], input=patch, text=True, cwd=tmp_path, check=True, capture_output=True)

    assert (tmp_path / "f").read_text() == new


_sources = st.text(st.sampled_from("ab\r\n"), max_size=30)


@given(_sources, st.data())
def test_line_ends_of_replaced_texts_never_fuse(source: str, data: st.DataObject) -> None:
    text = lf_text(source)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    replacement = TextReplacement(start, end, data.draw(st.text(st.sampled_from("x\n"), max_size=4)))
    result = replaced_source(source, [replacement])

    assert lf_text(result) == replaced_text(text, [replacement])


@given(st.text(st.sampled_from("ab \n“"), min_size=1, max_size=30), st.data())
def test_an_edit_that_is_accepted_replaces_the_one_place(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    old = text[start:end]
    plain = normalise(old)
    if (normalise(text).count(plain) if plain else text.count(old)) > 1:
        with pytest.raises(ToolError, match=r"^Found \d+ occurrences"):
            find_matches(text, [Edit(old, "NEW")], "f")
        return
    matches = find_matches(text, [Edit(old, "NEW")], "f")

    assert not matches.is_fuzzy
    assert replaced_text(text, exact_replacements(matches.found)) == text.replace(old, "NEW", 1)


def test_a_huge_file_is_edited_in_time(tmp_path: Path) -> None:
    text = "".join(f"this is line {number} of many\n" for number in range(200_000))
    places = [text.index("line 100 "), text.index("line 199999 ")]
    replacements = [TextReplacement(place, place + 4, "LINE") for place in places]

    result = line_diff(text, replaced_text(text, replacements), replacements, "f")
    assert result.patch.count("\n@@ ") == 2
    assert result.diff.count("\n") < 30
