"""Removes escape sequences, control characters and CR from the output of a shell.

Pure, incremental: a sequence may be cut anywhere between two chunks. Used for the output of a user's own command; a
model's tool keeps its output unchanged. Rule R-BSH-03.
"""

import re
from typing import Final

_REMOVED: Final = re.compile(
    r"""
      (?:\x1b\[|\x9b)[0-?]*[\x20-/]*[@-~]?          # CSI: colours, cursor; it ends before what breaks it
    | \x1b[\]PX^_][^\x07\x0a\x18\x1a\x1b\x9b\x9c]*  # OSC, DCS, SOS, PM, APC: titles, links, pictures …
      (?:\x07|\x1b\\|[\x18\x1a\x9c])?               # … to BEL, ST, CAN or SUB; LF, ESC, CSI end them as well
    | \x1b[\x20-/]{0,8}[0-~]                        # the other escapes, e.g. of the character set; real ones have two
    | [\x00-\x08\x0b-\x1f\ufff9-\ufffb]             # C0 but TAB and LF (so CR too), interlinear annotation
    """,
    re.VERBOSE,
)
_CUT_CSI: Final = re.compile(r"(\x1b\[|\x9b)[0-?]*([\x20-/]?)[\x20-/]*\Z")
_CUT_STRING: Final = re.compile(r"(\x1b[\]PX^_])[^\x07\x0a\x18\x1a\x1b\x9b\x9c]*(\x1b?)\Z")
_CUT_ESCAPE: Final = re.compile(r"\x1b[\x20-/]{0,8}\Z")

_CONTROLS: Final = bytes(code for code in range(0x20) if code not in b"\t\n")
_NEEDS_ATTENTION: Final = re.compile("[\x9b\ufff9-\ufffb]")


class ControlTextFilter:
    """Filters one stream of text, chunk by chunk; it keeps a few characters between chunks."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = ""

    def feed(self, text: str) -> str:
        """Return the filtered text of the next chunk; an unfinished sequence at its end is kept for the next one."""
        if "\r" in text:  # tested first: `replace` takes ten times as long to find nothing
            text = text.replace("\r", "")
        if not self._pending and _is_plain(text):
            return text
        text = self._pending + text
        text, self._pending = _split_unfinished(text)
        return _REMOVED.sub("", text)


def _is_plain(text: str) -> bool:
    # Most output needs nothing; deleting from bytes is ten times as fast as searching for a set of
    # characters.
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, _CONTROLS)) != len(data):
        return False
    return text.isascii() or _NEEDS_ATTENTION.search(text) is None


def _split_unfinished(text: str) -> tuple[str, str]:
    """Cut off an unfinished sequence at the end, in the shortest form that leads to the same result."""
    found = _last_introducer(text)
    if found < 0:
        return text, ""
    if match := _CUT_STRING.match(text, found) or _CUT_CSI.match(text, found):
        # The content of a sequence is not kept: it may be an image of megabytes.
        return text[:found], match[1] + match[2]
    if _CUT_ESCAPE.match(text, found):
        # Whole: if it is broken off, what stood in it is text.
        return text[:found], text[found:]
    return text, ""


def _last_introducer(text: str) -> int:
    last = max(text.rfind("\x1b"), text.rfind("\x9b"))
    if last > 0 and text[last] == "\x1b" and last == len(text) - 1:
        # The ESC may be the first half of the ST that ends a string.
        previous = text.rfind("\x1b", 0, last)
        if previous >= 0 and _CUT_STRING.match(text, previous):
            return previous
    return last
