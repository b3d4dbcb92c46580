"""The port through which extensions act on the running agent: `HostActions`, and `HostPort` with all ports of a runner.

Implemented by the extension host. Belongs to one session instance: after the session is replaced or extensions are
reloaded, the next instance receives its own. Types only.

Unless a method says otherwise it is synchronous, never waits, may be called in every state of the agent, and raises
only for invalid arguments. "Idle" means that nothing runs and nothing is queued to run by itself: a retry
that waits, a compaction with work behind it and a queue that is about to be delivered are not idle.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import trio

from pinnace_agent.extensions.ports.host_view import (
    CommandInfo,
    Content,
    CustomDraft,
    DeliverAs,
    ForkPosition,
    HostView,
    SessionResult,
    Setup,
    ToolInfo,
    TreeMove,
    WithSession,
)
from pinnace_agent.extensions.registration.registrations import ErrorSink
from pinnace_spec.records.messages import Model, ThinkingLevel


class HostPort(NamedTuple):
    """All ports that a runner needs."""

    view: HostView
    actions: "HostActions"
    report_error: ErrorSink
    """Takes errors of extensions; must not raise."""
    send: Callable[[Mapping[str, object]], None] | None = None
    """Takes records for the client and never waits; None: no client can answer dialogs."""
    room: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Waits until the client has read enough of the tools' progress."""
    draw: Callable[[Mapping[str, object], str], None] | None = None
    """Takes a record that may take the place of an unwritten one with the same key; None: nothing can be drawn."""


class HostActions(Protocol):
    """What extensions may request. A request that fails later is reported as an ErrorRecord of `<runtime>`."""

    # Messages.

    def send_message(self, draft: CustomDraft, *, deliver_as: DeliverAs | None, triggers_turn: bool | None) -> None:
        """Add a message of the extension to the conversation. Never waits for a turn.

        Streaming: queued as steer or follow-up; with `triggers_turn` False it is appended after the turn. Idle, or
        while a session begins: stored at once, and a run starts only with `triggers_turn` True, never for `nextTurn`.
        While settling: queued until `end_settling`.
        """
        ...

    def send_user_message(self, content: Content, *, deliver_as: DeliverAs | None, expands: bool | None) -> None:
        """Send a user message. Never waits for the run.

        Idle: starts a run. Streaming: queued as `deliver_as` says; without it, the message is rejected and an error
        reported. While settling: queued until `end_settling`. With `expands`, commands, skills and templates in it are
        expanded.
        """
        ...

    # The session.

    def append_entry(self, custom_type: str, data: object) -> str:
        """Append an entry that no model reads, emit `entry_appended`, and return its id."""
        ...

    def session_name(self) -> str | None:
        """Return the display name."""
        ...

    def set_session_name(self, name: str | None) -> None:
        """Name the session; None clears the name. Fires `session_info_changed`."""
        ...

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Bookmark an entry; None clears it.

        Raises:
            KeyError: There is no such entry.
        """
        ...

    def working_folder(self) -> str:
        """Return the default working folder of `exec`."""
        ...

    # Tools and commands.

    def active_tools(self) -> list[str]:
        """Return the names that the next request declares."""
        ...

    def all_tools(self) -> list[ToolInfo]:
        """Return every tool, active or not."""
        ...

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Declare these from the next request on; unknown names are ignored."""
        ...

    def tools_changed(self, registered: str | None = None) -> None:
        """Read the tools of the extensions again: one was registered after the start, and becomes active."""
        ...

    def mcp_servers_changed(self) -> None:
        """Publish `mcp_servers_change`: an extension has registered or removed an MCP server."""
        ...

    def publish_mcp_servers(self, servers: Sequence[Mapping[str, object]]) -> None:
        """Let clients see the state of all MCP servers; `mcp_status` is emitted for each that differs."""
        ...

    def commands(self) -> list[CommandInfo]:
        """Return the slash commands: of extensions, then templates, then skills."""
        ...

    # The model.

    async def set_model(self, model: Model) -> bool:
        """Select another model; False if it has no credentials. The saved default stays.

        Waits for credentials. During a run it takes effect with the next request.
        """
        ...

    def thinking_level(self) -> ThinkingLevel:
        """Return the current thinking level."""
        ...

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Set the thinking level, or the nearest that the model supports."""
        ...

    def settings(self) -> dict[str, object]:
        """Return the merged settings, as a copy."""
        ...

    def register_provider(self, extension_path: str, name: str, config: object) -> None:
        """Add or override a provider; the active model is looked up again.

        Raises:
            ValueError: The configuration is invalid; the text says why.
        """
        ...

    def unregister_provider(self, name: str) -> None:
        """Remove a provider, and restore the one that it had overridden; an unknown name is no error."""
        ...

    # The run and the process.

    def abort(self) -> None:
        """Request the end of the run. Idle: does nothing."""
        ...

    def shutdown(self) -> None:
        """Request the end of the process as soon as it is idle and no command is open."""
        ...

    async def compact(self, instructions: str | None) -> Mapping[str, object]:
        """Compact, and return the result as `compact` answers it. A run is aborted first.

        Cancelling ends the compaction.

        Raises:
            RuntimeError: It failed, was aborted, or there is nothing to compact; the text says which.
        """
        ...

    # Settling.

    def begin_settling(self) -> None:
        """Queue messages from now on: handlers of `agent_settled` are running."""
        ...

    def end_settling(self) -> None:
        """Send the queued messages, in order."""
        ...

    # Session control: only for tasks that neither a handler nor a run waits for.

    async def wait_for_idle(self) -> None:
        """Wait until the agent is idle and requests made while it settled are done."""
        ...

    async def new_session(
        self, parent_session: str | None, setup: Setup | None, with_session: WithSession | None
    ) -> SessionResult:
        """Replace the session with a new one, in the calling task.

        Aborts a run and waits until it has settled. On return the calling instance is stale, `session_start` was
        handled by the next one, and `with_session` was awaited there. A failure of `with_session` raises; the
        replacement stays.

        Raises:
            RuntimeError: The session could not be replaced; nothing has changed.
        """
        ...

    async def fork(self, entry_id: str, position: ForkPosition, with_session: WithSession | None) -> SessionResult:
        """Replace the session with a copy that continues from an entry: `before` a user message, or `at` it.

        Behaves as `new_session`.
        """
        ...

    async def switch_session(self, path: str, with_session: WithSession | None) -> SessionResult:
        """Replace the session with the one in a file. Behaves as `new_session`."""
        ...

    async def navigate_tree(self, target_id: str | None, move: TreeMove) -> SessionResult:
        """Move to another entry of this session, None: before the first one; the instance stays.

        Raises:
            RuntimeError: The agent is busy, there is no such entry, or a summary needs a model and there is none.
        """
        ...

    async def reload(self) -> None:
        """Load settings, resources and extensions again. On return the calling instance is stale.

        Raises:
            RuntimeError: A run or a compaction is in progress.
        """
        ...
