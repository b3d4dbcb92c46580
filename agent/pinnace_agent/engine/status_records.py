"""Records about a run, a session or an extension beside its messages, and the errors of refused commands.

Shapes only: the statechart decides when they are written. `session_changed` is written where the conversation that
reads show becomes another one, at three places: `SessionManager` adopts another session, `Navigator` moves the leaf,
and a session is continued behind what another process has appended. No task runs between the change and its record, so
a client that loads the conversation again after the record, and after no other, always shows the current one. The
record has no messages: a session may be long, and most clients page or filter it. Rules R-RTY-01, R-RTY-02, R-SET-01,
R-LIM-01, R-SES-16, R-SES-17.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pinnace_agent.core.ports.emitter import Record
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_spec.records.messages import AssistantMessage, ChangeOrigin, Model, SessionChange
from pinnace_spec.rules import errors
from pinnace_statechart import effects as fx

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.session.conversation import Session

WARNED_EVENTS: Final = frozenset({"load", "context_window"})
"""The events of `extension_error` that are warnings as well: stderr has them, and `get_state`."""


def retry_start(effect: fx.RetryStart, failure: AssistantMessage | None) -> Record:
    """Make `auto_retry_start`: the failure, and when the next attempt begins."""
    record: dict[str, object] = {
        "type": "auto_retry_start",
        "attempt": effect.attempt,
        "maxAttempts": effect.max_attempts,
        "delayMs": round(effect.delay_s * 1000),
        "errorMessage": "" if failure is None else failure.get("errorMessage", ""),
    }
    return record | _failure_fields(failure)


def retry_end(effect: fx.RetryEnd, error: str, failure: AssistantMessage | None) -> Record:
    """Make `auto_retry_end`: it worked, or the last error is final."""
    record: dict[str, object] = {"type": "auto_retry_end", "success": effect.success, "attempt": effect.attempt}
    if not effect.success:
        record["finalError"] = errors.RETRY_CANCELLED if effect.cancelled else error or errors.NO_ROOM_TO_ANSWER
        if not effect.cancelled:
            record |= _failure_fields(failure)
    return record


def _failure_fields(failure: AssistantMessage | None) -> dict[str, object]:
    """Return the fields of a failed message that are for programs."""
    fields = {} if failure is None else {name: failure.get(name) for name in ("errorCode", "status", "attempts")}
    return {name: value for name, value in fields.items() if value is not None}


def agent_settled(effect: fx.AgentSettled) -> Record:
    """Make `agent_settled`."""
    record: dict[str, object] = {"type": "agent_settled", "aborted": effect.aborted}
    if effect.limit is not None:
        record |= {"reason": "limit", "limit": effect.limit}
    return record


def session_changed(session: "Session", reason: SessionChange, by: ChangeOrigin | None) -> Record:
    """Make `session_changed`: what reads show from now on. Emitted where that changes, before any other task runs."""
    record: dict[str, object] = {"type": "session_changed", "reason": reason}
    if by is not None:
        record["by"] = by
    record["sessionId"] = session.id
    if session.path is not None:
        record["sessionFile"] = session.path
    record["leafId"] = session.tree.leaf_id
    return record


def origin_of(ref: int) -> ChangeOrigin:
    """Return whose command has a number: those of extensions are below zero."""
    return "extension" if ref < 0 else "client"


def window_warning(model: Model, tokens: int) -> str:
    """Return the warning that a model's context window is configured larger than its server's."""
    name = f"{model['provider']}/{model['id']}"
    return (
        f"contextWindow of {name} is {model['contextWindow']} tokens, but its server takes {tokens}: "
        f"set contextWindow to {tokens} in models.json, so that conversations are compacted in time"
    )


def unknown_stop_reason_warning(model_name: str, reason: str) -> str:
    """Return the warning that an answer ended for a reason that is not known, and counts as a success."""
    shown = REDACTOR.text(reason)
    return f"{model_name} ended an answer with the unknown stop reason {shown!r}; the answer counts as complete"


_FIXED: Final[Mapping[str, tuple[str, errors.ErrorCode]]] = {
    "busy": (errors.BUSY, errors.ErrorCode.BUSY),
    "queue_full": (errors.QUEUE_FULL, errors.ErrorCode.QUEUE_FULL),
    "compacting": (errors.COMPACTING, errors.ErrorCode.COMPACTING),
    "compaction_in_progress": (errors.COMPACTION_IN_PROGRESS, errors.ErrorCode.COMPACTION_IN_PROGRESS),
    "navigation_busy": (errors.NAVIGATION_BUSY, errors.ErrorCode.BUSY),
    "navigation_compacting": (errors.NAVIGATION_COMPACTING, errors.ErrorCode.COMPACTING),
    "reload_busy": (errors.RELOAD_BUSY, errors.ErrorCode.BUSY),
    "reload_compacting": (errors.RELOAD_COMPACTING, errors.ErrorCode.COMPACTING),
    "aborted": (errors.ABORTED_BEFORE_START, errors.ErrorCode.ABORTED),
    "compaction_cancelled": (errors.COMPACTION_CANCELLED, errors.ErrorCode.COMPACTION_CANCELLED),
    "shutdown": (errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN),
}


def refusal(effect: fx.Refuse) -> errors.ClientError:
    """Return the error of a refused command; a line that is no command has an error of its own."""
    if effect.reason == "job":
        code = errors.ErrorCode(effect.code) if effect.code else errors.ErrorCode.INTERNAL_ERROR
        return errors.ClientError(effect.text, code)
    return errors.ClientError(*_FIXED[effect.reason])
