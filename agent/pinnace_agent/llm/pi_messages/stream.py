"""The events of pi's gateway, as they stream in: those that pi itself shows of an answer.

Decides what each event adds to the message. Blocks have the index of their place, so one begins only behind all others.
Events of unknown types are passed over. What a block's end and the last event say replaces what was guessed before.
Independent of HTTP.
"""

from typing import Final

import orjson

from pinnace_agent.core.json_access import as_amount, as_count, as_object, as_text, compact_json
from pinnace_agent.llm.arguments import read_arguments
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.stop_reasons import end_answer
from pinnace_agent.llm.transport.exchange import StreamBroken, UnreadableEvent
from pinnace_agent.llm.transport.sse import SseEvent

_DONE: Final = b"[DONE]"


class EventReader:
    """Reads the events of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, texts: FailureTexts) -> None:
        """Fill `builder`; `texts` formats errors."""
        self._builder = builder
        self._texts = texts
        self._kinds: list[str] = []
        self._reason: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the last event has arrived."""
        return self._reason is not None

    def read(self, event: SseEvent) -> bool:
        """Add one event to the message. As `StreamReader.read`."""
        data = event[1].strip()
        if not data or data == _DONE:
            return False
        try:
            members = as_object(orjson.loads(data))
        except orjson.JSONDecodeError as error:
            raise UnreadableEvent(self._texts.unreadable_chunk(str(error), data)) from None
        if members is None:
            return False
        kind = as_text(members.get("type")) or ""
        if kind in {"done", "error"}:
            self._end(kind, members)
        elif "_" in kind:
            self._read_block(kind, members)
        elif not kind and members.get("error"):
            raise StreamBroken(self._texts.broke_off(members["error"]))
        return self.is_complete

    def finish(self) -> None:
        """End the message with the gateway's stop reason, or as failed without one."""
        builder, reason = self._builder, self._reason
        builder.raw_stop_reason = reason
        if reason is None:
            builder.fail(f"{builder.model['provider']} stream ended without a terminal event")
        else:
            end_answer(builder, reason, self._texts.shown(f"Provider stop reason: {reason}"))

    def _read_block(self, kind: str, members: dict[str, object]) -> None:
        family, _, step = kind.partition("_")
        if family not in {"text", "thinking", "toolcall"} or step not in {"start", "delta", "end"}:
            return
        index = as_count(members.get("contentIndex"))
        if step == "start":
            if index is None or index != len(self._kinds):
                raise StreamBroken(self._misplaced(kind, members))
            self._kinds.append(family)
            self._start(family, index, members)
        elif index is None or index >= len(self._kinds) or self._kinds[index] != family:
            raise StreamBroken(self._misplaced(kind, members))
        elif self._builder.has_block(index):
            if step == "delta":
                self._add(family, index, as_text(members.get("delta")) or "")
            else:
                self._close(family, index, members)

    def _misplaced(self, kind: str, members: dict[str, object]) -> str:
        shown = self._texts.shown(compact_json(members.get("contentIndex")), 50)
        return f"The stream has a {kind} event with an invalid contentIndex: {shown}"

    def _start(self, family: str, index: int, members: dict[str, object]) -> None:
        match family:
            case "text":
                self._builder.text_delta(index, "")
            case "thinking":
                self._builder.thinking_delta(index, "")
            case _:
                name = as_text(members.get("toolName")) or ""
                self._builder.toolcall_start(index, as_text(members.get("id")) or f"call_{index}", name)

    def _add(self, family: str, index: int, delta: str) -> None:
        match family:
            case "text":
                self._builder.text_delta(index, delta)
            case "thinking":
                self._builder.thinking_delta(index, delta)
            case _:
                self._builder.toolcall_delta(index, delta)

    def _close(self, family: str, index: int, members: dict[str, object]) -> None:
        builder, signature = self._builder, as_text(members.get("contentSignature"))
        if family == "toolcall":
            self._close_call(index, as_object(members.get("toolCall")) or {})
            return
        if family == "text" and signature:
            builder.sign_text(index, signature)
        elif family == "thinking" and members.get("redacted") is True:
            builder.redact_thinking(index, signature or "")
        elif family == "thinking" and signature:
            builder.sign_thinking(index, signature)
        builder.end_block(index, as_text(members.get("content")))

    def _close_call(self, index: int, call: dict[str, object]) -> None:
        if signature := as_text(call.get("thoughtSignature")):
            self._builder.sign_call(index, signature)
        arguments = as_object(call.get("arguments"))
        guessed, problem = read_arguments(self._builder.toolcall_text(index))
        is_known = arguments is None or (problem is None and guessed == arguments)
        self._builder.end_block(index, None if is_known else compact_json(arguments))

    def _end(self, kind: str, members: dict[str, object]) -> None:
        builder = self._builder
        self._read_usage(as_object(members.get("usage")) or {})
        builder.response_id = as_text(members.get("responseId"))
        builder.response_model = as_text(members.get("responseModel"))
        if kind == "error":
            message = as_text(members.get("errorMessage")) or "The gateway reports an error without a text"
            raise StreamBroken(self._texts.broke_off(message))
        self._reason = as_text(members.get("reason")) or "stop"

    def _read_usage(self, usage: dict[str, object]) -> None:
        """Take the counts, and what the gateway says that they cost."""
        tokens = RequestTokens(
            input=as_count(usage.get("input")) or 0,
            output=as_count(usage.get("output")) or 0,
            cache_read=as_count(usage.get("cacheRead")) or 0,
            cache_write=as_count(usage.get("cacheWrite")) or 0,
            cache_write_1h=as_count(usage.get("cacheWrite1h")) or 0,
            reasoning=as_count(usage.get("reasoning")) or 0,
        )
        total = as_amount((as_object(usage.get("cost")) or {}).get("total"))
        self._builder.usage = usage_of(self._builder.model, tokens, reported_total=total)
