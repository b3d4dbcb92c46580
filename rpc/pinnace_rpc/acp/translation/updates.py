"""Records of an agent, in their order, to the updates of a session.

Keeps no more than what the protocol needs to name things: which message is open, which calls it has announced and what
their last status was. Every announced call gets one terminal status; nothing follows it. Must not know requests,
dialogs or how a turn ends. Work per record does not depend on the length of the session.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation import tool_calls
from pinnace_rpc.acp.translation.tool_calls import Json

Status: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
Update: TypeAlias = dict[str, object]

_ENDED: Final = ("completed", "failed")


@dataclass(slots=True)
class _Call:
    id: str
    tool: str
    status: Status = "pending"
    arguments: Json = field(default_factory=dict[str, object])
    agent_id: str = ""


class ClientFeatures:
    """What a client understands beyond the plain updates."""

    def __init__(self, *, notices: bool = False, compactions: bool = False) -> None:
        """Take the capabilities of `initialize`."""
        self.notices = notices
        self.compactions = compactions


class Translator:
    """The updates of one session."""

    def __init__(self, cwd: str, features: ClientFeatures) -> None:
        """Begin with no message open."""
        self._cwd = cwd
        self._features = features
        self._entry = ""
        """Of the open answer; empty: it is shown at its end."""
        self._begun = ""
        """Of the message that has begun and that the client knows; one that it does not know is shown at its end."""
        self._shown: Container[str] = ()
        """The last entries that the client knows from a replay: records of them may still come."""
        self._ended = ""
        """The entry of the last complete answer."""
        self._by_index: dict[int, _Call] = {}
        """The calls of the open answer, by the index of their block."""
        self._calls: list[_Call] = []
        """Those of the last answer, in their order."""
        self._waiting: deque[_Call] = deque()
        """Those of them that have not begun."""
        self._running: dict[object, _Call] = {}
        """By what the agent's records name them by (`_key`)."""
        self._compaction = ""
        self._is_compacting = False
        self._own_messages: set[str] = set()
        self._by_type: Final[Mapping[str, Callable[[Json], Iterator[Update]]]] = {
            "message_update": self._delta,
            "message_start": self._begin_message,
            "message_end": self._end_message,
            "tool_execution_start": self._begin_call,
            "tool_execution_update": self._progress,
            "tool_execution_end": self._end_call,
            "compaction_start": self._begin_compaction,
            "compaction_end": self._end_compaction,
            "auto_retry_start": self._retry,
            "session_info_changed": self._rename,
        }
        self.answer: Json | None = None
        """The last answer of a model that has ended."""

    def join(self, shown: Container[str], answer: tuple[str, Json, Container[int]] | None) -> None:
        """Go on behind entries: an entry may be there before the records that show it.

        Args:
            shown: The last entries, from the last answer on.
            answer: The last answer, if nothing but results follows it: its entry, the message, and the positions of
                those of its calls that have a result.
        """
        self._shown = shown
        if answer is None or answer[0] == self._ended:
            return
        self._ended, message, done = answer
        self._by_index.clear()
        self._waiting.clear()
        self._calls.clear()
        if not _has_failed(message):
            self._expect_calls(message, done)

    def _expect_calls(self, answer: Json, done: Container[int]) -> None:
        for position, (_, block) in enumerate(call_blocks(answer)):
            identity = call_id(self._ended, position)
            call = _Call(identity, str(block.get("name", "tool")), "in_progress", arguments_of(block))
            call.agent_id = str(block.get("id", ""))
            self._calls.append(call)
            if position in done:
                call.status = "completed"
            else:
                self._running[position] = call

    def begin_again(self) -> Iterator[Update]:
        """Yield what is open and has no entry, for a client that gets the session anew.

        A message that has begun and has no entry is shown at its end, and then whole.
        """
        self._entry = self._begun = ""
        self._by_index.clear()
        if self._is_compacting and self._compaction not in self._shown:
            yield self._compacting()

    @property
    def unfinished(self) -> frozenset[str]:
        """The ids of the calls of the last complete answer that have not ended."""
        return frozenset(call.id for call in self._calls if call.status not in _ENDED)

    def expect(self, message_id: str) -> None:
        """Take notice of a message that this client has sent: it is not shown to it again."""
        self._own_messages.add(message_id)

    def call_fields(self, call_id: str) -> Update | None:
        """Return what the client knows of a call, for a question about it; None: no such call runs.

        Args:
            call_id: The agent's id of the call; of several that have it, the first one that has not begun.
        """
        calls = [call for call in self._running.values() if call.agent_id == call_id]
        if not calls:
            return None
        call = next((each for each in calls if each.status == "pending"), calls[0])
        described = tool_calls.described(call.tool, call.arguments, self._cwd)
        return {"toolCallId": call.id, "kind": tool_calls.kind(call.tool), "status": call.status, **described}

    def take(self, record: Json) -> Iterator[Update]:
        """Yield the updates of a record; most have none or one."""
        translate = self._by_type.get(cast("str", record["type"]))
        return iter(()) if translate is None else translate(record)

    def close(self) -> Iterator[Update]:
        """Yield the end of every call that was announced and has none."""
        for call in (*self._by_index.values(), *self._calls, *self._running.values()):
            yield from self._fail(call)
        self._by_index.clear()
        self._calls.clear()
        self._waiting.clear()
        self._running.clear()

    # Messages.

    def _begin_message(self, record: Json) -> Iterator[Update]:
        message = cast("Json", record["message"])
        entry = self._begun = str(record.get("entryId", ""))
        own = str(record.get("messageId"))
        if message.get("role") == "assistant":
            self._entry = entry
            self._by_index.clear()
        elif own in self._own_messages:
            self._own_messages.discard(own)
        else:
            yield from self._said(entry, message)

    def _delta(self, record: Json) -> Iterator[Update]:
        if not self._entry:
            return
        event = cast("Json", record["assistantMessageEvent"])
        match event["type"]:
            case "text_delta":
                yield chunk("agent_message_chunk", self._entry, cast("str", event["delta"]))
            case "thinking_delta":
                yield chunk("agent_thought_chunk", self._entry, cast("str", event["delta"]))
            case "toolcall_start":
                yield from self._announce(cast("int", event["contentIndex"]), str(event.get("toolName", "tool")))
            case "toolcall_end":
                yield from self._describe(cast("int", event["contentIndex"]), cast("Json", event["toolCall"]))
            case _:
                pass

    def _announce(self, index: int, tool: str) -> Iterator[Update]:
        if index not in self._by_index:
            call = self._by_index[index] = _Call(call_id(self._entry, len(self._by_index)), tool)
            yield tool_calls.announced(call.id, tool)

    def _describe(self, index: int, block: Json) -> Iterator[Update]:
        tool = str(block.get("name", "tool"))
        yield from self._announce(index, tool)
        call = self._by_index[index]
        if not call.arguments:
            call.tool = tool
            call.arguments = arguments_of(block)
            described = tool_calls.described(tool, call.arguments, self._cwd)
            yield {"sessionUpdate": "tool_call_update", "toolCallId": call.id, "name": tool, **described}

    def _end_message(self, record: Json) -> Iterator[Update]:
        message = cast("Json", record["message"])
        entry = str(record.get("entryId", ""))
        if message.get("role") == "assistant":
            self.answer = message
            if entry not in self._shown:
                yield from self._end_answer(entry, message)
        elif entry != self._begun:
            yield from self._said(entry, message)

    def _said(self, entry: str, message: Json) -> Iterator[Update]:
        """Yield a message that is no answer, unless the client knows it."""
        if entry in self._shown:
            return
        match message.get("role"):
            case "user":
                yield from user_updates(entry, message)
            case "custom":
                yield from custom_updates(entry, message)
            case _:
                pass

    def _end_answer(self, entry: str, message: Json) -> Iterator[Update]:
        self._ended = entry
        if not self._entry:
            self._entry = entry
            for each in as_array(message.get("content")):
                if (said := block_chunk(self._entry, as_object(each) or {})) is not None:
                    yield said
        for index, block in call_blocks(message):
            yield from self._describe(index, block)
        calls = [self._by_index[index] for index in sorted(self._by_index)]
        self._by_index.clear()
        if _has_failed(message):
            for call in calls:
                yield from self._fail(call)
            return
        self._calls = calls
        self._waiting = deque(calls)

    # Calls.

    def _begin_call(self, record: Json) -> Iterator[Update]:
        call = self._next_call(record)
        if call is None:
            return
        self._running[_key(record)] = call
        call.agent_id = str(record["toolCallId"])
        if record.get("gated") is not True:
            yield from self._advance(call)

    def _next_call(self, record: Json) -> _Call | None:
        index = record.get("callIndex")
        if isinstance(index, int) and index < len(self._calls):
            return self._calls[index]
        return self._waiting.popleft() if self._waiting else None

    def _progress(self, record: Json) -> Iterator[Update]:
        call = self._running.get(_key(record))
        if call is None or call.status in _ENDED:
            return
        shown = tool_calls.output(cast("Json", record["partialResult"]).get("content"))
        if call.status == "pending" or shown:
            yield from self._advance(call, shown)

    def _advance(self, call: _Call, content: Sequence[Json] = ()) -> Iterator[Update]:
        update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": call.id}
        if call.status == "pending":
            call.status = "in_progress"
            update["status"] = "in_progress"
        if content:
            update["content"] = content
        yield update

    def _end_call(self, record: Json) -> Iterator[Update]:
        call = self._running.pop(_key(record), None)
        if call is None or call.status in _ENDED:
            return
        is_error = record.get("isError") is True
        call.status = "failed" if is_error else "completed"
        result = cast("Json", record["result"])
        ended = tool_calls.finished(call.tool, call.arguments, result, self._cwd, is_error=is_error)
        yield {"sessionUpdate": "tool_call_update", "toolCallId": call.id, **ended}

    def _fail(self, call: _Call) -> Iterator[Update]:
        if call.status not in _ENDED:
            call.status = "failed"
            yield {"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": "failed"}

    # Compactions and retries.

    def _begin_compaction(self, record: Json) -> Iterator[Update]:
        self._compaction = str(record["entryId"])
        self._is_compacting = True
        yield self._compacting()

    def _compacting(self) -> Update:
        if self._features.compactions:
            return {"sessionUpdate": "compaction_update", "compactionId": self._compaction, "status": "in_progress"}
        return {**_think(self._compaction, "Compaction"), "status": "in_progress"}

    def _end_compaction(self, record: Json) -> Iterator[Update]:
        if str(record["entryId"]) in self._shown:
            self._is_compacting = False
            return
        if not self._is_compacting:
            yield from self._begin_compaction(record)
        self._is_compacting = False
        result = as_object(record.get("result"))
        summary = None if result is None else str(result.get("summary", ""))
        error = record.get("errorMessage")
        if self._features.compactions:
            yield compaction_update(self._compaction, summary, str(error) if isinstance(error, str) else None)
            return
        update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": self._compaction}
        update["status"] = "failed" if summary is None else "completed"
        said = summary if summary is not None else error
        if isinstance(said, str) and said:
            update["content"] = tool_calls.text_content(said)
        yield update

    def _retry(self, record: Json) -> Iterator[Update]:
        details = {name: record[name] for name in ("attempt", "maxAttempts", "delayMs") if name in record}
        if self._features.notices:
            yield notice("warning", "The model's server failed; trying again", str(record.get("errorMessage", "")))
        else:
            yield {"sessionUpdate": "session_info_update", "_meta": {"pinnace": {"retry": details}}}

    def _rename(self, record: Json) -> Iterator[Update]:
        yield {"sessionUpdate": "session_info_update", "title": record.get("name")}


def _has_failed(answer: Json) -> bool:
    """Return whether the calls of an answer are never executed."""
    return answer.get("stopReason") in ("error", "aborted")


def _key(record: Json) -> object:
    """Return by what records name a call: its position, since model servers give several calls one id."""
    index = record.get("callIndex")
    return index if isinstance(index, int) else record["toolCallId"]


# What live updates and a replay have in common.


def call_id(entry: str, index: int) -> str:
    """Return the id of the call with a position in an answer. Ids of model servers come again within a session."""
    return f"{entry}:{index}"


def chunk(kind: str, entry: str, text: str) -> Update:
    """Return a piece of a message."""
    return {"sessionUpdate": kind, "messageId": entry, "content": {"type": "text", "text": text}}


def block_chunk(entry: str, block: Json) -> Update | None:
    """Return the whole text or thought of a block of an answer; None: it has neither."""
    match block.get("type"):
        case "text" if block.get("text"):
            return chunk("agent_message_chunk", entry, str(block["text"]))
        case "thinking" if block.get("thinking"):
            return chunk("agent_thought_chunk", entry, str(block["thinking"]))
        case _:
            return None


def user_updates(entry: str, message: Json) -> Iterator[Update]:
    """Yield a message of the user."""
    from pinnace_rpc.acp.translation.prompts import user_blocks

    for block in user_blocks(message.get("content")):
        yield {"sessionUpdate": "user_message_chunk", "messageId": entry, "content": block}


def custom_updates(entry: str, message: Json) -> Iterator[Update]:
    """Yield a message of an extension, if it is to be shown."""
    if message.get("display") is not True:
        return
    content = message.get("content")
    texts = (
        [content] if isinstance(content, str) else [(as_object(each) or {}).get("text") for each in as_array(content)]
    )
    custom_type = str(message.get("customType", ""))
    for text in texts:
        if isinstance(text, str) and text:
            yield {**chunk("agent_message_chunk", entry, text), "_meta": {"pinnace": {"customType": custom_type}}}


def call_blocks(message: Json) -> Iterator[tuple[int, Json]]:
    """Yield the calls of an answer, with the index of their block."""
    for index, each in enumerate(as_array(message.get("content"))):
        block = as_object(each)
        if block is not None and block.get("type") == "toolCall":
            yield index, block


def arguments_of(block: Json) -> Json:
    """Return the arguments of a call."""
    return as_object(block.get("arguments")) or {}


def compaction_update(identity: str, summary: str | None, error: str | None) -> Update:
    """Return the end of a compaction: a summary, an error, or neither if it was cancelled."""
    update: Update = {"sessionUpdate": "compaction_update", "compactionId": identity}
    if summary is not None:
        return {**update, "status": "completed", "summary": [{"type": "text", "text": summary}]}
    if error is not None:
        return {**update, "status": "failed", "error": error}
    return {**update, "status": "cancelled"}


def summary_call(identity: str, title: str, summary: str) -> Update:
    """Return a summary as a call, for clients that know no compactions."""
    return {**_think(identity, title), "status": "completed", "content": tool_calls.text_content(summary)}


def notice(severity: str, title: str, description: str = "") -> Update:
    """Return a message for people that belongs to no answer."""
    update: Update = {"sessionUpdate": "notice", "severity": severity, "title": title.strip() or severity}
    return {**update, "description": description} if description else update


def _think(identity: str, title: str) -> Update:
    return {"sessionUpdate": "tool_call", "toolCallId": identity, "title": title, "kind": "think"}
