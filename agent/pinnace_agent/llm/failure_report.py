"""The error text of a failed request: the model, the address, the attempt, and what to do.

The text begins with the provider's own, since programs and `outcomes` recognise failures by it; one line is added,
which `provider_words` removes again. Pure. Loaded with the first failure.
"""

import re
from typing import Final, NamedTuple

from pinnace_agent.llm.builder import FailureSigns
from pinnace_agent.llm.failures import provider_words
from pinnace_agent.llm.outcomes import OutcomeKind
from pinnace_spec.records.messages import FailureCode, Model

_HINTS: Final[dict[FailureCode, str]] = {
    "unreachable": "Check that the server runs, baseUrl in models.json, and the network or its proxy",
    "connection_lost": "The server or something before it ended the connection",
    "timeout": "The server is busy, loading the model, or stuck (httpIdleTimeoutMs in settings.json is the limit)",
    "bad_address": "Correct baseUrl in models.json",
    "bad_answer": "Check that baseUrl and api in models.json belong to this server",
    "authentication": "Check the key and its rights: `pinnace auth` stores one",
    "not_found": "Check the model's id and baseUrl in models.json: most servers want a path such as /v1 at its end",
    "rate_limited": "Wait, or take another model",
    "quota": "Check the balance or plan of the account, or take another model",
    "server_error": "The fault is the provider's: try later, or take another model",
    "rejected": "The server does not take this request: `compat` in models.json adapts what is sent",
    "context_overflow": "The conversation does not fit the model: `compact` it, or take a model with a larger window",
}
_NO_LOCAL_SERVER: Final = "No server listens there: start it, or correct baseUrl in models.json"
_LOOPBACK: Final = re.compile(r"\Ahttps?://(?:localhost|127(?:\.\d+){3}|\[::1\])(?=[:/]|\Z)", re.IGNORECASE)

_BY_STATUS: Final[dict[int, FailureCode]] = {
    401: "authentication",
    402: "quota",
    403: "authentication",
    404: "not_found",
    408: "timeout",
    413: "context_overflow",
    429: "rate_limited",
    504: "timeout",
}
# A stated status is at the beginning of what a provider said, or in its signs.
_STATUS: Final = re.compile(r"\A(?:HTTP )?([45]\d\d)\b")


class FailureReport(NamedTuple):
    """A failure, for people and for programs."""

    text: str
    code: FailureCode
    status: int | None


class Attempts(NamedTuple):
    """How often a request was sent, and how often it may be."""

    made: int = 1
    most: int = 1


def report_failure(
    text: str, model: Model, signs: FailureSigns, kind: OutcomeKind, attempts: Attempts
) -> FailureReport:
    """Add the model, the address, the attempt and a hint to the text of a failed request.

    Args:
        text: The text of the provider or the network. It must not contain a secret.
        model: The one that was asked.
        signs: The signs beside the text.
        kind: The outcome of the failure.
        attempts: Those of this request.
    """
    status = _status(text, signs)
    code = _code(text, signs, kind, status)
    if code not in _HINTS and signs.address is None:
        return FailureReport(text, code, status)
    return FailureReport(f"{text}\n{_line(model, signs, code, kind, attempts)}", code, status)


def _line(model: Model, signs: FailureSigns, code: FailureCode, kind: OutcomeKind, attempts: Attempts) -> str:
    place = "" if signs.address is None else f" at {signs.address}"
    tried = f"attempt {attempts.made} of {attempts.most}"
    if kind is OutcomeKind.FATAL:
        tried = f"attempt {attempts.made}, not tried again"
    elif kind is not OutcomeKind.TRANSIENT:
        tried = f"attempt {attempts.made}"
    hint = _HINTS.get(code)
    if code == "bad_address" and not model["baseUrl"]:
        hint = None  # it comes from variables, which the text names
    if code == "unreachable" and signs.address is not None and is_loopback(signs.address):
        hint = _NO_LOCAL_SERVER
    return f"Model {model['provider']}/{model['id']}{place}, {tried}.{f' {hint}.' if hint else ''}"


def _status(text: str, signs: FailureSigns) -> int | None:
    if signs.status is not None:
        return signs.status
    found = _STATUS.match(text)
    return int(found[1]) if found else None


def _code(text: str, signs: FailureSigns, kind: OutcomeKind, status: int | None) -> FailureCode:
    if kind in {OutcomeKind.OVERFLOW, OutcomeKind.LENGTH_OVERFLOW}:
        return "context_overflow"
    if signs.kind is not None:
        return signs.kind
    if status is None:
        return "provider_error"
    if status == 429 and kind is OutcomeKind.FATAL:
        return "quota"
    if status >= 500:
        return _BY_STATUS.get(status, "server_error")
    return _BY_STATUS.get(status, "rejected")


# The context window of the server as refusals of too long requests name it.
_WINDOWS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r'"n_ctx":\s*(\d+)',  # llama.cpp
        r"available context size \((\d[\d,]*) tokens\)",  # llama.cpp
        r"maximum context length (?:is|of) \(?(\d[\d,]*)",  # OpenAI, vLLM, OpenRouter, proxies
        r"configured context size is (\d[\d,]*)",
        r"context length of only (\d[\d,]*) tokens",  # LM Studio
        r"reached context length of (\d[\d,]*)",  # LM Studio
        r"maximum model length of (\d[\d,]*)",  # vLLM
        r"must have less than (\d[\d,]*) tokens",  # TGI
        r"max_new_tokens`? must be <= (\d[\d,]*)",  # TGI
        r"longer than the model'?s context length \((\d[\d,]*)",  # SGLang, Together
        r"maximum context length \((\d[\d,]*)\)",  # vLLM
        r"maximum prompt length is (\d[\d,]*)",
        r"maximum allowed input length of (\d[\d,]*) tokens",
        r"too large for model with (\d[\d,]*) maximum context length",
        r"tokens > (\d[\d,]*) maximum",  # Anthropic
        r"exceeds the maximum number of tokens allowed \((\d[\d,]*)\)",  # Google
    )
)


def is_loopback(address: str) -> bool:
    """Return whether an HTTP address names this machine."""
    return _LOOPBACK.match(address) is not None


def served_window(text: str) -> int | None:
    """Return the context window that a refusal names, in tokens; None: it names none."""
    said = provider_words(text)
    for pattern in _WINDOWS:
        if found := pattern.search(said):
            return int(found[1].replace(",", "")) or None
    return None
