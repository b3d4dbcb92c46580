"""The table of all events of extensions: for each its class and the results that its handlers may return.

Imported with the first extension, because creating so many classes takes start time. Has no access to where events are
fired.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.extensions.events import results
from pinnace_agent.extensions.events.base import Event
from pinnace_agent.extensions.events.model_events import (
    AfterProviderResponse,
    BeforeProviderHeaders,
    BeforeProviderRequest,
    CacheWarmingDecision,
    Context,
    ContextWithSystem,
    ModelSelect,
    ProviderStreamEvent,
    ThinkingLevelSelect,
)
from pinnace_agent.extensions.events.run_events import (
    AgentBeforeSettle,
    AgentEnd,
    AgentSettled,
    AgentStart,
    BeforeAgentStart,
    Input,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
    TurnStart,
    UiPromptEnd,
    UiPromptStart,
)
from pinnace_agent.extensions.events.session_events import (
    McpServersChange,
    ProjectTrust,
    ResourcesDiscover,
    SessionBeforeCompact,
    SessionBeforeFork,
    SessionBeforeSwitch,
    SessionBeforeTree,
    SessionCompact,
    SessionCompactFailed,
    SessionDirectory,
    SessionFork,
    SessionInfoChanged,
    SessionShutdown,
    SessionStart,
    SessionSwitch,
    SessionTree,
    TreePreparation,
)
from pinnace_agent.extensions.events.tool_events import (
    CALLS,
    RESULTS,
    BashCall,
    BashInput,
    BashResult,
    EditCall,
    EditInput,
    EditResult,
    FindCall,
    FindInput,
    FindResult,
    GrepCall,
    GrepInput,
    GrepResult,
    LsCall,
    LsInput,
    LsResult,
    ReadCall,
    ReadInput,
    ReadResult,
    ToolCall,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResult,
    UserBash,
    WriteCall,
    WriteInput,
    WriteResult,
)


class EventRow(NamedTuple):
    """One kind of event. Its name is `event.type`; nothing else lists the names."""

    event: type[Event]
    result: type[results.Result] | None = None
    """The main class of results; None: results of handlers are ignored."""
    is_cancellable: bool = False
    """Whether `Cancel` is a result as well."""
    is_legacy: bool = False
    """Whether it is of an older generation of the protocol: accepted with a diagnostic."""
    is_fired: bool = True
    """Whether this program ever fires it."""


_ROWS: Final = (
    EventRow(ProjectTrust, results.Trust),
    EventRow(ResourcesDiscover, results.Resources),
    EventRow(McpServersChange, is_fired=False),
    EventRow(SessionDirectory, is_legacy=True, is_fired=False),
    EventRow(SessionStart),
    EventRow(SessionInfoChanged),
    EventRow(SessionBeforeSwitch, results.Cancel, is_cancellable=True),
    EventRow(SessionBeforeFork, results.ForkOptions, is_cancellable=True),
    EventRow(SessionBeforeCompact, results.Compaction, is_cancellable=True),
    EventRow(SessionCompact),
    EventRow(SessionCompactFailed),
    EventRow(SessionBeforeTree, results.TreeOptions, is_cancellable=True),
    EventRow(SessionTree),
    EventRow(SessionShutdown),
    EventRow(SessionSwitch, is_legacy=True),
    EventRow(SessionFork, is_legacy=True),
    EventRow(Input, results.Transform),
    EventRow(BeforeAgentStart, results.BeforeStart),
    EventRow(AgentStart),
    EventRow(AgentEnd),
    EventRow(AgentBeforeSettle, results.Boundary),
    EventRow(AgentSettled),
    EventRow(TurnStart),
    EventRow(TurnEnd, results.Boundary),
    EventRow(MessageStart),
    EventRow(MessageUpdate),
    EventRow(MessageEnd, results.ReplaceMessage),
    EventRow(ToolExecutionStart),
    EventRow(ToolExecutionUpdate),
    EventRow(ToolExecutionEnd),
    EventRow(UiPromptStart),
    EventRow(UiPromptEnd),
    EventRow(Context, results.Messages),
    EventRow(ContextWithSystem, results.Messages),
    EventRow(BeforeProviderHeaders),
    EventRow(BeforeProviderRequest, results.Payload),
    EventRow(AfterProviderResponse),
    EventRow(ProviderStreamEvent),
    EventRow(CacheWarmingDecision, results.CacheDecision),
    EventRow(ModelSelect),
    EventRow(ThinkingLevelSelect),
    EventRow(ToolCall, results.Block),
    EventRow(ToolResult, results.ResultPatch),
    EventRow(UserBash, results.UserBash),
)

EVENTS: Final[Mapping[str, EventRow]] = {row.event.type: row for row in _ROWS}
"""Every event by its name."""

TOOL_EVENTS: Final = frozenset({"tool_call", "tool_result"})
"""The events whose handlers may subscribe to one tool only."""


def event_from_wire(record: Mapping[str, object]) -> Event:
    """Make the event of a record in wire spelling.

    Raises:
        ValueError: There is no such event, or a field is missing.
    """
    name = record.get("type")
    if not isinstance(name, str) or name not in EVENTS:
        raise ValueError(f"there is no event {name!r}")
    return EVENTS[name].event.from_wire(record)


def unknown_event(name: str) -> str:
    """Return the diagnostic for an unknown event name. It may be an event of a newer version, so it is no error."""
    from pinnace_spec.nearest import nearest

    near = nearest(name, EVENTS)
    meant = f"; did you mean {near!r}?" if near else ""
    return f"there is no event {name!r}, so its handler is never called{meant}"


__all__ = [
    "CALLS",
    "EVENTS",
    "RESULTS",
    "TOOL_EVENTS",
    "AfterProviderResponse",
    "AgentBeforeSettle",
    "AgentEnd",
    "AgentSettled",
    "AgentStart",
    "BashCall",
    "BashInput",
    "BashResult",
    "BeforeAgentStart",
    "BeforeProviderHeaders",
    "BeforeProviderRequest",
    "CacheWarmingDecision",
    "Context",
    "ContextWithSystem",
    "EditCall",
    "EditInput",
    "EditResult",
    "Event",
    "EventRow",
    "FindCall",
    "FindInput",
    "FindResult",
    "GrepCall",
    "GrepInput",
    "GrepResult",
    "Input",
    "LsCall",
    "LsInput",
    "LsResult",
    "McpServersChange",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "ModelSelect",
    "ProjectTrust",
    "ProviderStreamEvent",
    "ReadCall",
    "ReadInput",
    "ReadResult",
    "ResourcesDiscover",
    "SessionBeforeCompact",
    "SessionBeforeFork",
    "SessionBeforeSwitch",
    "SessionBeforeTree",
    "SessionCompact",
    "SessionCompactFailed",
    "SessionDirectory",
    "SessionFork",
    "SessionInfoChanged",
    "SessionShutdown",
    "SessionStart",
    "SessionSwitch",
    "SessionTree",
    "ThinkingLevelSelect",
    "ToolCall",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "ToolResult",
    "TreePreparation",
    "TurnEnd",
    "TurnStart",
    "UiPromptEnd",
    "UiPromptStart",
    "UserBash",
    "WriteCall",
    "WriteInput",
    "WriteResult",
    "event_from_wire",
    "unknown_event",
]
