"""Writes pieces of an answer as server-sent events of OpenAI Responses.

Pure: bytes in order, without HTTP. Built after the published format: every event has its name, its sequence number
and the index of its item, every item is announced and sent as a whole.
"""

from collections.abc import Mapping
from typing import assert_never

from pinnace_fuzz.harness.model_server.openai_wire import CREATED_S, numbered, sse_event
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

RESPONSE_ID = "resp_fake"
# The words of chat completions for what ends a response too early; any other reason is a complete one.
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class _Item:
    """One output item and its text so far."""

    def __init__(self, index: int, head: Mapping[str, object]) -> None:
        self.index = index
        self.head = dict(head)
        self.pieces: list[str] = []
        self.is_open = True

    def whole(self) -> dict[str, object]:
        """Return the item as it is sent when done."""
        text = "".join(self.pieces)
        match self.head["type"]:
            case "reasoning":
                more: dict[str, object] = {"summary": [{"type": "summary_text", "text": text}] if text else []}
                more["encrypted_content"] = f"encrypted-{self.index}"
            case "message":
                more = {"status": "completed", "content": [_text_part(text)]}
            case _:
                more = {"status": "completed", "arguments": text}
        return {**self.head, **more}


class OpenAiResponses:
    """A response as a server of `stream: true` writes it."""

    def __init__(self, model: str, number: int = 0) -> None:
        self._model = model
        self._number = number
        self._sequence = 0
        self._items: list[_Item] = []
        self._calls: dict[int, _Item] = {}
        self._usage: TokenUsage | None = None
        self._finish = "stop"

    def head(self) -> bytes:
        """Write the events that announce the response."""
        response = self._response("in_progress")
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def piece(self, piece: Content) -> bytes:
        """Write one piece, with the events around it."""
        match piece:
            case Text(delta):
                begun, item = self._current("message", {"role": "assistant", "content": [], "status": "in_progress"})
                place: dict[str, object] = {"item_id": item.head["id"], "output_index": item.index, "content_index": 0}
                opened = self._event("response.content_part.added", **place, part=_text_part("")) if begun else b""
                item.pieces.append(delta)
                return begun + opened + self._event("response.output_text.delta", **place, delta=delta, logprobs=[])
            case Reasoning(delta):
                begun, item = self._current("reasoning", {"summary": []})
                place = {"item_id": item.head["id"], "output_index": item.index, "summary_index": 0}
                part = {"type": "summary_text", "text": ""}
                opened = self._event("response.reasoning_summary_part.added", **place, part=part) if begun else b""
                item.pieces.append(delta)
                return begun + opened + self._event("response.reasoning_summary_text.delta", **place, delta=delta)
            case ToolStart(position, call_id, name):
                call = {"call_id": call_id, "name": name, "arguments": "", "status": "in_progress"}
                closed = self._close_texts()
                begun, self._calls[position] = self._begin("function_call", call)
                return closed + begun
            case ToolArguments(position, part):
                item = self._calls[position]
                item.pieces.append(part)
                place = {"item_id": item.head["id"], "output_index": item.index}
                return self._event("response.function_call_arguments.delta", **place, delta=part)
            case Finish(reason):
                self._finish = reason
                return b""
            case TokenUsage():
                self._usage = piece
                return b""
            case SseEvent(value):
                return sse_event(value)
            case Raw(data):
                return data
            case _:
                assert_never(piece)

    def tail(self) -> bytes:
        """Write the ends of all items and of the response."""
        ends = b"".join(self._end(item) for item in self._items if item.is_open)
        reason = _INCOMPLETE.get(self._finish)
        status = "completed" if reason is None else "incomplete"
        return ends + self._event(f"response.{status}", response=self._response(status, reason))

    def refusal(self, status: int, refusal: Refusal) -> Mapping[str, object]:
        """Write the body of a refusal."""
        return openai_refusal(status, refusal)

    def _current(self, kind: str, head: Mapping[str, object]) -> tuple[bytes, _Item]:
        """Return the open item of a text, which is the last one, or begin it."""
        last = self._items[-1] if self._items else None
        if last is not None and last.is_open and last.head["type"] == kind:
            return b"", last
        closed = self._close_texts()
        begun, item = self._begin(kind, head)
        return closed + begun, item

    def _begin(self, kind: str, head: Mapping[str, object]) -> tuple[bytes, _Item]:
        index = len(self._items)
        prefix = {"message": "msg", "reasoning": "rs", "function_call": "fc"}[kind]
        item = _Item(index, {"id": f"{numbered(prefix, self._number)}_{index}", "type": kind, **head})
        self._items.append(item)
        return self._event("response.output_item.added", output_index=index, item=item.head), item

    def _close_texts(self) -> bytes:
        texts = [item for item in self._items if item.is_open and item.head["type"] != "function_call"]
        return b"".join(map(self._end, texts))

    def _end(self, item: _Item) -> bytes:
        item.is_open = False
        text = "".join(item.pieces)
        place: dict[str, object] = {"item_id": item.head["id"], "output_index": item.index}
        match item.head["type"]:
            case "message":
                place["content_index"] = 0
                ends = self._event("response.output_text.done", **place, text=text, logprobs=[])
                ends += self._event("response.content_part.done", **place, part=_text_part(text))
            case "reasoning":
                place["summary_index"] = 0
                part = {"type": "summary_text", "text": text}
                ends = self._event("response.reasoning_summary_text.done", **place, text=text)
                ends += self._event("response.reasoning_summary_part.done", **place, part=part)
            case _:
                name = item.head["name"]
                ends = self._event("response.function_call_arguments.done", **place, arguments=text, name=name)
        return ends + self._event("response.output_item.done", output_index=item.index, item=item.whole())

    def _response(self, status: str, reason: str | None = None) -> Mapping[str, object]:
        return {
            "id": numbered(RESPONSE_ID, self._number),
            "object": "response",
            "created_at": CREATED_S,
            "status": status,
            "error": None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "instructions": None,
            "metadata": {},
            "model": self._model,
            "output": [item.whole() for item in self._items if not item.is_open],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": None if self._usage is None else _usage(self._usage),
        }

    def _event(self, kind: str, **fields: object) -> bytes:
        event = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return sse_event(event, kind)


def _text_part(text: str) -> Mapping[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(usage: TokenUsage) -> Mapping[str, object]:
    input_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": input_tokens + usage.output_tokens,
    }
