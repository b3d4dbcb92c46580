"""What a command knows and can do: `CommandContext`; and `ReplacedContext`, for what goes on in a new session.

Adds session control, which exists only where nothing that the session waits for waits for the caller (R24): by type,
and at run time, since a command's context may have been kept by a handler.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import trio

from pinnace_agent.extensions.given import given_content, given_draft, given_text_or_none
from pinnace_agent.extensions.handler_context import Binding, Context, RunScope
from pinnace_agent.extensions.host_port import (
    Content,
    DeliverAs,
    ForkPosition,
    HostActions,
    SessionResult,
    Setup,
    TreeMove,
    WithSession,
)
from pinnace_agent.extensions.loop_thread import usable_from_any_thread
from pinnace_agent.extensions.watchdog import OWNER


class ControlError(RuntimeError):
    """Session control was asked for by somebody whom the session waits for: it would wait for itself."""


@dataclass(slots=True, eq=False)
class CommandWork:
    """One command that runs."""

    scope: trio.CancelScope
    is_aborted: bool = False
    """Whether the user has asked for an abort since it began."""


@usable_from_any_thread()
class CommandContext(Context):
    """What commands get: they are tasks of their own, so they may replace the session (K1 to K7)."""

    __slots__ = ("_work",)

    def __init__(self, binding: Binding, path: str, work: CommandWork) -> None:
        """Speak for one command that runs."""
        super().__init__(binding, path)
        self._work = work

    @property
    def cancel_scope(self) -> RunScope:
        """Where this command runs."""
        self._binding.generation.check()
        return RunScope(self._work.scope, None, self.__loop_thread__)

    @property
    def aborted(self) -> bool:
        """Whether the user has asked for an abort since this command began; a second one cancels it."""
        # Of the command and not of the session: also to be read when the session was replaced.
        return self._work.is_aborted or self._work.scope.cancel_called

    async def wait_for_idle(self) -> None:
        """Wait until nothing runs and nothing will by itself (K1)."""
        await self._control("wait_for_idle", replaces=False).wait_for_idle()

    async def new_session(
        self, parent_session: str | None = None, setup: Setup | None = None, with_session: WithSession | None = None
    ) -> SessionResult:
        """Replace the session by a new one (K2). This context is stale afterwards.

        Args:
            parent_session: The file of the session that it follows.
            setup: Fills the new session before it begins.
            with_session: Goes on in the new session, with a context of it.
        """
        parent = given_text_or_none("parent_session", parent_session)
        return await self._control("new_session").new_session(parent, setup, with_session)

    async def fork(
        self, entry_id: str, position: ForkPosition = "before", with_session: WithSession | None = None
    ) -> SessionResult:
        """Go on in a copy of the session that ends before a user's message, or at an entry (K3)."""
        if position not in ("before", "at"):
            raise ValueError(f"fork: the position is before or at, not {position!r}")
        return await self._control("fork").fork(entry_id, position, with_session)

    async def navigate_tree(
        self,
        target_id: str,
        *,
        summarize: bool = False,
        custom_instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> SessionResult:
        """Go to another entry of this session (K4). This context goes on."""
        instructions = given_text_or_none("custom_instructions", custom_instructions)
        move = TreeMove(summarize, instructions, replace_instructions, given_text_or_none("label", label))
        return await self._control("navigate_tree").navigate_tree(target_id, move)

    async def switch_session(self, path: str | Path, with_session: WithSession | None = None) -> SessionResult:
        """Replace the session by the one in a file (K5). This context is stale afterwards."""
        return await self._control("switch_session").switch_session(str(path), with_session)

    async def reload(self) -> None:
        """Load settings, resources and extensions afresh (K6). This context is stale afterwards: return."""
        await self._control("reload").reload()

    def get_system_prompt_options(self) -> Mapping[str, object]:
        """Return what the system prompt is made from (K7)."""
        return self._live.view.system_prompt_options()

    async def compact_and_wait(self, instructions: str | None = None) -> Mapping[str, object]:
        """Compact, and return the result.

        Raises:
            RuntimeError: There is none; the text says why.
        """
        return await self._control("compact_and_wait", replaces=False).compact(instructions)

    def _control(self, method: str, *, replaces: bool = True) -> HostActions:
        actions = self._live.actions
        owner = OWNER.get()
        if owner is None or owner.kind == "command" or (owner.kind == "background" and not replaces):
            return actions
        # A background task is ended with its session: it can't be the one that waits for the end.
        place = "a background task" if owner.kind == "background" else owner.event
        raise ControlError(
            f"ctx.{method}() was called from {place}: the session waits for that to end, so it would wait for itself. "
            "Call it from a command"
        )


@usable_from_any_thread()
class ReplacedContext(CommandContext):
    """What `with_session` gets: the new session, and messages to it that are waited for (K8)."""

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
        """Put a message into the new session; with `trigger_turn` it waits until the agent is idle again."""
        actions = self._control("send_message", replaces=False)
        draft = given_draft(custom_type, content, display, details)
        actions.send_message(draft, deliver_as=deliver_as, triggers_turn=trigger_turn)
        await actions.wait_for_idle()

    async def send_user_message(
        self, content: Content, *, deliver_as: DeliverAs | None = None, expand: bool | None = None
    ) -> None:
        """Say something as the user in the new session, and wait until the agent is idle again."""
        actions = self._control("send_user_message", replaces=False)
        actions.send_user_message(given_content(content), deliver_as=deliver_as, expands=expand)
        await actions.wait_for_idle()
