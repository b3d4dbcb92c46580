"""When faults strike: at a scheduling step, at an operation of the disk or behind it, or at a record that is read."""

import math
import random
from typing import Final, NamedTuple

_MOST_BEHIND: Final = 30
"""Scheduling steps between an operation of the disk and a fault that follows it."""
ANY_RECORD: Final = "record"
"""In place of the type of a record."""
UPDATE: Final = "message_update"
"""The type of which a record counts only if it follows one of another type: the first one of a message."""
_RECORDS: Final = (("response", 15), (UPDATE, 8), ("message_start", 8), ("queue_update", 6), (ANY_RECORD, 40))
"""Types of records at which faults strike, and at most at which of them."""
_UNREAD: Final = 12
_READ: Final = 0.6
"""How often the client has the record at which the machine crashes."""


class Moment(NamedTuple):
    """When something happens in a span."""

    step: int
    """At which scheduling step; 0: behind an operation."""
    operation: int
    """At which operation of the disk; 0: at a step."""
    behind: int = 0
    """So many steps behind the operation; 0: just before it."""


class RecordMoment(NamedTuple):
    """When something happens in a span: at a record that a client reads."""

    record: str
    """Of this type, or `ANY_RECORD`."""
    number: int
    """Which of these."""
    is_read: bool
    """Whether the client has the record; else its reading is what does not happen any more."""


def draw_moment(draws: random.Random, first_step: int, last_step: int, last_operation: int) -> Moment:
    """Draw a moment: a step, early ones more often, or an operation, or a step behind one."""
    step = round(math.exp(draws.uniform(math.log(first_step), math.log(last_step))))
    operation, behind = 1 + draws.randrange(last_operation), draws.choice((0, 1 + draws.randrange(_MOST_BEHIND)))
    return Moment(step, 0) if draws.random() < 0.5 else Moment(0, operation, behind)


def draw_moment_behind(draws: random.Random, last_operation: int) -> Moment:
    """Draw a moment some steps behind an operation."""
    return Moment(0, 1 + draws.randrange(last_operation), 1 + draws.randrange(_MOST_BEHIND))


def draw_record_moment(draws: random.Random, *, is_read: bool | None = None) -> RecordMoment:
    """Draw a moment at a record: what it promises must hold from then on."""
    record, most = draws.choice(_RECORDS)
    has_it = draws.random() < _READ
    return RecordMoment(record, 1 + draws.randrange(most), has_it if is_read is None else is_read)


def draw_unread_answer(draws: random.Random) -> RecordMoment:
    """Draw a moment at an answer that the client does not get."""
    return RecordMoment("response", 1 + draws.randrange(_UNREAD), is_read=False)


def draw_double_crash(draws: random.Random, last_operation: int) -> tuple[Moment, RecordMoment]:
    """Draw a crash at an operation of the disk, and one of the next life, at the answer to what is repeated."""
    at_work = Moment(0, 1 + draws.randrange(last_operation))
    return at_work, RecordMoment("response", 1 + draws.randrange(4), is_read=True)
