"""Tool arguments: JSON text that arrives in pieces, and sometimes broken.

Pure. While it arrives it is read as far as it goes; once complete it is read strictly, after a repair of what
models get wrong inside strings. Must not know which tool it is for.
"""

import re
from typing import Final, NamedTuple

from pinnace_agent.llm.json_edge import as_object, kind_of, map_strings
from pinnace_agent.llm.pieces import Pieces, join_halves
from pinnace_spec.wire import WireError, decode_line

# Shown to the model, so that it sees what it wrote; a file's worth of it would only fill its context.
MAX_SHOWN_CHARS: Final = 4000

# A parse is repeated for every piece up to here, and beyond only when the text has grown by a sixteenth: all
# parses of one text together then cost no more than some thirty parses of the whole.
ALWAYS_PARSED_CHARS: Final = 2048
GROWTH_SHIFT: Final = 4

_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_ESCAPE_OR_CONTROL: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a character in two halves
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r'|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\|[\x00-\x1f]'
)
_SHORT_ESCAPES: Final = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}


class Arguments(NamedTuple):
    """Arguments as a tool gets them; `error` says why they are empty although the model sent some."""

    value: dict[str, object]
    error: str | None


def read_arguments(text: str) -> Arguments:
    """Read complete arguments: as they are, else repaired. Nothing at all is no arguments."""
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
            return Arguments(as_object(map_strings(value, join_halves)) or {}, None)
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
    """What the arguments of one call say so far. Parsed when asked, and not every time."""

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
            # What cannot be read ends what is shown; it does not take back what was shown before.
            self._guess = self._guess if guess is None else guess
            self._read_chars = size
        return self._guess


def repair_strings(text: str) -> str:
    """Escape what no JSON string may hold: control characters, backslashes that escape nothing, half characters."""
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
