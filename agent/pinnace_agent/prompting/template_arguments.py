"""The arguments of a prompt template: how a line is split into arguments, and where a template inserts them.

White space separates arguments. A quote counts at the beginning of an argument and ends at the same quote; a backslash
escapes that quote. An unclosed quote is text. Placeholders in arguments and defaults are not replaced. Pure; takes time
proportional to its input and its result.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pinnace_agent.prompting.frontmatter import BLANKS

# Larger than any prompt that a model can take; `$@` a thousand times, with an argument of a megabyte, is a gigabyte.
MAX_EXPANDED_CHARS: Final = 8_000_000

# Splitting one takes a third of a second at worst, and the agent waits meanwhile.
MAX_ARGUMENT_CHARS: Final = 1_000_000

_BLANK: Final = re.compile(f"[{BLANKS}]")
_BLANK_RUN: Final = re.compile(f"[{BLANKS}]*")
_ARGUMENT: Final = re.compile(f"[^{BLANKS}]+")
_QUOTED: Final = {
    # Requires the closing quote; at most one search in a text fails for each kind of quote.
    "'": re.compile(r"'((?:\\'|[^'])*+)'", re.DOTALL),
    '"': re.compile(r'"((?:\\"|[^"])*+)"', re.DOTALL),
}
_SIMPLE: Final = r"\$(?:(?P<number>[0-9]+)|(?P<all>@|ARGUMENTS)"
_BARE: Final = re.compile(f"{_SIMPLE})")
_PLACEHOLDER: Final = re.compile(
    _SIMPLE
    + r"|\{(?P<subject>[0-9]+|@|ARGUMENTS):-(?P<default>[^}]*)\}"
    + r"|\{@:(?P<start>[0-9]+)(?::(?P<length>[0-9]+))?\})"
)
# A number with more digits is beyond any list.
_MAX_DIGITS: Final = 9


class TooLong(Exception):
    """The arguments or the result are longer than the limit."""


def first_blank(text: str) -> int:
    """Return the end of the name at the beginning."""
    found = _BLANK.search(text)
    return len(text) if found is None else found.start()


def split_arguments(text: str) -> list[str]:
    """Split the text after a template's name into arguments.

    Raises:
        TooLong: It is longer than `MAX_ARGUMENT_CHARS`.
    """
    if len(text) > MAX_ARGUMENT_CHARS:
        raise TooLong
    arguments: list[str] = []
    place = _after_blanks(text, 0)
    while place < len(text):
        argument, place = _argument_at(text, place)
        arguments.append(argument)
        place = _after_blanks(text, place)
    return arguments


def substitute(body: str, arguments: Sequence[str]) -> str:
    """Replace a template's placeholders by arguments.

    Raises:
        TooLong: The result would be longer than `MAX_EXPANDED_CHARS`.
    """
    joined = " ".join(arguments)
    pieces: list[str] = []
    length = 0
    for piece in _pieces(body, arguments, joined):
        length += len(piece)
        if length > MAX_EXPANDED_CHARS:
            raise TooLong
        pieces.append(piece)
    return "".join(pieces)


def _after_blanks(text: str, place: int) -> int:
    found = _BLANK_RUN.match(text, place)
    return place if found is None else found.end()


def _argument_at(text: str, start: int) -> tuple[str, int]:
    quoted = ""
    place = start
    pattern = _QUOTED.get(text[start])
    if pattern is not None and (found := pattern.match(text, start)):
        quote = text[start]
        quoted, place = found[1].replace(f"\\{quote}", quote), found.end()
    rest = _ARGUMENT.match(text, place)
    return (quoted, place) if rest is None else (quoted + rest[0], rest.end())


def _pieces(body: str, arguments: Sequence[str], joined: str) -> Iterator[str]:
    # After the last closing brace only bare placeholders count: each `${1:-` would search to the end of the text.
    last_brace = body.rfind("}") + 1
    place = 0
    for pattern, end in ((_PLACEHOLDER, last_brace), (_BARE, len(body))):
        for found in pattern.finditer(body, place, end):
            yield body[place : found.start()]
            yield _value(found.groupdict(), arguments, joined)
            place = found.end()
        yield body[place:end]
        place = end


def _value(found: dict[str, str | None], arguments: Sequence[str], joined: str) -> str:
    if (number := found["number"]) is not None:
        return _positional(number, arguments)
    if found["all"] is not None:
        return joined
    if (subject := found["subject"]) is not None:
        value = _positional(subject, arguments) if subject[0] in "0123456789" else joined
        return value or found["default"] or ""
    start = max(_number(found["start"] or "") - 1, 0)
    length = found["length"]
    return " ".join(arguments[start:] if length is None else arguments[start : start + _number(length)])


def _positional(digits: str, arguments: Sequence[str]) -> str:
    number = _number(digits)
    return arguments[number - 1] if 0 < number <= len(arguments) else ""


def _number(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS
