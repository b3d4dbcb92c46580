"""Events about the project, its resources and the session."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NotRequired

from typing_extensions import TypedDict

from pinnace_agent.extensions.events.base import Event
from pinnace_agent.extensions.events.uncompiled import mutable
from pinnace_agent.extensions.registration.registrations import McpServerInfo
from pinnace_spec.records.entries import Entry

CompactionReason = Literal["manual", "threshold", "overflow"]
StartReason = Literal["startup", "reload", "new", "resume", "fork"]
ShutdownReason = Literal["quit", "reload", "new", "resume", "fork"]


class TreePreparation(TypedDict):
    """A move in the session's tree that is about to happen."""

    targetId: str | None
    """None: before the first entry."""
    oldLeafId: str | None
    commonAncestorId: str | None
    entriesToSummarize: Sequence[Entry]
    userWantsSummary: bool
    customInstructions: NotRequired[str]
    replaceInstructions: NotRequired[bool]
    label: NotRequired[str]


@mutable
class ProjectTrust(Event):
    """Whether this project may configure the agent is undecided. Requires a `Trust`."""

    type: ClassVar[str] = "project_trust"
    cwd: str


@mutable
class ResourcesDiscover(Event):
    """Resources are being loaded. Takes `Resources`."""

    type: ClassVar[str] = "resources_discover"
    cwd: str
    reason: Literal["startup", "reload"]


@mutable
class McpServersChange(Event):
    """An extension has registered or removed an MCP server. A handler marks the extension that connects them."""

    type: ClassVar[str] = "mcp_servers_change"
    servers: Sequence[McpServerInfo]
    """All that are registered now."""


@mutable
class SessionDirectory(Event):
    """Of an older generation; never fired."""

    type: ClassVar[str] = "session_directory"
    cwd: str


@mutable
class SessionStart(Event):
    """A session started. Restore state that is stored in the session here."""

    type: ClassVar[str] = "session_start"
    reason: StartReason
    previous_session_file: str | None = None


@mutable
class SessionInfoChanged(Event):
    """The session was renamed, or its name cleared. Its handlers are not awaited."""

    type: ClassVar[str] = "session_info_changed"
    name: str | None = None


@mutable
class SessionBeforeSwitch(Event):
    """The session is about to be replaced. Takes `Cancel`."""

    type: ClassVar[str] = "session_before_switch"
    reason: Literal["new", "resume"]
    target_session_file: str | None = None


@mutable
class SessionBeforeFork(Event):
    """The session is about to be forked or cloned. Takes `Cancel`, `ForkOptions`."""

    type: ClassVar[str] = "session_before_fork"
    entry_id: str
    position: Literal["before", "at"]


@mutable
class SessionBeforeCompact(Event):
    """A compaction is about to start; handlers run in its cancel scope. Takes `Cancel`, `Compaction`."""

    type: ClassVar[str] = "session_before_compact"
    preparation: Mapping[str, object]
    branch_entries: Sequence[Entry]
    custom_instructions: str | None = None
    reason: CompactionReason
    will_retry: bool = False


@mutable
class SessionCompact(Event):
    """A compaction was stored in the session."""

    type: ClassVar[str] = "session_compact"
    compaction_entry: Entry
    from_extension: bool
    reason: CompactionReason
    will_retry: bool = False


@mutable
class SessionCompactFailed(Event):
    """A compaction failed or was aborted."""

    type: ClassVar[str] = "session_compact_failed"
    reason: CompactionReason
    error_message: str | None = None
    aborted: bool
    will_retry: bool = False
    from_extension: bool = False


@mutable
class SessionBeforeTree(Event):
    """The session is about to move to another entry. Takes `Cancel`, `TreeSummary`, `TreeOptions`."""

    type: ClassVar[str] = "session_before_tree"
    preparation: TreePreparation


@mutable
class SessionTree(Event):
    """The session moved to another entry. Restore state that is stored in its branch here."""

    type: ClassVar[str] = "session_tree"
    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry: Entry | None = None
    from_extension: bool | None = None


@mutable
class SessionShutdown(Event):
    """The session instance is about to end. Its handlers have a few seconds."""

    type: ClassVar[str] = "session_shutdown"
    reason: ShutdownReason
    target_session_file: str | None = None


@mutable
class SessionSwitch(Event):
    """Of an older generation; fired right after `session_start` of a new or resumed session."""

    type: ClassVar[str] = "session_switch"
    reason: Literal["new", "resume"] | None = None
    previous_session_file: str | None = None


@mutable
class SessionFork(Event):
    """Of an older generation; fired right after `session_start` of a forked session."""

    type: ClassVar[str] = "session_fork"
    previous_session_file: str | None = None
