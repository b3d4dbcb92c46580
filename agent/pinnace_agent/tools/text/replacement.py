"""Applies replacements to a file's text and keeps every other character, line ends included.

Pure. The text that is searched and shown has LF line ends only; the file may have LF, CRLF, CR or a mixture. Has no
knowledge of the search for matches, nor access to the disk. Rule R-TOL-03.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_agent.tools.text.match import EditMatch, normalise

_LINE_END: Final = re.compile(r"\r\n|\r")
# With the marks, and the vowels and finals of Hangul, that normalising composes with it.
_CHARACTER: Final = re.compile(
    "(?s:.)[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u1160-\u11ff"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f\uff9e\uff9f]*"
)
_WORD: Final = re.compile(r"\w+|(?s:.)")
_MOST_COMPARED: Final = 250_000
"""Lines or words of two texts, multiplied: comparing these takes some tens of milliseconds."""
_MOST_CHARACTERS: Final = 40_000
"""Likewise, of characters: some milliseconds for each edit."""


class TextReplacement(NamedTuple):
    """A stretch of the text with LF line ends, and its replacement."""

    start: int
    end: int
    new: str


def lf_text(text: str) -> str:
    """Return the text with every CRLF and CR made a LF."""
    return _LINE_END.sub("\n", text) if "\r" in text else text


def line_starts(text: str) -> list[int]:
    """Return the start of each line, including the one after a final LF."""
    starts = [0]
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return starts


def exact_replacements(matches: Sequence[EditMatch]) -> list[TextReplacement]:
    """Return matches in the text itself as replacements."""
    return [TextReplacement(match.start, match.end, match.new) for match in matches]


def fuzzy_replacements(text: str, matches: Sequence[EditMatch]) -> list[TextReplacement]:
    """Return matches in the normalised text as replacements in the text itself.

    What a model repeats of its oldText in its newText stays as the file has it: quotes, dashes and trailing blanks that
    it wrote in another form were not to change. So does everything around a match. Where lines that are rewritten as a
    whole have fewer changes, these are: blanks and quotes that occur twice may have been taken for each other.

    Args:
        text: With LF line ends.
        matches: By position, not overlapping.
    """
    normalised = normalise(text)
    merged = _merged_replacements(text, normalised, matches)
    replacements: list[TextReplacement] = []
    for lines in _whole_lines(text, normalised, matches):
        own = text[lines.start : lines.end]
        behind, _, _ = text[lines.end :].partition("\n")  # blanks in front of it are not at the end of a line
        if normalise(lines.new + behind) == normalise(own + behind):
            continue  # it would only be written in another form
        inside = [each for each in merged if lines.start <= each.start and each.end <= lines.end]
        moved = [TextReplacement(each.start - lines.start, each.end - lines.start, each.new) for each in inside]
        is_closer = not inside or _distance(own, lines.new) < _distance(own, replaced_text(own, moved))
        replacements += [lines] if is_closer else inside
    return replacements


def _merged_replacements(text: str, normalised: str, matches: Sequence[EditMatch]) -> list[TextReplacement]:
    """Return matches as replacements that keep what the file has; none if a match is a part of a character."""
    lines = _Lines(text, normalised)
    replacements: list[TextReplacement] = []
    for match in matches:
        places = lines.places(match.start, match.end)
        start, end = places.own.get(match.start), places.own.get(match.end)
        if start is None or end is None:  # for instance one letter of a ligature
            return []
        new = _merged(match, normalised[match.start : match.end], text, places.own)
        replacements.append(TextReplacement(start, end, new))
    return replacements


def _distance(old: str, new: str) -> int:
    """Return how many characters have to be removed and added; of stretches that are too long to compare, all."""
    same = _shared(old, new)
    old, new = old[same:], new[same:]
    same = _shared(old[::-1], new[::-1])
    old, new = old[: len(old) - same], new[: len(new) - same]
    if len(old) * len(new) > _MOST_CHARACTERS:
        return len(old) + len(new)
    row = list(range(len(new) + 1))
    for one in old:
        diagonal, row[0] = row[0], row[0] + 1
        for place, other in enumerate(new, 1):
            nearest = diagonal if one == other else min(row[place], row[place - 1]) + 1
            diagonal, row[place] = row[place], nearest
    return row[-1]


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


class _Places(NamedTuple):
    """Where characters of a text are in its normalised form, and the other way round."""

    own: Mapping[int, int]
    """From the normalised text; a place inside of what one character became is not in it."""
    normal: Mapping[int, int]
    """From the text itself; blanks at a line's end are all in the place of its end."""


class _Lines:
    """The lines of a text and of its normalised form, which are as many."""

    def __init__(self, text: str, normalised: str) -> None:
        self._text = text
        self._normalised = normalised
        self._ours, self._theirs = line_starts(text), line_starts(normalised)

    def places(self, start: int, end: int) -> _Places:
        """Return the places of all lines that a stretch of the normalised text touches, its end included."""
        first, last = bisect_right(self._theirs, start) - 1, bisect_right(self._theirs, end) - 1
        own: dict[int, int] = {}
        normal: dict[int, int] = {}
        for index in range(first, last + 1):
            our_end = self._ours[index + 1] if index + 1 < len(self._ours) else len(self._text)
            line = self._text[self._ours[index] : our_end]
            place, their_place = self._ours[index], self._theirs[index]
            body = normalise(line.removesuffix("\n"))
            length = 0
            forms = ""
            for own_length, form in _characters(line.removesuffix("\n")):
                own.setdefault(their_place + length, place)
                normal.setdefault(place, their_place + length)
                place += own_length
                forms += form
                length = min(len(forms), len(body))
            own.setdefault(their_place + length, place)
            normal.setdefault(place, their_place + length)
            if forms[: len(body)] != body:  # normalised together, its characters became something else
                return _Places({}, {})
            if line.endswith("\n"):
                own.setdefault(their_place + length + 1, our_end)
                normal.setdefault(our_end, their_place + length + 1)
        return _Places(own, normal)


def _characters(line: str) -> Iterator[tuple[int, str]]:
    """Yield how long each character of a line is, with the marks that belong to it, and its normalised form."""
    for found in _CHARACTER.finditer(line):
        character = found[0]
        yield len(character), character if character.isascii() else normalise(f"{character}.")[:-1]


def _merged(match: EditMatch, matched: str, text: str, own: Mapping[int, int]) -> str:
    """Return what comes in the place of a match: what newText has of oldText as the file has it, the rest as it is."""
    if match.old == matched:
        normal: Mapping[int, int] = {place: place for place in range(len(matched) + 1)}
    else:
        normal = _Lines(match.old, matched).places(0, len(matched)).normal
    pieces: list[str] = []
    for is_kept, (start, end), new in _changes(match.old, match.new):
        here = [own.get(match.start + normal[place]) if place in normal else None for place in (start, end)]
        kept = text[here[0] : here[1]] if is_kept and None not in here else None
        # Blanks at the end of oldText that the file does not have count for nothing there, and may in newText.
        pieces.append(new if kept is None or normalise(f"{kept}.") != normalise(f"{new}.") else kept)
    return "".join(pieces)


def _changes(old: str, new: str) -> Iterator[tuple[bool, tuple[int, int], str]]:
    """Yield the stretches of two texts in order: whether they are equal, where in the old one, and the new one."""
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    place = 0
    for is_kept, removed, added in _compared(old_lines, new_lines):
        if is_kept or not removed or not added:
            yield is_kept, (place, place + len(removed)), added
            place += len(removed)
            continue
        for is_word_kept, word, new_word in _compared(_WORD.findall(removed), _WORD.findall(added)):
            yield is_word_kept, (place, place + len(word)), new_word
            place += len(word)


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, str, str]]:
    if len(old) * len(new) > _MOST_COMPARED:
        same = old == new
        yield same, "".join(old), "".join(new)
        return
    from difflib import SequenceMatcher  # for edits that need tolerance alone

    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield tag == "equal", "".join(old[start:end]), "".join(new[new_start:new_end])


def _whole_lines(text: str, normalised: str, matches: Sequence[EditMatch]) -> list[TextReplacement]:
    """Return matches as replacements of the lines that they touch, which are rewritten from their normalised form."""
    ours, theirs = line_starts(text), line_starts(normalised)
    replacements: list[TextReplacement] = []
    open_end = 0  # in the normalised text, of the last replacement
    for match in matches:
        first = bisect_right(theirs, match.start) - 1
        last = bisect_right(theirs, match.end) - 1
        # If it ends with a LF, the line after that is not touched.
        following = last if match.end == theirs[last] else last + 1
        is_last = following == len(theirs)
        end, our_end = (len(normalised), len(text)) if is_last else (theirs[following], ours[following])
        if replacements and theirs[first] < open_end:  # another match has touched this line
            previous = replacements.pop()
            kept = previous.new[: len(previous.new) - (open_end - match.start)]
            replacements.append(
                TextReplacement(previous.start, our_end, kept + match.new + normalised[match.end : end])
            )
        else:
            new = normalised[theirs[first] : match.start] + match.new + normalised[match.end : end]
            replacements.append(TextReplacement(ours[first], our_end, new))
        open_end = end
    return replacements


def replaced_text(text: str, replacements: Sequence[TextReplacement]) -> str:
    """Return the text with LF line ends after the replacements."""
    pieces: list[str] = []
    position = 0
    for start, end, new in replacements:
        pieces += (text[position:start], new)
        position = end
    return "".join((*pieces, text[position:]))


def replaced_source(source: str, replacements: Sequence[TextReplacement]) -> str:
    """Return the file's text after the replacements, whose positions count in `lf_text(source)`.

    Line breaks of a replacement take the ending of the line where it begins.
    """
    text = lf_text(source)
    if text == source:
        return replaced_text(text, replacements)
    pairs = _pair_positions(source)
    result = ""
    position = 0
    for start, end, new in replacements:
        # Each CRLF before a position is one character more in the file.
        source_start = start + bisect_left(pairs, start)
        ending = _ending(source, text, pairs, start)
        result = _joined(result, source[position:source_start])
        result = _joined(result, new if ending == "\n" else new.replace("\n", ending))
        position = end + bisect_left(pairs, end)
    return _joined(result, source[position:])


def _pair_positions(source: str) -> list[int]:
    """Return the positions, in the text with LF line ends, of those LF that are CRLF in the file."""
    return [found.start() - count for count, found in enumerate(re.finditer("\r\n", source))]


def _ending(source: str, text: str, pairs: Sequence[int], position: int) -> str:
    """Return the ending of the line at a position; the last line has that of the line before it.

    A lone CR is an ending only in a file without LF: elsewhere it is a character of some line.
    """
    is_cr_ending = "\n" not in source

    def ending_at(found: int) -> str:
        index = bisect_left(pairs, found)
        if index < len(pairs) and pairs[index] == found:
            return "\r\n"
        return source[found + index]

    found = text.find("\n", position)
    while found >= 0:
        if (ending := ending_at(found)) != "\r" or is_cr_ending:
            return ending
        found = text.find("\n", found + 1)
    found = text.rfind("\n", 0, position)
    while found >= 0:
        if (ending := ending_at(found)) != "\r" or is_cr_ending:
            return ending
        found = text.rfind("\n", 0, found)
    return "\n"


def _joined(left: str, right: str) -> str:
    """Join two pieces so that a CR and a LF that were two line breaks don't become one."""
    return f"{left}\n{right}" if left.endswith("\r") and right.startswith("\n") else left + right
