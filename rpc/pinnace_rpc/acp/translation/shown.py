"""What a session shows its client, in no version of the protocol: each version has updates of its own for it.

Values of this module say what has happened to the conversation and never how a version writes it, so a further version
adds a room beside `v1` and `v2` and changes nothing here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

Json: TypeAlias = Mapping[str, object]
Status: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
ENDED: Final = ("completed", "failed", "cancelled")
Severity: TypeAlias = Literal["info", "warning", "error"]
Update: TypeAlias = dict[str, object]
"""An update of a version, as it is written."""


@dataclass(slots=True)
class Call:
    """A call of a tool, as the client knows it."""

    id: str
    tool: str
    status: Status = "pending"
    arguments: Json = field(default_factory=dict[str, object])
    agent_id: str = ""
    """By which the agent's questions name it."""
    entry: str = ""
    """The entry that its result will be, by which it can be aborted; empty: it is not known."""


class UserMessage(NamedTuple):
    """A message of the user is in the conversation."""

    entry: str
    blocks: Sequence[Json]
    """Content blocks, which are the same in every version."""
    is_own: bool = False
    """This client has sent it."""
    given_as: str = ""
    """The name that a client has given it; empty: it has none."""


class Said(NamedTuple):
    """A piece of an answer or of the thoughts before it."""

    entry: str
    kind: Literal["message", "thought"]
    text: str
    is_whole: bool = False
    """A whole block of a complete message, and not what streams."""
    custom_type: str | None = None
    """Of the message of an extension; None: it is the model's."""


class CallAnnounced(NamedTuple):
    """A call begins to come; its arguments are not known."""

    call: Call


class CallDescribed(NamedTuple):
    """The arguments of a call are known."""

    call: Call


class CallProgressed(NamedTuple):
    """A call has begun, or has written something."""

    call: Call
    has_begun: bool
    content: object
    """All of its output so far, as in a result; None: nothing new."""


class CallEnded(NamedTuple):
    """A call has a result."""

    call: Call
    result: Json


class CallFailed(NamedTuple):
    """A call is not carried out, or is given up; its status says which."""

    call: Call


class CallReplayed(NamedTuple):
    """A call of an earlier answer, with all that is known of it."""

    call: Call
    result: Json | None
    """None: it has none."""


class ShellReplayed(NamedTuple):
    """A command that the user has run in the session."""

    entry: str
    command: str
    output: str
    exit_code: int | None
    """None: unknown, or it was killed."""
    has_failed: bool


class CompactionBegan(NamedTuple):
    """The conversation so far is being summarised."""

    entry: str


class CompactionEnded(NamedTuple):
    """A compaction is over: with a summary, with an error, or with neither if it was cancelled."""

    entry: str
    summary: str | None
    error: str | None


class SummaryReplayed(NamedTuple):
    """A summary that is in the conversation."""

    entry: str
    summary: str
    of: Literal["compaction", "branch"]


class Retried(NamedTuple):
    """An answer has failed, and is asked for again."""

    entry: str
    """Of the failed answer, which is no part of the conversation any more; empty: there was none."""
    error: str
    details: Json


class InfoChanged(NamedTuple):
    """The title of the session has changed, or the time of its last change; None: it has not."""

    title: str | None = None
    updated_at: str | None = None


class TitleCleared(NamedTuple):
    """The session has no name any more."""


class DetailsChanged(NamedTuple):
    """Something has changed that no version has a field for: it goes into `_meta.pinnace`."""

    details: Json


class OptionsChanged(NamedTuple):
    """The options of the session are others now."""

    options: Sequence[Json]


class ModeChanged(NamedTuple):
    """Calls are approved in another way now."""

    mode: str


class CommandsChanged(NamedTuple):
    """The commands that a prompt may begin with are others now."""

    commands: Sequence["Command"]


class Command(NamedTuple):
    """A command that a prompt may begin with."""

    name: str
    description: str
    hint: str
    """Of its input; empty: it has none."""
    is_handled: bool = False
    """An extension carries it out, and no message of the user comes of it."""


class Spent(NamedTuple):
    """The tokens that the requests of a turn have used, by their kinds."""

    input: int
    output: int
    cache_read: int
    cache_write: int


class UsageChanged(NamedTuple):
    """So much of the context is used."""

    used: int
    size: int
    cost_usd: float | None


class Noticed(NamedTuple):
    """A message for the user that belongs to no answer."""

    severity: Severity
    title: str
    description: str = ""


class Remarked(NamedTuple):
    """A text of this program in the place of an answer."""

    text: str


class PlanChanged(NamedTuple):
    """What the agent is going to do, all of it."""

    id: str
    entries: Sequence[Json]
    """Each with `content`, `priority` and `status`."""


ChildState: TypeAlias = Literal["running", "completed", "failed", "cancelled", "interrupted"]


class ChildWorks(NamedTuple):
    """The session is that of a sub-agent, which works, or has ended."""

    state: ChildState


Shown: TypeAlias = (
    UserMessage
    | Said
    | CallAnnounced
    | CallDescribed
    | CallProgressed
    | CallEnded
    | CallFailed
    | CallReplayed
    | ShellReplayed
    | CompactionBegan
    | CompactionEnded
    | SummaryReplayed
    | Retried
    | InfoChanged
    | TitleCleared
    | DetailsChanged
    | OptionsChanged
    | ModeChanged
    | CommandsChanged
    | UsageChanged
    | Noticed
    | Remarked
    | PlanChanged
    | ChildWorks
)
