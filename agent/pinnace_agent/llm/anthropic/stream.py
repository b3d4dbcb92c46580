"""The events of an Anthropic message, as they stream in.

Decides what each event adds to the message. Blocks are distinguished by the index that the provider gives them, so
that they may come in turns; events and blocks of unknown kinds are passed over. Independent of HTTP.
"""

import uuid
from typing import Final, Literal

import orjson

from pinnace_agent.core.json_access import as_count, as_object, as_text, compact_json
from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.arguments import repair_strings
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.stop_reasons import end_answer
from pinnace_agent.llm.transport.exchange import StreamBroken, UnreadableEvent
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_spec.wire.json_text import WireError, decode_line

ENDED_EARLY: Final = "Anthropic stream ended before message_stop"
WITHOUT_REASON: Final = "Anthropic stream ended without stop_reason"
LATE_FALLBACK: Final = "Anthropic passed an answer that had begun to another model"
REDACTED_THOUGHT: Final = "[Reasoning redacted]"

# The data of other events is not decoded: that of a `ping` need not be JSON.
_EVENTS: Final = frozenset(
    b"message_start content_block_start content_block_delta content_block_stop message_delta message_stop".split()
)
_DONE: Final = b"[DONE]"  # of gateways that translate from another API
_COUNTS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


class _Block:
    """A block that is being streamed; it is its own key in the builder."""

    __slots__ = ("has_deltas", "input", "kind", "signature")

    def __init__(self, kind: Literal["text", "thinking", "tool", "unknown"]) -> None:
        self.kind = kind
        self.signature: list[str] = []
        self.input: dict[str, object] = {}
        """Arguments that came with the start, for servers that send them whole."""
        self.has_deltas = False


class EventReader:
    """Reads the events of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, names: ToolNames, texts: FailureTexts) -> None:
        """Fill `builder`; `texts` formats errors."""
        self._builder = builder
        self._names = names
        self._texts = texts
        self._open: dict[int | None, _Block] = {}
        self._call_ids: set[str] = set()
        self._counts: dict[str, int] = {}
        self._answering = builder.model
        self._has_begun = False
        self._has_stopped = False
        self._stop_reason: str | None = None
        self._explanation: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the last event has arrived; a stop reason alone is not the end."""
        return self._has_stopped

    def read(self, event: SseEvent) -> bool:
        """Add one event to the message. As `StreamReader.read`."""
        name, data = event
        if name == b"error":
            raise StreamBroken(self._error_text(data))
        if name and name not in _EVENTS:
            return False
        members = self._members(data)
        if members is None:
            return False
        match as_text(members.get("type")) or name.decode():
            case "message_start":
                self._begin(as_object(members.get("message")) or {})
            case "content_block_start":
                self._start_block(as_count(members.get("index")), as_object(members.get("content_block")) or {})
            case "content_block_delta":
                self._add(as_count(members.get("index")), as_object(members.get("delta")) or {})
            case "content_block_stop":
                self._close(as_count(members.get("index")))
            case "message_delta":
                self._read_end(as_object(members.get("delta")) or {})
                self._read_usage(members.get("usage"))
            case "message_stop":
                self._has_stopped = True
            case "error":
                raise StreamBroken(self._error_text(data))
            case "":
                if members.get("error"):
                    raise StreamBroken(self._error_text(data))
            case _:
                pass
        return self._has_stopped

    def finish(self) -> None:
        """End the message with the provider's stop reason, or as failed without one."""
        builder, reason = self._builder, self._stop_reason
        builder.raw_stop_reason = reason
        if not self._has_stopped and (self._has_begun or reason is None):
            builder.fail(ENDED_EARLY)
            return
        for index in list(self._open):
            self._close(index)
        if reason is None:
            builder.finish("error", WITHOUT_REASON)
        else:
            end_answer(builder, reason, self._texts.shown(self._explanation or f"Provider stop_reason: {reason}"))

    def _error_text(self, data: bytes) -> str:
        """Format an error completely; its type and code become the failure's signs."""
        message = self._texts.error_event(data)
        return self._texts.shown(data.decode(errors="replace").strip()) or message

    def _members(self, data: bytes) -> dict[str, object] | None:
        try:
            return as_object(orjson.loads(data))
        except orjson.JSONDecodeError:
            return self._members_refused(data)

    def _members_refused(self, data: bytes) -> dict[str, object] | None:
        """Decode data that orjson refuses: unpaired surrogates or an invalid string. Blank data is empty."""
        text = data.decode(errors="replace")
        if not text.strip() or data == _DONE:
            return None
        problem = ""
        for candidate in (data, repair_strings(text).encode()):
            try:
                return as_object(decode_line(candidate))
            except WireError as error:
                problem = problem or error.text
        raise UnreadableEvent(self._texts.unreadable_chunk(problem, data))

    def _begin(self, message: dict[str, object]) -> None:
        self._has_begun = True
        builder = self._builder
        if builder.response_id is None:
            builder.response_id = as_text(message.get("id"))
        model = as_text(message.get("model"))
        if model != builder.model["id"] and builder.response_model is None:
            builder.response_model = model
            self._answering = compat_of(builder.model).fallbacks.get(model or "", builder.model)
        self._read_usage(message.get("usage"))

    def _start_block(self, index: int | None, content: dict[str, object]) -> None:
        self._close(index)  # a block with the same index that was never ended has ended now
        builder = self._builder
        match content.get("type"):
            case "text":
                block = _Block("text")
                builder.text_delta(block, as_text(content.get("text")) or "")
            case "thinking":
                block = _Block("thinking")
                builder.thinking_delta(block, as_text(content.get("thinking")) or "")
                block.signature += filter(None, [as_text(content.get("signature"))])
            case "redacted_thinking":
                block = _Block("thinking")
                builder.thinking_delta(block, "")
                builder.redact_thinking(block, as_text(content.get("data")) or "")
                builder.thinking_delta(block, REDACTED_THOUGHT)
            case "tool_use":
                block = _Block("tool")
                block.input = as_object(content.get("input")) or {}
                name = self._names.own(as_text(content.get("name")) or "")
                builder.toolcall_start(block, self._call_id(as_text(content.get("id"))), name)
            case "fallback" if builder.has_content:
                raise StreamBroken(LATE_FALLBACK)  # what the model that refused has said is not part of the answer
            case _:
                block = _Block("unknown")
        self._open[index] = block

    def _call_id(self, call_id: str | None) -> str:
        """Return an id that a result can name: without one, or with the same as another call, a new one."""
        if call_id is None or call_id in self._call_ids:
            call_id = f"toolu_{uuid.uuid4().hex}"
        self._call_ids.add(call_id)
        return call_id

    def _add(self, index: int | None, delta: dict[str, object]) -> None:
        match delta.get("type"):
            case "text_delta":
                if (text := as_text(delta.get("text"))) and (block := self._block(index, "text")):
                    self._builder.text_delta(block, text)
            case "thinking_delta":
                if (text := as_text(delta.get("thinking"))) and (block := self._block(index, "thinking")):
                    self._builder.thinking_delta(block, text)
            case "signature_delta":
                if (text := as_text(delta.get("signature"))) and (block := self._block(index, "thinking")):
                    block.signature.append(text)
            case "input_json_delta":
                if (text := as_text(delta.get("partial_json"))) and (block := self._block(index, "tool")):
                    block.has_deltas = True
                    self._builder.toolcall_delta(block, text)
            case _:
                pass

    def _block(self, index: int | None, kind: Literal["text", "thinking", "tool"]) -> _Block | None:
        """Find the block of an index if it is of this kind. A delta whose block was never begun begins one."""
        if index not in self._open and kind != "tool":
            self._start_block(index, {"type": kind})
        block = self._open.get(index)
        return block if block is not None and block.kind == kind else None

    def _close(self, index: int | None) -> None:
        block = self._open.pop(index, None)
        if block is None:
            return
        if block.signature:
            self._builder.sign_thinking(block, "".join(block.signature))
        whole = compact_json(block.input) if block.input and not block.has_deltas else None
        self._builder.end_block(block, whole)

    def _read_end(self, delta: dict[str, object]) -> None:
        self._stop_reason = as_text(delta.get("stop_reason")) or self._stop_reason
        details = as_object(delta.get("stop_details")) or {}
        self._explanation = as_text(details.get("explanation")) or self._explanation

    def _read_usage(self, value: object) -> None:
        """Take the counts that are reported; the others stay as they were: proxies leave some out at the end."""
        usage = as_object(value)
        if usage is None:
            return
        kept = as_object(usage.get("cache_creation")) or {}
        details = as_object(usage.get("output_tokens_details")) or {}
        counts = {name: usage.get(field) for name, field in _COUNTS.items()}
        counts |= {"cache_write_1h": kept.get("ephemeral_1h_input_tokens"), "reasoning": details.get("thinking_tokens")}
        self._counts |= {name: count for name, each in counts.items() if (count := as_count(each)) is not None}
        self._builder.usage = usage_of(self._answering, RequestTokens(**self._counts))
