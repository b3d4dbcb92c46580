"""The extended state: everything that the rows need to remember beside the states of the regions.

Data only; changed by actions alone. The vocabulary of `spec/README.md` and rules C-1 to C-17 say what the names mean.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pinnace_spec.rules.limits import MAX_QUEUED_MESSAGES, LimitName
from pinnace_statechart.effects import CompactionReason
from pinnace_statechart.queues import Item, MessageQueue
from pinnace_statechart.triggers import Command


class PendingAbort(NamedTuple):
    """An `abort` that waits for RUN to end. `cleared` is what it itself removed, for its response."""

    ref: int
    cleared: tuple[tuple[str, ...], tuple[str, ...]] | None


SavingAfter = Literal["accept", "hold", "withdraw"]
"""No abort has come since; an abort keeps it in the paused queue; an abort returns it."""


class RetryPolicy(NamedTuple):
    """When to try again: attempt n waits `base_delay_s` * 2^(n-1), at most `max_delay_s`."""

    enabled: bool = True
    max_attempts: int = 3
    base_delay_s: float = 2.0
    max_delay_s: float = 60.0


@dataclass(slots=True)
class ExtendedState:
    """What the chart remembers. Invariant between steps: RUN idle implies queues empty or paused (C-2)."""

    steering: MessageQueue = field(default_factory=MessageQueue)
    follow_up: MessageQueue = field(default_factory=MessageQueue)
    max_queued: int = MAX_QUEUED_MESSAGES  # in both queues together (R-QUE-11)
    queue_paused: bool = False  # an abort has paused delivery of what is queued (C-1)
    streaming: bool = False  # what get_state shows as isStreaming; agent_settled is written when it falls (C-8)
    cancelled: bool = False  # the last job of this interval was cut short
    limit: LimitName | None = None  # why it was, if a limit did it (R-LIM-01)
    pending_prompt: Item | None = None  # the prompt in preflight
    aborts: list[PendingAbort] = field(default_factory=list[PendingAbort])
    deferred_commands: deque[Command] = field(default_factory=deque[Command])  # what waits behind a barrier (C-9)
    reading: Command | None = None  # a text that extensions read before it is queued
    reading_job: int = 0
    saving: Command | None = None  # a text on its way to the disk, before it is queued (R-QUE-12)
    saving_job: int = 0
    saving_after: SavingAfter = "accept"  # what becomes of it once it is there
    running_extension_commands: list[int] = field(default_factory=list[int])  # refs of running commands of extensions
    has_extensions: bool = False  # which are asked before the agent settles
    settle_hook_due: bool = False  # the extensions have not been asked since the last run
    confirming: Command | None = None  # a session command that is validated, and confirmed by extensions
    confirming_job: int = 0
    confirmed_switch: Command | None = None  # a session command that may replace the session once RUN is idle
    switching_ref: int = 0  # the session command that is being carried out
    pending_compact: Command | None = None  # a compact that waits for RUN to end
    compact_ref: int = 0  # the compact that is being carried out, 0 when no client asked for it
    navigation_ref: int = 0  # the command that moves the session now
    reload_ref: int = 0  # the command that reads the user's files again now
    compaction: CompactionReason | None = None  # reason of the open compaction bracket
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
    def has_deliverable(self) -> bool:
        """Whether something is queued and may be delivered without a further command."""
        return not self.queue_paused and bool(len(self.steering) or len(self.follow_up))

    @property
    def is_owed(self) -> bool:
        """Whether a run follows without a further command: a message that is being saved will be delivered."""
        return self.has_deliverable or (self.saving is not None and self.saving_after == "accept")

    def next_job(self) -> int:
        """Number a new job."""
        self.last_job += 1
        return self.last_job
