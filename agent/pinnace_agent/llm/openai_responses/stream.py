"""The events of a response, as they stream in.

Decides what each event adds to the message. Takes what servers really send: missing indexes, items that are never
announced or only sent as a whole, the encrypted thoughts at the very end. Independent of HTTP.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from pinnace_agent.core.json_access import as_array, as_count, as_object, as_text, compact_json
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.openai_responses.items import (
    BLANK_LINE,
    Kind,
    OutputItem,
    OutputItems,
    joined_texts,
    kind_of,
    whole_arguments,
    whole_thoughts,
)
from pinnace_agent.llm.openai_responses.messages import ID_SEPARATOR
from pinnace_agent.llm.stop_reasons import stop_reason
from pinnace_agent.llm.transport.exchange import StreamBroken, event_value
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_spec.records.messages import Cost, Model, Usage

_DONE: Final = b"[DONE]"
# The events that end a response, with the status if the response lacks one.
_ENDS: Final = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.cancelled": "cancelled",
    "response.failed": "failed",
}
TIER_FACTORS: Final[dict[object, float]] = {"flex": 0.5, "priority": 2}
"""OpenAI's prices: half for waiting longer, double for waiting less."""
NO_END: Final = "Stream ended before the response was complete"


class ResponseReader:
    """Reads the events of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, texts: FailureTexts) -> None:
        """Fill `builder`; `texts` formats errors."""
        self._builder = builder
        self._texts = texts
        self._items = OutputItems()
        self._used_ids: set[str] = set()
        self._status: str | None = None
        self._reason = ""  # why the response is incomplete
        self._readers: dict[str, Callable[[dict[str, object]], None]] = {
            "response.created": self._read_response,
            "response.in_progress": self._read_response,
            "response.output_item.added": self._read_added,
            "response.output_item.done": self._read_done,
            "response.reasoning_summary_text.delta": lambda event: self._think(event, "summary_index", "delta"),
            "response.reasoning_summary_text.done": lambda event: self._think(event, "summary_index", "text"),
            "response.reasoning_summary_part.done": self._end_part,
            "response.reasoning_text.delta": lambda event: self._think(event, "content_index", "delta"),
            "response.reasoning_text.done": lambda event: self._think(event, "content_index", "text"),
            "response.output_text.delta": lambda event: self._say(event, "delta"),
            "response.output_text.done": lambda event: self._say(event, "text"),
            "response.refusal.delta": lambda event: self._say(event, "delta"),
            "response.refusal.done": lambda event: self._say(event, "refusal"),
            "response.function_call_arguments.delta": self._read_arguments,
            "response.function_call_arguments.done": self._end_arguments,
        }

    @property
    def is_complete(self) -> bool:
        """Whether the last event has arrived."""
        return self._status is not None

    def read(self, event: SseEvent) -> bool:
        """Add one event to the message. As `StreamReader.read`."""
        name, data = event
        if data == _DONE:
            return True
        members = as_object(event_value(data, self._texts))
        if members is None:
            return False
        # The event's name, if there is one, is the same.
        kind = as_text(members.get("type")) or name.decode(errors="replace")
        reader = self._readers.get(kind)
        if reader is not None:
            reader(members)
        elif kind in _ENDS:
            self._end(members, _ENDS[kind])
            return True
        elif kind == "error" or (not kind and members.get("error")):
            raise StreamBroken(error_text(self._texts, members))
        return False

    def finish(self) -> None:
        """End the message with the provider's stop reason, or as failed without one."""
        builder = self._builder
        calls = [item for item in self._items.all if item.kind == "function_call"]
        unfinished = next((call for call in calls if not call.is_done), None)
        builder.raw_stop_reason = self._reason or self._status
        match self._status:
            case None:
                builder.fail(NO_END)
            case "incomplete" if stop_reason(self._reason) == "length":
                builder.finish("length")
            case "incomplete":
                builder.finish("error", f"Response incomplete: {self._reason or 'no reason given'}")
            case "cancelled":
                builder.finish("error", "Response cancelled")
            case _ if unfinished is not None:
                builder.fail(call_incomplete(unfinished.name))
            case _:
                builder.finish("toolUse" if calls else "stop")

    # Items

    def _find(self, kind: Kind, event: Mapping[str, object]) -> OutputItem:
        """Find the item of a delta; one that was never announced begins with it."""
        item = self._items.find(kind, event, {})
        if item is None:
            item = self._items.add(kind, event, {})
            self._open(item)
        return item

    def _read_added(self, event: dict[str, object]) -> None:
        members = as_object(event.get("item")) or {}
        kind = kind_of(members)
        if kind is not None:
            self._announce(kind, event, members)

    def _announce(self, kind: Kind, event: Mapping[str, object], members: Mapping[str, object]) -> OutputItem:
        item = self._items.find(kind, event, members)
        if item is None:
            item = self._items.add(kind, event, members)
            if arguments := as_text(members.get("arguments")):
                item.held.append(arguments)
        else:
            self._items.name(item, event, members)
        self._open(item)
        return item

    def _open(self, item: OutputItem) -> None:
        """Open the block of an item, unless it is open or its name is missing."""
        if item.is_open or (item.kind == "function_call" and not item.name):
            return
        item.is_open = True
        match item.kind:
            case "reasoning":
                self._builder.thinking_delta(item, "")
            case "message":
                self._builder.text_delta(item, "")
            case "function_call":
                self._builder.toolcall_start(item, self._call_id(item), item.name)
                for piece in item.held:
                    self._builder.toolcall_delta(item, piece)
                item.held = []

    def _call_id(self, item: OutputItem) -> str:
        """Return the id of a call in the session: both of the provider's, so that both can be sent back."""
        call_id = item.call_id or item.item_id or f"call_{uuid.uuid4().hex}"
        whole = f"{call_id}{ID_SEPARATOR}{item.item_id}" if item.item_id else call_id
        # A result must be able to name its call.
        if whole in self._used_ids:
            whole = f"call_{uuid.uuid4().hex}"
        self._used_ids.add(whole)
        return whole

    def _read_done(self, event: dict[str, object]) -> None:
        members = as_object(event.get("item")) or {}
        kind = kind_of(members)
        if kind is not None:
            self._complete(self._announce(kind, event, members), members)

    def _complete(self, item: OutputItem, members: Mapping[str, object]) -> None:
        """Close an item: the complete item takes precedence over its deltas."""
        if item.is_done:
            return
        item.is_done = True
        item.wire = members
        match item.kind:
            case "reasoning":
                self._builder.sign_thinking(item, compact_json(members))
                self._builder.end_block(item, whole_thoughts(members, item.parts))
            case "message":
                if item_id := as_text(members.get("id")):
                    phase = as_text(members.get("phase"))
                    signature = {"v": 1, "id": item_id, **({"phase": phase} if phase else {})}
                    self._builder.sign_text(item, compact_json(signature))
                self._builder.end_block(item, joined_texts(members.get("content"), "text", "refusal"))
            case "function_call":
                if not item.is_open:
                    item.name = item.name or "unnamed"
                    self._open(item)
                self._builder.end_block(item, whole_arguments(members.get("arguments")))

    # Deltas

    def _think(self, event: dict[str, object], index: str, field: str) -> None:
        item = self._find("reasoning", event)
        text = as_text(event.get(field))
        part = (index, as_count(event.get(index)))
        if text is None or item.is_done or (field != "delta" and part in item.parts):
            return
        is_next = bool(item.parts) and part != item.part
        item.part = part
        item.parts.add(part)
        self._builder.thinking_delta(item, BLANK_LINE + text if is_next else text)

    def _end_part(self, event: dict[str, object]) -> None:
        """Note that what follows is another part, also where parts have no index."""
        self._find("reasoning", event).part = None

    def _say(self, event: dict[str, object], field: str) -> None:
        item = self._find("message", event)
        text = as_text(event.get(field))
        part = ("content_index", as_count(event.get("content_index")))
        if text is None or item.is_done or (field != "delta" and part in item.parts):
            return
        item.parts.add(part)
        self._builder.text_delta(item, text)

    def _read_arguments(self, event: dict[str, object]) -> None:
        item = self._find("function_call", event)
        piece = event.get("delta")
        if not isinstance(piece, str) or item.is_done:
            return
        if item.is_open:
            self._builder.toolcall_delta(item, piece)
        else:
            item.held.append(piece)

    def _end_arguments(self, event: dict[str, object]) -> None:
        item = self._find("function_call", event)
        self._items.name(item, {}, {"name": event.get("name")})
        self._open(item)
        if item.is_open and not item.is_done:
            item.is_done = True
            self._builder.end_block(item, whole_arguments(event.get("arguments")))

    # The response as a whole

    def _read_response(self, event: dict[str, object]) -> None:
        self._name(as_object(event.get("response")) or {})

    def _name(self, response: Mapping[str, object]) -> None:
        builder = self._builder
        if builder.response_id is None:
            builder.response_id = as_text(response.get("id"))
        model = as_text(response.get("model"))
        if builder.response_model is None and model != builder.model["id"]:
            builder.response_model = model

    def _end(self, event: dict[str, object], status: str) -> None:
        response = as_object(event.get("response")) or {}
        self._name(response)
        usage = response_usage(self._builder.model, response)
        if usage is not None:
            self._builder.usage = usage
        said = (as_text(response.get("status")) or "").lower()
        status = said if said in _ENDS.values() else status
        if status == "failed":
            raise StreamBroken(failure_text(self._texts, response))
        self._read_output(as_array(response.get("output")))
        details = as_object(response.get("incomplete_details")) or {}
        self._reason = (as_text(details.get("reason")) or "") if status == "incomplete" else ""
        self._status = status

    def _read_output(self, output: list[object]) -> None:
        """Take from the finished output what did not stream: whole items, ends of items, encrypted thoughts."""
        is_all_new = not self._items.all
        for position, value in enumerate(output):
            members = as_object(value) or {}
            kind = kind_of(members)
            if kind is None:
                continue
            item = self._items.of_output(position, kind, members)
            if item is None:
                if is_all_new:
                    self._complete(self._announce(kind, {"output_index": position}, members), members)
            elif not item.is_done:
                if members.get("status") != "in_progress":
                    self._items.name(item, {}, members)
                    self._open(item)
                    self._complete(item, members)
            elif kind == "reasoning" and members.get("encrypted_content") and not item.wire.get("encrypted_content"):
                whole = {**item.wire, "encrypted_content": members["encrypted_content"]}
                self._builder.sign_thinking(item, compact_json(whole))


def response_usage(model: Model, response: Mapping[str, object]) -> Usage | None:
    """Count and price a response; None if it has no counts."""
    counts = as_object(response.get("usage"))
    if counts is None:
        return None
    input_details = as_object(counts.get("input_tokens_details")) or {}
    output_details = as_object(counts.get("output_tokens_details")) or {}
    cached = as_count(input_details.get("cached_tokens")) or 0
    written = as_count(input_details.get("cache_write_tokens")) or 0
    tokens = RequestTokens(
        input=max(0, (as_count(counts.get("input_tokens")) or 0) - cached - written),
        output=as_count(counts.get("output_tokens")) or 0,
        cache_read=cached,
        cache_write=written,
        reasoning=as_count(output_details.get("reasoning_tokens")) or 0,
    )
    usage = usage_of(model, tokens)
    tier = response.get("service_tier")
    factor = TIER_FACTORS.get(tier) if isinstance(tier, str) else None
    return usage if factor is None else {**usage, "cost": _scaled(usage["cost"], factor)}


def _scaled(cost: Cost, factor: float) -> Cost:
    scaled: Cost = {
        "input": cost["input"] * factor,
        "output": cost["output"] * factor,
        "cacheRead": cost["cacheRead"] * factor,
        "cacheWrite": cost["cacheWrite"] * factor,
        "total": cost["total"] * factor,
    }
    return scaled


def call_incomplete(name: str) -> str:
    """Return the error for a complete response with an incomplete call."""
    return f"Stream ended before the tool call {name or 'without a name'} was complete"


def error_text(texts: FailureTexts, event: Mapping[str, object]) -> str:
    """Return the error for an error event; some contain it under `error`."""
    error = event.get("error") or {name: value for name, value in event.items() if name in {"code", "message"}}
    text = texts.broke_off(error or event)
    code = _code(error)
    return f"Error Code {texts.shown(code)}: {text}" if code else text


def failure_text(texts: FailureTexts, response: Mapping[str, object]) -> str:
    """Return the error for a failed response."""
    error = response.get("error")
    if not error:
        return "Response failed: the provider gave no reason"
    text = texts.broke_off(error)
    code = _code(error)
    return f"{texts.shown(code)}: {text}" if code else text


def _code(error: object) -> str:
    """Return how an error is classified, empty if it is not."""
    members = as_object(error) or {}
    for name in ("code", "type"):
        value = members.get(name)
        if isinstance(value, str | int) and value and not isinstance(value, bool):
            return str(value)
    return ""
