"""Writes HTML: the one place where text becomes markup, and so the one where it is escaped.

What agents write is hostile. A piece of the page is `Html`, and only this module makes one of text: every other `str`
is escaped where it is put in. Invisible characters, or that turn text around, are shown by their number.
"""

import html
from collections.abc import Iterable
from typing import Final

_VOID: Final = frozenset({"br", "hr", "input", "meta"})
# A line break and a tab are seen as what they are.
_SEEN: Final = frozenset("\n\t")


class Html(str):
    """A piece of the page: markup already."""

    __slots__ = ()


EMPTY: Final = Html("")
Part = str | None
Attribute = str | int | bool | None


def named(character: str) -> str:
    """Write a character that can't be seen; a surrogate escape stands for a byte."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def visible(text: str) -> str:
    """Return a text in which everything can be seen; it has no lone surrogates, so that it can be encoded."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _SEEN else named(each) for each in text)


def text(value: str) -> Html:
    """Put a text into the page; what can't be seen is set apart."""
    if isinstance(value, Html):
        return value
    if value.isprintable():
        return Html(html.escape(value))
    return Html(
        "".join(html.escape(each) if each.isprintable() or each in _SEEN else f"<i>{named(each)}</i>" for each in value)
    )


def join(parts: Iterable[Part]) -> Html:
    """Put pieces one behind the other."""
    return Html("".join(text(part) for part in parts if part is not None))


def tag(name: str, /, *parts: Part, **attributes: Attribute) -> Html:
    """Write an element.

    Args:
        name: Of the element.
        parts: What is in it; text is escaped, None is nothing.
        attributes: `class_` is class, `data_x` is data-x; True: without a value; None and False: not there.
    """
    head = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        head += f" {word}" if value is True else f' {word}="{html.escape(visible(str(value)))}"'
    if name in _VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{join(parts)}</{name}>")


def prose(value: str) -> Html:
    """Put a sentence with names between backticks into the page."""
    parts = value.split("`")
    if len(parts) % 2 == 0:
        return text(value)
    return join(tag("code", part) if at % 2 else part for at, part in enumerate(parts))


def chip(kind: str, label: str, **attributes: Attribute) -> Html:
    """Write a small sign with a word in it; `kind` chooses the colour."""
    return tag("span", label, class_=f"chip {kind}", **attributes)
