"""Keeps the control characters of outputs and files out of the texts that models are sent.

Strict providers refuse a request with NUL or another control character, and a text that is once in a session is in
every later request. Three treatments, by where a text comes from: the output of a program is shown as a terminal would
show it (`ControlTextFilter`, incremental: a sequence may be cut anywhere between two chunks); the content of a file,
and arguments, keep their controls visibly (`visible_controls`); any other text only loses them (`clean_text`). All are
pure and return most texts unchanged. Rule R-TOL-10.
"""

import re
from typing import Final

_REMOVED: Final = re.compile(
    r"""
      (?:\x1b\[|\x9b)[0-?]*[\x20-/]*[@-~]?          # CSI: colours, cursor; it ends before what breaks it
    | \x1b[\]PX^_][^\x07\x0a\x18\x1a\x1b\x9b\x9c]*  # OSC, DCS, SOS, PM, APC: titles, links, pictures …
      (?:\x07|\x1b\\|[\x18\x1a\x9c])?               # … to BEL, ST, CAN or SUB; LF, ESC, CSI end them as well
    | \x1b[\x20-/]{0,8}[0-~]                        # the other escapes, e.g. of the character set; real ones have two
    | [\x00-\x08\x0b\x0c\x0e-\x1f\ufff9-\ufffb]     # C0 but TAB, LF and CR, interlinear annotation
    """,
    re.VERBOSE,
)
_CUT_CSI: Final = re.compile(r"(\x1b\[|\x9b)[0-?]*([\x20-/]?)[\x20-/]*\Z")
_CUT_STRING: Final = re.compile(r"(\x1b[\]PX^_])[^\x07\x0a\x18\x1a\x1b\x9b\x9c]*(\x1b?)\Z")
_CUT_ESCAPE: Final = re.compile(r"\x1b[\x20-/]{0,8}\Z")
_RETURNS: Final = re.compile("\r+(\n?)")

_CONTROLS: Final = bytes(code for code in range(0x20) if code not in b"\t\n")
_CONTROLS_BUT_CR: Final = _CONTROLS.replace(b"\r", b"")
_NEEDS_ATTENTION: Final = re.compile("[\x9b\ufff9-\ufffb]")

_PICTURES: Final = {code: 0x2400 + code for code in _CONTROLS}
_SHOWN: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|\r(?!\n)")


class ControlTextFilter:
    """Filters the output of a program, chunk by chunk; it keeps a few characters between chunks.

    What remains of the controls are TAB, LF and single CRs that are followed by a text, which a terminal would write
    over the line. CRLF becomes LF.
    """

    __slots__ = ("_ends_with_return", "_pending")

    def __init__(self) -> None:
        self._pending = ""
        self._ends_with_return = False

    def feed(self, text: str) -> str:
        """Return the filtered text of the next chunk; an unfinished sequence at its end is kept for the next one."""
        if not self._pending and not self._ends_with_return and _is_plain(text, _CONTROLS):
            return text
        text, self._pending = _split_unfinished(self._pending + text)
        text = _REMOVED.sub("", text)
        if self._ends_with_return and text:
            text = "\r" + text
            self._ends_with_return = False
        if "\r" in text:
            text = _RETURNS.sub(lambda found: found[1] or "\r", text)
            if text.endswith("\r"):
                text, self._ends_with_return = text[:-1], True
        return text


def clean_text(text: str) -> str:
    """Return a text without escape sequences and control characters but TAB and LF; a CR without LF becomes LF.

    A text whose only controls are TAB, LF and CRLF is returned unchanged.
    """
    if _is_plain(text, _CONTROLS_BUT_CR) and ("\r" not in text or text.count("\r") == text.count("\r\n")):
        return text
    return _REMOVED.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def visible_controls(text: str) -> str:
    r"""Return a text in which each control character but TAB, LF and CRLF is a picture of it, such as ␛ for ESC."""
    if _is_plain(text, _CONTROLS_BUT_CR) and ("\r" not in text or text.count("\r") == text.count("\r\n")):
        return text
    return _SHOWN.sub(lambda found: chr(_PICTURES[ord(found[0])]), text)


def _is_plain(text: str, controls: bytes) -> bool:
    # Most texts need nothing; deleting from bytes is ten times as fast as searching for a set of characters.
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, controls)) != len(data):
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
