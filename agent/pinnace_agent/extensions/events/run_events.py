"""Events about prompts, runs, turns, messages and dialogs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pinnace_agent.extensions.events.base import Event
from pinnace_agent.extensions.events.uncompiled import mutable
from pinnace_spec.records.messages import AssistantMessage, ImageContent, Message, ToolResultMessage

InputSource = Literal["interactive", "rpc", "extension"]
Outcome = Literal["completed", "aborted", "error"]
Draft = Mapping[str, object]
"""An entry that a settle hook proposes."""


@mutable
class Input(Event):
    """A user message arrived. Takes `Continue`, `Transform`, `Handled`."""

    type: ClassVar[str] = "input"
    text: str
    images: list[ImageContent] | None = None
    source: InputSource
    streaming_behavior: Literal["steer", "followUp"] | None = None


@mutable
class BeforeAgentStart(Event):
    """A run is about to start. Takes `BeforeStart`."""

    type: ClassVar[str] = "before_agent_start"
    prompt: str
    images: list[ImageContent] | None = None
    system_prompt: str
    """As earlier handlers changed it."""
    message_type: Literal["user", "custom"] = "user"
    message: Mapping[str, object] | None = None
    """The message of an extension, if it starts the run."""
    system_prompt_options: dict[str, object] = field(default_factory=dict[str, object])
    """The parts that the system prompt is built from; changes take effect."""


@mutable
class AgentStart(Event):
    """A run started."""

    type: ClassVar[str] = "agent_start"


@mutable
class AgentEnd(Event):
    """A run ended. Another may follow; `agent_settled` is fired when none does."""

    type: ClassVar[str] = "agent_end"
    messages: Sequence[Message]


@mutable
class AgentBeforeSettle(Event):
    """The agent is about to settle. Takes `Boundary`; the event has the proposal so far."""

    type: ClassVar[str] = "agent_before_settle"
    outcome: Outcome
    entries: Sequence[Draft] = ()
    continue_: bool = False
    context: Sequence[Message] = ()


@mutable
class AgentSettled(Event):
    """The agent is idle, and nothing is queued to run by itself."""

    type: ClassVar[str] = "agent_settled"
    aborted: bool


@mutable
class TurnStart(Event):
    """A turn starts: a model request follows."""

    type: ClassVar[str] = "turn_start"
    turn_index: int
    timestamp: int
    """Milliseconds since the epoch."""


@mutable
class TurnEnd(Event):
    """A turn ended: its answer and the results of its calls are stored. Takes `Boundary`."""

    type: ClassVar[str] = "turn_end"
    turn_index: int
    message: AssistantMessage
    tool_results: Sequence[ToolResultMessage]
    message_entry_id: str | None = None
    tool_result_entry_ids: Sequence[str] = ()
    entries: Sequence[Draft] = ()
    continue_: bool = False
    context: Sequence[Message] = ()


@mutable
class MessageStart(Event):
    """A message started, of any role."""

    type: ClassVar[str] = "message_start"
    message: Message


@dataclass(slots=True, kw_only=True)  # one is made for each token
class MessageUpdate(Event, compiled=True):
    """The streamed answer grew. The stream waits for each handler."""

    type: ClassVar[str] = "message_update"
    message: AssistantMessage
    assistant_message_event: Mapping[str, object]


@mutable
class MessageEnd(Event):
    """A message is complete. Takes `ReplaceMessage` with one of the same role."""

    type: ClassVar[str] = "message_end"
    message: Message


@mutable
class UiPromptStart(Event):
    """A dialog opened. Its handlers are not awaited."""

    type: ClassVar[str] = "ui_prompt_start"
    reason: Literal["ui_prompt"] = "ui_prompt"
    kind: str
    title: str | None = None


@mutable
class UiPromptEnd(Event):
    """The last open dialog closed. Its handlers are not awaited."""

    type: ClassVar[str] = "ui_prompt_end"
    reason: Literal["ui_prompt"] = "ui_prompt"
    kind: str
    title: str | None = None
