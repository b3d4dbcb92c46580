"""Text of a session as text that people see whole: what would hide, reorder or break it is made visible.

Pure. Nothing is left out: a control character becomes its picture, one that turns the direction of the text or can't
be seen becomes its name. Half a character becomes U+FFFD.
"""

import re
from typing import Final

# C0 but TAB and LF, DEL, C1; marks, embeddings, overrides and isolates of the direction; annotations; the invisible
# tags, in which texts for models are smuggled past people; halves of characters and what is no character.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_LINE_ENDS: Final = re.compile("\r\n?")


def readable(text: str) -> str:
    """Return the text with nothing hidden in it; lines end with LF."""
    if "\r" in text:
        text = _LINE_ENDS.sub("\n", text)
    return with_visible(text)


def with_visible(text: str) -> str:
    """Make visible what is hidden; line ends stay."""
    return _HIDDEN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"⟦U+{code:04X}⟧"
