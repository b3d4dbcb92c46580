"""What goes wrong for a client, one exception for each way. All of them are `ClientFailure`s.

Words and facts only; must not know who raises them when. A command that could not be started is none of them: that is
the OSError of the operating system.
"""

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinnace_rpc.client.progress import Run

# Enough to see what was printed instead of a record, without filling a terminal with base64.
MAX_SHOWN_CHARS = 200


class ClientFailure(Exception):
    """Base. Copies and pickles with everything that it carries, whatever its constructor takes."""

    def __reduce__(self) -> tuple[object, ...]:
        # Without this a copy is made by calling the constructor with `args`, which only some subclasses could take.
        return _made, (type(self), *self.args), vars(self)


class CommandFailed(ClientFailure):
    """The agent has refused a command, or it has failed: the answer said `success: false`."""

    def __init__(self, command: str, error: str, error_code: str | None) -> None:
        """Keep the answer's parts; `error_code` is None for agents that tell none."""
        super().__init__(command, error, error_code)
        self.command = command
        self.error = error
        self.error_code = error_code

    def __str__(self) -> str:
        return f"{self.command}: {self.error}"


class RunFailed(ClientFailure):
    """The agent's work has ended with an error, for instance of the model. `run` is what there was until then."""

    def __init__(self, run: "Run") -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return self.run.error or "the run has failed"


class AgentExited(ClientFailure):
    """The agent is gone: it can't answer what it has not answered."""

    def __init__(self, command: Sequence[str], exit_code: int | None, stderr_tail: str, cut_record: str | None) -> None:
        """Keep what is known of its end.

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
    """The agent wrote something that is no record, or an answer without what its command promises."""

    def __init__(self, problem: str, line: bytes | None = None) -> None:
        """Say what is wrong; with `line`, the text has its beginning."""
        self.problem = problem
        self.beginning = None if line is None else shown(line)
        super().__init__(problem if line is None else f"{problem}: {self.beginning}")


class FellBehind(ClientFailure):
    """Events were not taken while others waited for the agent, until they were too many to be kept.

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
