"""Tool arguments: JSON text that arrives in pieces, and is sometimes invalid.

Pure. While it arrives it is parsed as far as possible; once complete it is parsed strictly, after a repair of common
errors inside strings. Independent of which tool it is for.
"""

import re
from typing import Final, NamedTuple

from pinnace_agent.core.json_access import as_object, kind_of, map_strings
from pinnace_agent.core.pieces import Pieces, combine_surrogates
from pinnace_spec.wire.json_text import WireError, decode_line

# Shown to the model, so that it sees what it wrote; a file's worth of it would only fill its context.
MAX_SHOWN_CHARS: Final = 4000

# A parse is repeated for every piece up to here, and beyond only when the text has grown by a sixteenth: all
# parses of one text together then cost no more than some thirty parses of the whole.
ALWAYS_PARSED_CHARS: Final = 2048
GROWTH_SHIFT: Final = 4

_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_ESCAPE_OR_CONTROL: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair in two escapes
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r'|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\|[\x00-\x1f]'
)
_SHORT_ESCAPES: Final = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}


class Arguments(NamedTuple):
    """Arguments as a tool gets them; `error` gives the reason when they are empty although the model sent some."""

    value: dict[str, object]
    error: str | None


def read_arguments(text: str) -> Arguments:
    """Parse complete arguments: as they are, else repaired. An empty text means no arguments."""
    if not text or text.isspace():
        return Arguments({}, None)
    problem = ""
    for candidate in (text, repair_strings(text)):
        try:
            value = decode_line(candidate.encode())
        except WireError as error:
            problem = problem or error.text
            continue
        if isinstance(value, dict):
            return Arguments(as_object(map_strings(value, combine_surrogates)) or {}, None)
        problem = f"expected an object, not {kind_of(value)}"
        break
    shown = f"Received arguments:\n{_shown(text)}"
    return Arguments({}, f"The arguments are not valid JSON: {problem}\n\n{shown}")


def guess_arguments(text: str) -> dict[str, object] | None:
    """Read arguments that are still growing, as far as they go; None if they can't be. An unfinished string counts."""
    import jiter

    for candidate in (text, repair_strings(text)):
        try:
            value: object = jiter.from_json(candidate.encode(), allow_inf_nan=False, partial_mode="trailing-strings")
        except ValueError:
            continue
        return as_object(value)
    return None


class GrowingArguments:
    """The arguments of one call so far. Parsed on demand, and not every time."""

    __slots__ = ("_guess", "_read_chars", "pieces")

    def __init__(self) -> None:
        self.pieces = Pieces()
        """The JSON text."""
        self._guess: dict[str, object] = {}
        self._read_chars = 0

    def guess(self) -> dict[str, object]:
        """Return the arguments so far, never changed later; of a long text they may be a little behind."""
        size = self.pieces.size
        grown = size - self._read_chars
        if grown > 0 and (size <= ALWAYS_PARSED_CHARS or grown >= size >> GROWTH_SHIFT):
            guess = guess_arguments(self.pieces.text())
            # After an unreadable part the last readable arguments are kept.
            self._guess = self._guess if guess is None else guess
            self._read_chars = size
        return self._guess


def repair_strings(text: str) -> str:
    """Escape what a JSON string must not contain: control characters, invalid escapes, unpaired surrogates."""
    return _STRING.sub(lambda string: _ESCAPE_OR_CONTROL.sub(_escaped, string.group()), text)


def _escaped(match: re.Match[str]) -> str:
    found = match.group()
    if match["half"]:
        return r"\ufffd"
    if len(found) > 1:
        return found
    return _SHORT_ESCAPES.get(found) or f"\\u{ord(found):04x}"


def _shown(text: str) -> str:
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]}... [truncated {len(text) - MAX_SHOWN_CHARS} chars]"
