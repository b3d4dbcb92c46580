"""The chunks of a chat completion, as they stream in.

Decides what each chunk adds to the message. Accepts the variants of real servers: null and missing fields, thoughts
under three names, usage in three places, calls whose index or id changes on the way. Independent of HTTP.
"""

import uuid
from functools import partial
from typing import Final

import orjson

from pinnace_agent.core.json_access import as_amount, as_array, as_count, as_object, as_text, compact_json
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import STREAM_WITHOUT_REASON, FailureTexts, finish_reason_failed
from pinnace_agent.llm.openai_chat.compat import Compat
from pinnace_agent.llm.openai_chat.foreign_signatures import signature_beside
from pinnace_agent.llm.openai_chat.messages import REASONING_FIELDS
from pinnace_agent.llm.openai_chat.reasoning_details import ReasoningDetails
from pinnace_agent.llm.openai_chat.repeated_event import RepeatedEvent
from pinnace_agent.llm.stop_reasons import end_answer
from pinnace_agent.llm.transport.exchange import StreamBroken, event_value
from pinnace_agent.llm.transport.sse import SseEvent

_DONE: Final = b"[DONE]"
TEXT: Final = "text"
THINKING: Final = "thinking"


class StreamedCall:
    """A tool call that is being streamed. The builder gets it when its name is known."""

    __slots__ = ("call_id", "has_index", "held", "is_open", "name", "signature")

    def __init__(self, has_index: bool) -> None:
        self.has_index = has_index
        self.call_id = ""
        self.name = ""
        self.held: list[str] = []
        self.is_open = False
        self.signature: str | None = None


class ChunkReader:
    """Reads the chunks of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, compat: Compat, texts: FailureTexts) -> None:
        """Fill `builder`; `texts` formats errors."""
        self.finish_reason: str | None = None
        """The provider's finish reason; with it the answer is complete, even if the connection breaks."""
        self._builder = builder
        self._compat = compat
        self._texts = texts
        self._asked_for = builder.model["id"]
        self._calls: list[StreamedCall] = []
        self._by_index: dict[int, StreamedCall] = {}
        self._by_id: dict[str, StreamedCall] = {}
        self._used_ids: set[str] = set()
        self._reasoning_field = ""
        self._text_signature: str | None = None
        self._details = ReasoningDetails()
        self._repeated = RepeatedEvent()

    @property
    def is_complete(self) -> bool:
        """Whether there is a finish reason."""
        return self.finish_reason is not None

    def read(self, event: SseEvent) -> bool:
        """Add one chunk to the message. As `StreamReader.read`."""
        name, data = event
        if not name and self._repeated.take(data):
            return False
        if data == _DONE:
            return True
        if name == b"error":
            raise StreamBroken(self._texts.error_event(data))
        self._read_chunk(data)
        return False

    def _read_chunk(self, data: bytes) -> None:
        chunk = as_object(event_value(data, self._texts))
        if chunk is None:
            return
        if error := chunk.get("error"):
            raise StreamBroken(self._texts.broke_off(error))
        if chunk.get("object") == "error":
            raise StreamBroken(self._texts.broke_off(chunk))
        if self._builder.response_id is None:
            self._builder.response_id = as_text(chunk.get("id"))
        model = chunk.get("model")
        if model != self._asked_for and self._builder.response_model is None:
            self._builder.response_model = as_text(model)
        if usage := chunk.get("usage"):
            self._read_usage(usage)
        choices = as_array(chunk.get("choices"))
        choice = as_object(choices[0]) if choices else None
        if choice is None:
            return
        if usage := choice.get("usage"):
            self._read_usage(usage)
        delta = choice.get("delta") or choice.get("message")  # the latter where `stream` was ignored
        if delta and (members := as_object(delta)) is not None:
            self._read_delta(members)
        if reason := as_text(choice.get("finish_reason")):
            self.finish_reason = reason
        elif self._repeated.is_due and not usage and not chunk.get("usage"):
            self._learn(data, choice)

    def _learn(self, data: bytes, choice: dict[str, object]) -> None:
        """Learn a chunk that holds a piece of one block and nothing else: the next is likely to repeat it."""
        delta = as_object(choice.get("delta")) or {}
        filled = [name for name, value in delta.items() if value and name != "role"]
        path: list[str | int] = ["choices", 0, "delta", *filled]
        match filled:
            case ["content"]:
                self._repeated.learn(data, path, self._add_text)
            case [field] if field in REASONING_FIELDS:
                self._repeated.learn(data, path, partial(self._add_thought, field))
            case ["tool_calls"]:
                calls = as_array(delta["tool_calls"])
                call = as_object(calls[0]) if len(calls) == 1 else None
                function = as_object(call.get("function")) if call else None
                if not call or not function or call.get("id") or function.get("name"):
                    return
                index = as_count(call.get("index"))
                if index is not None and index in self._by_index:
                    # By the index: another call may get it later.
                    add = partial(self._add_arguments, index)
                    self._repeated.learn(data, [*path, 0, "function", "arguments"], add)
            case _:
                pass

    def _add_text(self, text: str) -> None:
        if text:
            self._builder.text_delta(TEXT, text)

    def _add_thought(self, field: str, thought: str) -> None:
        if thought:
            # The thoughts are sent back in the field that came first.
            self._reasoning_field = self._reasoning_field or field
            self._builder.thinking_delta(THINKING, thought, self._reasoning_field)

    def finish(self) -> None:
        """End the message with the provider's stop reason, or as failed without one."""
        builder = self._builder
        for call in self._calls:
            if not call.is_open:
                self._open_call(call)
            if call.signature is not None:
                builder.sign_call(call, call.signature)
        if self._text_signature is not None and builder.has_block(TEXT):
            builder.sign_text(TEXT, self._text_signature)
        if (signature := self._details.signature()) is not None and builder.has_block(THINKING):
            builder.sign_thinking(THINKING, signature)
        builder.raw_stop_reason = self.finish_reason
        if self.finish_reason is None:
            if self._compat.supports_finish_reason:
                builder.finish("error", STREAM_WITHOUT_REASON)
            else:
                builder.finish("toolUse" if self._calls else "stop")
            return
        end_answer(builder, self.finish_reason, self._texts.shown(self._failed(self.finish_reason)))

    # What a relative of this API changes.

    def _failed(self, reason: str) -> str:
        """Return the error for an answer that ended for a reason other than success."""
        return finish_reason_failed(reason)

    def _new_id(self) -> str:
        """Return an id for a call that has none, or that of another."""
        return f"call_{uuid.uuid4().hex}"

    # Deltas

    def _read_delta(self, delta: dict[str, object]) -> None:
        """Take thoughts, text, calls in this order: proxies send several in one chunk."""
        self._text_signature = signature_beside(delta) or self._text_signature
        for field in REASONING_FIELDS:
            thought = delta.get(field)
            if thought and isinstance(thought, str):
                self._add_thought(field, thought)
                break
        content = delta.get("content")
        if content:
            self._add_text(content if isinstance(content, str) else _joined(content))
        if (refusal := delta.get("refusal")) and isinstance(refusal, str):
            self._add_text(refusal)
        for call in as_array(delta.get("tool_calls")):
            if (members := as_object(call)) is not None:
                self._read_call(members)
        for detail in as_array(delta.get("reasoning_details")):
            if (members := as_object(detail)) is not None:
                self._read_detail(members)

    def _read_call(self, delta: dict[str, object]) -> None:
        call_id = as_text(delta.get("id"))
        function = as_object(delta.get("function")) or {}
        name = as_text(function.get("name"))
        call = self._find_call(as_count(delta.get("index")), call_id, name)
        if call_id:
            # The first id and name win: gateways make up new ones with every chunk.
            call.call_id = call.call_id or call_id
            self._by_id.setdefault(call_id, call)
        call.name = call.name or name or ""
        call.signature = signature_beside(delta) or signature_beside(function) or call.signature
        arguments = function.get("arguments")
        if arguments is None:
            piece = ""
        else:
            piece = arguments if isinstance(arguments, str) else compact_json(arguments)
        self._add_piece(call, piece)

    def _add_arguments(self, index: int, piece: str) -> None:
        self._add_piece(self._by_index[index], piece)

    def _add_piece(self, call: StreamedCall, piece: str) -> None:
        if call.is_open:
            self._builder.toolcall_delta(call, piece)
            return
        call.held.append(piece)
        if call.name:
            self._open_call(call)

    def _find_call(self, index: int | None, call_id: str | None, name: str | None) -> StreamedCall:
        """Find the call that a delta belongs to: by index, then by id, then the last one; else it is new."""
        known = self._by_id.get(call_id) if call_id else None
        if index is not None:
            call = self._by_index.get(index)
            # Some give every call the same index: a new id and a name, behind arguments that are complete.
            if call is not None and not (call_id and known is None and name and self._is_complete(call)):
                return call
            # Calls that have an index are not distinguished by an id alone: gateways give the same one twice.
            call = known if known is not None and not known.has_index else self._new_call(True)
            call.has_index = True
            self._by_index[index] = call
            return call
        if known is not None:
            return known
        last = self._calls[-1] if self._calls else None
        # A name begins a call, unless it is repeated. Without one the last call continues, also under a new id.
        if last is None or (name and (call_id or name != last.name or self._is_complete(last))):
            return self._new_call(False)
        return last

    def _is_complete(self, call: StreamedCall) -> bool:
        """Return whether the arguments of a call can't continue."""
        try:
            orjson.loads(self._builder.toolcall_text(call) if call.is_open else "".join(call.held))
        except orjson.JSONDecodeError:
            return False
        return True

    def _new_call(self, has_index: bool) -> StreamedCall:
        call = StreamedCall(has_index)
        self._calls.append(call)
        return call

    def _open_call(self, call: StreamedCall) -> None:
        call.is_open = True
        # A result must be able to name its call: without an id, or with the same as another, it gets one of its own.
        if not call.call_id or call.call_id in self._used_ids:
            call.call_id = self._new_id()
        self._used_ids.add(call.call_id)
        self._builder.toolcall_start(call, call.call_id, call.name)
        for piece in call.held:
            self._builder.toolcall_delta(call, piece)
        call.held = []

    def _read_detail(self, detail: dict[str, object]) -> None:
        """Keep a gateway's record of the thoughts, to be sent back; that of a call's thoughts beside the call."""
        call = self._by_id.get(as_text(detail.get("id")) or "")
        if call is not None and call.is_open and as_text(detail.get("data")):
            self._builder.sign_call(call, compact_json(detail))
        elif self._compat.thinking_format == "openrouter" and self._details.add(detail):
            # Encrypted thoughts have a place among the others too.
            self._builder.thinking_delta(THINKING, "")

    def _read_usage(self, value: object) -> None:
        usage = as_object(value)
        if usage is None:
            return
        details = as_object(usage.get("prompt_tokens_details")) or {}
        cached = as_count(details.get("cached_tokens"))
        if cached is None:
            cached = as_count(usage.get("prompt_cache_hit_tokens"))
        if cached is None:
            cached = as_count(usage.get("cached_tokens")) or 0
        written = as_count(details.get("cache_write_tokens")) or 0
        output_details = as_object(usage.get("completion_tokens_details")) or {}
        tokens = RequestTokens(
            input=max(0, (as_count(usage.get("prompt_tokens")) or 0) - cached - written),
            output=as_count(usage.get("completion_tokens")) or 0,
            cache_read=cached,
            cache_write=written,
            reasoning=as_count(output_details.get("reasoning_tokens")) or 0,
        )
        self._builder.usage = usage_of(self._builder.model, tokens, reported_total=self._reported_cost(usage))

    def _reported_cost(self, usage: dict[str, object]) -> float | None:
        """Return the cost that the router reports; with the user's own key the provider's cost is added."""
        if self._compat.thinking_format != "openrouter":
            return None
        cost = as_amount(usage.get("cost"))
        if cost is None:
            return None
        upstream = as_object(usage.get("cost_details")) or {}
        if usage.get("is_byok") is True:
            cost += as_amount(upstream.get("upstream_inference_cost")) or 0
        return cost


def _joined(content: object) -> str:
    """Join the texts of a content in parts."""
    parts = (as_object(part) for part in as_array(content))
    return "".join(as_text(part.get("text")) or "" for part in parts if part is not None)
