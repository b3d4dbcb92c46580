"""What every module of this room shares: a text that is never shown, what replaces a key, how short a key may be."""

from typing import Final

REDACTED: Final = "[redacted]"
"""Written in the place of a key."""
LEAST_CHARS: Final = 8
"""Keys and parts of keys that are shorter are not looked for: they would be found in ordinary text."""


class Secret:
    """A text that is never shown: not by `repr`, `str` or a traceback."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        """Return the same for every secret."""
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same text."""
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        """Return a hash of the text."""
        return hash(self._text)

    def reveal(self) -> str:
        """Return the text; the caller sends it to the provider and stores it nowhere."""
        return self._text
