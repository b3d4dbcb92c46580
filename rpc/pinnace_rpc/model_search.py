"""Decides which names a word that somebody types means: the letters in this order, with others between them.

Pure. Case does not matter. A search of several words, parted by spaces or slashes, means what each of them means.
"""

import re
from typing import Final

_WORDS: Final = re.compile(r"[\s/]+")
_LETTERS_AND_NUMBER: Final = re.compile(r"([a-z]+)([0-9]+)|([0-9]+)([a-z]+)")


def is_match(search: str, text: str) -> bool:
    """Tell whether a text is meant."""
    lower = text.lower()
    return all(_is_word_match(word, lower) for word in _WORDS.split(search.lower()) if word)


def _is_word_match(word: str, text: str) -> bool:
    if _has_in_order(word, text):
        return True
    # `5gpt` is `gpt5`, as people remember the parts and not which comes first.
    parts = _LETTERS_AND_NUMBER.fullmatch(word)
    if parts is None:
        return False
    letters, number, number_first, letters_last = parts.groups()
    swapped = f"{number}{letters}" if letters is not None else f"{letters_last}{number_first}"
    return _has_in_order(swapped, text)


def _has_in_order(word: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in word)
