"""The extended state: everything that the rows need to remember beside the states of the regions.

Data only; changed by actions and by nobody else. Meaning of held, owed, period, barrier and line: the vocabulary of
`spec/README.md` and rules C-1 to C-17.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from pinnace_spec.limits import MAX_QUEUED_MESSAGES, LimitName
from pinnace_statechart.effects import CompactionReason
from pinnace_statechart.queues import Item, MessageQueue
from pinnace_statechart.triggers import Command


class PendingAbort(NamedTuple):
    """An `abort` that waits for RUN to end. `cleared` is what it itself removed, for its response."""

    ref: int
    cleared: tuple[tuple[str, ...], tuple[str, ...]] | None


class RetryPolicy(NamedTuple):
    """When to try again: attempt n waits `base_delay_s` * 2^(n-1), at most `max_delay_s`."""

    enabled: bool = True
    max_attempts: int = 3
    base_delay_s: float = 2.0
    max_delay_s: float = 60.0


@dataclass(slots=True)
class ExtendedState:
    """What the chart remembers. Invariant between steps: RUN idle implies queues empty or held (C-2)."""

    steering: MessageQueue = field(default_factory=MessageQueue)
    follow_up: MessageQueue = field(default_factory=MessageQueue)
    max_queued: int = MAX_QUEUED_MESSAGES  # in both queues together (R-QUE-11)
    held: bool = False  # an abort parked what is queued (C-1)
    period: bool = False  # what get_state shows as isStreaming; agent_settled is written when it falls (C-8)
    cancelled: bool = False  # the last thing that worked in this period was cut short
    limit: LimitName | None = None  # why it was, if a limit did it (R-LIM-01)
    own: Item | None = None  # the prompt in preflight
    own_appended: bool = False  # its text is in the session, not yet answered
    aborts: list[PendingAbort] = field(default_factory=list[PendingAbort])
    line: deque[Command] = field(default_factory=deque[Command])  # what waits behind a barrier (C-9)
    reading: Command | None = None  # a text that extensions read before it is queued
    reading_job: int = 0
    commands: list[int] = field(default_factory=list[int])  # refs of running commands of extensions
    has_extensions: bool = False  # they are asked before the agent settles
    boundary_due: bool = False  # and have not been since the last run
    asking: Command | None = None
    asking_job: int = 0
    approved: Command | None = None  # a session command that may replace the session once RUN is idle, or does
    pending_compact: Command | None = None  # a compact that waits for RUN to end
    compact_ref: int = 0  # the compact that is being carried out, 0 when nobody asked for it
    compaction: CompactionReason | None = None  # reason of the open compaction bracket
    run_open: bool = False  # between agent_start and agent_end
    retry_open: int = 0  # the attempt that auto_retry_start announced and auto_retry_end has not closed
    attempt: int = 0
    overflow_tried: bool = False
    threshold_checked: bool = False  # this preflight has compacted already (C-14)
    job: int = 0  # number of RUN's job or timer, 0 when none lives
    last_job: int = 0
    shells: list[int] = field(default_factory=list[int])  # refs of running bash commands
    finished_shells: list[int] = field(default_factory=list[int])  # ended, not yet in the conversation
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    auto_compaction: bool = True
    cleared: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # withdrawn in this step, for its response

    @property
    def owed(self) -> bool:
        """Whether something is queued and may be delivered without a further command."""
        return not self.held and bool(len(self.steering) or len(self.follow_up))

    def next_job(self) -> int:
        """Number a new job."""
        self.last_job += 1
        return self.last_job
