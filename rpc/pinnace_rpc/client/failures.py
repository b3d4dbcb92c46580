"""The exceptions of a client. All of them are `ClientFailure`s.

Data and texts only. A command that could not be started raises the OSError of the operating system instead.
"""

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinnace_rpc.client.records.progress import Run

# Enough to see what was printed instead of a record, without filling a terminal with base64.
MAX_SHOWN_CHARS = 200


class ClientFailure(Exception):
    """Base. Can be copied and pickled with its attributes, independently of the constructor's parameters."""

    def __reduce__(self) -> tuple[object, ...]:
        # Without this a copy is made by calling the constructor with `args`, which only some subclasses could take.
        return _made, (type(self), *self.args), vars(self)


class CommandFailed(ClientFailure):
    """The agent has refused a command, or it has failed: the response had `success: false`."""

    def __init__(self, command: str, error: str, error_code: str | None, did_you_mean: str | None = None) -> None:
        """Keep the answer's parts.

        Args:
            command: The command.
            error: Why, for people.
            error_code: The same for programs; None for agents that write none.
            did_you_mean: The known command, model or tool that is nearest to the unknown one; None: there is none.
        """
        super().__init__(command, error, error_code, did_you_mean)
        self.command = command
        self.error = error
        self.error_code = error_code
        self.did_you_mean = did_you_mean

    def __str__(self) -> str:
        hint = "" if self.did_you_mean is None else f" (did you mean {self.did_you_mean}?)"
        return f"{self.command}: {self.error}{hint}"


class RunFailed(ClientFailure):
    """The agent's work has ended with an error, for instance of the model. `run` is the result until then."""

    def __init__(self, run: "Run") -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return self.run.error or "the run has failed"


class StartFailed(ClientFailure):
    """An agent in this process can't start: a flag, a file or a setting is wrong."""

    def __init__(self, text: str, exit_code: int) -> None:
        """Keep the reason.

        Args:
            text: The reason, for people.
            exit_code: The exit code that a process of the agent would have: 2 for what the flags or settings say.
        """
        super().__init__(text, exit_code)
        self.text = text
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.text


class AgentExited(ClientFailure):
    """The agent has exited: it can't answer pending commands."""

    def __init__(self, command: Sequence[str], exit_code: int | None, stderr_tail: str, cut_record: str | None) -> None:
        """Keep the facts of its end.

        Args:
            command: What was started.
            exit_code: Minus the number of the signal that ended it; None if it could not even be killed.
            stderr_tail: The end of what it wrote to stderr.
            cut_record: The beginning of a last record that it left unfinished.
        """
        super().__init__(command, exit_code, stderr_tail, cut_record)
        self.command = tuple(command)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.cut_record = cut_record

    def __str__(self) -> str:
        parts = [f"the agent ({' '.join(self.command)}) {_worded(self.exit_code)}"]
        if self.cut_record is not None:
            parts.append(f"its last record is cut: {self.cut_record}")
        if self.stderr_tail:
            parts.append(f"the end of its stderr:\n{self.stderr_tail.rstrip()}")
        return "; ".join(parts)


class ProtocolError(ClientFailure):
    """The agent wrote a line that is not a record, or a response without the data of its command."""

    def __init__(self, problem: str, line: bytes | None = None) -> None:
        """Keep the error; with `line`, the text quotes its beginning."""
        self.problem = problem
        self.beginning = None if line is None else shown(line)
        super().__init__(problem if line is None else f"{problem}: {self.beginning}")


class FellBehind(ClientFailure):
    """Events were not taken while calls waited for the agent, until they were too many to be kept.

    Raised after those that were kept. Take them faster, or start the agent with `--protocol 1.5`: its events are small.
    """

    def __init__(self, kept_bytes: int) -> None:
        super().__init__(f"events were not taken; {kept_bytes} bytes of them were kept, what came later was not")
        self.kept_bytes = kept_bytes


class ClientClosed(ClientFailure):
    """The client was used before it was entered or after it was left."""

    def __init__(self) -> None:
        super().__init__("the client is not open: use it inside of its `with` block")


def shown(line: bytes) -> str:
    """Quote the beginning of a line for a person."""
    text = line[: 4 * MAX_SHOWN_CHARS].decode("utf-8", "backslashreplace")
    return repr(text[:MAX_SHOWN_CHARS]) + (" …" if len(text) > MAX_SHOWN_CHARS else "")


def _made(kind: type[ClientFailure], *args: object) -> ClientFailure:
    return kind.__new__(kind, *args)


def _worded(exit_code: int | None) -> str:
    if exit_code is None:
        return "is gone"
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"
