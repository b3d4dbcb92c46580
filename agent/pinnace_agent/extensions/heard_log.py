"""The log of a run of which extensions hear: every record also becomes an event.

Decides which event belongs to which record; nothing here waits. What handlers have a say in is `run_hooks`'s, which
tells here what it has told already. A user's text that handlers of `message_end` may replace is kept until the run's
job can ask them. Must not know the chart. E18, E19, E22 to E29.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from pinnace_agent.emitter import Emitter
from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.growing_events import CallProgress
from pinnace_agent.extensions.run_hooks import RunHooks
from pinnace_agent.extensions.runner import Runner
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.run_log import RunLog, result_body
from pinnace_agent.session import Session
from pinnace_agent.tools.base import ToolResult
from pinnace_spec.messages import AssistantMessage, Message, ToolResultMessage, UserMessage


class Waiting(NamedTuple):
    """A message whose handlers of `message_end` are still to be asked."""

    message: Message
    is_kept: bool
    """It is in the session already, and on the disk."""


class HeardLog(RunLog):
    """What one run has produced so far, and what of it extensions hear."""

    def __init__(self, session: Session, emitter: Emitter, runner: Runner) -> None:
        """Begin a run; nothing is written yet."""
        super().__init__(session, emitter)
        self.runner = runner
        self.lane = runner.lane
        self.hooks = RunHooks(self, session, emitter)
        self.turn = -1
        self.end_mark = 0
        """The place in the lane behind the last event of this run."""
        self.is_turn_told = False
        self._heard: list[Message] = []  # of this turn, whose ends handlers have heard of
        self._waiting: deque[Waiting] = deque()
        self._waiting_has_begun = False

    # What is told when its record is written.

    def start(self) -> None:
        """Write and tell `agent_start`."""
        super().start()
        self.lane.put("agent_start", ev.AgentStart)

    def start_turn(self) -> None:
        """Write and tell `turn_start`."""
        super().start_turn()
        self.turn += 1
        self.is_turn_told = False
        self._heard = []
        now_ms = self._session.now_ms()
        self.lane.put("turn_start", lambda: ev.TurnStart(turn_index=self.turn, timestamp=now_ms))

    def begin_message(self, message: AssistantMessage) -> None:
        """Write and tell the assistant's `message_start`."""
        super().begin_message(message)
        self.tell_start(message)

    def write_message(self) -> None:
        """Append the answer; its end is told here if nobody could be asked."""
        super().write_message()
        assert self.message is not None
        self._tell_end(self.message)

    def start_call(self, index: int) -> None:
        """Write and tell `tool_execution_start`."""
        super().start_call(index)
        call = self.calls[index]
        self.lane.put(
            "tool_execution_start",
            lambda: ev.ToolExecutionStart(
                tool_call_id=call["id"], tool_name=call["name"], args=_snapshot(call["arguments"])
            ),
        )

    def update_call(self, index: int, partial: ToolResult) -> None:
        """Write and tell `tool_execution_update`; one that nobody has heard of makes way for the next."""
        super().update_call(index, partial)
        if index in self._results or not self.runner.has_handlers("tool_execution_update"):
            return
        newest = self.lane.newest
        if isinstance(newest, CallProgress) and newest.log is self and newest.index == index:
            newest.partial = partial
        else:
            self.lane.put_growing(CallProgress(self, index, partial))

    def progress_event(self, index: int, partial: ToolResult) -> ev.ToolExecutionUpdate:
        """Return the event of what a call has produced so far."""
        call = self.calls[index]
        return ev.ToolExecutionUpdate(
            tool_call_id=call["id"],
            tool_name=call["name"],
            args=_snapshot(self._args(index)),
            partial_result=_snapshot(result_body(partial)),
        )

    def end_call(self, index: int, result: ToolResult, duration_ms: int | None = None) -> None:
        """Write and tell `tool_execution_end`. A call ends once."""
        if index in self._results:
            return
        super().end_call(index, result, duration_ms)
        call = self.calls[index]
        self.lane.put(
            "tool_execution_end",
            lambda: ev.ToolExecutionEnd(
                tool_call_id=call["id"],
                tool_name=call["name"],
                args=_snapshot(self._args(index)),
                result=_snapshot(result_body(result)),
                is_error=result.is_error,
                duration_ms=duration_ms,
            ),
        )

    def end_turn(self) -> None:
        """Write `turn_end`; tell it if the turn's handlers could not be asked."""
        super().end_turn()
        if not self.is_turn_told:
            self.is_turn_told = True
            self.lane.put("turn_end", self.turn_event)

    def end(self, *, will_retry: bool) -> None:
        """Write and tell `agent_end`."""
        super().end(will_retry=will_retry)
        self.lane.put("agent_end", lambda: ev.AgentEnd(messages=[_message(each) for each in self._messages]))
        self.end_mark = self.lane.mark

    # DEVIATION D-01 holds for events as well: what an abort closes is told, and nobody is asked about it.
    def close(self, builder: MessageBuilder, error: str | None) -> None:
        """Close every open bracket, and have it told by a task that lives on."""
        while self._waiting:
            self.end_waiting(self._waiting[0].message)
        super().close(builder, error)
        self.runner.tell_rest()

    # Messages of others than the model.

    def add(self, message: Message) -> None:
        """Append a message, or keep it until handlers can be asked."""
        message = self._delivered(message)
        if not self._waits(Waiting(message, is_kept=False)):
            super().add(message)

    def tell_user(self, message: UserMessage) -> None:
        """Write the records of a message that is in the session, or keep it until handlers can be asked."""
        if not self._waits(Waiting(message, is_kept=True)):
            super().tell_user(message)
            self.tell_start(message)
            self._tell_end(message)

    def _waits(self, waiting: Waiting) -> bool:
        if not self._waiting and not self.runner.has_handlers("message_end"):
            return False
        self._waiting.append(waiting)
        return True

    def begin_waiting(self) -> Message | None:
        """Begin the first of the messages that wait, and return it; None: there is none."""
        if not self._waiting:
            return None
        message = self._waiting[0].message
        if not self._waiting_has_begun:
            self._waiting_has_begun = True
            self._emitter.emit({"type": "message_start", "message": message})
            self.tell_start(message)
        return message

    def end_waiting(self, message: Message) -> None:
        """Append the first of the messages that wait as it has become, and write its records."""
        former = self.begin_waiting()
        assert former is not None
        waiting = self._waiting.popleft()
        self._waiting_has_begun = False
        if not waiting.is_kept:
            self._keep(message)
        else:
            message = self._edit(former, message)
            self._messages.append(message)
        self._tell_end(former)
        self._emitter.emit({"type": "message_end", "message": message})

    def _edit(self, former: Message, message: Message) -> Message:
        """Let the context show another content of a message that can't be taken back."""
        content = message.get("content")
        entry = None if message is former or content is None else self._session.entry_of(former)
        if entry is None:
            return former
        fields = {"targetId": entry["id"], "replacement": {"content": content}}
        self._session.keep_entry("context_edit", fields)
        return cast("Message", {**former, "content": content})  # cast: the same role, with a content of its kind

    def _append(self, message: Message) -> None:
        super()._append(message)
        if not self.has_heard(message):
            self.tell_start(message)
            self._tell_end(message)

    # Results, between their end and their place in the session.

    @property
    def results(self) -> Sequence[ToolResultMessage]:
        """The results of the turn's calls, in call order, before they are appended."""
        return [self._results[index] for index in range(len(self.calls))]

    def replace_result(self, index: int, message: ToolResultMessage) -> None:
        """Let another message stand for a result that is not appended yet."""
        self._results[index] = message

    # What is told where.

    def tell_start(self, message: Message) -> None:
        """Tell `message_start`."""
        self.lane.put("message_start", lambda: ev.MessageStart(message=_message(message)))

    def heard(self, message: Message) -> None:
        """Remember that handlers were asked about the end of a message."""
        self._heard.append(message)

    def has_heard(self, message: Message) -> bool:
        """Tell whether handlers were asked about the end of a message, this very object."""
        return any(each is message for each in self._heard)

    def _tell_end(self, message: Message) -> None:
        if not self.has_heard(message):
            self.lane.put("message_end", lambda: ev.MessageEnd(message=_message(message)))

    def turn_event(self) -> ev.TurnEnd:
        """Return the event of the turn that ends: everything of it is in the session."""
        assert self.message is not None
        entry = self._session.entry_of(self.message)
        entries = [self._session.entry_of(result) for result in self._turn_results]
        return ev.TurnEnd(
            turn_index=self.turn,
            message=cast("AssistantMessage", _message(self.message)),  # cast: a copy of it
            tool_results=[cast("ToolResultMessage", _message(each)) for each in self._turn_results],  # likewise
            message_entry_id=None if entry is None else str(entry["id"]),
            tool_result_entry_ids=[str(each["id"]) for each in entries if each is not None],
        )


def _message(message: Message) -> Message:
    return cast("Message", frozen(message))  # cast: a copy of it


def _snapshot(value: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", frozen(value))  # cast: a copy of it
