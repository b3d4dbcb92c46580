"""The completions of arguments that are being asked for: the newest question alone waits for its extension (R-UI-20).

A read that waits for code of an extension. Has no access to lines and ids of commands.
"""

from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Final

from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads

Ended = Callable[["Mapping[str, object] | errors.ProtocolError"], None]
_NONE: Final[Mapping[str, object]] = {"completions": []}


class Completing:
    """The question that is open."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._stop: Callable[[], None] | None = None
        self._is_over = False

    def start(self, agent: "AgentReads", name: str, prefix: str, ended: Ended) -> None:
        """Ask the extension of a command, and answer an earlier question with nothing.

        Args:
            agent: Whose extensions are asked.
            name: The command.
            prefix: Its arguments so far.
            ended: Called once, with the data of the answer.
        """
        self.stop()
        instance = None if agent.extensions is None else agent.extensions.instance
        if instance is None or self._is_over or not instance.completes(name):
            ended(_NONE)
            return
        outcome = [_NONE]
        job = f"get_completions:{next(self._numbers)}"

        def answer(data: "Mapping[str, object] | errors.ProtocolError") -> None:
            if self._stop is stop:
                self._stop = None
                ended(data)

        def stop() -> None:
            answer(_NONE)
            agent.jobs.cancel(job)

        async def work() -> None:
            outcome.append({"completions": await instance.complete(name, prefix)})

        def over(_cancelled: bool, failure: BaseException | None) -> None:
            answer(outcome[-1] if failure is None else errors.InternalError(f"Internal error: {failure}"))

        self._stop = stop
        agent.jobs.start(job, work, over)

    def stop(self) -> None:
        """Answer the open question with nothing. Never waits: its function is cancelled."""
        if self._stop is not None:
            self._stop()

    def end(self) -> None:
        """Answer the open question and later ones with nothing: the process ends."""
        self._is_over = True
        self.stop()
