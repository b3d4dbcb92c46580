"""The operations that the statechart requests, in the order in which they are performed.

Values only. The interpreter performs all effects of a step with no checkpoint between them, so the order of effects is
the order of records on the wire. Effects name records and jobs; the interpreter knows the content of a record.
"""

from typing import Literal, NamedTuple

from pinnace_spec.records.messages import QueueMode
from pinnace_spec.rules.limits import LimitName
from pinnace_statechart.queues import Item

JobKind = Literal[
    "preflight",
    "sync",
    "run",
    "compaction",
    "navigation",
    "switch",
    "ask",
    "read",
    "save",
    "settle_hook",
    "instance",
    "reload",
]
CompactionReason = Literal["manual", "threshold", "overflow"]
CompactionOutcome = Literal["ok", "failed", "aborted"]
ReturnReason = Literal["clear_queue", "abort", "session_replaced"]
Disposition = Literal["started", "queued", "handled"]


class Accept(NamedTuple):
    """Answer a command with success. `kind` selects the data: a disposition, what was withdrawn, or none."""

    ref: int
    disposition: Disposition | None = None
    cleared: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    cancelled: bool | None = None


class Refuse(NamedTuple):
    """Answer a command with an error. `reason` names a fixed text; `text` and `code` are the job's own, for `job`."""

    ref: int
    reason: Literal[
        "busy",
        "queue_full",
        "compacting",
        "compaction_in_progress",
        "navigation_busy",
        "navigation_compacting",
        "reload_busy",
        "reload_compacting",
        "aborted",
        "compaction_cancelled",
        "shutdown",
        "job",
        "line",
    ]
    text: str = ""
    code: str = ""


class View(NamedTuple):
    """What a client can see of the chart at one moment."""

    pending: int
    """Texts of the user that wait: in both queues, and one that extensions still read."""
    is_streaming: bool
    is_compacting: bool
    is_bash_running: bool
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    auto_compaction: bool
    is_queue_paused: bool
    """Whether texts of the user are queued and wait for the next accepted message."""
    queued: tuple[tuple[Item, ...], tuple[Item, ...]] = ((), ())
    """The user's texts in the steering queue, and those in the queue of follow-ups."""


class Answer(NamedTuple):
    """Answer a read from the state as it is now.

    The view is of the read's own turn: the step may go on, and its later effects follow the answer.
    """

    ref: int
    view: View


class Perform(NamedTuple):
    """Carry out a settings command now and answer it."""

    ref: int


class QueueUpdate(NamedTuple):
    """Report the whole content of both queues."""

    steering: tuple[str, ...]
    follow_up: tuple[str, ...]


class StartJob(NamedTuple):
    """Start the one task behind a busy state. Its triggers carry `job`."""

    kind: JobKind
    job: int
    ref: int = 0
    check_threshold: bool = True
    reason: CompactionReason | None = None


class CancelJob(NamedTuple):
    """Cancel a job. It still reports once, and that report is its end."""

    job: int


class StartTimer(NamedTuple):
    """Report `delay_over` with this number after `delay_s` seconds."""

    job: int
    delay_s: float


class CancelTimer(NamedTuple):
    """Forget a timer; that is its end."""

    job: int


class LeaveFailed(NamedTuple):
    """Take the failed message out of the context: its request is sent again. It stays in the session."""


class CallModel(NamedTuple):
    """Let the run's job send the next request."""

    job: int


class CallTools(NamedTuple):
    """Let the run's job execute the calls of its last message."""

    job: int


class AgentStart(NamedTuple):
    """Write `agent_start`."""


class TurnStart(NamedTuple):
    """Write `turn_start`."""


class AppendPrompt(NamedTuple):
    """Append the text of the prompt in preflight to the session; nothing is reported yet."""

    item: Item


class DropPrompt(NamedTuple):
    """Take the appended text out of the branch again: its prompt is refused."""

    ref: int


class Deliver(NamedTuple):
    """Append a user text to the conversation, unless it is there; write its `message_start` and `message_end`."""

    item: Item
    is_appended: bool = False


class EndMessage(NamedTuple):
    """Write the assistant's `message_end` and append the message."""


class FailCalls(NamedTuple):
    """Give every tool call of the last message its unexecuted result (the answer was cut at the token limit)."""


class EndTools(NamedTuple):
    """Append the results of the turn's calls in call order."""


class TurnEnd(NamedTuple):
    """Write `turn_end`."""


class AgentEnd(NamedTuple):
    """Write `agent_end`."""

    will_retry: bool


class CloseRun(NamedTuple):
    """Close what is still open of a run, innermost first (C-15): it was cancelled, or failed with `error`."""

    error: str | None = None


class AgentSettled(NamedTuple):
    """Write `agent_settled`; `limit` is what ended the last run, if a limit did."""

    aborted: bool
    limit: LimitName | None = None


class RetryStart(NamedTuple):
    """Write `auto_retry_start`."""

    attempt: int
    max_attempts: int
    delay_s: float


class RetryEnd(NamedTuple):
    """Write `auto_retry_end`; `cancelled` when the delay was cut short, else the last error is the final one."""

    success: bool
    attempt: int
    cancelled: bool = False


class CompactionStart(NamedTuple):
    """Write `compaction_start`."""

    reason: CompactionReason


class CompactionEnd(NamedTuple):
    """Write `compaction_end`, with the job's result, or with `text`, why there is none."""

    reason: CompactionReason
    outcome: CompactionOutcome
    will_retry: bool = False
    text: str = ""


class AcceptCompact(NamedTuple):
    """Answer `compact` with the result of the compaction that just ended."""

    ref: int


class MoveLeaf(NamedTuple):
    """Move the session to the entry that the job has prepared, with the summary that it has, if any."""

    job: int


class AnswerNavigation(NamedTuple):
    """Answer `navigate_tree` with what has become of it: moved, or cancelled before that."""

    ref: int


class StartShell(NamedTuple):
    """Start the shell command of a client's `bash`."""

    ref: int


class KillShells(NamedTuple):
    """Kill the process groups of all `bash` commands. Each still answers at its process' end."""


class AnswerShell(NamedTuple):
    """Answer a `bash` whose process has ended."""

    ref: int


class RecordShell(NamedTuple):
    """Append the result of a `bash` to the session in which it was admitted."""

    ref: int


class KeepShell(NamedTuple):
    """Keep the result of a `bash` aside until it may be recorded: a run is open."""

    ref: int


class CancelAsk(NamedTuple):
    """Stop asking extensions about a session command, or letting them read a text."""

    job: int


class DefaultDialogs(NamedTuple):
    """Resolve every open dialog with its default; with `for_good` later ones can't be answered either."""

    for_good: bool = False


class ResolveDialog(NamedTuple):
    """Hand an `extension_ui_response` to the dialog that waits for it, if one does."""

    ref: int


class ResolveRequest(NamedTuple):
    """Hand a `client_response` to the call of a tool that waits for it, if one does."""

    ref: int


class StartCommand(NamedTuple):
    """Start the command of an extension that a prompt calls."""

    ref: int


class CancelCommands(NamedTuple):
    """End the commands of extensions that run. Each still reports its end."""


class CutStart(NamedTuple):
    """End the handlers that let the session in force begin, if some still run."""


class ReturnQueued(NamedTuple):
    """Mark queued texts as returned to the client; `ref` is the command whose answer returns them."""

    ref: int
    items: tuple[Item, ...]
    reason: ReturnReason


class Close(NamedTuple):
    """Everything is answered and closed: flush and leave."""


Effect = (
    Accept
    | Refuse
    | Answer
    | Perform
    | QueueUpdate
    | StartJob
    | CancelJob
    | StartTimer
    | CancelTimer
    | LeaveFailed
    | CallModel
    | CallTools
    | AgentStart
    | TurnStart
    | AppendPrompt
    | DropPrompt
    | Deliver
    | EndMessage
    | FailCalls
    | EndTools
    | TurnEnd
    | AgentEnd
    | CloseRun
    | AgentSettled
    | RetryStart
    | RetryEnd
    | CompactionStart
    | CompactionEnd
    | AcceptCompact
    | MoveLeaf
    | AnswerNavigation
    | StartShell
    | KillShells
    | AnswerShell
    | RecordShell
    | KeepShell
    | CancelAsk
    | DefaultDialogs
    | ResolveDialog
    | ResolveRequest
    | StartCommand
    | CancelCommands
    | CutStart
    | ReturnQueued
    | Close
)
