"""A badge of what an agent keeps of a set of requirements: an SVG, or the JSON that shields.io reads. Pure.

It names the set and the protocol, and of each tier how many scenarios are kept. Without colours it says the same.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

from pinnace_fuzz.judge.requirements.sets import TIERS

_GREEN: Final = "#2e7d32"
_YELLOW: Final = "#9a6700"
_RED: Final = "#b3261e"
_GREY: Final = "#5f5f5f"
_CHARACTER: Final = 6.6
"""Pixels, about, of a character of eleven pixels in the fonts that browsers have; `textLength` makes it so exactly."""
_SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {message}">
<title>{label}: {message}</title>
<rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="6" y="14" textLength="{left_text}">{label}</text>
<text x="{start}" y="14" textLength="{right_text}">{message}</text>
</g>
</svg>
"""


def words(requirements: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the label, the message and the colour; `requirements` is the part of a JSON report."""
    tiers = requirements["tiers"]
    label = f"{requirements['protocol']}, {requirements['set']}"
    shown = [f"{tier} {tiers[tier]['kept']}/{tiers[tier]['scenarios']}" for tier in TIERS if tiers[tier]["scenarios"]]
    colour = _RED if tiers["must"]["broken"] else _YELLOW if tiers["should"]["broken"] else _GREEN
    is_judged = any(tiers[tier]["kept"] or tiers[tier]["broken"] for tier in TIERS)
    return label, ", ".join(shown) if is_judged else "not judged", colour if is_judged else _GREY


def svg(requirements: Mapping[str, Any]) -> str:
    """Draw it."""
    label, message, colour = words(requirements)
    left_text, right_text = (round(_CHARACTER * len(each)) for each in (label, message))
    left, right = left_text + 12, right_text + 12
    return _SVG.format(
        width=left + right,
        left=left,
        right=right,
        start=left + 6,
        left_text=left_text,
        right_text=right_text,
        label=escape(label),
        message=escape(message),
        colour=colour,
    )


def endpoint(requirements: Mapping[str, Any]) -> str:
    """Write what the `endpoint` badge of shields.io reads."""
    label, message, colour = words(requirements)
    return json.dumps({"schemaVersion": 1, "label": label, "message": message, "color": colour}) + "\n"
