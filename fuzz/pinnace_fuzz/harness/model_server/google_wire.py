"""Writes pieces of an answer as server-sent events of Gemini's `streamGenerateContent`.

Pure: bytes in order, without HTTP. A call is one part, with all of its arguments, so it is written when the next piece
is of something else. Calls have the script's ids; the API itself has ids only in newer versions.
"""

import json
from collections.abc import Mapping
from typing import Final, assert_never

from pinnace_fuzz.harness.model_server.openai_wire import numbered, sse_event
from pinnace_fuzz.harness.model_server.refusals import google_refusal
from pinnace_fuzz.script import (
    Content,
    Finish,
    Raw,
    Reasoning,
    Refusal,
    SseEvent,
    Text,
    TokenUsage,
    ToolArguments,
    ToolStart,
)

RESPONSE_ID: Final = "gemini-fake"
_REASONS: Final[Mapping[str, str]] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
"""A script's word -> the API's; others are written as they are."""


class GoogleContent:
    """Content as a server of `alt=sse` writes it."""

    __slots__ = ("_calls", "_id")

    def __init__(self, model: str, number: int = 0) -> None:
        """Begin.

        Args:
            model: Not used: the path of the request names it, and answers need not.
            number: That of the answer.
        """
        self._id = numbered(RESPONSE_ID, number)
        self._calls: dict[int, tuple[ToolStart, list[str]]] = {}
        """Those that are not written, by their places."""

    def head(self) -> bytes:
        """Write nothing: the first event has content."""
        return b""

    def piece(self, piece: Content) -> bytes:
        """Write one piece, and before it the calls that are whole now."""
        match piece:
            case ToolStart(position):
                self._calls[position] = (piece, [])
                return b""
            case ToolArguments(position, part):
                self._calls[position][1].append(part)
                return b""
            case Text(delta):
                return self._whole_calls() + self._candidate({"text": delta})
            case Reasoning(delta):
                return self._whole_calls() + self._candidate({"text": delta, "thought": True})
            case Finish(reason):
                return self._whole_calls() + self._candidate(finish=_REASONS.get(reason, reason))
            case TokenUsage():
                return self._whole_calls() + self._event({"usageMetadata": _usage(piece)})
            case SseEvent(value):
                return sse_event(value)
            case Raw(data):
                return data
            case _:
                assert_never(piece)

    def tail(self) -> bytes:
        """Write the calls that are left: such a stream has no end marker."""
        return self._whole_calls()

    def refusal(self, status: int, refusal: Refusal) -> Mapping[str, object]:
        """Write the body of a refusal."""
        return google_refusal(status, refusal)

    def _whole_calls(self) -> bytes:
        calls = [
            {"functionCall": {"id": start.call_id, "name": start.name, "args": _arguments("".join(parts))}}
            for start, parts in self._calls.values()
        ]
        self._calls.clear()
        return b"".join(self._candidate(call) for call in calls)

    def _candidate(self, part: Mapping[str, object] | None = None, *, finish: str | None = None) -> bytes:
        content = {"role": "model", "parts": [] if part is None else [part]}
        candidate: dict[str, object] = {"content": content, "index": 0}
        return self._event({"candidates": [candidate | ({} if finish is None else {"finishReason": finish})]})

    def _event(self, fields: Mapping[str, object]) -> bytes:
        return sse_event({**fields, "responseId": self._id})


def _arguments(text: str) -> object:
    """Return arguments as the API has them: a script's text that is no JSON can't be sent, and stays a text."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _usage(usage: TokenUsage) -> Mapping[str, object]:
    prompt_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    written: dict[str, object] = {
        "promptTokenCount": prompt_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": prompt_tokens + usage.output_tokens + usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
    }
    if usage.reasoning_tokens:
        written["thoughtsTokenCount"] = usage.reasoning_tokens
    return written
