"""Events about prompts, runs, turns, messages and dialogs (E16 to E26, E30)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pinnace_agent.extensions.event_base import Event
from pinnace_spec.messages import AssistantMessage, ImageContent, Message, ToolResultMessage

InputSource = Literal["interactive", "rpc", "extension"]
Outcome = Literal["completed", "aborted", "error"]
Draft = Mapping[str, object]
"""An entry that a boundary handler proposes."""


@dataclass(slots=True, kw_only=True)
class Input(Event):
    """E16: the user said something, as it came. Takes `Continue`, `Transform`, `Handled`."""

    type: ClassVar[str] = "input"
    text: str
    images: list[ImageContent] | None = None
    source: InputSource
    streaming_behavior: Literal["steer", "followUp"] | None = None


@dataclass(slots=True, kw_only=True)
class BeforeAgentStart(Event):
    """E17: a run is about to begin. Takes `BeforeStart`."""

    type: ClassVar[str] = "before_agent_start"
    prompt: str
    images: list[ImageContent] | None = None
    system_prompt: str
    """What the handlers before have made of it."""
    message_type: Literal["user", "custom"] = "user"
    message: Mapping[str, object] | None = None
    """Of an extension, if that is what starts the run."""
    system_prompt_options: dict[str, object] = field(default_factory=dict[str, object])
    """What the prompt is made from; changes count."""


@dataclass(slots=True, kw_only=True)
class AgentStart(Event):
    """E18: a run begins."""

    type: ClassVar[str] = "agent_start"


@dataclass(slots=True, kw_only=True)
class AgentEnd(Event):
    """E19: a run has ended. More may follow: `agent_settled` tells when nothing does."""

    type: ClassVar[str] = "agent_end"
    messages: Sequence[Message]


@dataclass(slots=True, kw_only=True)
class AgentBeforeSettle(Event):
    """E20: the last moment to go on. Takes `Boundary`; the proposal so far is in the event."""

    type: ClassVar[str] = "agent_before_settle"
    outcome: Outcome
    entries: Sequence[Draft] = ()
    continue_: bool = False
    context: Sequence[Message] = ()


@dataclass(slots=True, kw_only=True)
class AgentSettled(Event):
    """E21: nothing more will happen by itself."""

    type: ClassVar[str] = "agent_settled"
    aborted: bool


@dataclass(slots=True, kw_only=True)
class TurnStart(Event):
    """E22: a model is about to be asked."""

    type: ClassVar[str] = "turn_start"
    turn_index: int
    timestamp: int
    """Milliseconds since the epoch."""


@dataclass(slots=True, kw_only=True)
class TurnEnd(Event):
    """E23: an answer and the results of its calls are stored. Takes `Boundary`."""

    type: ClassVar[str] = "turn_end"
    turn_index: int
    message: AssistantMessage
    tool_results: Sequence[ToolResultMessage]
    message_entry_id: str | None = None
    tool_result_entry_ids: Sequence[str] = ()
    entries: Sequence[Draft] = ()
    continue_: bool = False
    context: Sequence[Message] = ()


@dataclass(slots=True, kw_only=True)
class MessageStart(Event):
    """E24: a message begins, whoever's it is."""

    type: ClassVar[str] = "message_start"
    message: Message


@dataclass(slots=True, kw_only=True)
class MessageUpdate(Event):
    """E25: the answer has grown. The stream waits for each handler."""

    type: ClassVar[str] = "message_update"
    message: AssistantMessage
    assistant_message_event: Mapping[str, object]


@dataclass(slots=True, kw_only=True)
class MessageEnd(Event):
    """E26: a message is complete. Takes `ReplaceMessage` with one of the same role."""

    type: ClassVar[str] = "message_end"
    message: Message


@dataclass(slots=True, kw_only=True)
class UiPromptStart(Event):
    """E30: somebody is being asked something. Nobody waits for its handlers."""

    type: ClassVar[str] = "ui_prompt_start"
    reason: Literal["ui_prompt"] = "ui_prompt"
    kind: str
    title: str | None = None


@dataclass(slots=True, kw_only=True)
class UiPromptEnd(Event):
    """E30: nobody is being asked any more."""

    type: ClassVar[str] = "ui_prompt_end"
    reason: Literal["ui_prompt"] = "ui_prompt"
    kind: str
    title: str | None = None
