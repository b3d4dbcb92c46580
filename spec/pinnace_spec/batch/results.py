"""The result of a process as one record: what programs read that run it unattended.

The last record of mode json, and the content of `--result-file`. Types and tables alone. Rule R-RES-01.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from typing_extensions import TypedDict

from pinnace_spec.rules.limits import LimitName

RESULT_VERSION: Final = 1

ResultReason = Literal[
    "completed",
    "model_error",
    "output_limit",
    "empty_answer",
    "limit_turns",
    "limit_cost",
    "limit_time",
    "no_model",
    "no_key",
    "aborted",
    "interrupted",
    "session_error",
    "sandbox_unavailable",
    "tool_denied",
    "extension_error",
    "usage",
    "internal",
]

RESULT_REASONS: Final[tuple[ResultReason, ...]] = get_args(ResultReason)

LIMIT_REASONS: Final[Mapping[LimitName, ResultReason]] = {
    "maxTurns": "limit_turns",
    "maxCost": "limit_cost",
    "maxRunSeconds": "limit_time",
}

EXIT_RETRYABLE: Final = 10
"""With `--exit-codes detailed`: the model failed, and the same command may succeed later."""

DETAILED_EXIT_CODES: Final[Mapping[ResultReason, int]] = {
    "completed": 0,
    "model_error": 11,
    "output_limit": 12,
    "empty_answer": 20,
    "limit_turns": 13,
    "limit_cost": 13,
    "limit_time": 13,
    "no_model": 14,
    "no_key": 14,
    "aborted": 1,
    "session_error": 15,
    "sandbox_unavailable": 17,
    "tool_denied": 16,
    "extension_error": 18,
    "usage": 2,
    "internal": 19,
}
"""With `--exit-codes detailed`: the code of each reason. `interrupted` has none: the signal decides."""


class ResultUsage(TypedDict):
    """Tokens by kind; `total` is their sum."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    total: int


class ResultModel(TypedDict):
    """The model at the end."""

    provider: str
    id: str


class ResultSession(TypedDict):
    """The session at the end."""

    id: str
    file: str | None
    """None: it is in memory only, or was never written."""
    continued: bool
    """Whether it was there before; false: this process made it, also as a copy."""


class ResultError(TypedDict):
    """Why the result is not `completed`."""

    code: str | None
    """For programs: an `errorCode` of messages or responses, where one is known."""
    message: str
    status: int | None
    """Of HTTP, where a model server sent one."""


class ResultRecord(TypedDict):
    """What a process has done, and whether the same command may succeed later."""

    type: Literal["result"]
    version: Literal[1]
    reason: ResultReason
    retryable: bool
    exitCode: int
    """Of the process. A process that SIGINT ends dies by the signal; then it is 130, as shells report that."""
    text: str
    """Of the last answer."""
    stopReason: str | None
    """Of the last answer; None: there is none."""
    turns: int
    toolCalls: int
    durationMs: int
    usage: ResultUsage
    """Of this process, not of the whole session."""
    cost: float
    """US dollars, likewise."""
    model: ResultModel | None
    session: ResultSession | None
    """None: the process ended before it had one."""
    limit: LimitName | None
    error: ResultError | None


def empty_result(
    reason: ResultReason, code: int, error: ResultError | None, *, is_retryable: bool = False
) -> ResultRecord:
    """Return the result of a process that has done nothing.

    Args:
        reason: Why.
        code: Its exit code.
        error: What went wrong; None: nothing.
        is_retryable: Whether the same command may succeed later.
    """
    return {
        "type": "result",
        "version": 1,
        "reason": reason,
        "retryable": is_retryable,
        "exitCode": code,
        "text": "",
        "stopReason": None,
        "turns": 0,
        "toolCalls": 0,
        "durationMs": 0,
        "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        "cost": 0.0,
        "model": None,
        "session": None,
        "limit": None,
        "error": error,
    }
