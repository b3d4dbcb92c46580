"""Publishes the records of a run to extensions: each record also becomes an event.

Decides which event belongs to which record; nothing here waits. Extensions are asked by `run_hooks`, which notes here
the messages and turns about which handlers were asked already.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from pinnace_agent.core.frozen import frozen
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.hooks.growing_events import CallProgress
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.session.conversation import Session
from pinnace_spec.records.messages import AssistantMessage, Message, ToolCall, ToolResultMessage


class RunEventPublisher:
    """Puts the events of one run into the lane. A `RunObserver`."""

    def __init__(self, runner: Runner, session: Session) -> None:
        """Begin a run; nothing is published yet."""
        self.runner = runner
        self.lane = runner.lane
        self.end_mark = 0
        """The place in the lane behind the last event of this run."""
        self.is_turn_published = False
        """Whether handlers of `turn_end` were asked about this turn."""
        self._session = session
        self._turn = -1
        self._asked: list[Message] = []  # of this turn, about whose ends handlers were asked

    @property
    def defers_messages(self) -> bool:
        """Whether handlers of `message_end` are asked about messages that enter the run."""
        return self.runner.has_handlers("message_end")

    def run_started(self) -> None:
        """Publish `agent_start`."""
        self.lane.put("agent_start", ev.AgentStart)

    def turn_started(self) -> None:
        """Publish `turn_start`."""
        self._turn += 1
        self.is_turn_published = False
        self._asked = []
        now_ms = self._session.now_ms()
        self.lane.put("turn_start", lambda: ev.TurnStart(turn_index=self._turn, timestamp=now_ms))

    # Messages.

    def message_started(self, message: Message) -> None:
        """Publish `message_start`."""
        self.lane.put("message_start", lambda: ev.MessageStart(message=_message(message)))

    def message_ended(self, message: Message) -> None:
        """Publish `message_end`, unless handlers were asked about it."""
        if not self._was_asked(message):
            self.lane.put("message_end", lambda: ev.MessageEnd(message=_message(message)))

    def message_added(self, message: Message) -> None:
        """Publish both events of a message, unless handlers were asked about it."""
        if not self._was_asked(message):
            self.message_started(message)
            self.message_ended(message)

    def note_asked(self, message: Message) -> None:
        """Note that handlers were asked about the end of a message."""
        self._asked.append(message)

    def _was_asked(self, message: Message) -> bool:
        return any(each is message for each in self._asked)  # this very object

    # Calls.

    def call_started(self, call: ToolCall) -> None:
        """Publish `tool_execution_start`."""
        self.lane.put(
            "tool_execution_start",
            lambda: ev.ToolExecutionStart(
                tool_call_id=call["id"], tool_name=call["name"], args=_snapshot(call["arguments"])
            ),
        )

    def call_updated(
        self, index: int, call: ToolCall, args: Mapping[str, object], result: Mapping[str, object]
    ) -> None:
        """Publish `tool_execution_update`; one that no handler has taken is replaced by the next."""
        if not self.runner.has_handlers("tool_execution_update"):
            return
        newest = self.lane.newest
        if isinstance(newest, CallProgress) and newest.run is self and newest.index == index:
            newest.partial = result
        else:
            self.lane.put_growing(CallProgress(self, index, call, args, result))

    def call_ended(
        self,
        call: ToolCall,
        args: Mapping[str, object],
        result: Mapping[str, object],
        *,
        is_error: bool,
        duration_ms: int | None,
    ) -> None:
        """Publish `tool_execution_end`."""
        self.lane.put(
            "tool_execution_end",
            lambda: ev.ToolExecutionEnd(
                tool_call_id=call["id"],
                tool_name=call["name"],
                args=_snapshot(args),
                result=_snapshot(result),
                is_error=is_error,
                duration_ms=duration_ms,
            ),
        )

    # The ends.

    def turn_ended(self, message: AssistantMessage | None, results: Sequence[ToolResultMessage]) -> None:
        """Publish `turn_end`, unless the turn's handlers were asked."""
        if not self.is_turn_published and message is not None:
            self.is_turn_published = True
            self.lane.put("turn_end", lambda: self.turn_event(message, results))

    def turn_event(self, message: AssistantMessage, results: Sequence[ToolResultMessage]) -> ev.TurnEnd:
        """Return the event of a turn that ends: its answer and its results are in the session."""
        entry = self._session.entry_of(message)
        entries = [self._session.entry_of(result) for result in results]
        return ev.TurnEnd(
            turn_index=self._turn,
            message=cast("AssistantMessage", _message(message)),  # cast: a copy of it
            tool_results=[cast("ToolResultMessage", _message(each)) for each in results],  # likewise
            message_entry_id=None if entry is None else str(entry["id"]),
            tool_result_entry_ids=[str(each["id"]) for each in entries if each is not None],
        )

    def run_ended(self, messages: Sequence[Message]) -> None:
        """Publish `agent_end`."""
        self.lane.put("agent_end", lambda: ev.AgentEnd(messages=[_message(each) for each in messages]))
        self.end_mark = self.lane.mark

    # DEVIATION D-01 holds for events as well: what an abort closes is published, and no handler is asked about it.
    def run_closed(self) -> None:
        """Deliver what is left by a task that no abort ends."""
        self.runner.drain_later()


def _message(message: Message) -> Message:
    return cast("Message", frozen(message))  # cast: a copy of it


def _snapshot(value: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", frozen(value))  # cast: a copy of it
