"""What a handler knows and can do: `Context`; and `TrustContext`, before there is a session.

Views: a value is looked up when it is read, so a context that was kept sees changes (R19) until its session instance is
over, and raises from then on (R20). Must not know chains, records, nor what the host is.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import trio

from pinnace_agent.extensions.host_port import (
    ContextUsage,
    HostActions,
    HostView,
    Mode,
)
from pinnace_agent.extensions.host_view import RegistryView
from pinnace_agent.extensions.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.registrations import Generation
from pinnace_agent.extensions.session_reader import SessionReader
from pinnace_agent.extensions.user_interface import UserInterface
from pinnace_spec.messages import Model, ThinkingLevel


class StartTask(Protocol):
    """Starts a task that belongs to an extension; its failure is recorded and ends nothing else."""

    def __call__(self, path: str, event: str, work: Callable[[], Awaitable[object]]) -> None:
        """Start `work`; a failure is told of `event`."""


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
    """What handlers of `before_agent_start` have made of the system prompt; None: they are not running."""


@usable_from_any_thread()
class RunScope:
    """The run that is open, as an extension may end it: cancelling it asks for an abort."""

    __slots__ = ("_actions", "_scope", "_thread")

    def __init__(self, scope: trio.CancelScope, actions: HostActions | None, thread: LoopThread) -> None:
        """Stand for `scope`; without actions it is cancelled itself."""
        self._scope = scope
        self._actions = actions
        self._thread = thread

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    @property
    def cancel_called(self) -> bool:
        """Whether it is being ended."""
        return self._scope.cancel_called

    def cancel(self) -> None:
        """End it. A run is ended as by `ctx.abort()`, so that clients are told as they should be."""
        if self._actions is None:
            self._scope.cancel()
        else:
            self._actions.abort()


@usable_from_any_thread()
class Context:
    """What handlers get. One object serves all handlers of an extension; it may be kept."""

    __slots__ = ("_binding", "_path")

    def __init__(self, binding: Binding, path: str) -> None:
        """Speak for the extension at `path`."""
        self._binding = binding
        self._path = path

    @property
    def ui(self) -> UserInterface:
        """What is shown to the user and asked of him (C1)."""
        return self._live.ui

    @property
    def has_ui(self) -> bool:
        """Whether somebody can answer a dialog (C2)."""
        return self._live.view.mode in ("tui", "rpc")

    @property
    def mode(self) -> Mode:
        """How the program was started (C3)."""
        return self._live.view.mode

    @property
    def cwd(self) -> Path:
        """The folder in which tools work (C4)."""
        return Path(self._live.view.session.cwd)

    @property
    def session_manager(self) -> SessionReader:
        """The session, to read (C5)."""
        return self._live.session

    @property
    def session(self) -> SessionReader:
        """The same."""
        return self._live.session

    @property
    def model_registry(self) -> RegistryView:
        """The models there are (C6)."""
        return self._live.view.registry

    @property
    def model(self) -> Model | None:
        """The active model (C7)."""
        return self._live.view.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        """How much the model thinks (C8)."""
        return self._live.view.thinking_level

    @property
    def scoped_models(self) -> tuple[Model, ...]:
        """The models to cycle between; empty: all that are available (C8)."""
        return tuple(self._live.view.scoped_models)

    @property
    def cancel_scope(self) -> RunScope | None:
        """The open run; None when there is none (C9)."""
        scope = self._live.view.run_scope
        return None if scope is None else RunScope(scope, self._binding.actions, self.__loop_thread__)

    @property
    def aborted(self) -> bool:
        """Whether the work that this belongs to is being ended, for code that has no checkpoint (C9)."""
        scope = self._live.view.run_scope
        return scope is not None and scope.cancel_called

    def is_idle(self) -> bool:
        """Tell whether nothing runs and nothing will by itself (C10)."""
        return self._live.view.is_idle

    def abort(self) -> None:
        """Ask for the end of the run; does not wait for it (C11)."""
        self._live.actions.abort()

    def has_pending_messages(self) -> bool:
        """Tell whether messages are queued (C12)."""
        return self._live.view.has_pending_messages

    def shutdown(self) -> None:
        """Ask for the end of the process once it is idle (C13)."""
        self._live.actions.shutdown()

    def get_context_usage(self) -> ContextUsage | None:
        """Estimate how full the model's window is (C14)."""
        return self._live.view.context_usage()

    def compact(
        self,
        instructions: str | None = None,
        on_complete: Callable[[Mapping[str, object]], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
    ) -> None:
        """Start a compaction; does not wait for it (C15).

        Args:
            instructions: What the summary should look at.
            on_complete: Called with the result, sync or async.
            on_error: Called if there is none; without it the failure is told as an error of this extension.
        """
        binding = self._live
        work = partial(_compact, binding, instructions, on_complete, on_error)
        binding.start_task(self._path, "compact", work)

    def get_system_prompt(self) -> str:
        """Return the prompt of the next request; in `before_agent_start`, with the changes so far (C16)."""
        binding = self._live
        return binding.view.system_prompt() if binding.chained_prompt is None else binding.chained_prompt

    def is_project_trusted(self) -> bool:
        """Tell whether what the project brings may configure this session (C17)."""
        return self._live.view.is_project_trusted

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._binding.generation.thread

    @property
    def _live(self) -> Binding:
        self._binding.generation.check()
        return self._binding


class TrustContext:
    """What handlers of `project_trust` get: there is no session yet (E1). Plain values, but for `ui`."""

    __slots__ = ("cwd", "mode", "ui")

    def __init__(self, cwd: str, mode: Mode, ui: UserInterface) -> None:
        """Speak for a process that has not read the project yet."""
        self.cwd = Path(cwd)
        self.mode: Mode = mode
        self.ui = ui

    @property
    def has_ui(self) -> bool:
        """Whether somebody can answer a dialog."""
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
