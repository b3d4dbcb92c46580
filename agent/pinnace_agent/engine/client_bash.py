"""The shell commands of the client's `bash`: any number, beside everything else.

Keeps the result of each command until it is answered and recorded. The end of a shell is reported once. Rules R-BSH-01
to R-BSH-04.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pinnace_agent.core.jobs import Jobs, Work
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.session.conversation import PENDING_SHELL, Session
from pinnace_agent.shell.child_processes import client_turns
from pinnace_spec.records.messages import BashExecutionMessage
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # the second loaded with the first command
    from pinnace_agent.core.ports.extensions import ExtensionInstance
    from pinnace_agent.shell.output import BashResult, OutputTail


class ShellRequest(NamedTuple):
    """A `bash` command."""

    command: str
    exclude_from_context: bool = False
    request_id: object = None


@dataclass(slots=True)
class ShellJob:
    """One command of the client. `result` and `failure` are set when it has ended; at most one of them."""

    ref: int
    command: str
    exclude_from_context: bool
    # DEVIATION D-12: a replaced session does not end its shells, and keeps their records.
    session: Session
    request_id: object = None
    output: "OutputTail" = field(init=False)  # from the start of its work on
    result: "BashResult | None" = None
    failure: str | None = None
    failure_code: errors.ErrorCode = errors.ErrorCode.SHELL_UNAVAILABLE
    message: BashExecutionMessage | None = None  # kept aside, not yet in the conversation


class Shells:
    """All shell commands that are running or not yet recorded."""

    def __init__(
        self,
        jobs: Jobs,
        profile: AgentProfile,
        emitter: Emitter,
        extensions: "Callable[[], ExtensionInstance | None]",
        refusal: Callable[[], str | None],
    ) -> None:
        """Start nothing yet.

        Args:
            jobs: Where commands run.
            profile: The environment and the shell.
            emitter: Where their output goes.
            extensions: Returns those of the current session.
            refusal: Returns why no command may run now, since extensions that may guard it are missing; or None.
        """
        self._extensions = extensions
        self._refusal = refusal
        self._jobs = jobs
        self._profile = profile
        self._emitter = emitter
        self._shells: dict[int, ShellJob] = {}
        self._running: set[int] = set()

    def start(self, shell: ShellJob, ended: Callable[[int], None], placed: Callable[[Work], Work]) -> None:
        """Start a command.

        Args:
            shell: The command.
            ended: Called once with its ref when its process is gone.
            placed: Returns work that takes its turn behind the answers of earlier commands.
        """
        self._shells[shell.ref] = shell
        self._running.add(shell.ref)
        shell.session.users += 1

        # Now, not when its task begins: a command that is admitted before a session command runs beside it.
        refusal, instance = self._refusal(), self._extensions()
        guard = None if instance is None else instance.guard_command()
        output: OutputTail | None = None

        async def work() -> None:
            # Here, where a failure is the command's: a process without descriptors can load nothing.
            from pinnace_agent.redaction.growing import GrowingText  # not at start
            from pinnace_agent.shell.output import OutputTail

            nonlocal output
            output = shell.output = OutputTail()
            # A key that the command prints in pieces is not written in pieces.
            shown = GrowingText()

            def write(delta: str) -> None:
                record: dict[str, object] = {"type": "bash_execution_update", "delta": shown.add(delta)}
                if shell.request_id is not None:
                    record["id"] = shell.request_id
                self._emitter.emit(record)

            await shell.session.wait_until_left()
            if (owned := shell.session.claim()) is not None:  # its result could not be appended
                shell.failure, shell.failure_code = owned, errors.ErrorCode.SESSION_NOT_SAVED
            elif refusal is not None:
                shell.failure = errors.tool_not_executed(refusal)
                shell.failure_code = errors.ErrorCode.REFUSED_BY_EXTENSION
            elif guard is None or not await guard.run(shell, self._profile, write):
                await self._run(shell, write)

        def finished(cancelled: bool, failure: BaseException | None) -> None:
            self._running.discard(shell.ref)
            if failure is not None:
                shell.failure = str(failure)
            elif shell.result is None and shell.failure is None:
                shell.result = CANCELLED if output is None else _unfinished(output, cancelled=cancelled)
            ended(shell.ref)

        self._jobs.start(f"bash:{shell.ref}", placed(work), finished)

    def kill_all(self) -> None:
        """Cancel all running commands; each still ends by itself."""
        for ref in tuple(self._running):
            self._jobs.cancel(f"bash:{ref}")

    def get(self, ref: int) -> ShellJob | None:
        """Return a command that was started, or None."""
        return self._shells.get(ref)

    def keep_aside(self, ref: int) -> None:
        """Keep a command's result where a crash can't take it, until it may enter the conversation."""
        shell = self._shells[ref]
        if shell.result is not None:
            shell.message = _message(shell, shell.result)
            shell.session.keep_custom(PENDING_SHELL, shell.message)

    def record(self, ref: int) -> None:
        """Append a command's result to the conversation in which it was admitted, without a record on the wire."""
        shell = self._shells.pop(ref)
        shell.session.users -= 1
        if shell.result is not None:
            shell.session.keep(shell.message or _message(shell, shell.result))

    async def _run(self, shell: ShellJob, write: Callable[[str], None]) -> None:
        from pinnace_agent.shell.output import shell_result  # not at start
        from pinnace_agent.shell.process import ShellUnavailable, run_shell

        try:
            status = await run_shell(
                shell.command,
                cwd=shell.session.cwd,
                output=shell.output,
                env=self._profile.environment,
                shell_path=self._profile.shell_path,
                command_prefix=self._profile.shell_command_prefix,
                on_output=write,
                room=self._emitter.room,
                turns=client_turns(),
            )
        except ShellUnavailable as error:
            shell.failure = str(error)
            return
        shell.result = shell_result(shell.output, status.exit_code, cancelled=False)


def load() -> None:
    """Load what a first command needs: a process that only answers questions does without."""
    for name in ("redaction.growing", "shell.output", "shell.process"):
        import_module(f"pinnace_agent.{name}")


def _unfinished(output: "OutputTail", *, cancelled: bool) -> "BashResult":
    from pinnace_agent.shell.output import shell_result  # loaded by now

    return shell_result(output, None, cancelled=cancelled)


def _message(shell: ShellJob, result: "BashResult") -> BashExecutionMessage:
    message: BashExecutionMessage = {
        "role": "bashExecution",
        "command": shell.command,
        "output": result["output"],
        "cancelled": result["cancelled"],
        "truncated": result["truncated"],
        "timestamp": shell.session.now_ms(),
    }
    if "exitCode" in result:
        message["exitCode"] = result["exitCode"]
    if "fullOutputPath" in result:
        message["fullOutputPath"] = result["fullOutputPath"]
    if shell.exclude_from_context:
        message["excludeFromContext"] = True
    return message


CANCELLED: "BashResult" = {"output": "", "cancelled": True, "truncated": False}
