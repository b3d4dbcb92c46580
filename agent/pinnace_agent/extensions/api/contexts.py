"""What a function of an extension can read and do: `ctx`, one class for each situation.

`Context` is for handlers, `ToolContext` for one call of a tool, `CommandContext` for commands, `ReplacedContext` for
work that continues in a new session, and `TrustContext` for `project_trust`, before there is a session.

Contexts are views: a value is looked up when it is read, so a context that was kept sees changes until its session
instance ends, and raises StaleContextError from then on. Only a command can replace the session, since the session
waits for every other function: `CommandContext` alone has those methods, and they check their caller at run time,
because a handler may have kept the context of a command. Has no access to chains, records or the host itself.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.api.session_reader import SessionReader
from pinnace_agent.extensions.api.user_interface import StartTask, UserInterface
from pinnace_agent.extensions.ports.arguments import given_content, given_draft, given_text_or_none
from pinnace_agent.extensions.ports.host_actions import HostActions
from pinnace_agent.extensions.ports.host_view import (
    Content,
    ContextUsage,
    DeliverAs,
    ForkPosition,
    HostView,
    Mode,
    RegistryView,
    SessionResult,
    Setup,
    TreeMove,
    WithSession,
)
from pinnace_agent.extensions.registration.registrations import Generation
from pinnace_agent.extensions.services.watchdog import OWNER
from pinnace_agent.tools import base
from pinnace_spec.records.messages import Model, ThinkingLevel


@dataclass(slots=True, eq=False)
class Binding:
    """One session instance, as its contexts see it."""

    generation: Generation
    view: HostView
    actions: HostActions
    ui: UserInterface
    session: SessionReader
    start_task: StartTask
    chained_prompt: str | None = None
    """The system prompt as handlers of `before_agent_start` changed it; None: they are not running."""


@usable_from_any_thread()
class RunScope:
    """The open run as extensions may end it: `cancel` requests an abort."""

    __slots__ = ("_actions", "_scope", "_thread")

    def __init__(self, scope: trio.CancelScope, actions: HostActions | None, thread: LoopThread) -> None:
        """Wrap `scope`; without actions `cancel` cancels it directly."""
        self._scope = scope
        self._actions = actions
        self._thread = thread

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    @property
    def cancel_called(self) -> bool:
        """Whether it is being cancelled."""
        return self._scope.cancel_called

    def cancel(self) -> None:
        """Cancel it. A run is cancelled as by `ctx.abort()`, so that clients receive the same events."""
        if self._actions is None:
            self._scope.cancel()
        else:
            self._actions.abort()


@usable_from_any_thread()
class Context:
    """The context of handlers. One object serves all handlers of an extension; it may be kept."""

    __slots__ = ("_binding", "_path")

    def __init__(self, binding: Binding, path: str) -> None:
        """Create the context of the extension at `path`."""
        self._binding = binding
        self._path = path

    @property
    def ui(self) -> UserInterface:
        """Dialogs and displays for the user."""
        return self._live.ui

    @property
    def has_ui(self) -> bool:
        """Whether a user can answer dialogs."""
        return self._live.view.mode in ("tui", "rpc")

    @property
    def mode(self) -> Mode:
        """How the program was started."""
        return self._live.view.mode

    @property
    def cwd(self) -> Path:
        """The folder in which tools work."""
        return Path(self._live.view.session.cwd)

    @property
    def session_manager(self) -> SessionReader:
        """The session, read-only."""
        return self._live.session

    @property
    def session(self) -> SessionReader:
        """The same as `session_manager`."""
        return self._live.session

    @property
    def model_registry(self) -> RegistryView:
        """The catalogue of models."""
        return self._live.view.registry

    @property
    def model(self) -> Model | None:
        """The active model."""
        return self._live.view.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        """The current thinking level."""
        return self._live.view.thinking_level

    @property
    def scoped_models(self) -> tuple[Model, ...]:
        """The models to cycle between; empty: all that are available."""
        return tuple(self._live.view.scoped_models)

    @property
    def cancel_scope(self) -> RunScope | None:
        """The open run; None: there is none."""
        scope = self._live.view.run_scope
        return None if scope is None else RunScope(scope, self._binding.actions, self.__loop_thread__)

    @property
    def aborted(self) -> bool:
        """Whether the run is being cancelled, for code without checkpoints."""
        scope = self._live.view.run_scope
        return scope is not None and scope.cancel_called

    def is_idle(self) -> bool:
        """Return whether nothing runs and nothing is queued to run by itself."""
        return self._live.view.is_idle

    def abort(self) -> None:
        """Request the end of the run. Does not wait for it."""
        self._live.actions.abort()

    def has_pending_messages(self) -> bool:
        """Return whether messages are queued."""
        return self._live.view.has_pending_messages

    def shutdown(self) -> None:
        """Request the end of the process as soon as it is idle."""
        self._live.actions.shutdown()

    def get_context_usage(self) -> ContextUsage | None:
        """Estimate the usage of the model's context window."""
        return self._live.view.context_usage()

    def compact(
        self,
        instructions: str | None = None,
        on_complete: Callable[[Mapping[str, object]], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
    ) -> None:
        """Start a compaction. Does not wait for it.

        Args:
            instructions: What the summary should focus on.
            on_complete: Called with the result, sync or async.
            on_error: Called on failure; without it the failure is reported as an error of this extension.
        """
        binding = self._live
        work = partial(_compact, binding, instructions, on_complete, on_error)
        binding.start_task(self._path, "compact", work)

    def get_system_prompt(self) -> str:
        """Return the system prompt of the next request; in `before_agent_start`, with the changes so far."""
        binding = self._live
        return binding.view.system_prompt() if binding.chained_prompt is None else binding.chained_prompt

    def is_project_trusted(self) -> bool:
        """Return whether the project's files may configure this session."""
        return self._live.view.is_project_trusted

    def agent_command(self, folder: str | None = None) -> list[str]:
        """Return the command line that starts another agent, in mode rpc, with no more rights than this one has now.

        These are its approval of tools, its sandbox, the trust in the project and the limits of a run. Options of a
        session and of a model may follow.

        Args:
            folder: The folder to start it in, relative to that of the session; None: that one.

        Raises:
            ValueError: There is a sandbox, and the folder is not within that of the session.
        """
        return self._live.view.agent_command(folder)

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._binding.generation.thread

    @property
    def _live(self) -> Binding:
        self._binding.generation.check()
        return self._binding


class TrustContext:
    """The context of `project_trust` handlers, before there is a session. Plain values except for `ui`."""

    __slots__ = ("cwd", "mode", "ui")

    def __init__(self, cwd: str, mode: Mode, ui: UserInterface) -> None:
        """Create the context of a process that has not read the project yet."""
        self.cwd = Path(cwd)
        self.mode: Mode = mode
        self.ui = ui

    @property
    def has_ui(self) -> bool:
        """Whether a user can answer dialogs."""
        return self.mode in ("tui", "rpc")


async def _compact(
    binding: Binding,
    instructions: str | None,
    on_complete: Callable[[Mapping[str, object]], object] | None,
    on_error: Callable[[Exception], object] | None,
) -> None:
    try:
        result = await binding.actions.compact(instructions)
    except Exception as error:
        if on_error is None:
            raise
        answer = on_error(error)
    else:
        answer = None if on_complete is None else on_complete(result)
    if isinstance(answer, Awaitable):
        await answer


CURRENT_CALL: Final[ContextVar[base.ToolContext | None]] = ContextVar(
    "current call of an extension's tool", default=None
)
"""The tool call that this task, or a task that it started, belongs to: for helpers that behave like built-in tools."""


class Room:
    """The result of `update`: awaiting it waits for the client to read; it need not be awaited."""

    __slots__ = ("_room",)

    def __init__(self, room: Callable[[], Awaitable[None]]) -> None:
        self._room = room

    def __await__(self) -> Generator[object, object, None]:
        """Wait until the client has read enough. A checkpoint."""
        return self._room().__await__()


@usable_from_any_thread()
class ToolContext(Context):
    """The context of one call of a tool."""

    __slots__ = ("_progress", "_room", "_scope", "tool_call_id")

    def __init__(
        self,
        binding: Binding,
        path: str,
        tool_call_id: str,
        scope: trio.CancelScope,
        progress: Callable[[object], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """Create the context of one call; `progress` takes partial results, in any form that a tool may return."""
        super().__init__(binding, path)
        self.tool_call_id = tool_call_id
        """The id of the call."""
        self._scope = scope
        self._progress = progress
        self._room = room

    @property
    def cancel_scope(self) -> RunScope:
        """The cancel scope of this call."""
        self._binding.generation.check()
        return RunScope(self._scope, None, self.__loop_thread__)

    @property
    def aborted(self) -> bool:
        """Whether this call is being cancelled."""
        return self._scope.cancel_called or super().aborted

    @property
    def tools(self) -> Sequence[str]:
        """The names of the active tools."""
        return tuple(self._live.actions.active_tools())

    def update(self, partial_result: object) -> Room:
        """Report the partial result so far: complete, because it replaces the previous one.

        May be awaited, so that a tool with much output waits for the client to read it.
        """
        self._binding.generation.check()
        self._progress(partial_result)
        return Room(self._room)


class ControlError(RuntimeError):
    """Session control was requested by a function that the session waits for, which would be a deadlock."""


@dataclass(slots=True, eq=False)
class CommandWork:
    """One running command."""

    scope: trio.CancelScope
    is_aborted: bool = False
    """Whether the user requested an abort since it began."""


@usable_from_any_thread()
class CommandContext(Context):
    """The context of commands: they are tasks of their own, so they may replace the session."""

    __slots__ = ("_work",)

    def __init__(self, binding: Binding, path: str, work: CommandWork) -> None:
        """Create the context of one running command."""
        super().__init__(binding, path)
        self._work = work

    @property
    def cancel_scope(self) -> RunScope:
        """The cancel scope of this command."""
        self._binding.generation.check()
        return RunScope(self._work.scope, None, self.__loop_thread__)

    @property
    def aborted(self) -> bool:
        """Whether the user requested an abort since this command began; a second abort cancels it."""
        # A property of the command, so it can be read after the session was replaced.
        return self._work.is_aborted or self._work.scope.cancel_called

    async def wait_for_idle(self) -> None:
        """Wait until nothing runs and nothing is queued to run by itself."""
        await self._control("wait_for_idle", replaces=False).wait_for_idle()

    async def new_session(
        self, parent_session: str | None = None, setup: Setup | None = None, with_session: WithSession | None = None
    ) -> SessionResult:
        """Replace the session with a new one. This context is stale afterwards.

        Args:
            parent_session: The file of the session that it continues.
            setup: Fills the new session before it starts.
            with_session: Called in the new session, with a context of it.
        """
        parent = given_text_or_none("parent_session", parent_session)
        return await self._control("new_session").new_session(parent, setup, with_session)

    async def fork(
        self, entry_id: str, position: ForkPosition = "before", with_session: WithSession | None = None
    ) -> SessionResult:
        """Replace the session with a copy that ends before a user message, or at an entry."""
        if position not in ("before", "at"):
            raise ValueError(f"fork: the position is before or at, not {position!r}")
        return await self._control("fork").fork(entry_id, position, with_session)

    async def navigate_tree(
        self,
        target_id: str | None,
        *,
        summarize: bool = False,
        custom_instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> SessionResult:
        """Move to another entry of this session, None: before the first one. This context stays valid."""
        instructions = given_text_or_none("custom_instructions", custom_instructions)
        move = TreeMove(summarize, instructions, replace_instructions, given_text_or_none("label", label))
        return await self._control("navigate_tree").navigate_tree(target_id, move)

    async def switch_session(self, path: str | Path, with_session: WithSession | None = None) -> SessionResult:
        """Replace the session with the one in a file. This context is stale afterwards."""
        return await self._control("switch_session").switch_session(str(path), with_session)

    async def reload(self) -> None:
        """Load settings, resources and extensions again. This context is stale afterwards: return."""
        await self._control("reload").reload()

    def get_system_prompt_options(self) -> Mapping[str, object]:
        """Return the parts that the system prompt is built from."""
        return self._live.view.system_prompt_options()

    async def compact_and_wait(self, instructions: str | None = None) -> Mapping[str, object]:
        """Compact, and return the result.

        Raises:
            RuntimeError: The compaction failed; the text says why.
        """
        return await self._control("compact_and_wait", replaces=False).compact(instructions)

    def _control(self, method: str, *, replaces: bool = True) -> HostActions:
        actions = self._live.actions
        owner = OWNER.get()
        if owner is None or owner.kind == "command" or (owner.kind == "background" and not replaces):
            return actions
        # A background task is cancelled with its session, so it can't wait for the end of the session.
        place = "a background task" if owner.kind == "background" else owner.event
        raise ControlError(
            f"ctx.{method}() was called from {place}, which the session waits for: this would be a deadlock. "
            "Call it from a command"
        )


@usable_from_any_thread()
class ReplacedContext(CommandContext):
    """The context of `with_session`: the new session, with message methods that wait."""

    __slots__ = ()

    async def send_message(
        self,
        custom_type: str,
        content: Content,
        *,
        display: bool = True,
        details: object = None,
        deliver_as: DeliverAs | None = None,
        trigger_turn: bool | None = None,
    ) -> None:
        """Add a message to the new session; with `trigger_turn`, wait until the agent is idle again."""
        actions = self._control("send_message", replaces=False)
        draft = given_draft(custom_type, content, display, details)
        actions.send_message(draft, deliver_as=deliver_as, triggers_turn=trigger_turn)
        await actions.wait_for_idle()

    async def send_user_message(
        self, content: Content, *, deliver_as: DeliverAs | None = None, expand: bool | None = None
    ) -> None:
        """Send a user message in the new session, and wait until the agent is idle again."""
        actions = self._control("send_user_message", replaces=False)
        actions.send_user_message(given_content(content), deliver_as=deliver_as, expands=expand)
        await actions.wait_for_idle()
