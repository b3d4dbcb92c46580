"""How a turn has ended: exactly one stop reason, or an error, from what the records report.

The first case that applies decides. A stop reason says that the turn has ended as its rules allow; work that was not
done for a reason which is not the user's is an error, since an empty `end_turn` would hide it.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.jsonrpc import (
    AUTH_REQUIRED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    NOT_FOUND,
    RequestError,
)

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]

_REFUSALS: Final = frozenset(
    {
        "refusal",
        "content_filter",
        "safety",
        "prohibited_content",
        "blocklist",
        "spii",
        "recitation",
        "image_safety",
    }
)
_CODES: Final[Mapping[str, int]] = {
    "invalid_field": INVALID_PARAMS,
    "model_not_found": INVALID_PARAMS,
    "not_queueable": INVALID_PARAMS,
    "aborted": CANCELLED,
    "shutting_down": CANCELLED,
    "authentication_failed": AUTH_REQUIRED,
    "no_api_key": AUTH_REQUIRED,
    "no_model": AUTH_REQUIRED,
    "session_not_found": NOT_FOUND,
    "entry_not_found": NOT_FOUND,
    "agent_not_found": NOT_FOUND,
    "provider_not_found": NOT_FOUND,
}


class TurnResult(NamedTuple):
    """The result of a turn."""

    reason: StopReason
    details: Mapping[str, object]
    """For `_meta.pinnace`."""


def ending(settled: Mapping[str, object], answer: Mapping[str, object] | None) -> TurnResult | RequestError:
    """Return how a turn has ended that the client has not cancelled; an error: the model's work has failed.

    Args:
        settled: The record `agent_settled`.
        answer: The turn's last answer of a model; None: there is none.
    """
    if settled.get("reason") == "limit":
        return TurnResult("max_turn_requests", {"limit": settled.get("limit")})
    if settled.get("aborted") is True:
        return TurnResult("cancelled", {"abortedBy": "agent"})
    if answer is None:
        return TurnResult("end_turn", {})
    reason = answer.get("stopReason")
    if reason == "error":
        return failure(answer)
    if reason == "length" and not _has_calls(answer):
        return TurnResult("max_tokens", {})
    return TurnResult("end_turn", {})


def is_refusal(answer: Mapping[str, object] | None) -> bool:
    """Return whether the model, or a filter around it, has refused to answer."""
    if answer is None or answer.get("stopReason") != "error":
        return False
    return str(answer.get("rawStopReason", "")).lower() in _REFUSALS


def failure(answer: Mapping[str, object]) -> RequestError:
    """Return the error of an answer that has failed."""
    data = {name: answer[name] for name in ("errorCode", "attempts", "status") if name in answer}
    data.setdefault("errorCode", "content_filter" if is_refusal(answer) else "model_error")
    for name in ("provider", "model"):
        if isinstance(answer.get(name), str):
            data[name] = answer[name]
    text = answer.get("errorMessage")
    return RequestError(INTERNAL_ERROR, text if isinstance(text, str) and text else "the model's answer failed", data)


def refusal(answer: Mapping[str, object]) -> RequestError:
    """Return the error of a command that an agent has refused.

    Args:
        answer: The response.
    """
    code = str(answer.get("errorCode", "internal_error"))
    data: dict[str, object] = {"errorCode": code}
    for name in ("provider", "model", "path"):
        if isinstance(answer.get(name), str):
            data[name] = answer[name]
    return RequestError(_CODES.get(code, INTERNAL_ERROR), str(answer.get("error", "no reason was given")), data)


def _has_calls(answer: Mapping[str, object]) -> bool:
    blocks = (as_object(block) or {} for block in as_array(answer.get("content")))
    return any(block.get("type") == "toolCall" for block in blocks)
