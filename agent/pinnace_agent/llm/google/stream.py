"""The chunks of a generated content, as they stream in.

Decides what each chunk adds to the message. A chunk is a whole response with only the new parts; thoughts and text
come in turns, and a call is complete at once. Independent of HTTP.
"""

import itertools
import time
from typing import Final

from pinnace_agent.core.json_access import as_array, as_count, as_object, as_text, compact_json
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import STREAM_WITHOUT_REASON, FailureTexts
from pinnace_agent.llm.stop_reasons import end_answer
from pinnace_agent.llm.transport.exchange import StreamBroken, event_value
from pinnace_agent.llm.transport.sse import SseEvent

# The end mark of some proxies, as of OpenAI.
_DONE: Final = b"[DONE]"
_UNSPECIFIED: Final = "FINISH_REASON_UNSPECIFIED"
_TEXT_FIELDS: Final = frozenset({"text", "thought", "thoughtSignature", "partMetadata"})
_COUNTS: Final = (
    "promptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
)

# Distinguishes ids that are created within one millisecond.
_numbers: Final = itertools.count(1)


class ChunkReader:
    """Reads the chunks of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, texts: FailureTexts) -> None:
        """Fill `builder`; `texts` formats errors."""
        self.finish_reason: str | None = None
        """The provider's finish reason; with it the answer is complete, even if the connection breaks."""
        self._block_reason: str | None = None  # why no answer began
        self._builder = builder
        self._texts = texts
        self._asked_for = _bare(builder.model["id"])
        self._blocks = 0
        self._open: tuple[str, int] | None = None  # the block of text or thoughts that is growing
        self._ids: set[str] = set()
        self._counts: dict[str, int] = {}

    @property
    def is_complete(self) -> bool:
        """Whether there is a finish reason, or the prompt was refused."""
        return self.finish_reason is not None or self._block_reason is not None

    def read(self, event: SseEvent) -> bool:
        """Add one chunk to the message. As `StreamReader.read`."""
        name, data = event
        if data == _DONE:
            return True
        if name == b"error":
            raise StreamBroken(self._texts.error_event(data))
        chunk = as_object(event_value(data, self._texts))
        if chunk is not None:
            self._read_chunk(chunk)
        return False

    def finish(self) -> None:
        """End the message with the provider's stop reason, or as failed without one."""
        builder, reason = self._builder, self.finish_reason
        builder.raw_stop_reason = reason or self._block_reason
        if reason is None:
            blocked = self._block_reason
            builder.finish("error", f"Provider blocked the prompt: {blocked}" if blocked else STREAM_WITHOUT_REASON)
            return
        end_answer(builder, reason, self._texts.shown(f"Provider stopped with: {reason}"), calls_as="toolUse")

    def _read_chunk(self, chunk: dict[str, object]) -> None:
        if error := chunk.get("error"):
            raise StreamBroken(self._texts.broke_off(error))
        builder = self._builder
        if builder.response_id is None:
            builder.response_id = as_text(chunk.get("responseId"))
        version = as_text(chunk.get("modelVersion"))
        if version and builder.response_model is None and _bare(version) != self._asked_for:
            builder.response_model = version
        if (usage := as_object(chunk.get("usageMetadata"))) is not None:
            self._read_usage(usage)
        candidates = as_array(chunk.get("candidates"))
        candidate = as_object(candidates[0]) if candidates else None
        if candidate is None:
            feedback = as_object(chunk.get("promptFeedback")) or {}
            self._block_reason = as_text(feedback.get("blockReason")) or self._block_reason
            return
        content = as_object(candidate.get("content")) or {}
        for part in as_array(content.get("parts")):
            if (members := as_object(part)) is not None:
                self._read_part(members)
        reason = as_text(candidate.get("finishReason"))
        if reason and reason != _UNSPECIFIED:
            self.finish_reason = reason

    def _read_part(self, part: dict[str, object]) -> None:
        signature = as_text(part.get("thoughtSignature"))
        call = as_object(part.get("functionCall"))
        if call is not None:
            self._close()
            self._read_call(call, signature)
            return
        text = as_text(part.get("text")) or ""
        # An empty part that is signed belongs to the answer: its signature has to be sent back. One that holds
        # something else, a picture or what the server's own tools did, does not.
        if text or (signature and not part.keys() - _TEXT_FIELDS):
            self._read_text("thinking" if part.get("thought") is True else "text", text, signature)

    def _read_text(self, kind: str, text: str, signature: str | None) -> None:
        if self._open is None or self._open[0] != kind:
            self._close()
            self._open = (kind, self._next())
        if kind == "thinking":
            self._builder.thinking_delta(self._open, text, signature)
            return
        self._builder.text_delta(self._open, text)
        if signature:
            self._builder.sign_text(self._open, signature)

    def _read_call(self, call: dict[str, object], signature: str | None) -> None:
        name = as_text(call.get("name")) or ""
        call_id = as_text(call.get("id"))
        if call_id is None or call_id in self._ids:
            call_id = f"{name}_{int(time.time() * 1000)}_{next(_numbers)}"
        self._ids.add(call_id)
        arguments = call.get("args")
        key = ("call", self._next())
        self._builder.toolcall_start(key, call_id, name)
        if signature:
            self._builder.sign_call(key, signature)
        # A string instead of an object is the model's own text: it is parsed at the end of the block.
        text = arguments if isinstance(arguments, str) else compact_json({} if arguments is None else arguments)
        self._builder.toolcall_delta(key, text)
        self._builder.end_block(key)

    def _close(self) -> None:
        if self._open is not None:
            self._builder.end_block(self._open)
            self._open = None

    def _next(self) -> int:
        self._blocks += 1
        return self._blocks

    def _read_usage(self, usage: dict[str, object]) -> None:
        """Take the counts of the chunk: an early one has no output yet, and a late one may lack some."""
        for name in _COUNTS:
            if (count := as_count(usage.get(name))) is not None:
                self._counts[name] = count
        prompt, cached, answer, thoughts, results = (self._counts.get(name, 0) for name in _COUNTS)
        tokens = RequestTokens(
            input=max(0, prompt - cached) + results,
            output=answer + thoughts,
            cache_read=cached,
            reasoning=thoughts,
        )
        self._builder.usage = usage_of(self._builder.model, tokens)


def _bare(name: str) -> str:
    """Return a model's name without its collection."""
    return name.rpartition("/")[2]
