"""What a refusal of the chart says: a fixed text, or the job's own. For clients, and for who asks from inside."""

from collections.abc import Mapping
from typing import Final

from pinnace_spec import errors
from pinnace_statechart import effects as fx

_FIXED: Final[Mapping[str, tuple[str, errors.ErrorCode]]] = {
    "busy": (errors.BUSY, errors.ErrorCode.BUSY),
    "queue_full": (errors.QUEUE_FULL, errors.ErrorCode.QUEUE_FULL),
    "compacting": (errors.COMPACTING, errors.ErrorCode.COMPACTING),
    "compaction_in_progress": (errors.COMPACTION_IN_PROGRESS, errors.ErrorCode.COMPACTION_IN_PROGRESS),
    "aborted": (errors.ABORTED_BEFORE_START, errors.ErrorCode.ABORTED),
    "compaction_cancelled": (errors.COMPACTION_CANCELLED, errors.ErrorCode.COMPACTION_CANCELLED),
    "shutdown": (errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN),
}


def refusal(effect: fx.Refuse) -> errors.ClientError:
    """Return what a refused command is told, if it is a command (a line that is none has its own error)."""
    if effect.reason == "job":
        code = errors.ErrorCode(effect.code) if effect.code else errors.ErrorCode.INTERNAL_ERROR
        return errors.ClientError(effect.text, code)
    return errors.ClientError(*_FIXED[effect.reason])
