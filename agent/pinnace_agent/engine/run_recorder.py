"""The records of one run, in the brackets that the protocol demands.

Records which brackets are open and what they hold; the statechart decides when they open and close. A message that ends
is appended to the session. Each record is published to the run's observer, if there is one. Rules R-RUN-01 to R-RUN-06,
C-15, R-TOL-11.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from pinnace_agent.core.ports.emitter import Emitter, Record
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.session.conversation import Session
from pinnace_agent.tools.base import ToolResult
from pinnace_spec.records.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.runs import RunObserver


class DeferredMessage(NamedTuple):
    """A message about which the run's job has yet to ask."""

    message: Message
    names: Mapping[str, str]
    """See `RunRecorder._names`."""
    is_appended: bool
    """Whether it is in the session already, and on the disk."""


class RunRecorder:
    """What one run has produced so far."""

    def __init__(self, session: Session, emitter: Emitter, observer: "RunObserver | None" = None) -> None:
        """Begin a run; nothing is written yet."""
        self._session = session
        self._emitter = emitter
        self._observer = observer
        self._deferred: deque[DeferredMessage] = deque()
        self._has_deferred_begun = False
        self._messages: list[Message] = []  # for agent_end
        self._results: dict[int, ToolResultMessage] = {}  # of this turn, by the call's place
        self._turn_results: list[ToolResultMessage] = []
        self._started_calls: set[int] = set()
        self._executed: dict[int, Mapping[str, object]] = {}  # arguments that are not what the model wrote
        self._ending_calls: set[int] = set()
        self._aborts: dict[int, Callable[[], None]] = {}  # of the calls that are carried out, likewise
        self._result_ids: dict[int, str] = {}  # of the entries that the results will be, by the call's place
        self._answer_id = ""  # of the entry
        self._turn_open = False
        self.is_open = False
        """Between `agent_start` and `agent_end`."""
        self.builder: MessageBuilder | None = None  # the message that is being streamed
        self.message: AssistantMessage | None = None  # the turn's message once it has ended
        self.defect: str | None = None  # why the run must end
        self.error = ""  # of the last message that failed
        self.failure: AssistantMessage | None = None  # that message
        self.calls: list[ToolCall] = []  # its tool calls, in call order

    def start(self) -> None:
        """Write `agent_start`."""
        self.is_open = True
        self._emitter.emit({"type": "agent_start"})
        if self._observer is not None:
            self._observer.run_started()

    def start_turn(self) -> None:
        """Write `turn_start`."""
        self._turn_open = True
        self.message = None
        self.calls = []
        self._results = {}
        self._turn_results = []
        self._started_calls = set()
        self._executed = {}
        self._ending_calls = set()
        self._result_ids = {}
        self._aborts = {}
        self._emitter.emit({"type": "turn_start"})
        if self._observer is not None:
            self._observer.turn_started()

    def add_user(self, text: str, blocks: Sequence[object], message_id: str) -> None:
        """Append a user's text."""
        self.add(user_message(text, blocks, self._session.now_ms()), message_id)

    def add(self, message: Message, message_id: str = "") -> None:
        """Append a message that is neither an answer nor a result, or defer it until hooks are asked about it."""
        message, names = self._delivered(message), self._names(message_id)
        if not self._defer(message, names, is_appended=False):
            self._append(message, names)

    def _names(self, message_id: str = "") -> Mapping[str, str]:
        """Return what names a message that begins, as its records have it: the entry that it will be, and its own id.

        The id is that of a message of the user, and empty for any other.
        """
        names = {"entryId": self._session.reserve_entry_id()}
        if message_id:
            names["messageId"] = message_id
        return names

    def _delivered(self, message: Message) -> Message:
        """Return a message with the time at which it enters the conversation: readers of the file know no other."""
        return {**message, "timestamp": self._session.now_ms()} if message["role"] == "custom" else message

    def record_user(self, message: UserMessage, entry_id: str, message_id: str) -> None:
        """Write the records of a user's message that is in the session already, or defer them likewise."""
        names = {"entryId": entry_id, "messageId": message_id}
        if self._defer(message, names, is_appended=True):
            return
        self._emitter.emit({"type": "message_start", **names, "message": message})
        self._messages.append(message)
        self._emitter.emit({"type": "message_end", **names, "message": message})
        if self._observer is not None:
            self._observer.message_added(message)

    def _defer(self, message: Message, names: Mapping[str, str], *, is_appended: bool) -> bool:
        if self._observer is None or not (self._deferred or self._observer.defers_messages):
            return False
        self._deferred.append(DeferredMessage(message, names, is_appended))
        return True

    def begin_deferred(self) -> Message | None:
        """Begin the first deferred message, and return it; None: there is none."""
        if not self._deferred:
            return None
        message, names, _ = self._deferred[0]
        if not self._has_deferred_begun:
            self._has_deferred_begun = True
            self._emitter.emit({"type": "message_start", **names, "message": message})
            if self._observer is not None:
                self._observer.message_started(message)
        return message

    def end_deferred(self, message: Message) -> None:
        """Append the first deferred message, with the content of `message`, and write its records."""
        self.begin_deferred()
        former, names, is_appended = self._deferred.popleft()
        self._has_deferred_begun = False
        if is_appended:
            message = self._edit(former, message)
            self._messages.append(message)
        else:
            self._keep(message, names)
        if self._observer is not None:
            self._observer.message_ended(former)
        self._emitter.emit({"type": "message_end", **names, "message": message})

    def _edit(self, former: Message, message: Message) -> Message:
        """Show another content of a message in the context: the message itself can't be taken back."""
        content = message.get("content")
        entry = None if message is former or content is None else self._session.entry_of(former)
        if entry is None:
            return former
        fields = {"targetId": entry["id"], "replacement": {"content": content}}
        self._session.keep_entry("context_edit", fields)
        return cast("Message", {**former, "content": content})  # cast: the same role, with a content of its kind

    def begin_message(self, message: AssistantMessage) -> None:
        """Write the assistant's `message_start`. From here on the entry is known that the answer will be."""
        entry_id = self._session.reserve_entry_id()
        assert self.builder is not None
        self.builder.entry_id = entry_id
        self._emitter.emit({"type": "message_start", "entryId": entry_id, "message": message})
        if self._observer is not None:
            self._observer.message_started(message)

    def end_message(self) -> None:
        """Append the answer, unless `write_message` has."""
        if self.message is None:
            self.write_message()
        self.builder = None

    def write_message(self) -> None:
        """Append the answer: its `message_end`, after its `message_start` if the provider never answered."""
        builder = self.builder
        assert builder is not None
        message = builder.message
        if not builder.has_started:
            self.begin_message(message)
        self.message = message
        self.error = message.get("errorMessage", "") or self.error
        self.failure = message if message["stopReason"] == "error" else self.failure
        self.calls = [block for block in message["content"] if block["type"] == "toolCall"]
        self._answer_id = builder.entry_id
        names = {"entryId": builder.entry_id}
        self._keep(message, names)
        self._emitter.emit({"type": "message_end", **names, "message": message})
        if self._observer is not None:
            self._observer.message_ended(message)

    def start_call(self, index: int, *, is_gated: bool = False) -> None:
        """Write `tool_execution_start` of the turn's call number `index`.

        Calls are identified by their place, since gateways send the same id twice. `is_gated`: it may yet be refused.
        """
        self._started_calls.add(index)
        self._result_ids[index] = self._session.reserve_entry_id()
        record: Record = {"type": "tool_execution_start", **self._call_fields(index), "args": self._args(index)}
        self._emitter.emit({**record, "gated": True} if is_gated else record)
        if self._observer is not None:
            self._observer.call_started(self.calls[index])

    def let_abort(self, index: int, abort: Callable[[], None]) -> None:
        """Let a call that is carried out be ended alone, until it has its result."""
        self._aborts[index] = abort

    def abort_call(self, entry: str) -> bool:
        """End the call whose result will be an entry; return False if it is not being carried out."""
        for index, abort in self._aborts.items():
            if self._result_ids.get(index) == entry:
                abort()
                return True
        return False

    def update_call(self, index: int, partial: ToolResult) -> None:
        """Write `tool_execution_update`; progress after the end is dropped."""
        if index in self._results:
            return
        call, args, body = self.calls[index], self._args(index), result_body(partial)
        record: Record = {
            "type": "tool_execution_update",
            **self._call_fields(index),
            "args": args,
            "partialResult": body,
        }
        self._emitter.progress(record, f"tool:{index}:{call['id']}")
        if self._observer is not None:
            self._observer.call_updated(index, call, args, body)

    def end_call(self, index: int, result: ToolResult, duration_ms: int | None = None) -> None:
        """Write `tool_execution_end` and keep the result for its message. A call ends once."""
        if index in self._results:
            return
        self._aborts.pop(index, None)
        if index not in self._started_calls:
            self.start_call(index)
        call = self.calls[index]
        from pinnace_agent.llm.clean_messages import clean_blocks  # not at start

        # Whatever a tool returns: it is in every later request.
        result = result._replace(content=clean_blocks(result.content))
        body = result_body(result)
        record = {
            "type": "tool_execution_end",
            **self._call_fields(index),
            "result": body,
            "isError": result.is_error,
        }
        message: ToolResultMessage = {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": call["name"],
            "content": result.content,
            "isError": result.is_error,
            "timestamp": self._session.now_ms(),
        }
        if "details" in body:
            message["details"] = body["details"]
        if result.structured is not None:
            message["structuredContent"] = result.structured
        if result.usage is not None:
            message["usage"] = result.usage
        if result.terminate:
            self._ending_calls.add(index)
        if duration_ms is not None:
            record["durationMs"] = duration_ms
        self._results[index] = message
        if result.details and "agent" in result.details and len(self._results) < len(self.calls):
            self._put_aside(index, message)
        self._emitter.emit(record)
        if self._observer is not None:
            args = self._args(index)
            self._observer.call_ended(call, args, body, is_error=result.is_error, duration_ms=duration_ms)

    def _put_aside(self, index: int, message: ToolResultMessage) -> None:
        """Save the result of a sub-agent while other calls work, unless extensions may replace it yet (R-SUB-11)."""
        if self._observer is None or not self._observer.defers_messages:
            from pinnace_agent.session.pending import put_aside  # not at start

            put_aside(self._session, message, self._answer_id, self._result_ids[index])

    def fail_calls(self, text: str) -> None:
        """Give every call without a result the same error, then append all results."""
        for index in range(len(self.calls)):
            if index not in self._results:
                self.end_call(index, error_result(text))
        self.append_results()

    def fail_cut_calls(self) -> None:
        """Answer the calls of a message that was cut at the output limit without executing them (R-RUN-05)."""
        for index, call in enumerate(self.calls):
            if index not in self._results:
                self.end_call(index, error_result(errors.tool_call_cut(call["name"])))
        self.append_results()

    def abandon_calls(self, waited_s: float) -> list[str]:
        """Give calls whose tools did not end when they were cancelled an error result. Returns the tools' names."""
        left = [index for index in range(len(self.calls)) if index not in self._results]
        for index in left:
            self.end_call(index, error_result(errors.tool_abandoned(f"{waited_s:g}")))
        return [self.calls[index]["name"] for index in left]

    def append_results(self) -> None:
        """Append the results in call order, whatever order they came in, but for those that are appended."""
        for index in range(len(self._turn_results), len(self.calls)):
            result = self._results[index]
            self._turn_results.append(result)
            self._append(result, {"entryId": self._result_ids[index]})

    @property
    def results(self) -> Sequence[ToolResultMessage]:
        """The results of the turn's calls, in call order, before they are appended."""
        return [self._results[index] for index in range(len(self.calls))]

    @property
    def turn_results(self) -> Sequence[ToolResultMessage]:
        """The results of the turn that are appended."""
        return self._turn_results

    def replace_result(self, index: int, message: ToolResultMessage) -> None:
        """Put another message in the place of a result that is not appended yet."""
        self._results[index] = message

    @property
    def terminates(self) -> bool:
        """Whether all calls of the turn have ended saying that the run may end with them."""
        return bool(self.calls) and len(self._ending_calls) == len(self.calls)

    def take_arguments(self, index: int, arguments: Mapping[str, object]) -> None:
        """Take what a call is executed with, if that is not what the model wrote."""
        self._executed[index] = arguments

    def _call_fields(self, index: int) -> dict[str, object]:
        call = self.calls[index]
        return {
            "toolCallId": call["id"],
            "toolName": call["name"],
            "entryId": self._result_ids[index],
            "assistantEntryId": self._answer_id,
            "callIndex": index,
        }

    def _args(self, index: int) -> Mapping[str, object]:
        return self._executed.get(index, self.calls[index]["arguments"])

    def end_turn(self) -> None:
        """Write `turn_end`."""
        self._turn_open = False
        self._emitter.emit({"type": "turn_end", "message": self.message, "toolResults": self._turn_results})
        if self._observer is not None:
            self._observer.turn_ended(self.message, self._turn_results)

    def end(self, *, will_retry: bool) -> None:
        """Write `agent_end` with everything that this run has created."""
        self.is_open = False
        if not will_retry:
            self._session.run_ends()
        self._emitter.emit({"type": "agent_end", "messages": self._messages, "willRetry": will_retry})
        if self._observer is not None:
            self._observer.run_ended(self._messages)

    def close(self, builder: MessageBuilder, error: str | None) -> None:
        """Close every open bracket, innermost first (C-15).

        Args:
            builder: An unstarted message to stand for the turn's if the model was never called.
            error: A defect's text, or None if the run was cancelled.
        """
        while self._deferred:
            self.end_deferred(self._deferred[0].message)
        if self._turn_open:
            if self.message is None:
                self.builder = self.builder or builder
                if not self.builder.is_finished:
                    _finish(self.builder, error)
                self.end_message()
            if len(self._turn_results) < len(self.calls):
                self.fail_calls(error or errors.OPERATION_ABORTED)
            # DEVIATION D-01: the run ends here; no empty turn follows.
            self.end_turn()
        self.end(will_retry=False)
        if self._observer is not None:
            self._observer.run_closed()

    def _append(self, message: Message, names: Mapping[str, str]) -> None:
        self._emitter.emit({"type": "message_start", **names, "message": message})
        self._keep(message, names)
        self._emitter.emit({"type": "message_end", **names, "message": message})
        if self._observer is not None:
            self._observer.message_added(message)

    def _keep(self, message: Message, names: Mapping[str, str]) -> None:
        self._session.keep(message, entry_id=names["entryId"], message_id=names.get("messageId", ""))
        self._messages.append(message)


def user_message(text: str, blocks: Sequence[object], timestamp_ms: int) -> UserMessage:
    """Make a user's message; its text is always the first block, also if it is empty."""
    content: list[object] = [{"type": "text", "text": text}, *blocks]
    return {
        "role": "user",
        "content": content,  # type: ignore[typeddict-item]  # blocks were validated on the way in
        "timestamp": timestamp_ms,
    }


def _finish(builder: MessageBuilder, error: str | None) -> None:
    if error is None:
        builder.abort()
    else:
        builder.fail(error)


def result_body(result: ToolResult) -> dict[str, object]:
    """Return a tool's result as records show it: content, and details unless there is nothing to say."""
    body: dict[str, object] = {"content": result.content}
    if result.details is not None:
        body["details"] = result.details
    if result.structured is not None:
        body["structuredContent"] = result.structured
    return body


def error_result(text: str) -> ToolResult:
    """Return the result of a call that failed."""
    block: TextContent = {"type": "text", "text": text}
    return ToolResult([block], {}, is_error=True)
