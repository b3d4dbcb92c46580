"""Events of streams, which grow while nobody has heard of them: so that a handler costs once a pause, not once a delta.

Deltas of one block that follow each other become one, and a call's progress makes way for newer progress. Must not know
when they are told. E25, E28.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.tools.base import ToolResult
from pinnace_spec.messages import AssistantMessage

if TYPE_CHECKING:
    from pinnace_agent.extensions.heard_log import HeardLog


class MessageGrowth:
    """What a stream has brought: some `message_update`s."""

    __slots__ = ("_builder", "_index", "_kind", "_parts", "_pieces", "is_taken")

    def __init__(self, builder: MessageBuilder) -> None:
        """Begin without an event."""
        self.is_taken = False
        """Whether it has become events: what comes then is for another one."""
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

    __slots__ = ("index", "log", "partial")

    def __init__(self, log: "HeardLog", index: int, partial: ToolResult) -> None:
        """Begin with what a call has produced so far; newer progress is put in its place."""
        self.log = log
        self.index = index
        self.partial = partial

    def take(self) -> list[ev.ToolExecutionUpdate]:
        """Return the event."""
        return [self.log.progress_event(self.index, self.partial)]
