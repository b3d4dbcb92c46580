"""Writes the bodies of refused requests as the vendors' servers do: one form for each wire format. Pure."""

from collections.abc import Mapping
from typing import Final

from pinnace_fuzz.script import Refusal

_OPENAI: Final[Mapping[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
"""Status -> type and code, where these are not of all errors of the client, or of the server."""

_ANTHROPIC: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_GOOGLE: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

SERVER_ERRORS: Final = 500
"""The first status that is the server's own fault."""


def openai_refusal(status: int, refusal: Refusal) -> Mapping[str, object]:
    """Write it as OpenAI does, of chat completions and of responses."""
    usual = ("server_error", None) if status >= SERVER_ERRORS else ("invalid_request_error", None)
    kind, code = _OPENAI.get(status, usual)
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code or code}}


def anthropic_refusal(status: int, refusal: Refusal) -> Mapping[str, object]:
    """Write it as Anthropic does, which has no codes."""
    usual = "api_error" if status >= SERVER_ERRORS else "invalid_request_error"
    return {"type": "error", "error": {"type": _ANTHROPIC.get(status, usual), "message": refusal.message}}


def google_refusal(status: int, refusal: Refusal) -> Mapping[str, object]:
    """Write it as Google does."""
    usual = "INTERNAL" if status >= SERVER_ERRORS else "INVALID_ARGUMENT"
    word = refusal.code or _GOOGLE.get(status, usual)
    return {"error": {"code": status, "message": refusal.message, "status": word}}
