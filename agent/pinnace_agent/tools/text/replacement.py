"""Applies replacements to a file's text and keeps every other character, line ends included.

Pure. The text that is searched and shown has LF line ends only; the file may have LF, CRLF, CR or a mixture. Has no
knowledge of the search for matches, nor access to the disk. Rule R-TOL-03.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from pinnace_agent.tools.text.match import Match, normalise

_LINE_END: Final = re.compile(r"\r\n|\r")


class Replacement(NamedTuple):
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


def exact_replacements(matches: Sequence[Match]) -> list[Replacement]:
    """Return matches in the text itself as replacements."""
    return [Replacement(match.start, match.end, match.new) for match in matches]


def fuzzy_replacements(text: str, matches: Sequence[Match]) -> list[Replacement]:
    """Return matches in the normalised text as replacements of whole lines of the text itself.

    The lines that a match touches are rewritten from their normalised form, with their line breaks; positions inside
    a line can't be carried over, since normalising changes lengths. All other lines stay.

    Args:
        text: With LF line ends.
        matches: By position, not overlapping.
    """
    normalised = normalise(text)
    ours, theirs = line_starts(text), line_starts(normalised)
    replacements: list[Replacement] = []
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
            replacements.append(Replacement(previous.start, our_end, kept + match.new + normalised[match.end : end]))
        else:
            new = normalised[theirs[first] : match.start] + match.new + normalised[match.end : end]
            replacements.append(Replacement(ours[first], our_end, new))
        open_end = end
    return replacements


def replaced_text(text: str, replacements: Sequence[Replacement]) -> str:
    """Return the text with LF line ends after the replacements."""
    pieces: list[str] = []
    position = 0
    for start, end, new in replacements:
        pieces += (text[position:start], new)
        position = end
    return "".join((*pieces, text[position:]))


def replaced_source(source: str, replacements: Sequence[Replacement]) -> str:
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
