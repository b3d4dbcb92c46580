"""Classifies the outcome of a model's answer: success, retry, compaction, or an error for the user.

Pure. The phrases below are those of the providers. A failure is classified by its text, which is in the session too,
and by its signs (`FailureSigns`) while they are known. Independent of the consequences of an outcome. Rules R-RTY-01,
R-CMP-02.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from pinnace_agent.llm.builder import FailureSigns
from pinnace_agent.llm.failures import provider_words
from pinnace_spec.records.messages import AssistantMessage, Model
from pinnace_spec.rules.errors import EMPTY_ANSWER

# The longest wait that a server may ask for. A longer one is ignored: then the ordinary delays are used.
MAX_RETRY_AFTER_S: Final = 60.0
# A model that stopped for lack of tokens before its first one had a request of so much of its window.
_FULL_SHARE: Final = 0.99


class OutcomeKind(StrEnum):
    """The outcome of an answer."""

    NOTHING = "nothing"
    """The answer is a success."""
    TRANSIENT = "transient"
    """The same request may work later."""
    OVERFLOW = "overflow"
    """The provider refused the request as too long."""
    SILENT_OVERFLOW = "silent_overflow"
    """The answer is a success, but the provider left out a part of a request that was too long."""
    LENGTH_OVERFLOW = "length_overflow"
    """The request took up the whole window, so that there was no room to answer."""
    FATAL = "fatal"
    """The same request would fail again, or the user stopped it."""


class Outcome(NamedTuple):
    """The outcome of an answer."""

    kind: OutcomeKind
    retry_after_s: float | None = None
    """How long the server asked to wait, unless that is too long. Only of transient failures."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


_N: Final = r"\d[\d,]*+"  # possessive: what follows a number must not be a part of it

# Texts that mention tokens or length, but are about a rate limit.
_NO_OVERFLOW: Final = _any_of(
    r"rate.?limit",
    r"too many requests",
    # Bedrock, also behind a gateway that puts the status in front.
    r"\A\s*(?:\d{3}:?\s+)?(?:throttl|service.?unavailable)",
)
_OVERFLOW: Final = _any_of(
    r"prompt (?:is )?too long",  # Anthropic, z.ai, Ollama
    r"prompt exceeds max(?:imum)? length",  # z.ai
    r"request_too_large",  # Anthropic
    rf"exceed context limit: {_N}",  # Anthropic, of the input and the output that was asked for together
    r"input is too long for requested model",  # Bedrock
    r"exceeds the context window",  # OpenAI
    rf"exceeds (?:the )?(?:model'?s )?maximum context length (?:of )?\(?{_N}",  # proxies
    r"input token count.{0,60}exceeds the maximum",  # Google
    rf"maximum prompt length is {_N}",  # xAI
    r"reduce the length of the messages",  # Groq, OpenAI
    rf"maximum context length is {_N} tokens",  # OpenRouter, OpenAI, vLLM
    rf"exceeds (?:the )?maximum allowed input length of {_N} tokens",  # OpenRouter
    rf"input \({_N} tokens\) is longer than the model'?s context length",  # Together
    # Copilot. A limit of bytes, files and so on is not one of tokens.
    rf"exceeds the limit of {_N}(?!\s*(?:[kmg]i?b\b|bytes|characters|images|files|tools|requests|messages))",
    r"exceeds the available context size",  # llama.cpp
    r"greater than the context length",  # LM Studio
    rf"loaded with context length of only {_N} tokens|reached context length of {_N}",  # LM Studio
    rf"longer than the maximum model length of {_N}",  # vLLM
    rf"max_tokens must be at least 1, got -{_N}",  # vLLM: what the prompt leaves
    rf"inputs?`? must have less than {_N} tokens",  # TGI
    rf"inputs?`? tokens \+ `?max_new_tokens`? must be <= {_N}",  # TGI
    r"context window exceeds limit",  # MiniMax
    r"exceeded model token limit",  # Kimi
    rf"too large for model with {_N} maximum context length",  # Mistral
    rf"prompt has {_N} tokens, but the configured context size is",  # DS4
    r"model_context_window_exceeded",  # z.ai, also as a finish reason
    r"exceeded (?:max )?context length",  # Ollama
    r"range of input length should be",  # DashScope
    r"ContextWindowExceededError",  # LiteLLM
    r"context[ _]?(?:length|window)[ _]?exceeded",
    r"too many tokens",
    r"token limit exceeded",
)
# Only Cerebras refuses a too long request without a text. Others do so for other reasons.
_CEREBRAS: Final = "cerebras"
_CEREBRAS_OVERFLOW: Final = re.compile(r"\A\s*(?:400|413)(?: status code)?(?: \(no body\))?\s*\Z")

# Errors of the account or the configuration: a retry does not help.
_FINAL: Final = _any_of(
    r"insufficient.?(?:quota|balance|funds|credits?)",
    r"out of budget",
    r"quota exceeded",
    r"exceeded your current quota",
    r"billing",
    r"payment required",
    r"available balance",
    r"credit balance",
    r"usage.?limit",  # monthly, weekly, of a plan; with the error types of OpenCode, ChatGPT and Codex
    r"usage_not_included",
    r"invalid.{0,3}api.?key|incorrect api.?key|authentication_error|permission_error",
    r"certificate.?verify.?failed|self.?signed certificate",
)
# Google words its limits per minute as a quota too, and mentions billing. Which one is used up is in the quota's id.
_REFILLING: Final = re.compile(r"\A(?=.*RESOURCE_EXHAUSTED)(?!.*PerDay).*PerMinute", re.DOTALL)
# Z.ai and BigModel send 429 for everything: no balance, the day's calls used up, the plan's hours or weeks used up,
# the plan expired, not in the plan, unfair use.
_FINAL_CODES: Final = frozenset({"1113", "1304", "1308", "1309", "1310", "1311", "1313"})
_FINAL_STATUSES: Final = frozenset({401, 402})
# Where it is written when only the text is left: `429: {"code":"1308",…`.
_QUOTED_CODE: Final = re.compile(r'"code":\s*"?(\d{4})\b')

# DEVIATION D-57: more of them than the original retries.
_TRANSIENT_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
# A number is a status at the beginning, or after a word that names it: elsewhere it is a count, or a part of an id.
_STATUS: Final = re.compile(
    r"""(?:\A\s*|\b(?:status(?:[ _]?code)?|http(?:/\d(?:\.\d)?)?|(?:error[ _]?)?code|error(?=\ \())["']?[\s:=(]*["']?)
    (\d{3})(?![\w-]|[.,:]\d)""",
    re.IGNORECASE | re.VERBOSE,
)
_TRANSIENT: Final = _any_of(
    r"overloaded|server (?:is )?busy|high demand|at capacity",
    r"rate.?limit|too many requests|throttl",
    r"service.{0,3}(?:is )?(?:(?:temporarily|currently) )?unavailable",
    r"server.?error|internal.?error|had an error while processing",
    r"provider.?returned.?error|upstream returned an error|upstream request failed|upstream.?connect",
    r"model.?stream.?error",  # Bedrock, which asks for another attempt
    r"unable to forward upstream stream|exceeded request buffer limit while retrying upstream",
    r"network.?error|connection.?(?:error|refused|lost|reset)|fetch failed|terminated",
    r"other side closed|socket hang up|socket connection was closed|reset before headers",
    r"getaddrinfo|ENOTFOUND|EAI_AGAIN|ECONNRESET|ETIMEDOUT",
    r"timed? ?out|timeout",
    r"websocket.?(?:closed|error)",
    r"http2 request did not get a response",
    r"ended without|stream ended before|disconnected before completion|reply cut short",
    r"retry.?delay|you can retry your request|try your request again|please retry your request",
    r"resource.?exhausted",
    r"(?:transient|temporary).{0,20}token.?refresh|token.?refresh.{0,20}(?:transient|temporar)",
)


def classify_response(
    message: AssistantMessage,
    model: Model,
    signs: FailureSigns | None = None,
    *,
    max_retry_after_s: float = MAX_RETRY_AFTER_S,
) -> Outcome:
    """Classify an answer that has ended.

    Args:
        message: The answer.
        model: The current one. An overflow of another model's window does not apply to this one: then the
            failure is final, and a success is a success.
        signs: What came beside the text of a failure, while it is known.
        max_retry_after_s: The longest wait that a server may ask for.
    """
    is_current = (message["provider"], message["model"]) == (model["provider"], model["id"])
    if message["stopReason"] == "error":
        if is_current and _is_cut_to_nothing(message, model["contextWindow"]):
            return Outcome(OutcomeKind.OVERFLOW)
        outcome = classify_failure(message.get("errorMessage", ""), message["provider"], signs, max_retry_after_s)
        return outcome if is_current or outcome.kind is not OutcomeKind.OVERFLOW else Outcome(OutcomeKind.FATAL)
    if message["stopReason"] == "aborted":
        return Outcome(OutcomeKind.FATAL)
    return Outcome(_overflow_of_answer(message, model["contextWindow"]) if is_current else OutcomeKind.NOTHING)


def classify_failure(
    text: str, provider: str, signs: FailureSigns | None = None, max_retry_after_s: float = MAX_RETRY_AFTER_S
) -> Outcome:
    """Classify a failure by its text, and by what came beside it."""
    signs, text = signs or FailureSigns(), provider_words(text)
    if not text:
        return Outcome(OutcomeKind.FATAL)
    said = "\n".join((text, *signs.codes))
    statuses = {int(found) for found in _STATUS.findall(text)} | ({signs.status} if signs.status else set[int]())
    if _is_overflow(said, text, provider, statuses):
        return Outcome(OutcomeKind.OVERFLOW)
    if _is_final(said, statuses, (*signs.codes, *_QUOTED_CODE.findall(text))):
        return Outcome(OutcomeKind.FATAL)
    if not statuses & _TRANSIENT_STATUSES and not _TRANSIENT.search(said):
        return Outcome(OutcomeKind.FATAL)
    wanted = signs.retry_after_s
    return Outcome(OutcomeKind.TRANSIENT, wanted if wanted is None or wanted <= max_retry_after_s else None)


def _is_overflow(said: str, text: str, provider: str, statuses: set[int]) -> bool:
    if _NO_OVERFLOW.search(said):
        return False
    if provider == _CEREBRAS and _CEREBRAS_OVERFLOW.match(text):
        return True
    return 413 in statuses or _OVERFLOW.search(said) is not None


def _is_final(said: str, statuses: set[int], codes: Iterable[str]) -> bool:
    if _REFILLING.match(said):
        return False
    return bool(statuses & _FINAL_STATUSES or _FINAL.search(said) or _FINAL_CODES.intersection(codes))


def _is_cut_to_nothing(message: AssistantMessage, window: int) -> bool:
    """Return whether the provider has left out a part of a request that was too long, and answered nothing."""
    return provider_words(message.get("errorMessage", "")) == EMPTY_ANSWER and 0 < window < _used(message)


def _used(message: AssistantMessage) -> int:
    return message["usage"]["input"] + message["usage"]["cacheRead"]


def _overflow_of_answer(message: AssistantMessage, window: int) -> OutcomeKind:
    usage, used = message["usage"], _used(message)
    if window > 0 and message["stopReason"] == "length" and usage["output"] == 0 and used >= _FULL_SHARE * window:
        return OutcomeKind.LENGTH_OVERFLOW
    # A tool call is executed first: its result would be left out by a compaction.
    if window > 0 and message["stopReason"] == "stop" and used > window:
        return OutcomeKind.SILENT_OVERFLOW
    return OutcomeKind.NOTHING
