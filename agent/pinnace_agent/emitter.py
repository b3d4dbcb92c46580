"""What the agent needs of whoever writes its records and answers its commands.

The agent knows neither lines, nor command ids, nor stdout: it hands records to an `Emitter` and answers to a
`Responder`. All methods but `room` are synchronous, since effects are performed without a checkpoint between them.
"""

from collections.abc import Mapping
from typing import Protocol

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.session.replacement import SessionRequest
from pinnace_statechart.effects import Accept, Answer, Refuse
from pinnace_statechart.triggers import Command

Record = Mapping[str, object]


class Emitter(Protocol):
    """Takes the records of the conversation in the order in which they happen."""

    def emit(self, record: Record) -> None:
        """Write an event record. Never waits; the record must not change afterwards."""

    def update(self, event: Record, builder: MessageBuilder) -> None:
        """Write a `message_update` for one delta of the message that `builder` holds."""

    def progress(self, record: Record, key: str) -> None:
        """Write a cumulative record; an unwritten one with the same key may be replaced by it."""

    async def room(self) -> None:
        """Wait until the reader has taken enough for more to be produced. A checkpoint."""


class Responder(Protocol):
    """Answers commands, known by their number of arrival."""

    def accept(self, effect: Accept) -> None:
        """Answer with success."""

    def accept_compact(self, ref: int, result: Record) -> None:
        """Answer a `compact` with what it has made."""

    def refuse(self, effect: Refuse) -> None:
        """Answer with an error."""

    def answer(self, effect: Answer) -> None:
        """Answer a read from the state as it is now."""

    def perform(self, ref: int) -> None:
        """Carry out a settings command and answer it."""

    def answer_shell(self, ref: int) -> None:
        """Answer a `bash` whose process is gone, or that was withdrawn before it began."""

    def resolve_dialog(self, ref: int) -> None:
        """Take an `extension_ui_response`, which is never answered."""

    def close(self) -> None:
        """Everything is answered: nothing more will be emitted."""


class CommandBook(Protocol):
    """What the host may ask about a command that it knows by number."""

    def start_shell(self, ref: int) -> None:
        """Start the shell command of a `bash`."""
        ...

    def compact_instructions(self, ref: int) -> str | None:
        """Return what a `compact` asks the summary to look at."""
        ...

    def session_request(self, ref: int) -> SessionRequest:
        """Say what a session command asks for."""
        ...

    def command_text(self, ref: int) -> str:
        """Return the text of a prompt that calls a command."""
        ...

    def read_again(self, command: Command) -> Command:
        """Return a text that waits as it is to be understood now."""
        ...
