"""What enters the chart: commands of the client and internal events of jobs, shells and the process.

Plain values. A clock value, where one is needed, arrives inside a trigger. Must not know how a command looked on the
wire; `ref` stands for it. Names are those of `pinnace_spec.statechart.names`.
"""

from typing import Final, Literal, NamedTuple

from pinnace_spec.rules.limits import LimitName

Behavior = Literal["steer", "followUp"]
AbortQueue = Literal["hold", "clear", "continue"]
QueueMode = Literal["all", "one-at-a-time"]

NO_REPLY: Final = 0
"""In place of a serial number: an internal command without a reply.

Lower numbers belong to internal commands whose reply is awaited.
"""


class Command(NamedTuple):
    """One admitted record of the client.

    `ref` is its serial number of arrival, from 1: it stands for the record until the command is answered, and orders
    texts against aborts. Fields that a command does not have keep their defaults.
    """

    name: str
    ref: int
    text: str = ""
    blocks: tuple[object, ...] = ()
    """Of a text: the content behind it, which nothing expands: texts that go with it as context, then images."""
    behavior: Behavior | None = None
    queue: AbortQueue = "hold"
    mode: QueueMode | None = None
    enabled: bool = False
    limit: LimitName | None = None
    """Of an `abort` from inside: what was used up."""
    unread: bool = False
    """Of a text: whether extensions are to read it before it counts."""
    custom: object = None
    """Of a text: the message of an extension that it stands for, which is not the user's."""
    message_id: str = ""
    """Of a text of the user: its identity, which the client gave or the host made."""
    saved: bool = False
    """Of a text: whether it is in the session file as queued, so that it may be accepted."""

    @property
    def is_steering(self) -> bool:
        """Of a text that is queued: whether it is a steering message, and no follow-up."""
        return self.name == "steer" or self.behavior == "steer"


class InternalEvent(NamedTuple):
    """Something that a job, a shell or the process reports.

    A job's trigger carries its number in `job`; with another number than the living job's it is dropped. `text` is the
    error for the client and `code` its class; `ref` names a shell's command; `retry_after_s` is what a server
    asked for, in seconds. `content` is what a text has become, and the blocks behind it; `enabled` says whether the
    session instance that began has extensions, or whether a restored queue is delivered without a further command;
    `texts` are deferred commands as they are to be understood now, or queued ones of the session file; `requested` is
    what extensions want of the run, beyond what it would do anyway; `retry` is what settings that were read again say
    of attempts: how many, the first delay and the longest, in seconds.
    """

    name: str
    job: int = 0
    ref: int = 0
    text: str = ""
    code: str = ""
    threshold_due: bool = False
    retry_after_s: float | None = None
    content: tuple[str, tuple[object, ...]] | None = None
    enabled: bool = False
    requested: Literal["go_on", "end"] | None = None
    texts: tuple[Command, ...] = ()
    retry: tuple[int, float, float] | None = None


Trigger = Command | InternalEvent
