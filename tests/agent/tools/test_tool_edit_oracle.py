"""The edit tool against an oracle: the rules written down once more, slowly, one character and one line at a time."""

import re
import unicodedata
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.text.diff import line_diff
from pinnace_agent.tools.text.match import Edit, find_matches
from pinnace_agent.tools.text.replacement import (
    exact_replacements,
    fuzzy_replacements,
    lf_text,
    replaced_source,
    replaced_text,
)

BLANKS_AT_END = re.compile("[\t\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+$")
PLAIN = {
    "\u2018\u2019\u201a\u201b": "'",
    "\u201c\u201d\u201e\u201f": '"',
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212": "-",
}


class Refused(Exception):
    """The text begins as the tool's error does."""


class Span(NamedTuple):
    start: int
    end: int
    place: int


def units(source: str) -> list[str]:
    """Split into characters, a CRLF being one."""
    return re.findall(r"\r\n|[\s\S]", source)


def view(source: str) -> str:
    return "".join("\n" if unit in {"\r\n", "\r"} else unit for unit in units(source))


def folded(text: str) -> str:
    lines = [BLANKS_AT_END.sub("", line) for line in unicodedata.normalize("NFKC", text).split("\n")]
    plain = "\n".join(lines)
    for odd, character in PLAIN.items():
        plain = "".join(character if each in odd else each for each in plain)
    return re.sub("[\xa0\u2002-\u200a\u202f\u205f\u3000]", " ", plain)


def find(haystack: str, *needles: str) -> tuple[int, int] | None:
    for needle in needles:
        if needle in haystack:
            start = haystack.index(needle)
            return start, start + len(needle)
    return None


def expected(source: str, edits: list[tuple[str, str]]) -> tuple[str, int]:
    """Return what becomes of a file, and how many characters that removes and adds in the pieces that are rewritten."""
    text = view(source)
    edits = [(view(old), view(new)) for old, new in edits]
    is_single = len(edits) == 1
    for index, (old, _) in enumerate(edits):
        if not old:
            raise Refused("oldText must" if is_single else f"edits[{index}].oldText must")
    is_folded = any(old not in text and find(folded(text), folded(old)) for old, _ in edits)
    searched = folded(text) if is_folded else text
    spans: list[Span] = []
    for index, (old, _) in enumerate(edits):
        # What is folded is only looked for in what is folded: a letter is no part of one with an accent.
        span = find(searched, old, folded(old)) if is_folded else find(searched, old)
        if span is None:
            raise Refused("Could not find the exact text" if is_single else f"Could not find edits[{index}]")
        count = len(re.findall(re.escape(folded(old)), folded(text)))
        if count > 1:
            raise Refused(f"Found {count} occurrences of {'the text' if is_single else f'edits[{index}]'}")
        spans.append(Span(*span, index))
    spans.sort(key=lambda span: span.start)
    for first, second in pairwise(spans):
        if first.end > second.start:
            raise Refused(f"edits[{first.place}] and edits[{second.place}] overlap")
    pieces = line_pieces(text, spans, edits) if is_folded else [(s.start, s.end, edits[s.place][1]) for s in spans]
    after = apply(source, text, pieces)
    if view(after) == text:
        raise Refused("No changes made")
    return after, sum(distance(text[start:end], new) for start, end, new in pieces)


def line_pieces(text: str, spans: list[Span], edits: list[tuple[str, str]]) -> list[tuple[int, int, str]]:
    """Widen replacements in the folded text to whole lines, and place them in the text itself."""
    plain = folded(text)
    ours, theirs = (re.findall(r"[^\n]*\n|[^\n]+", each) for each in (text, plain))
    new = list(plain)  # by position: the character, and in front of it what is inserted there
    for span in spans:
        new[span.start : span.end] = [""] * (span.end - span.start)
        new[span.start] = edits[span.place][1]
    groups: list[list[int]] = []  # first and last line
    for span in spans:
        first = plain.count("\n", 0, span.start)
        # A span that ends with a line break does not touch the line after it.
        last = plain.count("\n", 0, span.end - 1)
        if groups and groups[-1][1] >= first:
            groups[-1][1] = max(last, groups[-1][1])
        else:
            groups.append([first, last])
    pieces: list[tuple[int, int, str]] = []
    for first, last in groups:
        begin, end = (len("".join(ours[:line])) for line in (first, last + 1))
        begin_plain, end_plain = (len("".join(theirs[:line])) for line in (first, last + 1))
        pieces.append((begin, end, "".join(new[begin_plain:end_plain])))
    return pieces


def apply(source: str, text: str, pieces: list[tuple[int, int, str]]) -> str:
    """Replace, character by character; every other one stays, with its line end."""
    every = units(source)
    endings = [(position, unit) for position, unit in enumerate(every) if unit in {"\n", "\r\n"}]
    if "\n" not in source:
        endings = [(position, unit) for position, unit in enumerate(every) if unit == "\r"]
    parts: list[str] = []
    position = 0
    for start, end, new in pieces:
        parts.append("".join(every[position:start]))
        after = [unit for place, unit in endings if place >= start]
        before = [unit for place, unit in endings if place < start]
        ending = after[0] if after else before[-1] if before else "\n"
        parts.append(new.replace("\n", ending))
        position = end
    parts.append("".join(every[position:]))
    result = ""
    for part in parts:
        result += "\n" + part if result.endswith("\r") and part.startswith("\n") else part
    assert len(every) == len(text)
    return result


def edited(source: str, edits: list[tuple[str, str]]) -> str:
    """Do what the tool does between reading and writing."""
    text = lf_text(source)
    wanted = [Edit(lf_text(old), lf_text(new)) for old, new in edits]
    matches = find_matches(text, wanted, "f")
    replacements = fuzzy_replacements(text, matches.found) if matches.is_fuzzy else exact_replacements(matches.found)
    new = replaced_text(text, replacements)
    if new == text:
        raise ToolError("No changes made")
    after = replaced_source(source, replacements)
    assert lf_text(after) == new
    assert_patch_leads_from(text, new, line_diff(text, new, replacements, "f").patch)
    return after


def assert_patch_leads_from(old: str, new: str, patch: str) -> None:
    """Apply a unified patch by hand."""
    before, after = old.split("\n"), new.split("\n")
    result: list[str] = []
    position = 0
    lines = patch.split("\n")[2:-1]
    for index, line in enumerate(lines):
        if line.startswith("@@"):
            found = re.match(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@$", line)
            assert found is not None
            start = int(found[1]) - (1 if int(found[2]) else 0)
            result += before[position:start]
            position = start
            assert int(found[3]) == len(result) + (1 if int(found[4]) else 0)
        elif line.startswith("\\"):
            assert lines[index - 1][0] in " +-"
        else:
            if line[0] in " -":
                assert before[position] == line[1:]
                position += 1
            if line[0] in " +":
                result.append(line[1:])
    result += before[position:]
    assert [each for each in result if each] == [each for each in after if each]


_characters = st.sampled_from(
    ["a", "b", "A", "-", "'", " ", "\t", "\n", "\n", "\r\n", "\r", "\u2019", "\u2014", "\xa0", "é", "ﬁ", "e", "\u0301"]
)
_texts = st.lists(_characters, max_size=30).map("".join)
_LOOK_ALIKE = {"-": "\u2014", "\u2014": "-", "'": "\u2019", "\u2019": "'", "\xa0": " ", "ﬁ": "fi", "\n": " \n"}


@st.composite
def files_and_edits(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """Draw a file, and edits of which most are in it, as they are or nearly."""
    source = draw(_texts)
    edits: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(source)))
        old = source[start : start + draw(st.integers(0, 12))]
        if draw(st.booleans()):
            position = draw(st.integers(0, len(old)))
            old = old[:position] + "".join(_LOOK_ALIKE.get(each, each) for each in old[position:])
        old += draw(st.sampled_from(["", "", " ", "\t"]))
        edits.append((old, draw(_texts.map(lambda text: text[:6]))))
    return source, edits


@given(files_and_edits())
@example(("cafe\u0301", [("cafe ", "tea")]))
@example(("cafe\u0301 -\nx", [("cafe\t", "tea"), ("x", "y")]))
@example(("e\u0301", [("\u0301 ", "")]))
@example(("a\rX\nb", [("X", "")]))
@example(("a\u2019\nb\u2019\nc\u2019\n", [("'\nb'\nc", "x")]))
@example(("one \u2014 two\r\nthree  \nfour\r\n", [("two\nthree\n", "2\n3\n")]))
@example(("a\u2014\nb\nc\n", [("a-\n", "x\n"), ("b\n", "")]))
@example(("a\t\n", [("a\t \n", "\t\n")]))
@example(("\ufb01\t\r", [("fi\t", "\t")]))
@example(("\u2019'", [("'\u2019", "\u2019'")]))
@example(("b\u0301", [("\u0301 ", "\u0301 ")]))
@example(("\r\na\n a", [(" \na \n", "\na\n ")]))
def test_a_file_becomes_what_the_rules_say(case: tuple[str, list[tuple[str, str]]]) -> None:
    source, edits = case
    # What is blank is only ever looked for as it is: a rule of ours, held elsewhere.
    assume(all(not old or folded(view(old)).strip() for old, _ in edits))
    try:
        wanted, most = expected(source, edits)
    except Refused as refusal:
        with pytest.raises(ToolError, match=f"^{re.escape(str(refusal))}"):
            edited(source, edits)
        return
    is_exact = all(view(old) in view(source) for old, _ in edits)
    if is_exact:
        assert edited(source, edits) == wanted
    elif folded(view(wanted)) == folded(view(source)):
        with pytest.raises(ToolError, match=r"^No changes made"):
            edited(source, edits)
    else:
        after = edited(source, edits)  # what the edit does not change is not folded, as the wanted file is
        assert folded(view(after)) == folded(view(wanted))
        assert distance(view(source), view(after)) <= most


def distance(old: str, new: str) -> int:
    """Return how many characters have to be removed and added."""
    row = list(range(len(new) + 1))
    for one in old:
        diagonal, row[0] = row[0], row[0] + 1
        for place, other in enumerate(new, 1):
            nearest = diagonal if one == other else min(row[place], row[place - 1]) + 1
            diagonal, row[place] = row[place], nearest
    return row[-1]
