"""Repairs JSON text of models whose strings hold what JSON does not allow: line ends, other controls, bad escapes.

Pure.
"""

import re
from typing import Final

_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_ESCAPE_OR_CONTROL: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair in two escapes
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r'|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\|[\x00-\x1f]'
)
_SHORT_ESCAPES: Final = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}


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
