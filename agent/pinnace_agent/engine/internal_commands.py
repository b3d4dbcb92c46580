"""Internal commands: those that extensions, not clients, submit, and whose answers they await.

They pass the statechart like those of clients, so they wait behind earlier commands of clients, and are refused like
those. Their numbers are below zero, so that they are distinct from a client's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import trio

from pinnace_agent.engine.status_records import refusal
from pinnace_agent.session.replacement import MoveRequest, SessionRequest
from pinnace_spec.rules import errors
from pinnace_statechart import effects as fx


@dataclass(slots=True)
class InternalCommand:
    """One command, and its outcome."""

    ref: int
    text: str = ""
    session: SessionRequest | None = None
    move: MoveRequest | None = None
    instructions: str | None = None
    on_refused: Callable[[str], None] | None = None
    """Takes the reason of a refusal, where nothing awaits the answer."""
    problem: str | None = None
    """Why it was refused."""
    is_cancelled: bool = False
    result: Mapping[str, object] | None = None
    answered: trio.Event = field(default_factory=trio.Event)


class InternalCommands:
    """The internal commands that are not answered yet, by number."""

    def __init__(self) -> None:
        """Begin with none."""
        self._last = 0
        self._open: dict[int, InternalCommand] = {}

    def new(self) -> InternalCommand:
        """Return a command with a number of its own."""
        self._last -= 1
        command = self._open[self._last] = InternalCommand(self._last)
        return command

    def command_text(self, ref: int) -> str:
        """Return the text of a message that calls a command."""
        return self._open[ref].text

    def message_name(self, ref: int) -> str | None:
        """Return None: no message of an extension is repeated."""
        return None

    def compact_instructions(self, ref: int) -> str | None:
        """Return the instructions of a `compact` for its summary."""
        return self._open[ref].instructions

    def session_request(self, ref: int) -> SessionRequest:
        """Return what a session command requests."""
        if (request := self._open[ref].session) is None:
            raise errors.InternalError(f"command {ref} requests no session")
        return request

    def move_request(self, ref: int) -> MoveRequest:
        """Return where a `navigate_tree` leads."""
        if (request := self._open[ref].move) is None:
            raise errors.InternalError(f"command {ref} requests no move")
        return request

    def accept(self, effect: fx.Accept, _text: str | None) -> None:
        """Take the acceptance of the statechart."""
        self._open[effect.ref].is_cancelled = bool(effect.cancelled)
        self._answer(effect.ref)

    def accept_result(self, ref: int, result: Mapping[str, object]) -> None:
        """Take the result of a compaction, or of a move."""
        self._open[ref].result = result
        self._answer(ref)

    def refuse(self, effect: fx.Refuse) -> None:
        """Take the refusal of the statechart."""
        command = self._open[effect.ref]
        command.problem = refusal(effect).text
        if command.on_refused is not None:
            command.on_refused(command.problem)
        self._answer(effect.ref)

    def refuse_all(self, text: str) -> None:
        """Refuse every open command: the statechart has failed, and answers none of them."""
        for ref in tuple(self._open):
            self.refuse(fx.Refuse(ref, "job", text, errors.ErrorCode.INTERNAL_ERROR))

    def _answer(self, ref: int) -> None:
        self._open.pop(ref).answered.set()
