"""Colours of texts: what `ctx.ui.theme` gives without a terminal (U17).

Styled text carries ANSI sequences, as clients of the original receive them; `plain` gives the same text without.
Pure.
"""

from typing import Final

_RESET_FOREGROUND: Final = "\x1b[39m"
_RESET_BACKGROUND: Final = "\x1b[49m"
# The 16 colours of every terminal: a theme of the client's cannot be known here.
_FOREGROUND: Final = {
    "accent": "36",
    "border": "34",
    "borderAccent": "36",
    "borderMuted": "90",
    "success": "32",
    "error": "31",
    "warning": "33",
    "muted": "90",
    "dim": "90",
    "text": "39",
}
_STYLES: Final = {
    "bold": ("1", "22"),
    "italic": ("3", "23"),
    "underline": ("4", "24"),
    "inverse": ("7", "27"),
    "strikethrough": ("9", "29"),
}


class Theme:
    """Styles texts. An unknown colour leaves the text as it is."""

    __slots__ = ("_is_plain",)

    def __init__(self, *, is_plain: bool = False) -> None:
        self._is_plain = is_plain

    @property
    def plain(self) -> "Theme":
        """The theme that adds nothing, for texts that clients show as they come."""
        return Theme(is_plain=True)

    @property
    def name(self) -> str:
        """Its name."""
        return "plain" if self._is_plain else "default"

    def fg(self, color: str, text: str) -> str:
        """Return the text in a colour of the theme: accent, success, error, warning, muted, dim and so on."""
        code = _FOREGROUND.get(color)
        return text if code is None or self._is_plain else f"\x1b[{code}m{text}{_RESET_FOREGROUND}"

    def bg(self, color: str, text: str) -> str:
        """Return the text on a colour of the theme."""
        code = _FOREGROUND.get(color)
        return text if code is None or self._is_plain else f"\x1b[{int(code) + 10}m{text}{_RESET_BACKGROUND}"

    def bold(self, text: str) -> str:
        """Return it in bold."""
        return self._style("bold", text)

    def italic(self, text: str) -> str:
        """Return it in italics."""
        return self._style("italic", text)

    def underline(self, text: str) -> str:
        """Return it underlined."""
        return self._style("underline", text)

    def inverse(self, text: str) -> str:
        """Return it with its colours exchanged."""
        return self._style("inverse", text)

    def strikethrough(self, text: str) -> str:
        """Return it struck through."""
        return self._style("strikethrough", text)

    def _style(self, style: str, text: str) -> str:
        begin, end = _STYLES[style]
        return text if self._is_plain else f"\x1b[{begin}m{text}\x1b[{end}m"
