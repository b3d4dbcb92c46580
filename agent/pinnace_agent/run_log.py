"""The records of one run, in the brackets that the protocol demands.

Knows which brackets are open and what stands in them; does not decide when they open or close. A message that ends is
appended to the session. Rules R-RUN-01 to R-RUN-06, C-15.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pinnace_agent.emitter import Emitter, Record
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.session import Session
from pinnace_agent.tools.base import ToolResult
from pinnace_spec import errors
from pinnace_spec.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

if TYPE_CHECKING:  # loaded with the first extension
    from pinnace_agent.extensions.run_hooks import RunHooks
    from pinnace_agent.extensions.runner import Runner


class RunLog:
    """What one run has produced so far."""

    hooks: "RunHooks | None" = None
    """What extensions have a say in; None: there are none."""

    def __init__(self, session: Session, emitter: Emitter) -> None:
        """Begin a run; nothing is written yet."""
        self._session = session
        self._emitter = emitter
        self._messages: list[Message] = []  # for agent_end
        self._results: dict[int, ToolResultMessage] = {}  # of this turn, by the call's place
        self._turn_results: list[ToolResultMessage] = []
        self._started_calls: set[int] = set()
        self._executed: dict[int, Mapping[str, object]] = {}  # arguments that are not what the model wrote
        self._ending_calls: set[int] = set()
        self._turn_open = False
        self.builder: MessageBuilder | None = None  # the message that is being streamed
        self.message: AssistantMessage | None = None  # the turn's message once it has ended
        self.defect: str | None = None  # why the run must end
        self.error = ""  # of the last message that failed
        self.failure: AssistantMessage | None = None  # that message
        self.calls: list[ToolCall] = []  # its tool calls, in call order

    def start(self) -> None:
        """Write `agent_start`."""
        self._emitter.emit({"type": "agent_start"})

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
        self._emitter.emit({"type": "turn_start"})

    def add_user(self, text: str, images: Sequence[object]) -> None:
        """Append a user's text."""
        self.add(user_message(text, images, self._session.now_ms()))

    def add(self, message: Message) -> None:
        """Append a message that is neither an answer nor a result."""
        self._append(self._delivered(message))

    def _delivered(self, message: Message) -> Message:
        """Return a message with the time at which it enters the conversation: readers of the file know no other."""
        return {**message, "timestamp": self._session.now_ms()} if message["role"] == "custom" else message

    def tell_user(self, message: UserMessage) -> None:
        """Write the records of a user's message that is in the session already."""
        self._emitter.emit({"type": "message_start", "message": message})
        self._messages.append(message)
        self._emitter.emit({"type": "message_end", "message": message})

    def begin_message(self, message: AssistantMessage) -> None:
        """Write the assistant's `message_start`."""
        self._emitter.emit({"type": "message_start", "message": message})

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
        self._keep(message)
        self._emitter.emit({"type": "message_end", "message": message})

    def start_call(self, index: int) -> None:
        """Write `tool_execution_start` of the turn's call number `index`.

        Calls are told apart by their place, since gateways send the same id twice.
        """
        self._started_calls.add(index)
        self._emitter.emit({"type": "tool_execution_start", **self._call_fields(index), "args": self._args(index)})

    def update_call(self, index: int, partial: ToolResult) -> None:
        """Write `tool_execution_update`; progress after the end is dropped."""
        if index in self._results:
            return
        record: Record = {
            "type": "tool_execution_update",
            **self._call_fields(index),
            "args": self._args(index),
            "partialResult": result_body(partial),
        }
        self._emitter.progress(record, f"tool:{index}:{self.calls[index]['id']}")

    def end_call(self, index: int, result: ToolResult, duration_ms: int | None = None) -> None:
        """Write `tool_execution_end` and keep the result for its message. A call ends once."""
        if index in self._results:
            return
        if index not in self._started_calls:
            self.start_call(index)
        call = self.calls[index]
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
        self._emitter.emit(record)

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
            self._append(result)

    @property
    def terminates(self) -> bool:
        """Whether all calls of the turn have ended saying that the run may end with them."""
        return bool(self.calls) and len(self._ending_calls) == len(self.calls)

    def take_arguments(self, index: int, arguments: Mapping[str, object]) -> None:
        """Take what a call is executed with, if that is not what the model wrote."""
        self._executed[index] = arguments

    def _call_fields(self, index: int) -> dict[str, object]:
        call = self.calls[index]
        return {"toolCallId": call["id"], "toolName": call["name"]}

    def _args(self, index: int) -> Mapping[str, object]:
        return self._executed.get(index, self.calls[index]["arguments"])

    def end_turn(self) -> None:
        """Write `turn_end`."""
        self._turn_open = False
        self._emitter.emit({"type": "turn_end", "message": self.message, "toolResults": self._turn_results})

    def end(self, *, will_retry: bool) -> None:
        """Write `agent_end` with everything that this run has created."""
        if not will_retry:
            self._session.run_ends()
        self._emitter.emit({"type": "agent_end", "messages": self._messages, "willRetry": will_retry})

    def close(self, builder: MessageBuilder, error: str | None) -> None:
        """Close every open bracket, innermost first (C-15).

        Args:
            builder: An unstarted message to stand for the turn's if the model was never called.
            error: A defect's text, or None if the run was cancelled.
        """
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

    def _append(self, message: Message) -> None:
        self._emitter.emit({"type": "message_start", "message": message})
        self._keep(message)
        self._emitter.emit({"type": "message_end", "message": message})

    def _keep(self, message: Message) -> None:
        self._session.keep(message)
        self._messages.append(message)


def new_log(session: Session, emitter: Emitter, extensions: "Runner | None") -> RunLog:
    """Return the log of a run that begins, of which extensions hear if there are any."""
    if extensions is None:
        return RunLog(session, emitter)
    from pinnace_agent.extensions.heard_log import HeardLog

    return HeardLog(session, emitter, extensions)


def user_message(text: str, images: Sequence[object], timestamp_ms: int) -> UserMessage:
    """Make a user's message; images follow the text, which is always the first block."""
    content: list[object] = [{"type": "text", "text": text}, *images]
    return {
        "role": "user",
        "content": content,  # type: ignore[typeddict-item]  # images were validated on the way in
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
