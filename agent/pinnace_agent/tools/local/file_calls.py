"""Where the calls of the file tools are performed: in a thread of this process, or in the sandbox if there is one.

A cancelled call that only reads is abandoned if it hangs (a dead network disk); one that changes a file is awaited, so
that the file's lock is held until it has ended.
"""

from collections.abc import Callable
from typing import Final, Protocol

import trio

from pinnace_agent.files.tool_calls import CHANGING, Answer, CallRefused, FileCall, perform
from pinnace_agent.tools.base import ToolError

Take = Callable[[bytes], object]


class FilesElsewhere(Protocol):
    """Performs calls in another process; raises what `perform` raises."""

    async def perform(self, call: FileCall, take: Take) -> Answer:
        """Perform a call; a cancelled one that changes a file is awaited."""
        ...


class FileCalls:
    """The calls of this process."""

    def __init__(self) -> None:
        """Perform calls in threads."""
        self._elsewhere: FilesElsewhere | None = None

    @property
    def is_sandboxed(self) -> bool:
        """Whether calls are performed in a sandbox."""
        return self._elsewhere is not None

    def use(self, elsewhere: FilesElsewhere | None) -> None:
        """Perform later calls there; None: in threads."""
        self._elsewhere = elsewhere

    async def perform(self, call: FileCall, take: Take = lambda _: None) -> Answer:
        """Perform a call.

        Raises:
            ToolError: It was refused.
            OSError: The system has refused it.
        """
        try:
            if self._elsewhere is not None:
                return await self._elsewhere.perform(call, take)
            abandons = call.name not in CHANGING
            return await trio.to_thread.run_sync(_perform, call, take, abandon_on_cancel=abandons)
        except CallRefused as error:
            raise ToolError(error.text) from error


FILE_CALLS: Final = FileCalls()
"""The calls of this process."""


def _perform(call: FileCall, take: Take) -> Answer:
    # A call that changes a file ends by itself.
    return perform(call, take, (lambda: None) if call.name in CHANGING else trio.from_thread.check_cancelled)
