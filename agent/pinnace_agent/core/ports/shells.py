"""The shell commands of the client's `bash`, and the extensions that decide about them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.session.conversation import Session
    from pinnace_agent.shell.output import BashResult, OutputTail
    from pinnace_spec.rules import errors


class ShellCommand(Protocol):
    """One command. `result` and `failure` are set when it has ended; at most one of them."""

    command: str
    exclude_from_context: bool
    session: "Session"
    output: "OutputTail"
    result: "BashResult | None"
    failure: str | None
    failure_code: "errors.ErrorCode"


class ShellSettings(Protocol):
    """How commands run."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Their environment."""
        ...

    @property
    def shell_path(self) -> str | None:
        """The shell; None: the usual one."""
        ...

    @property
    def shell_command_prefix(self) -> str | None:
        """A line before each command."""
        ...


class CommandGuard(Protocol):
    """Extensions that decide about a command."""

    async def run(self, shell: ShellCommand, settings: ShellSettings, on_output: Callable[[str], None]) -> bool:
        """Run the command, or refuse it. Returns False if the shell of this machine is to run it.

        The result, or the failure, is set in `shell`.
        """
        ...
