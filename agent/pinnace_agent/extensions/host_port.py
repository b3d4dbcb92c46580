"""What extensions may read of the running agent, and what they may ask of it.

Two Protocols, implemented by whoever has the session: `HostView` answers at once and changes nothing, `HostActions`
changes something. Both belong to one session instance: when the session is replaced or extensions are reloaded, the
next instance gets its own. Types only. Must not know handlers, chains or records.

Unless a method says otherwise it is synchronous, never waits, may be called in every state of the agent, and raises
only for arguments that can't be right. "Idle" means that nothing runs and nothing is queued to run by itself: a retry
that waits, a compaction with work behind it and a queue that is about to be delivered are not idle.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import trio

from pinnace_agent.extensions.host_view import (
    CommandInfo,
    Content,
    ContextUsage,
    CustomDraft,
    DeliverAs,
    ForkPosition,
    HostView,
    Mode,
    RegistryView,
    SessionResult,
    SessionView,
    SessionWriter,
    Setup,
    ToolInfo,
    TreeMove,
    WithSession,
)
from pinnace_agent.extensions.registrations import ErrorSink
from pinnace_spec.messages import Model, ThinkingLevel

__all__ = [
    "CommandInfo",
    "Content",
    "ContextUsage",
    "CustomDraft",
    "DeliverAs",
    "ForkPosition",
    "HostActions",
    "HostPort",
    "HostView",
    "Mode",
    "RegistryView",
    "SessionResult",
    "SessionView",
    "SessionWriter",
    "Setup",
    "ToolInfo",
    "TreeMove",
    "WithSession",
]


class HostPort(NamedTuple):
    """Everything that a runner needs of its host."""

    view: HostView
    actions: "HostActions"
    tell: ErrorSink
    """Takes errors of extensions; must not raise."""
    send: Callable[[Mapping[str, object]], None] | None = None
    """Takes frames for the client and never waits; None: there is nobody to ask."""
    room: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Waits until the reader has taken enough of tools' progress."""


class HostActions(Protocol):
    """What extensions may ask of the agent. A request that fails later is told as an ErrorRecord of `<runtime>`."""

    # Speaking (A11, A12).

    def send_message(self, draft: CustomDraft, *, deliver_as: DeliverAs | None, triggers_turn: bool | None) -> None:
        """Put a message of the extension into the conversation (A11). Never waits for a turn.

        Streaming: queued to steer, or to follow; with `triggers_turn` False it is appended after the turn. Idle: stored
        at once, and a run starts only with `triggers_turn` True, never for `nextTurn`. While settling: kept until
        `end_settling`.
        """
        ...

    def send_user_message(self, content: Content, *, deliver_as: DeliverAs | None, expands: bool | None) -> None:
        """Say something as the user (A12). Never waits for the answer.

        Idle: starts a run. Streaming: queued as told; without `deliver_as` it is refused, and told as an error. While
        settling: kept until `end_settling`. With `expands` commands, skills and templates in it count.
        """
        ...

    # The session (A13-A15).

    def append_entry(self, custom_type: str, data: object) -> str:
        """Append an entry that no model reads and tell it (`entry_appended`). Returns its id (A13)."""
        ...

    def session_name(self) -> str | None:
        """Return the display name (A14)."""
        ...

    def set_session_name(self, name: str | None) -> None:
        """Name the session; None clears the name. Fires `session_info_changed` (A14)."""
        ...

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Bookmark an entry; None clears it (A15).

        Raises:
            KeyError: There is no such entry.
        """
        ...

    def working_folder(self) -> str:
        """Return where `exec` runs a program that names no folder (A16)."""
        ...

    # Tools and commands (A2, A17-A20).

    def active_tools(self) -> list[str]:
        """Return the names that the next request declares (A17)."""
        ...

    def all_tools(self) -> list[ToolInfo]:
        """Return every tool, active or not (A18)."""
        ...

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Declare these from the next request on; unknown names are passed over (A19)."""
        ...

    def tools_changed(self, registered: str | None = None) -> None:
        """Read the tools of the extensions again: one was registered after the start, which makes it active (R9)."""
        ...

    def commands(self) -> list[CommandInfo]:
        """Return what `/name` can be: extensions', then templates, then skills (A20)."""
        ...

    # The model (A21, A22, A24, A25, A28).

    async def set_model(self, model: Model) -> bool:
        """Use another model; False if it can't be asked. The saved default stays (A21).

        Waits for credentials. In a run it counts from the next request.
        """
        ...

    def thinking_level(self) -> ThinkingLevel:
        """Return the level in force (A22)."""
        ...

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Take a level, or the nearest that the model can do (A22)."""
        ...

    def settings(self) -> dict[str, object]:
        """Return the merged settings, as a copy of the caller's own (A28)."""
        ...

    def register_provider(self, extension_path: str, name: str, config: object) -> None:
        """Add or override a provider; the active model is looked up again (A24).

        Raises:
            ValueError: The config can't be used; the text says why.
        """
        ...

    def unregister_provider(self, name: str) -> None:
        """Take it away, and give back what it had overridden; an unknown name is no error (A25)."""
        ...

    # The run and the process (C11, C13, C15).

    def abort(self) -> None:
        """Ask for the end of the run (C11). Idle: nothing happens."""
        ...

    def shutdown(self) -> None:
        """Ask for the end of the process as soon as it is idle and no command is in hand (C13, R31)."""
        ...

    async def compact(self, instructions: str | None) -> Mapping[str, object]:
        """Compact, and return the result as `compact` answers it (C15). A run is aborted first.

        Cancelling ends the compaction.

        Raises:
            RuntimeError: It failed, was aborted, or there is nothing to compact; the text says which.
        """
        ...

    # Settling (R29).

    def begin_settling(self) -> None:
        """Keep what is asked to be sent from now on: handlers of `agent_settled` are running."""
        ...

    def end_settling(self) -> None:
        """Send what was kept, in order."""
        ...

    # Session control (K1-K6): only for tasks that no handler and no run waits for.

    async def wait_for_idle(self) -> None:
        """Wait until the agent is idle and what was asked for while it settled is done as well (K1, R29)."""
        ...

    async def new_session(
        self, parent_session: str | None, setup: Setup | None, with_session: WithSession | None
    ) -> SessionResult:
        """Replace the session by a new one: all of R21, in the calling task (K2).

        Aborts a run and waits until it has settled. On return the calling instance is stale, `session_start` was
        handled by the next one, and `with_session` was awaited there. A failure of `with_session` raises; the
        replacement stays.

        Raises:
            RuntimeError: The session could not be replaced; everything is as it was.
        """
        ...

    async def fork(self, entry_id: str, position: ForkPosition, with_session: WithSession | None) -> SessionResult:
        """Replace the session by one that goes on from an entry: `before` a user's text, or `at` it (K3).

        As `new_session`.
        """
        ...

    async def switch_session(self, path: str, with_session: WithSession | None) -> SessionResult:
        """Replace the session by the one in a file (K5). As `new_session`."""
        ...

    async def navigate_tree(self, target_id: str, move: TreeMove) -> SessionResult:
        """Go to another entry of this session (K4); the instance stays.

        Raises:
            RuntimeError: Something runs, there is no such entry, or a summary is wanted and there is no model.
        """
        ...

    async def reload(self) -> None:
        """Load settings, resources and extensions afresh (K6). On return the calling instance is stale.

        Raises:
            RuntimeError: A run or a compaction is in progress.
        """
        ...
