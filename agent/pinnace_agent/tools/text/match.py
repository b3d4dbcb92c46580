"""Finds the texts that a model replaces: exactly, or with tolerance for a model's typography.

Pure. Decides where each edit applies and rejects absent, ambiguous and overlapping ones; `replacement` applies them.
Texts have LF line ends only. Rule R-TOL-03.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from pinnace_agent.tools.base import ToolError

# White space as models' own tools define it: what `str.rstrip` takes is another set (no U+FEFF, but U+001C to
# U+001F and U+0085).
_WHITE_SPACE: Final = (
    "\t\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_TYPOGRAPHY: Final = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-"),
    **dict.fromkeys((0xA0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000), " "),
}
_TRAILING: Final = re.compile(f"[{_WHITE_SPACE}]\n")
_ASCII: Final = re.compile("[\x00-\x7f]")
# A piece of this size is normalised in some 20 ms.
_PIECE_CHARACTERS: Final = 256 * 1024


class Edit(NamedTuple):
    """One replacement of a call."""

    old: str
    new: str


class EditMatch(NamedTuple):
    """Where an edit applies: a stretch of the text that was searched."""

    place: int
    """The edit's place in the call."""
    start: int
    end: int
    old: str
    new: str


class Matches(NamedTuple):
    """The matches of a call by position, and the text that their positions refer to."""

    found: Sequence[EditMatch]
    is_fuzzy: bool
    """Whether positions refer to the normalised text instead of the text itself."""


def normalise(text: str) -> str:
    """Return the text in the form of fuzzy matching: compatible forms, no trailing blanks, plain typography.

    The number of lines stays; leading blanks, case and tabs still count.
    """
    return text if not text else "".join(map(_normalised, _pieces(text)))


def _pieces(text: str) -> Iterator[str]:
    """Divide a text after line ends: other threads run only between two calls of the interpreter's functions.

    A LF is composed with nothing, so each piece can be normalised by itself. A longer line is one piece.
    """
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PIECE_CHARACTERS) + 1 or len(text)
        yield text[start:end]
        start = end


def _normalised(text: str) -> str:
    plain = text if text.isascii() else _compatible(text)
    if plain and (plain[-1] in _WHITE_SPACE or ("\n" in plain and _TRAILING.search(plain))):
        plain = "\n".join(line.rstrip(_WHITE_SPACE) for line in plain.split("\n"))
    if not plain.isascii():
        plain = _plain_typography(plain)
    assert plain.count("\n") == text.count("\n")
    return plain


def _compatible(text: str) -> str:
    """Return the compatible form; of a long line in parts that begin with ASCII, which is composed with nothing."""
    parts: list[str] = []
    start = 0
    while start < len(text):
        found = _ASCII.search(text, start + _PIECE_CHARACTERS)
        end = len(text) if found is None else found.start()
        parts.append(unicodedata.normalize("NFKC", text[start:end]))
        start = end
    return "".join(parts)


def _plain_typography(text: str) -> str:
    starts = range(0, len(text), _PIECE_CHARACTERS)
    return "".join(text[start : start + _PIECE_CHARACTERS].translate(_TYPOGRAPHY) for start in starts)


def _no_check() -> None:
    pass


def find_matches(text: str, edits: Sequence[Edit], path: str, check: Callable[[], object] = _no_check) -> Matches:
    """Find every edit in the same text, before any is applied.

    A text that must be unique is counted in its normalised form even if it was found exactly: a twin that
    differs only in blanks or quotes is as likely to be the one that was meant. If one edit needs fuzzy
    matching, all are found in the normalised text.

    Args:
        text: The file.
        edits: At least one.
        path: As the call gave it, for the texts of failures.
        check: Called before each search; what it raises ends the work.

    Raises:
        ToolError: An edit is empty, absent or ambiguous (the first one in call order), or two overlap.
    """
    for index, edit in enumerate(edits):
        if not edit.old:
            raise ToolError(f"{_name(edits, index)} must not be empty in {path}.")
    # DEVIATION D-35: blanks alone are searched exactly.
    normalised = normalise(text)
    is_fuzzy = False
    for edit in edits:
        check()
        if edit.old not in text and _find_close(normalised, edit.old) is not None:
            is_fuzzy = True
            break
    found: list[EditMatch] = []
    for index, edit in enumerate(edits):
        check()
        # A normalised oldText is searched in the normalised text only: in the text itself it may be a part of a
        # character, such as a letter without its accent.
        span = _find_close(normalised, edit.old) if is_fuzzy else _find(text, edit.old)
        if span is None:
            # DEVIATION D-15: the beginnings of the original, with advice of this agent.
            what = "the exact text" if len(edits) == 1 else f"edits[{index}]"
            raise ToolError(
                f"Could not find {what} in {path}. It has to match the file character by character, "
                "with all blanks and line breaks."
            )
        occurrences = _count(text, normalised, edit.old)
        if occurrences > 1:
            what = "the text" if len(edits) == 1 else f"edits[{index}]"
            raise ToolError(
                f"Found {occurrences} occurrences of {what} in {path}. It has to be unique: "
                "include more of the lines around the one you mean."
            )
        found.append(EditMatch(index, *span, edit.old, edit.new))
    found.sort(key=lambda match: match.start)
    for previous, following in pairwise(found):
        if previous.end > following.start:
            raise ToolError(
                f"edits[{previous.place}] and edits[{following.place}] overlap in {path}. "
                "Make one edit of them, or let them change separate places."
            )
    return Matches(found, is_fuzzy)


def _name(edits: Sequence[Edit], index: int) -> str:
    return "oldText" if len(edits) == 1 else f"edits[{index}].oldText"


def _find(searched: str, old: str) -> tuple[int, int] | None:
    start = searched.find(old)
    return None if start < 0 else (start, start + len(old))


def _find_close(normalised: str, old: str) -> tuple[int, int] | None:
    """Find an oldText in the normalised text: exactly, or else in its own normalised form."""
    close = normalise(old)
    return _find(normalised, old) or (_find(normalised, close) if close else None)


def _count(text: str, normalised: str, old: str) -> int:
    close = normalise(old)
    # Blanks alone normalise to an empty text, which matches everywhere.
    return normalised.count(close) if close else text.count(old)
