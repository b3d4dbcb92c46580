"""Records that tell what becomes of a run, or of an extension, beside its messages.

Shapes only: when they are written is the chart's to know. Rules R-RTY-01, R-RTY-02, R-SET-01, R-LIM-01.
"""

from pinnace_agent.emitter import Record
from pinnace_spec import errors
from pinnace_spec.messages import AssistantMessage, Model
from pinnace_statechart import effects as fx


def retry_start(effect: fx.RetryStart, failure: AssistantMessage | None) -> Record:
    """Make `auto_retry_start`: what has failed is tried again, and when."""
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
    """Return what a failed message says to programs."""
    fields = {} if failure is None else {name: failure.get(name) for name in ("errorCode", "status", "attempts")}
    return {name: value for name, value in fields.items() if value is not None}


def agent_settled(effect: fx.AgentSettled) -> Record:
    """Make `agent_settled`."""
    record: dict[str, object] = {"type": "agent_settled", "aborted": effect.aborted}
    if effect.limit is not None:
        record |= {"reason": "limit", "limit": effect.limit}
    return record


def extension_error(path: str, event: str, text: str) -> Record:
    """Make `extension_error`: also for failures beside commands that are no extension's."""
    return {"type": "extension_error", "extensionPath": path, "event": event, "error": text}


def window_warning(model: Model, tokens: int) -> str:
    """Word that a model's context window is set larger than its server says."""
    name = f"{model['provider']}/{model['id']}"
    return (
        f"contextWindow of {name} is {model['contextWindow']} tokens, but its server takes {tokens}: "
        f"set contextWindow to {tokens} in models.json, so that conversations are compacted in time"
    )
