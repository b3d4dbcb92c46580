"""When an entry was made, in milliseconds since the epoch.

Pure. Entries tell it as ISO 8601; other programs, and old versions, in other forms of it or not at all. Must not know
what an entry means.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from pinnace_agent.llm.json_edge import as_count

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def time_ms(timestamp: object) -> int | None:
    """Return the time that an entry's timestamp tells, or None if it tells none. Without a zone it is UTC."""
    if not isinstance(timestamp, str):
        return as_count(timestamp)  # milliseconds, as in messages
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND
