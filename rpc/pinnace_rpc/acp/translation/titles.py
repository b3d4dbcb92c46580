"""What a list of sessions shows of one: its title, and when it was changed. The same live and in a list."""

from datetime import UTC, datetime
from typing import Final

from pinnace_spec.printable import printable

_MAX_CHARS: Final = 80


def session_title(name: str | None, first_message: str) -> str:
    """Return the name that the user has given, else the first line of the first message; empty if there is neither."""
    return printable((name or first_message.strip().partition("\n")[0])[:_MAX_CHARS])


def date_text(time_s: float) -> str:
    """Return a time, in seconds since the epoch, as clients read it."""
    return datetime.fromtimestamp(time_s, UTC).isoformat()
