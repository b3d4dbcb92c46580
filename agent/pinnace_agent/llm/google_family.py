"""What kinds of models Google serves, and what each kind takes.

Pure. Decides by the model's id, since the API answers the same address for all of them and refuses what a kind does
not know. Must not know the rest of a request.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from pinnace_spec.messages import ThinkingLevel

_GEMINI: Final = re.compile(r"gemini(?:-live)?-(\d+)")
# Names that move on to each new release; since the third generation they have stood for one of its kind or later.
_LATEST: Final = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest")
_GEMMA_4: Final = re.compile(r"gemma-?4(?!\d)")
# Models of others, which the same API serves behind some gateways.
_FOREIGN: Final = re.compile(r"(?:\A|/)(?:claude|gpt-oss)-")


def _levels(minimal: str, low: str, medium: str) -> Mapping[ThinkingLevel, str]:
    """Make a row of words; `off` is the least that such a model can think, and there is nothing above high."""
    high = "HIGH"
    return MappingProxyType(
        {"off": minimal, "minimal": minimal, "low": low, "medium": medium, "high": high, "xhigh": high, "max": high}
    )


def _budgets(off: int, minimal: int, high: int) -> Mapping[ThinkingLevel, int]:
    low, medium = 2048, 8192
    return MappingProxyType(
        {"off": off, "minimal": minimal, "low": low, "medium": medium, "high": high, "xhigh": high, "max": high}
    )


_PRO_LEVELS: Final = _levels("LOW", "LOW", "MEDIUM")
_FIRST_PRO_LEVELS: Final = _levels("LOW", "LOW", "HIGH")
_FLASH_LEVELS: Final = _levels("MINIMAL", "LOW", "MEDIUM")
_GEMMA_LEVELS: Final = _levels("MINIMAL", "MINIMAL", "HIGH")

# The first part of an id that is found counts. The smallest and the largest are the limits that Google publishes; the
# large model of this generation can't be told not to think.
_BUDGETS: Final = (
    ("2.5-flash-lite", _budgets(0, 512, 24_576)),
    ("2.5-flash", _budgets(0, 128, 24_576)),
    ("2.5-pro", _budgets(128, 128, 32_768)),
)
# The model decides how much it thinks.
DYNAMIC: Final = -1
_UNKNOWN: Final[Mapping[ThinkingLevel, int]] = MappingProxyType(
    {
        "off": 0,
        "minimal": DYNAMIC,
        "low": DYNAMIC,
        "medium": DYNAMIC,
        "high": DYNAMIC,
        "xhigh": DYNAMIC,
        "max": DYNAMIC,
    }
)


class Family(NamedTuple):
    """What a kind of model takes."""

    has_call_ids: bool
    """Calls and results are paired by id, not by order alone."""
    nests_images: bool
    """A tool's result may hold images."""
    demands_signatures: bool
    """The first call of an answer is refused without the signature of the thoughts behind it."""
    levels: Mapping[ThinkingLevel, str] | None
    """How much it shall think, in words; None: it takes a number of tokens."""
    budgets: Mapping[ThinkingLevel, int]


def family_of(model_id: str) -> Family:
    """Recognise a model; the last part of an id counts, as in `models/gemini-3-flash-preview`."""
    name = model_id.lower()
    found = _GEMINI.search(name)
    is_latest = _LATEST.search(name) is not None
    is_third = is_latest or (found is not None and int(found[1]) >= 3)
    return Family(
        has_call_ids=is_third or _FOREIGN.search(name) is not None,
        nests_images=is_third,
        demands_signatures=is_third,
        levels=_levels_of(name, int(found[1]) if found else 0, is_latest),
        budgets=next((budgets for part, budgets in _BUDGETS if part in name), _UNKNOWN),
    )


def _levels_of(name: str, generation: int, is_latest: bool) -> Mapping[ThinkingLevel, str] | None:
    if _GEMMA_4.search(name):
        return _GEMMA_LEVELS
    is_pro = "-pro" in name
    if not (is_latest or generation >= 4 or (generation == 3 and (is_pro or "-flash" in name))):
        return None
    if not is_pro:
        return _FLASH_LEVELS
    return _FIRST_PRO_LEVELS if "gemini-3-pro" in name else _PRO_LEVELS
