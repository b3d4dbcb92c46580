"""The events of a response, as they stream in.

Decides what each event adds to the message. Takes what servers really send: missing indexes, items that are never
announced or only told as a whole, the encrypted thoughts at the very end. Must not know HTTP.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.event_json import event_value
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.http_exchange import StreamBroken
from pinnace_agent.llm.json_edge import as_array, as_count, as_object, as_text, compact_json
from pinnace_agent.llm.responses_failures import NO_END, call_incomplete, error_text, failure_text
from pinnace_agent.llm.responses_items import Item, Kind, OutputItems, kind_of
from pinnace_agent.llm.responses_messages import ID_SEPARATOR
from pinnace_agent.llm.responses_usage import response_usage
from pinnace_agent.llm.responses_wholes import BLANK_LINE, joined_texts, whole_arguments, whole_thoughts
from pinnace_agent.llm.sse import SseEvent

_DONE: Final = b"[DONE]"
# What ends a response, and what it means where the response itself does not say.
_ENDS: Final = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.cancelled": "cancelled",
    "response.failed": "failed",
}
_OUT_OF_TOKENS: Final = "max_output_tokens"


class ResponseReader:
    """Reads the events of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, texts: FailureTexts) -> None:
        """Fill `builder`; `texts` words what goes wrong."""
        self._builder = builder
        self._texts = texts
        self._items = OutputItems()
        self._told_ids: set[str] = set()
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
        """Whether the response has been said to be over."""
        return self._status is not None

    def read(self, event: SseEvent) -> bool:
        """Add what one event says. As `StreamReader.read`."""
        name, data = event
        if data == _DONE:
            return True
        members = as_object(event_value(data, self._texts))
        if members is None:
            return False
        # The name of the event says the same, where there is one.
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
        """End the message: as the provider said, or in failure if it did not say how."""
        builder = self._builder
        calls = [item for item in self._items.all if item.kind == "function_call"]
        unfinished = next((call for call in calls if not call.is_done), None)
        builder.raw_stop_reason = self._reason or self._status
        match self._status:
            case None:
                builder.fail(NO_END)
            case "incomplete" if self._reason == _OUT_OF_TOKENS:
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

    def _find(self, kind: Kind, event: Mapping[str, object]) -> Item:
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

    def _announce(self, kind: Kind, event: Mapping[str, object], members: Mapping[str, object]) -> Item:
        item = self._items.find(kind, event, members)
        if item is None:
            item = self._items.add(kind, event, members)
            if arguments := as_text(members.get("arguments")):
                item.held.append(arguments)
        else:
            self._items.name(item, event, members)
        self._open(item)
        return item

    def _open(self, item: Item) -> None:
        """Open the block of an item, unless it is open or its name is missing."""
        if item.is_told or (item.kind == "function_call" and not item.name):
            return
        item.is_told = True
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

    def _call_id(self, item: Item) -> str:
        """Return the id of a call in the session: both of the provider's, so that both can be sent back."""
        call_id = item.call_id or item.item_id or f"call_{uuid.uuid4().hex}"
        whole = f"{call_id}{ID_SEPARATOR}{item.item_id}" if item.item_id else call_id
        # A result must be able to name its call.
        if whole in self._told_ids:
            whole = f"call_{uuid.uuid4().hex}"
        self._told_ids.add(whole)
        return whole

    def _read_done(self, event: dict[str, object]) -> None:
        members = as_object(event.get("item")) or {}
        kind = kind_of(members)
        if kind is not None:
            self._complete(self._announce(kind, event, members), members)

    def _complete(self, item: Item, members: Mapping[str, object]) -> None:
        """Close an item: what is said of it as a whole counts."""
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
                if not item.is_told:
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
        if item.is_told:
            self._builder.toolcall_delta(item, piece)
        else:
            item.held.append(piece)

    def _end_arguments(self, event: dict[str, object]) -> None:
        item = self._find("function_call", event)
        self._items.name(item, {}, {"name": event.get("name")})
        self._open(item)
        if item.is_told and not item.is_done:
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
        said = as_text(response.get("status")) or ""
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
