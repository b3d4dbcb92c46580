"""Reads a configuration file: JSON, for people also with `//` comments and commas before a closing bracket.

Decides syntax only. Comments and commas are blanked out, never removed, so that a parser's line and column
are those of the file. Linear in the size of the text, whatever it holds.
"""

import re
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard

import orjson

from pinnace_agent.files.text_file import TextFileError, read_regular

JsonObject: TypeAlias = dict[str, object]

# Descriptions of all models of a large gateway take two.
MAX_CONFIGURATION_BYTES: Final = 16 * 1024 * 1024

# A string is matched so that a comment inside it is left alone. Possessive, and the closing
# quote is optional: an unterminated string is consumed once, not once for each quote in it.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*+", re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*+[\]}}])", re.DOTALL)


class ConfigurationFileError(Exception):
    """The file can't be read, or is no JSON object. The text names no content of the file."""


def strip_comments(text: str) -> str:
    """Blank out comments and trailing commas; every other character keeps its place."""
    text = _STRING_OR_COMMENT.sub(lambda found: _blank(found[0]), text)
    return _STRING_OR_LAST_COMMA.sub(lambda found: " " if found[0] == "," else found[0], text)


def _blank(token: str) -> str:
    return token if token.startswith('"') else " " * len(token)


def read_object(path: Path, *, is_relaxed: bool) -> JsonObject | None:
    """Return the JSON object in a file, or None if there is no such file. A byte order mark is skipped.

    Args:
        path: The file.
        is_relaxed: Whether comments and trailing commas are allowed.

    Raises:
        ConfigurationFileError: It can't be read, or holds something else.
    """
    text = read_text(path)
    return None if text is None else parse_object(strip_comments(text) if is_relaxed else text)


def read_text(path: Path) -> str | None:
    """Return the text in a file without its byte order mark, or None if there is no such file.

    Raises:
        ConfigurationFileError: It can't be read, is no regular file, too long, or no UTF-8.
    """
    try:
        return read_regular(str(path), MAX_CONFIGURATION_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except TextFileError as error:
        raise ConfigurationFileError(error.text) from None
    except UnicodeDecodeError:
        raise ConfigurationFileError("is not UTF-8 text") from None
    except OSError as error:
        raise ConfigurationFileError(f"can't be read: {error.strerror or type(error).__name__}") from None


def parse_object(text: str) -> JsonObject:
    """Return the JSON object that a text is.

    Raises:
        ConfigurationFileError: It is something else; the text of the error has line and column.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ConfigurationFileError(f"is not valid JSON: {error.msg} ({place})") from None
    if not is_object(value):
        raise ConfigurationFileError("is not a JSON object")
    return value


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Return whether a value that was read from JSON is a list."""
    return isinstance(value, list)
