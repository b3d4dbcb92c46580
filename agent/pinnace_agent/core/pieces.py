"""Text that arrives in pieces, cut anywhere: also between the halves of a surrogate pair.

Pure. What leaves this module has no surrogates, so that every writer can encode it. Source: R-FRM-09.
"""

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
REPLACEMENT: Final = "\ufffd"


def combine_surrogates(text: str) -> str:
    """Join halves that stand beside each other; an unpaired one becomes U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def without_halves(text: str) -> str:
    """Join halves that stand beside each other; an unpaired one is left out."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def hold_back(text: str) -> tuple[str, str]:
    """Split a piece of a stream into what can be passed on and a first half that waits for its second."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        return combine_surrogates(text[:-1]), text[-1]
    return combine_surrogates(text), ""


class Pieces:
    """Growing text: a piece costs the same however much there is. Passes on whole characters only.

    Half of a character is held back until the next piece brings the other half.
    """

    __slots__ = ("_half", "_pieces", "size")

    def __init__(self) -> None:
        self.size = 0
        """Characters so far."""
        self._pieces: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """Append a piece and return what of it can be passed on now; empty if it was half a character."""
        if self._half or not piece.isascii():
            piece, self._half = hold_back(self._half + piece)
        self._pieces.append(piece)
        self.size += len(piece)
        return piece

    def finish(self) -> str:
        """Give up on a second half: append and return what stands for the first; empty if none waits."""
        if not self._half:
            return ""
        self._half = ""
        return self.add(REPLACEMENT)

    def replace(self, text: str) -> None:
        """Hold this in the place of everything so far. It has no unpaired surrogates."""
        self._pieces, self._half, self.size = [text], "", len(text)

    def text(self) -> str:
        """Return everything so far, joined."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""
