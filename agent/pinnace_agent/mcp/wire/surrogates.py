"""Lone surrogates in the JSON of a server: written as escapes, they are no characters, and no parser here takes them.

JSON.stringify and Python write them, from texts that were cut in the middle of a character. Each becomes U+FFFD, as
elsewhere; everything else stays byte for byte. One such escape would cost the whole message else.
"""

import re
from typing import Final

_ANY: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# One escape of JSON, or a pair of them that is one character.
_ESCAPE: Final = re.compile(
    rb"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
# What may be the beginning of one at the end of a piece.
_BEGUN: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z")
_MOST_BEGUN: Final = 11
_REPLACED: Final = rb"\ufffd"


def without_lone_surrogates(data: bytes) -> bytes:
    """Return JSON with U+FFFD in the place of each escape that is half a character."""
    if _ANY.search(data) is None:
        return data
    return _ESCAPE.sub(lambda found: _REPLACED if found[2] else found[0], data)


class Repairing:
    """JSON that comes in pieces."""

    def __init__(self) -> None:
        """Have taken none."""
        self._kept = b""

    def add(self, piece: bytes) -> bytes:
        """Take the next piece, and return what is decided."""
        data = self._kept + piece
        end = len(data)
        found = _BEGUN.search(data, max(0, end - _MOST_BEGUN))
        if found is not None:
            before = data[: found.start()]
            # The second of two backslashes begins no escape.
            if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
                end = found.start()
        self._kept = data[end:]
        return without_lone_surrogates(data[:end])

    def rest(self) -> bytes:
        """Return what was kept at the end."""
        kept, self._kept = self._kept, b""
        return without_lone_surrogates(kept)
