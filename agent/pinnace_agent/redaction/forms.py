"""The forms in which a key can appear in a text: as it is, escaped for JSON, URL-encoded, in hexadecimal, in base64.

Each form says how many of its first and last characters give the key away: those of eight characters of the key.
Pure; has no access to texts.
"""

import json
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from pinnace_agent.redaction.policy import LEAST_CHARS
from pinnace_agent.redaction.shapes import MARKS, WORDS, is_key, is_of_words, is_strong, is_words

# A part of a key counts once it holds so many characters beyond the mark of its vendor.
_BEYOND_MARK: Final = 4

Edges = Literal["any", "value", "name"]
"""Where a key counts: anywhere; where a value can begin and end; and there, but in no path, file name or address."""


class KeyForm(NamedTuple):
    """One way to write one key."""

    text: str
    front: int
    """So many first characters give the key away where a text is cut behind them; all of them: only the whole does."""
    back: int
    """So many last characters, where a text is cut before them, likewise."""
    edges: Edges = "any"


def forms_of(key: str) -> tuple[KeyForm, ...]:
    """Return the forms of a key; none of what can't be one (`shapes`).

    No text holds a strong key by accident, so it counts anywhere, and so does its beginning where a text is cut. Any
    other key counts only as a whole, where a value begins and ends.
    """
    if not is_key(key):
        return ()
    strong = is_strong(key)
    front, back = (_front(key), _back(key)) if strong else (len(key), len(key))
    edges: Edges = "any" if strong else "name" if is_of_words(key) else "value"
    found: dict[str, KeyForm] = {}
    for form in (KeyForm(key, front, back, edges), *_spelt(key, front, back), *_in_base64(key, front, back)):
        found.setdefault(form.text, form)
    return tuple(found.values())


def _front(key: str) -> int:
    """Return how many first characters are a part that reveals something about the key."""
    size = LEAST_CHARS
    for mark in MARKS:
        if key.startswith(mark):
            size = max(size, len(mark) + _BEYOND_MARK)
    if key.startswith("eyJ") and key.count(".") == 2:  # a JWT: its head and its claims are no secret
        size = max(size, key.rfind(".") + 1 + _BEYOND_MARK)
    while size < len(key) and (key[:size].lower() in WORDS or is_words(key[:size])):
        size += 1
    return min(size, len(key))


def _back(key: str) -> int:
    size = LEAST_CHARS
    while size < len(key) and (key[-size:].lower() in WORDS or is_words(key[-size:])):
        size += 1
    return size


def _spelt(key: str, front: int, back: int) -> Iterator[KeyForm]:
    """Yield the forms that spell one character after the other."""
    is_plain = key.isascii() and key.replace("-", "").replace("_", "").replace(".", "").replace("~", "").isalnum()
    for spell in _SPELLINGS if is_plain else _all_spellings():
        text = spell(key)
        if text != key:
            yield KeyForm(text, len(spell(key[:front])), len(spell(key[len(key) - back :])))


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def json_spellings(text: str) -> tuple[str, str]:
    """Return how a text stands in JSON: with characters beyond ASCII as they are, and escaped."""
    return json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]


def _percent(key: str) -> str:
    return "".join([f"%{byte:02X}" for byte in _encoded(key)])


# Of any key; the others leave letters, digits and a few signs as they are.
_SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    lambda key: _encoded(key).hex(),
    lambda key: _encoded(key).hex().upper(),
    _percent,
    lambda key: _percent(key).lower(),
)


def _all_spellings() -> tuple[Callable[[str], str], ...]:
    from urllib.parse import quote, quote_plus

    def quoted(safe: str) -> Callable[[str], str]:
        return lambda key: quote(_encoded(key), safe=safe)

    def quoted_in_lower_case(key: str) -> str:
        return "".join([each if each in key else each.lower() for each in map(quoted(""), key)])

    return (
        *_SPELLINGS,
        lambda key: json_spellings(key)[0],
        lambda key: json_spellings(key)[1],
        lambda key: json_spellings(json_spellings(key)[1])[1],
        quoted(""),
        quoted_in_lower_case,
        quoted("/"),
        quoted("!~*'()"),  # encodeURIComponent
        quoted(";,/?:@&=+$!~*'()#"),  # encodeURI
        lambda key: quote_plus(_encoded(key)),
    )


def _in_base64(key: str, front: int, back: int) -> Iterator[KeyForm]:
    """Yield what base64 makes of a key wherever it stands in what is encoded, in both alphabets.

    Characters that depend on what is beside the key are left out.
    """
    raw = _encoded(key)
    first, last = len(_encoded(key[:front])), len(_encoded(key[len(key) - back :]))
    for lead in range(3):
        start, end = _whole_sextets(lead, lead + len(raw))
        front_size = _whole_sextets(lead, lead + first)[1] - start
        back_size = end - _whole_sextets(lead + len(raw) - last, lead + len(raw))[0]
        text = b2a_base64(b"\0" * lead + raw + b"\0" * 3).decode()[start:end]
        yield KeyForm(text, front_size, back_size)
        if "+" in text or "/" in text:
            yield KeyForm(text.replace("+", "-").replace("/", "_"), front_size, back_size)


def _whole_sextets(start: int, end: int) -> tuple[int, int]:
    """Return the characters of base64 that the bytes from `start` to `end` alone decide."""
    return -(-start * 8 // 6), end * 8 // 6


def anchors_of(forms: Iterable[KeyForm]) -> list[str]:
    """Return texts of which one is in every text that holds a form, or a part of one that must not appear."""
    found: dict[str, None] = {}
    for form in forms:
        found[form.text[: form.front]] = None
        found[form.text[len(form.text) - form.back :]] = None
    return list(found)
