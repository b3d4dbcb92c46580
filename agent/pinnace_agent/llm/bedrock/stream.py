"""The events of a Bedrock answer, as they stream in.

Decides what a frame means, and what each event adds to the message. Blocks are distinguished by the index that the
provider gives them, so that they may come in turns; the first delta of a text or a thought begins it. Events and blocks
of unknown kinds are passed over. Independent of HTTP.
"""

import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Final, Literal

from pinnace_agent.core.json_access import as_array, as_count, as_object, as_text, compact_json
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.bedrock.event_stream import Frame, FrameDamaged, FrameReader, HeaderValue
from pinnace_agent.llm.bedrock.failures import BedrockTexts
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.stop_reasons import end_answer
from pinnace_agent.llm.transport.exchange import StreamBroken, UnreadableEvent, event_value
from pinnace_agent.llm.transport.sse import SseEvent

WITHOUT_REASON: Final = "Bedrock stream ended without a stop reason"
REDACTED_THOUGHT: Final = "[Reasoning redacted]"

_EVENT, _EXCEPTION, _ERROR, _DAMAGE = b"event", b"exception", b"error", b"damage"
_COUNTS: Final = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheWriteInputTokens",
}
_HOUR: Final = "1h"


class EventFrames:
    """The frames of a stream as events: the kind of message as their name, `{"TYPE": PAYLOAD}` as their data.

    Damage is an event, too, after all that came before it, and the last one.
    """

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._is_damaged = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take some bytes and return the events that they complete."""
        return [] if self._is_damaged else list(self._events(chunk))

    def finish(self) -> list[SseEvent]:
        """End the stream. Of a frame that was cut nothing can be used."""
        return []

    def _events(self, chunk: bytes) -> Iterator[SseEvent]:
        try:
            for frame in self._frames.feed(chunk):
                yield _event(frame)
        except FrameDamaged as damage:
            self._is_damaged = True
            yield SseEvent(_DAMAGE, str(damage).encode())


def _event(frame: Frame) -> SseEvent:
    kind = _text(frame.headers.get(":message-type"))
    if kind == "error":
        members = {"code": frame.headers.get(":error-code"), "message": frame.headers.get(":error-message")}
        return SseEvent(_ERROR, compact_json({name: _text(value) for name, value in members.items()}).encode())
    name = _text(frame.headers.get(":exception-type" if kind == "exception" else ":event-type"))
    data = b"{%b:%b}" % (compact_json(name).encode(), frame.payload or b"{}")
    return SseEvent(_EXCEPTION if kind == "exception" else _EVENT, data)


def _text(value: HeaderValue | None) -> str:
    return value if isinstance(value, str) else ""


class _Block:
    """A block that is being streamed; it is its own key in the builder."""

    __slots__ = ("kind", "redacted", "signature")

    def __init__(self, kind: Literal["text", "thinking", "tool", "unknown"]) -> None:
        self.kind = kind
        self.signature: list[str] = []
        self.redacted: list[bytes] = []


class EventReader:
    """Reads the events of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, names: ToolNames, texts: BedrockTexts) -> None:
        """Fill `builder`; `texts` formats errors."""
        self._builder = builder
        self._names = names
        self._texts = texts
        self._open: dict[int | None, _Block] = {}
        self._call_ids: set[str] = set()
        self._stop_reason: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the stop reason has arrived; only the usage follows it."""
        return self._stop_reason is not None

    def read(self, event: SseEvent) -> bool:
        """Add one event to the message. As `StreamReader.read`."""
        if event.name == _DAMAGE:
            raise UnreadableEvent(self._texts.damaged(event.data.decode()))
        members = as_object(event_value(event.data, self._texts)) or {}
        if event.name == _ERROR:
            raise StreamBroken(self._texts.named(as_text(members.get("code")) or "", str(members.get("message"))))
        for name, value in members.items():
            payload = as_object(value) or {}
            if event.name == _EXCEPTION:
                raise StreamBroken(self._exception(name, payload))
            self._read_event(name, payload)
            if name == "metadata" and self.is_complete:
                return True
        return False

    def finish(self) -> None:
        """End the message with the provider's stop reason, or as failed without one."""
        builder, reason = self._builder, self._stop_reason
        builder.raw_stop_reason = reason
        if reason is None:
            builder.fail(WITHOUT_REASON)
            return
        for index in list(self._open):
            self._close(index)
        end_answer(builder, reason, self._texts.shown(f"Provider stopped with: {reason}"))

    def _exception(self, name: str, payload: dict[str, object]) -> str:
        message = as_text(payload.get("message")) or as_text(payload.get("Message")) or "(no message)"
        original = as_text(payload.get("originalMessage"))
        if original and original not in message:
            message = f"{message} ({original})"
        return self._texts.named(name, message)

    def _read_event(self, name: str, payload: dict[str, object]) -> None:
        match name:
            case "contentBlockStart":
                self._start(as_count(payload.get("contentBlockIndex")), as_object(payload.get("start")) or {})
            case "contentBlockDelta":
                self._add(as_count(payload.get("contentBlockIndex")), as_object(payload.get("delta")) or {})
            case "contentBlockStop":
                self._close(as_count(payload.get("contentBlockIndex")))
            case "messageStop":
                self._stop_reason = as_text(payload.get("stopReason")) or self._stop_reason
            case "metadata":
                self._read_usage(as_object(payload.get("usage")) or {})
            case _:
                pass

    def _start(self, index: int | None, start: dict[str, object]) -> None:
        self._close(index)  # a block with the same index that was never ended has ended now
        call = as_object(start.get("toolUse"))
        if call is None:
            return  # a text or a thought begins with its first delta
        block = self._open[index] = _Block("tool")
        call_id = as_text(call.get("toolUseId"))
        if not call_id or call_id in self._call_ids:  # a result must be able to name it
            call_id = f"tooluse_{uuid.uuid4().hex}"
        self._call_ids.add(call_id)
        self._builder.toolcall_start(block, call_id, self._names.own(as_text(call.get("name")) or ""))

    def _add(self, index: int | None, delta: dict[str, object]) -> None:
        if (text := as_text(delta.get("text"))) is not None:
            if (block := self._block(index, "text")) is not None:
                self._builder.text_delta(block, text)
        elif (call := as_object(delta.get("toolUse"))) is not None:
            block = self._open.get(index)
            if block is not None and block.kind == "tool" and (piece := as_text(call.get("input"))):
                self._builder.toolcall_delta(block, piece)
        elif (thought := as_object(delta.get("reasoningContent"))) is not None:
            self._think(index, thought)

    def _block(self, index: int | None, kind: Literal["text", "thinking"]) -> _Block | None:
        """Return the block of an index if it is of this kind; begin it if there is none."""
        block = self._open.get(index)
        if block is None:
            block = self._open[index] = _Block(kind)
            if kind == "thinking":
                self._builder.thinking_delta(block, "")
        return block if block.kind == kind else None

    def _think(self, index: int | None, thought: dict[str, object]) -> None:
        block = self._block(index, "thinking")
        if block is None:
            return
        if text := as_text(thought.get("text")):
            self._builder.thinking_delta(block, text)
        block.signature += filter(None, [as_text(thought.get("signature"))])
        if redacted := _decoded(as_text(thought.get("redactedContent"))):
            if not block.redacted:
                self._builder.thinking_delta(block, REDACTED_THOUGHT)
            block.redacted.append(redacted)

    def _close(self, index: int | None) -> None:
        block = self._open.pop(index, None)
        if block is None:
            return
        # A signature is of thoughts that can be read, or it is what hides them: never both.
        if block.redacted:
            self._builder.redact_thinking(block, b64encode(b"".join(block.redacted)).decode())
        elif block.signature:
            self._builder.sign_thinking(block, "".join(block.signature))
        self._builder.end_block(block)

    def _read_usage(self, usage: dict[str, object]) -> None:
        counts = {name: as_count(usage.get(field)) or 0 for name, field in _COUNTS.items()}
        details = [as_object(detail) or {} for detail in as_array(usage.get("cacheDetails"))]
        hour = sum(as_count(detail.get("inputTokens")) or 0 for detail in details if detail.get("ttl") == _HOUR)
        self._builder.usage = usage_of(self._builder.model, RequestTokens(**counts, cache_write_1h=hour))


def _decoded(text: str | None) -> bytes:
    try:
        return b64decode(text or "", validate=True)
    except ValueError:
        return b""
