"""Finds the tool because of which a provider has refused a request: by its name in the text, or by its place.

Pure. Some APIs name the tool, others its place among the tools of the request.
"""

import re
from collections.abc import Sequence
from typing import Final

_PLACES: Final = (
    re.compile(r"function_?declarations(?:\.|\[)(\d+)", re.IGNORECASE),  # Google, within tools[0]
    re.compile(r"\btools(?:\.|\[)(\d+)"),  # Anthropic, OpenAI
)


def refused_tool(text: str, names: Sequence[str]) -> str | None:
    """Return the tool that the text of a refusal names; None: it names none.

    Args:
        text: Of the failure.
        names: Of the tools of the request, in its order.
    """
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
            return name
    for pattern in _PLACES:
        if found := pattern.search(text):
            place = int(found[1])
            return names[place] if place < len(names) else None
    return None
