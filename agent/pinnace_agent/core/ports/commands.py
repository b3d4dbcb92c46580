"""How the engine answers the client's commands, and what it reads of them.

A command is known by its number of arrival alone. All methods are synchronous, since effects are performed without a
checkpoint between them. A method that needs the agent gets it as an argument: a client is there before the agent.
"""

from typing import TYPE_CHECKING, Protocol

from pinnace_agent.core.ports.emitter import Record
from pinnace_statechart.effects import Accept, Answer, Refuse
from pinnace_statechart.triggers import Command

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.shells import ShellCommand
    from pinnace_agent.engine.client_bash import ShellRequest
    from pinnace_agent.engine.ports import AgentReads, MessageReader
    from pinnace_agent.session.queue.durable_queue import CommandIdentity
    from pinnace_agent.session.replacement import MoveRequest, SessionRequest


class Responder(Protocol):
    """Answers commands, known by their number of arrival."""

    def accept(self, effect: Accept, text: str | None) -> None:
        """Answer with success; `text` is the message before which a fork begins."""

    def accept_result(self, ref: int, result: Record) -> None:
        """Answer a `compact` or a `navigate_tree` with its result."""

    def refuse(self, effect: Refuse) -> None:
        """Answer with an error."""

    def answer(self, effect: Answer, agent: "AgentReads") -> None:
        """Answer a read from the state as it is now."""

    def perform(self, ref: int, agent: "AgentReads") -> None:
        """Execute a settings command and answer it."""

    def answer_shell(self, ref: int, shell: "ShellCommand | None") -> None:
        """Answer a `bash` whose process is gone; None: it was withdrawn before it began."""

    def refuse_all(self, text: str) -> None:
        """Answer every open command with an internal error: the statechart has failed, and the process ends."""

    def close(self) -> None:
        """Everything is answered: nothing more will be emitted."""


class CommandStore(Protocol):
    """The commands that are not answered yet, by number."""

    def shell_request(self, ref: int) -> "ShellRequest":
        """Return what a `bash` runs."""
        ...

    def compact_instructions(self, ref: int) -> str | None:
        """Return the instructions of a `compact` for its summary."""
        ...

    def session_request(self, ref: int) -> "SessionRequest":
        """Return what a session command requests."""
        ...

    def identity_of(self, ref: int) -> "CommandIdentity | None":
        """Return by what a command is recognised when it is repeated; None: by nothing."""
        ...

    def is_withdrawal(self, ref: int) -> bool:
        """Return whether a command is a `clear_queue`."""
        ...

    def move_request(self, ref: int) -> "MoveRequest":
        """Return where a `navigate_tree` leads."""
        ...

    def command_text(self, ref: int) -> str:
        """Return the text of a prompt that calls a command."""
        ...

    def message_name(self, ref: int) -> str | None:
        """Return what the client calls the message that a command sends; None: it has not named it."""
        ...

    def dialog_response(self, ref: int) -> Record:
        """Return an `extension_ui_response`, which is never answered."""
        ...

    def file_response(self, ref: int) -> Record:
        """Return a `client_response`, which is never answered."""
        ...

    def read_again(self, command: Command, agent: "MessageReader") -> Command:
        """Return a deferred message as the extensions and templates of now read it; other commands as they are."""
        ...


class Client(Responder, CommandStore, Protocol):
    """The client of an agent: its open commands, and their answers."""
