"""Parses the values of options: one function for each kind of value.

Each takes the name of the option and its text, and raises UsageError if the text is invalid. An error text names
the option and never repeats the value, since it may be a key or a prompt. Must not read files.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

from pinnace_rpc.options.options import EXIT_CODES
from pinnace_rpc.options.parser import UsageError
from pinnace_spec.records.messages import THINKING_LEVELS, ThinkingLevel

# The letters are those of pi. The length leaves room for a date and an ending in a file's name of 255 bytes.
_SESSION_ID: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?"


def readable(_name: str, text: str) -> str:
    """Return a text for records."""
    return encodable(text)


def encodable(text: str) -> str:
    """Replace bytes that are not UTF-8, which Python keeps as surrogates and JSON can't represent.

    For what goes into records as it is given. Paths keep their bytes, which name a file.
    """
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def not_empty(name: str, text: str) -> str:
    """Return the text without blanks around it."""
    if not (text := text.strip()):
        raise UsageError(f"{name} requires a value")
    return text


def readable_name(name: str, text: str) -> str:
    """Return a name for records, without blanks around it."""
    return not_empty(name, encodable(text))


def items(_name: str, text: str) -> tuple[str, ...]:
    """Return the items of a comma list."""
    return tuple(item for part in encodable(text).split(",") if (item := part.strip()))


def count(name: str, text: str) -> int:
    """Return a limit that is a whole number."""
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 9 or int(text) < 1:
        raise UsageError(f"{name} takes a whole number from 1 on")
    return int(text)


def number(least: int, most: int | None = None) -> Callable[[str, str], int]:
    """Return what reads a whole number in a range, bounds included."""

    def read(name: str, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= (most or int(text))):
            raise UsageError(f"{name} takes a whole number from {least} " + ("on" if most is None else f"to {most}"))
        return int(text)

    return read


def amount(name: str, text: str) -> float:
    """Return a limit that is a number."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (math.isfinite(number) and number > 0):
        raise UsageError(f"{name} takes a number greater than 0")
    return number


def descriptor(name: str, text: str) -> int:
    """Return the number of a file descriptor that is not one of the standard streams."""
    number = count(name, text)
    if number <= 2:
        raise UsageError(f"{name} takes a descriptor from 3 on: 0 to 2 are stdin, stdout and stderr")
    return number


# DEVIATION D-60: an invalid limit of a run prevents the start.
def thinking_level(name: str, text: str) -> ThinkingLevel:
    """Return the text as a thinking level, or raise with the nearest one."""
    for level in THINKING_LEVELS:
        if level == text:
            return level
    from pinnace_spec.nearest import did_you_mean

    raise UsageError(f"{name} takes one of {', '.join(THINKING_LEVELS)}{did_you_mean(text, THINKING_LEVELS)}")


def session_id(name: str, text: str) -> str:
    """Return the text if a session can have it as its id, or raise."""
    if not re.fullmatch(_SESSION_ID, text):
        raise UsageError(
            f"{name} takes up to 200 letters, digits, dots, dashes and underscores, with a letter or digit at both ends"
        )
    return text


def message_id(name: str, text: str) -> str:
    """Return the id of a prompt: shorter than the protocol allows, since further prompts have a number behind it."""
    if not 1 <= len(text := encodable(text)) <= 120:
        raise UsageError(f"{name} takes 1 to 120 characters")
    return text


def is_detailed(name: str, text: str) -> bool:
    """Return whether exit codes are detailed."""
    return one_of(EXIT_CODES, " or ".join(EXIT_CODES))(name, text) == "detailed"


def one_of(choices: Sequence[str], shown: str) -> Callable[[str, str], str]:
    """Return a parser for one of some words; `shown` lists them in the error text."""

    def read(name: str, text: str) -> str:
        if text not in choices:
            raise UsageError(f"{name} takes {shown}")
        return text

    return read
