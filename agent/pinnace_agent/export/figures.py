"""Numbers, times and first lines as people read them.

Pure. Takes anything, since files hold anything: what is no number or time is left out.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from pinnace_agent.core.json_access import as_amount, as_count, as_object
from pinnace_agent.session.store.entries import time_ms

_BLANKS = re.compile(r"\s+")
# What means nothing on a line of plain text: colours of a terminal, marks of Markdown.
_DECORATION = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]|\*\*|```\w*|`|^#+ |[=\-_*]{4,}", re.MULTILINE)


def moment(*stamps: object) -> datetime | None:
    """Return the time of the first valid one of some timestamps, in UTC."""
    for stamp in stamps:
        stamp_ms = time_ms(stamp)
        if stamp_ms is not None:
            try:
                return datetime.fromtimestamp(stamp_ms / 1000, UTC)
            except (OverflowError, OSError, ValueError):
                continue
    return None


def count(number: int) -> str:
    """Write a number with its thousands apart."""
    return f"{number:,}"


def dollars(amount: float) -> str:
    """Write a cost: cents, and parts of them only where they matter."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def usage_words(usage: object) -> list[str]:
    """Describe what a request used."""
    counts = as_object(usage)
    if counts is None:
        return []
    words: list[str] = []
    for name, label in (("input", "in"), ("output", "out"), ("cacheRead", "cache read"), ("cacheWrite", "cache write")):
        number = as_count(counts.get(name))
        if number:
            words.append(f"{count(number)} {label}")
    spent = as_object(counts.get("cost"))
    cost = as_amount(spent.get("total")) if spent else None
    return [*words, dollars(cost)] if cost else words


def duration_words(message: Mapping[str, object]) -> list[str]:
    """Describe how long something took."""
    stamp_ms = as_count(message.get("durationMs"))
    return [] if stamp_ms is None else [f"{stamp_ms / 1000:.1f} s"]


def first_words(text: str, limit: int) -> str:
    """Return the beginning of a text on one line, as plain text."""
    line = _BLANKS.sub(" ", _DECORATION.sub("", text[: limit * 4])).strip()
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"
