"""Events of streams, which grow until a handler takes them: a handler costs once a pause, not once a delta.

Consecutive deltas of one block become one, and a call's progress is replaced by newer progress.
"""

from collections.abc import Mapping
from typing import cast

from pinnace_agent.core.frozen import frozen
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_spec.records.messages import AssistantMessage, ToolCall


class MessageGrowth:
    """What a stream has produced: some `message_update`s."""

    __slots__ = ("_builder", "_index", "_kind", "_parts", "_pieces", "is_taken")

    def __init__(self, builder: MessageBuilder) -> None:
        """Begin without an event."""
        self.is_taken = False
        """Whether it has become events: later updates belong to another one."""
        self._builder = builder
        self._parts: list[tuple[Mapping[str, object], list[str]]] = []
        self._pieces: list[str] = []  # of the last part
        self._kind: object = None
        self._index: object = None

    def add(self, event: Mapping[str, object]) -> None:
        """Take one event of the stream. A delta only leaves its text: as many objects would keep the collector busy."""
        delta = event.get("delta")
        if delta is not None and event["type"] == self._kind and event["contentIndex"] == self._index:
            self._pieces.append(str(delta))
            return
        self._kind, self._index = event["type"], event["contentIndex"]
        self._pieces = [] if delta is None else [str(delta)]
        self._parts.append((event, self._pieces))

    def take(self) -> list[ev.MessageUpdate]:
        """Return the events, with the message as it is now."""
        self.is_taken = True
        message = cast("AssistantMessage", frozen(self._builder.snapshot()))  # cast: a copy of it
        return [_update(event, pieces, message) for event, pieces in self._parts]


def _update(event: Mapping[str, object], pieces: list[str], message: AssistantMessage) -> ev.MessageUpdate:
    whole = {name: frozen(value) for name, value in event.items()}
    whole["partial"] = message
    if pieces:
        whole["delta"] = "".join(pieces)
    return ev.MessageUpdate(message=message, assistant_message_event=whole)


class CallProgress:
    """One `tool_execution_update`."""

    __slots__ = ("_args", "_call", "index", "partial", "run")

    def __init__(
        self, run: object, index: int, call: ToolCall, args: Mapping[str, object], partial: Mapping[str, object]
    ) -> None:
        """Begin with what a call of a run has produced so far; `partial` is replaced by newer progress."""
        self.run = run
        self.index = index
        self.partial = partial
        self._call = call
        self._args = args

    def take(self) -> list[ev.ToolExecutionUpdate]:
        """Return the event."""
        return [
            ev.ToolExecutionUpdate(
                tool_call_id=self._call["id"],
                tool_name=self._call["name"],
                args=_snapshot(self._args),
                partial_result=_snapshot(self.partial),
            )
        ]


def _snapshot(value: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", frozen(value))  # cast: a copy of it
