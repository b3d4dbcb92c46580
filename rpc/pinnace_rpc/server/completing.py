"""The completions that are being asked for: the newest question of a kind alone waits (R-UI-20, R-UI-41).

A read that waits for code of an extension. Has no access to lines and ids of commands.
"""

from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Final

from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_spec.records.commands import GetCompletions

Ended = Callable[["Mapping[str, object] | errors.ProtocolError"], None]
_NONE: Final[Mapping[str, object]] = {"completions": []}


class Completing:
    """The questions that are open: one for arguments, and one for the text of the editor."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._stops: dict[bool, Callable[[], None]] = {}
        """What answers the open question with nothing, by whether it is for arguments."""
        self._is_over = False

    def start(self, agent: "AgentReads", asked: "GetCompletions", ended: Ended) -> None:
        """Ask the extension of a command, or those that complete texts, and answer an earlier question with nothing.

        Args:
            agent: Whose extensions are asked.
            asked: The question.
            ended: Called once, with the data of the answer.
        """
        name, kind = asked.name, asked.name != ""
        self._stop(kind)
        instance = None if agent.extensions is None else agent.extensions.instance
        completes = instance is not None and (instance.completes(name) if name else instance.completes_text)
        if instance is None or self._is_over or not completes:
            ended(_NONE)
            return
        outcome = [_NONE]
        job = f"get_completions:{next(self._numbers)}"

        def answer(data: "Mapping[str, object] | errors.ProtocolError") -> None:
            if self._stops.get(kind) is stop:
                del self._stops[kind]
                ended(data)

        def stop() -> None:
            answer(_NONE)
            agent.jobs.cancel(job)

        async def work() -> None:
            if name:
                outcome.append({"completions": await instance.complete(name, asked.prefix)})
            else:
                found = await instance.complete_text(asked.prefix, asked.after or "", is_forced=asked.force)
                outcome.append(found)

        def over(_cancelled: bool, failure: BaseException | None) -> None:
            answer(outcome[-1] if failure is None else errors.InternalError(f"Internal error: {failure}"))

        self._stops[kind] = stop
        agent.jobs.start(job, work, over)

    def _stop(self, kind: bool) -> None:
        """Answer the open question of a kind with nothing. Never waits: its function is cancelled."""
        if (stop := self._stops.get(kind)) is not None:
            stop()

    def end(self) -> None:
        """Answer the open questions and later ones with nothing: the process ends."""
        self._is_over = True
        for kind in tuple(self._stops):
            self._stop(kind)
