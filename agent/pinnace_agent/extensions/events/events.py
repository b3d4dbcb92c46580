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
from pinnace_spec.nearest import nearest


class EventRow(NamedTuple):
    """One kind of event. Its name is `event.type`; nothing else lists the names."""

    number: str
    """Its item in the checklist of the tests."""
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
    EventRow("E1", ProjectTrust, results.Trust),
    EventRow("E2", ResourcesDiscover, results.Resources),
    EventRow("E3", McpServersChange, is_fired=False),
    EventRow("E4", SessionDirectory, is_legacy=True, is_fired=False),
    EventRow("E5", SessionStart),
    EventRow("E6", SessionInfoChanged),
    EventRow("E7", SessionBeforeSwitch, results.Cancel, is_cancellable=True),
    EventRow("E8", SessionBeforeFork, results.ForkOptions, is_cancellable=True),
    EventRow("E9", SessionBeforeCompact, results.Compaction, is_cancellable=True),
    EventRow("E10", SessionCompact),
    EventRow("E11", SessionCompactFailed),
    EventRow("E12", SessionBeforeTree, results.TreeOptions, is_cancellable=True),
    EventRow("E13", SessionTree),
    EventRow("E14", SessionShutdown),
    EventRow("E15", SessionSwitch, is_legacy=True),
    EventRow("E15", SessionFork, is_legacy=True),
    EventRow("E16", Input, results.Transform),
    EventRow("E17", BeforeAgentStart, results.BeforeStart),
    EventRow("E18", AgentStart),
    EventRow("E19", AgentEnd),
    EventRow("E20", AgentBeforeSettle, results.Boundary),
    EventRow("E21", AgentSettled),
    EventRow("E22", TurnStart),
    EventRow("E23", TurnEnd, results.Boundary),
    EventRow("E24", MessageStart),
    EventRow("E25", MessageUpdate),
    EventRow("E26", MessageEnd, results.ReplaceMessage),
    EventRow("E27", ToolExecutionStart),
    EventRow("E28", ToolExecutionUpdate),
    EventRow("E29", ToolExecutionEnd),
    EventRow("E30", UiPromptStart),
    EventRow("E30", UiPromptEnd),
    EventRow("E31", Context, results.Messages),
    EventRow("E32", ContextWithSystem, results.Messages),
    EventRow("E33", BeforeProviderHeaders),
    EventRow("E34", BeforeProviderRequest, results.Payload),
    EventRow("E35", AfterProviderResponse),
    EventRow("E36", ProviderStreamEvent),
    EventRow("E37", CacheWarmingDecision, results.CacheDecision, is_fired=False),
    EventRow("E38", ModelSelect),
    EventRow("E39", ThinkingLevelSelect),
    EventRow("E40", ToolCall, results.Block),
    EventRow("E41", ToolResult, results.ResultPatch),
    EventRow("E42", UserBash, results.UserBash),
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
