"""Writes pieces of an answer as server-sent events of Anthropic's messages.

Pure: bytes in order, without HTTP. As the API does it, a block is closed before the next one opens, so blocks that
come in turns can only be written as `event` pieces. A stop reason and the usage are an event each, where the API has
one for both: a test may stop between them, and both repeat what was said before.
"""

from collections.abc import Mapping
from typing import assert_never, cast

from pinnace_fuzz.harness.model_server.openai_wire import numbered, sse_event
from pinnace_fuzz.harness.model_server.refusals import anthropic_refusal
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import (
    Content,
    Finish,
    Raw,
    Reasoning,
    Refusal,
    ScriptError,
    SseEvent,
    Text,
    TokenUsage,
    ToolArguments,
    ToolStart,
)

MESSAGE_ID = "msg_fake"
SIGNATURE = "c2lnbmVk"
"""Of every block of thinking."""
STOP_REASONS: Mapping[str, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
"""A script's word -> the API's; others are written as they are."""


class AnthropicMessages:
    """Messages as a server of `stream: true` writes them."""

    __slots__ = ("_id", "_index", "_kind", "_model", "_position", "_stop_reason", "_usage")

    def __init__(self, model: str, number: int = 0) -> None:
        self._model = model
        self._id = numbered(MESSAGE_ID, number)
        self._index = -1  # of the last block
        self._kind: type[Text] | type[Reasoning] | type[ToolStart] | None = None  # of the open one
        self._position = 0  # of its call
        self._stop_reason: str | None = None
        self._usage: Mapping[str, object] = {"output_tokens": 1}

    def head(self) -> bytes:
        """Write the event that opens the message."""
        message: Record = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 1},
        }
        return _event("message_start", message=message) + _event("ping")

    def piece(self, piece: Content) -> bytes:
        """Write one piece, and before it the end of the block that it does not belong to."""
        match piece:
            case Text(delta):
                return self._open(Text, {"type": "text", "text": ""}) + self._delta("text_delta", text=delta)
            case Reasoning(delta):
                block = {"type": "thinking", "thinking": "", "signature": ""}
                return self._open(Reasoning, block) + self._delta("thinking_delta", thinking=delta)
            case ToolStart(position, call_id, name):
                closed = self._close()
                self._position = position
                return closed + self._open(ToolStart, {"type": "tool_use", "id": call_id, "name": name, "input": {}})
            case ToolArguments(position, part):
                if self._kind is not ToolStart or position != self._position:
                    raise ScriptError(f"the call at {position} is not open: this format has one open block at a time")
                return self._delta("input_json_delta", partial_json=part)
            case Finish(reason):
                self._stop_reason = STOP_REASONS.get(reason, reason)
                return self._close() + self._end()
            case TokenUsage():
                self._usage = _usage(piece)
                return self._close() + self._end()
            case SseEvent(value):
                return sse_event(value, _name(value))
            case Raw(data):
                return data
            case _:
                assert_never(piece)

    def tail(self) -> bytes:
        """Write the event that closes the message."""
        return self._close() + _event("message_stop")

    def refusal(self, status: int, refusal: Refusal) -> Mapping[str, object]:
        """Write the body of a refusal."""
        return anthropic_refusal(status, refusal)

    def _open(self, kind: type[Text] | type[Reasoning] | type[ToolStart], block: Mapping[str, object]) -> bytes:
        if self._kind is kind:
            return b""
        closed = self._close()
        self._kind = kind
        self._index += 1
        return closed + _event("content_block_start", index=self._index, content_block=block)

    def _close(self) -> bytes:
        if self._kind is None:
            return b""
        signed = self._delta("signature_delta", signature=SIGNATURE) if self._kind is Reasoning else b""
        self._kind = None
        return signed + _event("content_block_stop", index=self._index)

    def _delta(self, kind: str, **fields: object) -> bytes:
        return _event("content_block_delta", index=self._index, delta={"type": kind, **fields})

    def _end(self) -> bytes:
        delta = {"stop_reason": self._stop_reason, "stop_sequence": None}
        return _event("message_delta", delta=delta, usage=self._usage)


def _event(name: str, **fields: object) -> bytes:
    return sse_event({"type": name, **fields}, name)


def _name(value: object) -> str | None:
    # cast: what is a dict came from JSON, or will be it
    kind = cast("Record", value).get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _usage(usage: TokenUsage) -> Mapping[str, object]:
    written: dict[str, object] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        written["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return written
