"""Records of an agent, in their order, to what its session shows.

Keeps no more than what clients need to name things: which message is open, which calls were announced and what their
last status was. Every announced call gets one terminal status; nothing follows it. Must not know versions of the
protocol, requests, dialogs or how a turn ends. Work per record does not depend on the length of the session.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, cast

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.plans import plan_of
from pinnace_rpc.acp.translation.prompts import user_blocks
from pinnace_rpc.acp.translation.shown import (
    ENDED,
    Call,
    CallAnnounced,
    CallDescribed,
    CallEnded,
    CallFailed,
    CallProgressed,
    CompactionBegan,
    CompactionEnded,
    InfoChanged,
    Json,
    Retried,
    Said,
    Shown,
    Status,
    TitleCleared,
    UserMessage,
)
from pinnace_rpc.acp.translation.tool_calls import is_aborted


class Translator:
    """What one session shows."""

    def __init__(self) -> None:
        """Begin with no message open."""
        self._entry = ""
        """Of the open answer; empty: it is shown at its end."""
        self._begun = ""
        """Of the message that has begun and that the client knows; one that it does not know is shown at its end."""
        self._shown: Container[str] = ()
        """The last entries that the client knows from a replay: records of them may still come."""
        self._ended = ""
        """The entry of the last complete answer."""
        self._by_index: dict[int, Call] = {}
        """The calls of the open answer, by the index of their block."""
        self._calls: list[Call] = []
        """Those of the last answer, in their order."""
        self._waiting: deque[Call] = deque()
        """Those of them that have not begun."""
        self._running: dict[object, Call] = {}
        """By what the agent's records name them by (`_key`)."""
        self._results: dict[str, Json] = {}
        """What those of them have returned that have ended, by their ids: their entries come when all have ended."""
        self._stored = 0
        """The number of them whose entries have come."""
        self._compaction = ""
        self._is_compacting = False
        self._unsaved: set[str] = set()
        """Messages that this client has sent and whose records have not come."""
        self._own_messages: set[str] = set()
        """Those of them that the client shows by itself: it has not got the session anew since."""
        self._by_type: Final[Mapping[str, Callable[[Json], Iterator[Shown]]]] = {
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

    def join(self, shown: Container[str], answer: tuple[str, Json, AbstractSet[int]] | None) -> None:
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
        self._results.clear()
        self._stored = len(done)
        if not has_failed(message):
            self._expect_calls(message, done)

    def _expect_calls(self, answer: Json, done: Container[int]) -> None:
        for position, (_, block) in enumerate(call_blocks(answer)):
            identity = call_id(self._ended, position)
            call = Call(identity, str(block.get("name", "tool")), "in_progress", arguments_of(block))
            call.agent_id = str(block.get("id", ""))
            self._calls.append(call)
            if position in done:
                call.status = "completed"
            else:
                self._running[position] = call

    def begin_again(self) -> Iterator[Shown]:
        """Yield what is open and has no entry, for a client that gets the session anew.

        A message that has begun and has no entry is shown at its end, and then whole.
        """
        self._entry = self._begun = ""
        self._by_index.clear()
        if self._is_compacting and self._compaction not in self._shown:
            yield CompactionBegan(self._compaction)

    @property
    def unfinished(self) -> frozenset[str]:
        """The ids of the calls of the last complete answer that have not ended."""
        return frozenset(call.id for call in self._calls if call.status not in ENDED)

    @property
    def results(self) -> Mapping[str, Json]:
        """The results of the calls of the last complete answer that have ended, by their ids, as messages have them."""
        return self._results

    def expect(self, message_id: str) -> None:
        """Take notice of a message that this client has sent."""
        self._unsaved.add(message_id)
        self._own_messages.add(message_id)

    def forget(self, message_id: str) -> None:
        """Take notice that a message of this client will not come."""
        self._unsaved.discard(message_id)
        self._own_messages.discard(message_id)

    def without_unsaved(self, branch: list[Json]) -> list[Json]:
        """Return entries without the message of a prompt that is being saved: it may be taken back.

        It is one of this client whose record has not come; that will show it, however often the session is replayed
        before. Commands may have appended entries behind it.
        """
        unsaved = {str(entry.get("messageId") or "") for entry in branch} & self._unsaved
        if not unsaved:
            return branch
        self._own_messages -= unsaved
        return [entry for entry in branch if entry.get("messageId") not in unsaved]

    @property
    def progressing(self) -> Sequence[Call]:
        """The calls that have begun and not ended."""
        return [call for call in self._running.values() if call.status == "in_progress"]

    def progressing_call(self, identity: str) -> Call | None:
        """Return the call with an id, as the client knows it; None: it has not begun, or has ended."""
        return next((call for call in self.progressing if call.id == identity), None)

    def call_of(self, agent_id: str) -> Call | None:
        """Return a call that runs, for a question about it; None: no such call runs.

        Args:
            agent_id: The agent's id of the call; of several that have it, the first one that has not begun.
        """
        calls = [call for call in self._running.values() if call.agent_id == agent_id]
        if not calls:
            return None
        return next((each for each in calls if each.status == "pending"), calls[0])

    def id_of_call(self, agent_id: str) -> str | None:
        """Return the client's id of a call that runs, as `call_of` finds it."""
        call = self.call_of(agent_id)
        return None if call is None else call.id

    def take(self, record: Json) -> Iterator[Shown]:
        """Yield what a record shows; most show nothing or one thing."""
        translate = self._by_type.get(cast("str", record["type"]))
        return iter(()) if translate is None else translate(record)

    def close(self, status: Status = "cancelled") -> Iterator[Shown]:
        """Yield the end of every call that was announced and has none, with this status."""
        for call in (*self._by_index.values(), *self._calls, *self._running.values()):
            yield from self._fail(call, status)
        self._by_index.clear()
        self._calls.clear()
        self._waiting.clear()
        self._running.clear()

    # Messages.

    def _begin_message(self, record: Json) -> Iterator[Shown]:
        message = cast("Json", record["message"])
        entry = self._begun = str(record.get("entryId", ""))
        if message.get("role") == "assistant":
            self._entry = entry
            self._by_index.clear()
        else:
            given_as = str(record.get("messageId") or "")
            is_own = given_as in self._own_messages
            self.forget(given_as)
            yield from self._said(entry, message, is_own=is_own, given_as=given_as)

    def _delta(self, record: Json) -> Iterator[Shown]:
        if not self._entry:
            return
        event = cast("Json", record["assistantMessageEvent"])
        match event["type"]:
            case "text_delta":
                yield Said(self._entry, "message", cast("str", event["delta"]))
            case "thinking_delta":
                yield Said(self._entry, "thought", cast("str", event["delta"]))
            case "toolcall_start":
                yield from self._announce(cast("int", event["contentIndex"]), str(event.get("toolName", "tool")))
            case "toolcall_end":
                yield from self._describe(cast("int", event["contentIndex"]), cast("Json", event["toolCall"]))
            case _:
                pass

    def _announce(self, index: int, tool: str) -> Iterator[Shown]:
        if index not in self._by_index:
            call = self._by_index[index] = Call(call_id(self._entry, len(self._by_index)), tool)
            yield CallAnnounced(call)

    def _describe(self, index: int, block: Json) -> Iterator[Shown]:
        tool = str(block.get("name", "tool"))
        yield from self._announce(index, tool)
        call = self._by_index[index]
        if not call.arguments:
            call.tool = tool
            call.arguments = arguments_of(block)
            yield CallDescribed(call)

    def _end_message(self, record: Json) -> Iterator[Shown]:
        message = cast("Json", record["message"])
        entry = str(record.get("entryId", ""))
        if message.get("role") == "assistant":
            self.answer = message
            if entry not in self._shown:
                yield from self._end_answer(entry, message)
        elif message.get("role") == "toolResult":
            if entry not in self._shown:
                yield from self._store_result(message)
        elif entry != self._begun:
            yield from self._said(entry, message, given_as=str(record.get("messageId") or ""))

    def _said(self, entry: str, message: Json, *, is_own: bool = False, given_as: str = "") -> Iterator[Shown]:
        """Yield a message that is no answer, unless the client knows it."""
        if entry in self._shown:
            return
        match message.get("role"):
            case "user":
                yield UserMessage(entry, [*user_blocks(message.get("content"))], is_own=is_own, given_as=given_as)
            case "custom":
                yield from custom_texts(entry, message)
            case _:
                pass

    def _end_answer(self, entry: str, message: Json) -> Iterator[Shown]:
        self._ended = entry
        if not self._entry:
            self._entry = entry
            for each in as_array(message.get("content")):
                if (said := whole_block(self._entry, as_object(each) or {})) is not None:
                    yield said
        for index, block in call_blocks(message):
            yield from self._describe(index, block)
        calls = [self._by_index[index] for index in sorted(self._by_index)]
        self._by_index.clear()
        if has_failed(message):
            status: Status = "cancelled" if message.get("stopReason") == "aborted" else "failed"
            for call in calls:
                yield from self._fail(call, status)
            return
        self._calls = calls
        self._waiting = deque(calls)
        self._results.clear()
        self._stored = 0

    # Calls.

    def _begin_call(self, record: Json) -> Iterator[Shown]:
        call = self._next_call(record)
        if call is None:
            return
        self._running[_key(record)] = call
        call.agent_id = str(record["toolCallId"])
        call.entry = str(record.get("entryId", ""))
        if record.get("gated") is not True:
            yield from self._advance(call)

    def _next_call(self, record: Json) -> Call | None:
        index = record.get("callIndex")
        if isinstance(index, int) and index < len(self._calls):
            return self._calls[index]
        return self._waiting.popleft() if self._waiting else None

    def _progress(self, record: Json) -> Iterator[Shown]:
        call = self._running.get(_key(record))
        if call is None or call.status in ENDED:
            return
        call.entry = str(record.get("entryId", ""))
        content = as_array(cast("Json", record["partialResult"]).get("content"))
        if call.status == "pending" or content:
            yield from self._advance(call, content or None)

    def _advance(self, call: Call, content: object = None) -> Iterator[Shown]:
        has_begun = call.status == "pending"
        if has_begun:
            call.status = "in_progress"
        yield CallProgressed(call, has_begun, content)

    def _end_call(self, record: Json) -> Iterator[Shown]:
        call = self._running.pop(_key(record), None)
        if call is None or call.status in ENDED:
            return
        yield from self._finish(call, {**cast("Json", record["result"]), "isError": record.get("isError") is True})

    def _store_result(self, message: Json) -> Iterator[Shown]:
        """Take the entry of the next result. A call may have ended before this session was joined."""
        if self._stored >= len(self._calls):
            return
        call = self._calls[self._stored]
        self._stored += 1
        if call.status not in ENDED:
            self._running = {key: each for key, each in self._running.items() if each is not call}
            yield from self._finish(call, message)

    def _finish(self, call: Call, result: Json) -> Iterator[Shown]:
        call.status = result_status(result, is_error=result.get("isError") is True)
        self._results[call.id] = result
        yield CallEnded(call, result)
        yield from planned(call, result)

    def _fail(self, call: Call, status: Status) -> Iterator[Shown]:
        if call.status not in ENDED:
            call.status = status
            yield CallFailed(call)

    # Compactions and retries.

    def _begin_compaction(self, record: Json) -> Iterator[Shown]:
        self._compaction = str(record["entryId"])
        self._is_compacting = True
        yield CompactionBegan(self._compaction)

    def _end_compaction(self, record: Json) -> Iterator[Shown]:
        if str(record["entryId"]) in self._shown:
            self._is_compacting = False
            return
        if not self._is_compacting:
            yield from self._begin_compaction(record)
        self._is_compacting = False
        result = as_object(record.get("result"))
        summary = None if result is None else str(result.get("summary", ""))
        error = record.get("errorMessage")
        yield CompactionEnded(self._compaction, summary, error if isinstance(error, str) else None)

    def _retry(self, record: Json) -> Iterator[Shown]:
        details = {name: record[name] for name in ("attempt", "maxAttempts", "delayMs") if name in record}
        yield Retried(self._ended, str(record.get("errorMessage", "")), details)

    def _rename(self, record: Json) -> Iterator[Shown]:
        name = record.get("name")
        yield InfoChanged(title=name) if isinstance(name, str) else TitleCleared()


def has_failed(answer: Json) -> bool:
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


def result_status(result: Json, *, is_error: bool) -> Status:
    """Return the status of a call that has a result."""
    if not is_error:
        return "completed"
    return "cancelled" if is_aborted(result) else "failed"


def planned(call: Call, result: Json) -> Iterator[Shown]:
    """Yield the plan that the result of a tool has, if it has one."""
    if (plan := plan_of(call.tool, result)) is not None:
        yield plan


def whole_block(entry: str, block: Json) -> Said | None:
    """Return the whole text or thought of a block of an answer; None: it has neither."""
    match block.get("type"):
        case "text" if block.get("text"):
            return Said(entry, "message", str(block["text"]), is_whole=True)
        case "thinking" if block.get("thinking"):
            return Said(entry, "thought", str(block["thinking"]), is_whole=True)
        case _:
            return None


def custom_texts(entry: str, message: Json) -> Iterator[Shown]:
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
            yield Said(entry, "message", text, is_whole=True, custom_type=custom_type)


def call_blocks(message: Json) -> Iterator[tuple[int, Json]]:
    """Yield the calls of an answer, with the index of their block."""
    for index, each in enumerate(as_array(message.get("content"))):
        block = as_object(each)
        if block is not None and block.get("type") == "toolCall":
            yield index, block


def arguments_of(block: Json) -> Json:
    """Return the arguments of a call."""
    return as_object(block.get("arguments")) or {}
