"""Writes pieces of an answer as server-sent events of OpenAI chat completions.

Pure: bytes in order, without HTTP. `WireFormat` is what a further format has to offer; the server
chooses one by the path of the request.
"""

import json
from collections.abc import Mapping
from typing import Protocol, assert_never

from pinnace_fuzz.harness.model_server.refusals import openai_refusal
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

RESPONSE_ID = "chatcmpl-fake"
CREATED_S = 1_700_000_000  # any constant: a transcript should not differ by the clock


class WireFormat(Protocol):
    """One streamed answer in one provider's format; an instance lives for one answer."""

    def head(self) -> bytes:
        """Write what comes before the first piece."""
        ...

    def piece(self, piece: Content) -> bytes:
        """Write one piece."""
        ...

    def tail(self) -> bytes:
        """Write the end marker."""
        ...

    def refusal(self, status: int, refusal: Refusal) -> Mapping[str, object]:
        """Write what is sent instead, as JSON, with a status that is an error."""
        ...


def numbered(identity: str, number: int) -> str:
    """Return an id of the answer with a number, from 0: as those of a real server, no two answers have the same."""
    return f"{identity}-{number}" if number > 0 else identity


def sse_event(value: object, name: str | None = None) -> bytes:
    """Write one server-sent event whose data is JSON."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data}\n\n".encode()


class OpenAiChat:
    """Chat completions as a server of `stream: true` writes them."""

    __slots__ = ("_model",)

    def __init__(self, model: str, number: int = 0) -> None:
        """Begin.

        Args:
            model: Its name.
            number: Not used: no agent takes the id of a completion for that of a message, and recordings stay the same.
        """
        self._model = model

    def head(self) -> bytes:
        """Write the chunk that only has the role."""
        return self._choice({"role": "assistant", "content": ""})

    def piece(self, piece: Content) -> bytes:
        """Write one piece as one chunk."""
        match piece:
            case Text(delta):
                return self._choice({"content": delta})
            case Reasoning(delta):
                return self._choice({"reasoning_content": delta})
            case ToolStart(position, call_id, name):
                function = {"name": name, "arguments": ""}
                call = {"index": position, "id": call_id, "type": "function", "function": function}
                return self._choice({"tool_calls": [call]})
            case ToolArguments(position, part):
                return self._choice({"tool_calls": [{"index": position, "function": {"arguments": part}}]})
            case Finish(reason):
                return self._choice({}, reason)
            case TokenUsage():
                return self._chunk({"choices": [], "usage": _usage(piece)})
            case SseEvent(value):
                return sse_event(value)
            case Raw(data):
                return data
            case _:
                assert_never(piece)

    def tail(self) -> bytes:
        """Write the line that ends every such stream."""
        return b"data: [DONE]\n\n"

    def refusal(self, status: int, refusal: Refusal) -> Mapping[str, object]:
        """Write the body of a refusal."""
        return openai_refusal(status, refusal)

    def _choice(self, delta: Mapping[str, object], finish_reason: str | None = None) -> bytes:
        return self._chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    def _chunk(self, fields: Mapping[str, object]) -> bytes:
        head = {"id": RESPONSE_ID, "object": "chat.completion.chunk", "created": CREATED_S}
        return sse_event({**head, "model": self._model, **fields})


def _usage(usage: TokenUsage) -> Mapping[str, object]:
    prompt_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    details = {"cached_tokens": usage.cache_read_tokens}
    if usage.cache_write_tokens:  # only some servers know it
        details["cache_write_tokens"] = usage.cache_write_tokens
    written: dict[str, object] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": details,
    }
    if usage.reasoning_tokens:
        written["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return written
