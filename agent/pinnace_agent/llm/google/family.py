"""The kinds of models that Google serves, and what each accepts.

Pure. Decides by the model's id, since the API has one address for all of them and refuses fields that a kind does not
know. Independent of the rest of a request.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from pinnace_spec.records.messages import ThinkingLevel

_GEMINI: Final = re.compile(r"gemini(?:-live)?-(\d+)")
# Aliases of the newest release; they have named models of the third generation or later since that.
_LATEST: Final = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest")
_GEMMA_4: Final = re.compile(r"gemma-?4(?!\d)")
# Models of other vendors, which some gateways serve by the same API.
_FOREIGN: Final = re.compile(r"(?:\A|/)(?:claude|gpt-oss)-")


def _levels(minimal: str, low: str, medium: str) -> Mapping[ThinkingLevel, str]:
    """Return the words of the levels; `off` is the lowest level of such a model, and none is above high."""
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

# The first matching part of an id counts. The smallest and the largest are the limits that Google publishes; the
# large model of this generation can't turn thinking off.
_BUDGETS: Final = (
    ("2.5-flash-lite", _budgets(0, 512, 24_576)),
    ("2.5-flash", _budgets(0, 128, 24_576)),
    ("2.5-pro", _budgets(128, 128, 32_768)),
)
# The model decides the amount of thinking.
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
    """What a kind of model accepts."""

    has_call_ids: bool
    """Calls and results are paired by id, not by order alone."""
    nests_images: bool
    """A tool's result may hold images."""
    demands_signatures: bool
    """The first call of an answer is refused without the signature of the thoughts behind it."""
    holds_calls_to_schemas: bool
    """The arguments of calls can be held to the schemas of tools."""
    levels: Mapping[ThinkingLevel, str] | None
    """Its words for thinking levels; None: it takes a number of tokens."""
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
        holds_calls_to_schemas=found is not None and int(found[1]) >= 3,
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
