"""The order of names in lists for people: that of a dictionary, not that of character codes.

As other implementations have it: marks before digits before letters, and the case and the accent of a letter only where
nothing else differs. Pure.
"""

from typing import Final

_MARKS: Final = {mark: place for place, mark in enumerate("\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$")}
_AFTER_MARKS: Final = len(_MARKS)


def collation_key(name: str, *, small_first: bool = False) -> tuple[list[tuple[int, str]], str, str]:
    """Return what names are sorted by: letters without case and accents first, and only then these."""
    import unicodedata

    lowered = unicodedata.normalize("NFD", name.lower())
    letters = [character for character in lowered.replace("ß", "ss") if not unicodedata.combining(character)]
    return [_rank(letter) for letter in letters], lowered, name.swapcase() if small_first else name


def _rank(character: str) -> tuple[int, str]:
    if (place := _MARKS.get(character)) is not None:
        return place, character
    if character.isalnum():
        return _AFTER_MARKS + (1 if character.isdigit() else 2), character
    # What can't be shown comes last: bytes that are no UTF-8.
    return _AFTER_MARKS + (3 if "\udc80" <= character <= "\udcff" else 0), character
