"""What a tool knows and can do during one call: `ToolContext`."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Final

import trio

from pinnace_agent.extensions.handler_context import Binding, Context, RunScope
from pinnace_agent.extensions.loop_thread import usable_from_any_thread
from pinnace_agent.tools import base

CURRENT_CALL: Final[ContextVar[base.ToolContext | None]] = ContextVar(
    "current call of an extension's tool", default=None
)
"""What the agent has given the call that this task, or one that it has started, works on: for helpers of authors that
do what built-in tools do."""


class Room:
    """What `update` returns: awaiting it waits for the reader; leaving it alone does no harm."""

    __slots__ = ("_room",)

    def __init__(self, room: Callable[[], Awaitable[None]]) -> None:
        self._room = room

    def __await__(self) -> Generator[object, object, None]:
        """Wait until the reader has taken enough. A checkpoint."""
        return self._room().__await__()


@usable_from_any_thread()
class ToolContext(Context):
    """What a tool gets, once a call (2.5)."""

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
        """Speak for one call; `progress` takes what it has produced so far, in any shape that a tool may return."""
        super().__init__(binding, path)
        self.tool_call_id = tool_call_id
        """The id of the call."""
        self._scope = scope
        self._progress = progress
        self._room = room

    @property
    def cancel_scope(self) -> RunScope:
        """Where this call runs."""
        self._binding.generation.check()
        return RunScope(self._scope, None, self.__loop_thread__)

    @property
    def aborted(self) -> bool:
        """Whether this call is being ended."""
        return self._scope.cancel_called or super().aborted

    @property
    def tools(self) -> Sequence[str]:
        """The names of the active tools."""
        return tuple(self._live.actions.active_tools())

    def update(self, partial_result: object) -> Room:
        """Tell what there is so far: everything, since it replaces what was told before.

        May be awaited, so that a tool that produces much waits for its reader.
        """
        self._binding.generation.check()
        self._progress(partial_result)
        return Room(self._room)
