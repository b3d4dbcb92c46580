"""The events of extensions, by name: what a handler is given, and the table of all of them.

Imported when the first extension is loaded, not before: making so many classes takes a moment of the start. Must not
know when an event is fired, nor who hears of it.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from pinnace_agent.extensions.event_base import Event
from pinnace_agent.extensions.model_events import (
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
from pinnace_agent.extensions.run_events import (
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
from pinnace_agent.extensions.session_events import (
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
from pinnace_agent.extensions.tool_events import (
    CALLS,
    RESULTS,
    BashCall,
    BashResult,
    EditCall,
    EditResult,
    FindCall,
    FindResult,
    GrepCall,
    GrepResult,
    LsCall,
    LsResult,
    ReadCall,
    ReadResult,
    ToolCall,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResult,
    UserBash,
    WriteCall,
    WriteResult,
)
from pinnace_agent.extensions.tool_inputs import (
    BashInput,
    EditInput,
    FindInput,
    GrepInput,
    LsInput,
    ReadInput,
    WriteInput,
)


class EventRow(NamedTuple):
    """One kind of event."""

    number: str
    """In the list that the tests tick."""
    event: type[Event]
    is_legacy: bool = False
    """Of an older generation: accepted, and told to be so."""


_ROWS: Final = (
    EventRow("E1", ProjectTrust),
    EventRow("E2", ResourcesDiscover),
    EventRow("E3", McpServersChange),
    EventRow("E4", SessionDirectory, is_legacy=True),
    EventRow("E5", SessionStart),
    EventRow("E6", SessionInfoChanged),
    EventRow("E7", SessionBeforeSwitch),
    EventRow("E8", SessionBeforeFork),
    EventRow("E9", SessionBeforeCompact),
    EventRow("E10", SessionCompact),
    EventRow("E11", SessionCompactFailed),
    EventRow("E12", SessionBeforeTree),
    EventRow("E13", SessionTree),
    EventRow("E14", SessionShutdown),
    EventRow("E15", SessionSwitch, is_legacy=True),
    EventRow("E15", SessionFork, is_legacy=True),
    EventRow("E16", Input),
    EventRow("E17", BeforeAgentStart),
    EventRow("E18", AgentStart),
    EventRow("E19", AgentEnd),
    EventRow("E20", AgentBeforeSettle),
    EventRow("E21", AgentSettled),
    EventRow("E22", TurnStart),
    EventRow("E23", TurnEnd),
    EventRow("E24", MessageStart),
    EventRow("E25", MessageUpdate),
    EventRow("E26", MessageEnd),
    EventRow("E27", ToolExecutionStart),
    EventRow("E28", ToolExecutionUpdate),
    EventRow("E29", ToolExecutionEnd),
    EventRow("E30", UiPromptStart),
    EventRow("E30", UiPromptEnd),
    EventRow("E31", Context),
    EventRow("E32", ContextWithSystem),
    EventRow("E33", BeforeProviderHeaders),
    EventRow("E34", BeforeProviderRequest),
    EventRow("E35", AfterProviderResponse),
    EventRow("E36", ProviderStreamEvent),
    EventRow("E37", CacheWarmingDecision),
    EventRow("E38", ModelSelect),
    EventRow("E39", ThinkingLevelSelect),
    EventRow("E40", ToolCall),
    EventRow("E41", ToolResult),
    EventRow("E42", UserBash),
)

EVENTS: Final[Mapping[str, EventRow]] = {row.event.type: row for row in _ROWS}
"""Every event by its name."""

TOOL_EVENTS: Final = frozenset({"tool_call", "tool_result"})
"""Those whose handlers may ask for one tool only."""


def event_from_wire(record: Mapping[str, object]) -> Event:
    """Make the event that a record is about.

    Raises:
        ValueError: There is no such event, or a field is missing.
    """
    name = record.get("type")
    if not isinstance(name, str) or name not in EVENTS:
        raise ValueError(f"there is no event {name!r}")
    return EVENTS[name].event.from_wire(record)


def unknown_event(name: str) -> str:
    """Return what to say about a name that is no event; it may be one of a newer version, so it is no error."""
    close = get_close_matches(name, EVENTS, 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
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
