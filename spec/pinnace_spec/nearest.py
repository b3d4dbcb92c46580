"""The known name that a misspelt one most probably means: one measure for every "did you mean".

Must not import anything slow at module level: the library that compares is imported after a mistake.
"""

from collections.abc import Iterable
from typing import Final

USUAL: Final = 0.6
"""The least similarity of a suggestion, as `difflib` measures it from 0 to 1."""
# The comparison is quadratic in the length, and a longer text is no misspelt name.
_MAX_CHARS: Final = 100


def nearest(word: str, known: Iterable[str], least: float = USUAL) -> str | None:
    """Return the known name that is most similar to a word, in any case of letters; None: none is similar.

    Args:
        word: What was given. One of more than 100 characters is similar to nothing.
        known: The names that there are. Of equally similar ones the first counts.
        least: The least similarity, from 0 to 1.
    """
    return next(iter(all_near(word, known, 1, least)), None)


def all_near(word: str, known: Iterable[str], count: int = 3, least: float = USUAL) -> list[str]:
    """Return at most `count` known names that are similar to a word, the most similar first."""
    names: dict[str, str] = {}
    for name in known:
        if len(name) <= 2 * _MAX_CHARS:
            names.setdefault(name.casefold(), name)
    if not names or not word or len(word) > _MAX_CHARS:
        return []
    from difflib import get_close_matches

    return [names[each] for each in get_close_matches(word.casefold(), names, count, least)]


def did_you_mean(word: str, known: Iterable[str], least: float = USUAL) -> str:
    """Return `; did you mean NAME?`, to be appended to an error text, or an empty string."""
    near = nearest(word, known, least)
    return "" if near is None else f"; did you mean {near}?"


def nearest_or_all(word: str, known: Iterable[str], least: float = USUAL) -> str:
    """Return `did you mean NAME?`, or where none is similar the list of all names, for an error text."""
    names = list(known)
    near = nearest(word, names, least)
    return f"there are {', '.join(names)}" if near is None else f"did you mean {near}?"
