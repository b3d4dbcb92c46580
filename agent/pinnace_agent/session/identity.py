"""Ids and times of sessions and entries, and the names of session files.

Uses the clock and random bytes for ids, nothing else.
"""

import uuid
from collections.abc import Container
from datetime import UTC, datetime
from typing import Final

from pinnace_agent.core.surroundings import random_uuid, system, wall_time_ns

# 32 random bits: in a session of a million entries one try in 4,000 meets an id that is taken. A hundred in a row that
# do are no accident of numbers, so the id gets longer instead.
_ENTRY_ID_BYTES: Final = 4
_ENTRY_ID_TRIES: Final = 100


def new_session_id() -> str:
    """Return a UUID of version 7, which sorts by the time it was made; lower-case, with dashes."""
    return _uuid7()


def new_message_id() -> str:
    """Return an id for a message of the user that came without one: a UUID of version 7 too."""
    return _uuid7()


def _uuid7() -> str:
    milliseconds = wall_time_ns() // 1_000_000
    bits = milliseconds << 80 | int.from_bytes(system().urandom(10))
    bits = bits & ~(0xF << 76) | 0x7 << 76  # version 7
    bits = bits & ~(0x3 << 62) | 0x2 << 62  # the variant of RFC 9562
    return str(uuid.UUID(int=bits))


def new_entry_id(taken: Container[str]) -> str:
    """Return an id that is not taken: eight hexadecimal digits, or a UUID if none of those is found free."""
    for _ in range(_ENTRY_ID_TRIES):
        entry_id = system().urandom(_ENTRY_ID_BYTES).hex()
        if entry_id not in taken:
            return entry_id
    return random_uuid()


def iso_time(ms: int) -> str:
    """Write milliseconds since the epoch as UTC: `2026-01-02T03:04:05.678Z`."""
    seconds, milliseconds = divmod(ms, 1000)
    # Split before the division: a float of milliseconds is not exact.
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000, tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def file_name(session_id: str, ms: int) -> str:
    """Name a session's file after the time in its header and its id."""
    stamp = iso_time(ms).replace(":", "-").replace(".", "-")
    return f"{stamp}_{session_id}.jsonl"


class NotOne(Exception):
    """A reference does not name one session. `text` says why."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
