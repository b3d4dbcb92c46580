"""The shell commands of the client's `bash`: any number, beside everything else.

Keeps what each command said until it is answered and recorded. Must not know the chart; that a shell ended is reported
once. Rules R-BSH-01 to R-BSH-04.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

from pinnace_agent.compactor import no_extensions
from pinnace_agent.emitter import Emitter
from pinnace_agent.jobs import Jobs
from pinnace_agent.output import OutputTail
from pinnace_agent.processes.registry import client_turns
from pinnace_agent.profile import AgentProfile
from pinnace_agent.session import Session
from pinnace_agent.session.conversation import PENDING_SHELL
from pinnace_agent.shell import ShellUnavailable, run_shell
from pinnace_spec import errors
from pinnace_spec.messages import BashExecutionMessage

if TYPE_CHECKING:  # loaded with the first extension
    from pinnace_agent.extensions.runner import Runner


class BashResult(TypedDict):
    """The data of a `bash` response."""

    output: str
    exitCode: NotRequired[int]
    cancelled: bool
    truncated: bool
    fullOutputPath: NotRequired[str]


@dataclass(slots=True)
class ShellJob:
    """One command of the client. `result` and `failure` are set when it has ended; at most one of them."""

    ref: int
    command: str
    exclude_from_context: bool
    # DEVIATION D-12: a replaced session does not end its shells, and keeps their records.
    session: Session
    output: OutputTail
    request_id: object = None
    result: BashResult | None = None
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
        extensions: "Callable[[], Runner | None]" = no_extensions,
        refusal: Callable[[], str | None] = no_extensions,
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

    def start(self, shell: ShellJob, ended: Callable[[int], None]) -> None:
        """Start a command. `ended` is called once with its ref when its process is gone."""
        self._shells[shell.ref] = shell
        self._running.add(shell.ref)
        shell.session.users += 1

        # Now, not when its task begins: what is admitted before a session command runs beside it.
        refusal, runner = self._refusal(), self._extensions()
        if runner is not None and not runner.gates.guards("user_bash"):
            runner = None

        async def work() -> None:
            if refusal is not None:
                shell.failure = errors.tool_not_executed(refusal)
                shell.failure_code = errors.ErrorCode.REFUSED_BY_EXTENSION
            elif runner is None or not await _is_done(shell, runner, self._profile, told):
                await self._run(shell, told)

        from pinnace_agent.redaction.growing import GrowingText  # not at start

        # A key that the command prints in pieces is not written in pieces.
        shown = GrowingText()

        def told(delta: str) -> None:
            record: dict[str, object] = {"type": "bash_execution_update", "delta": shown.add(delta)}
            if shell.request_id is not None:
                record["id"] = shell.request_id
            self._emitter.emit(record)

        def finished(cancelled: bool, failure: BaseException | None) -> None:
            self._running.discard(shell.ref)
            if failure is not None:
                shell.failure = str(failure)
            elif shell.result is None and shell.failure is None:
                shell.result = _result(shell.output, None, cancelled=cancelled)
            ended(shell.ref)

        self._jobs.start(f"bash:{shell.ref}", work, finished)

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

    async def _run(self, shell: ShellJob, told: Callable[[str], None]) -> None:
        try:
            status = await run_shell(
                shell.command,
                cwd=shell.session.cwd,
                output=shell.output,
                env=self._profile.environment,
                shell_path=self._profile.shell_path,
                command_prefix=self._profile.shell_command_prefix,
                on_output=told,
                room=self._emitter.room,
                turns=client_turns(),
            )
        except ShellUnavailable as error:
            shell.failure = str(error)
            return
        shell.result = _result(shell.output, status.exit_code, cancelled=False)


async def _is_done(shell: ShellJob, runner: "Runner", profile: AgentProfile, told: Callable[[str], None]) -> bool:
    """Ask the extensions who runs a command; return whether it has ended that way, or is not to be run at all."""
    from pinnace_agent.extensions.shell_hooks import Blocked, Ended, decided, run_by

    decision = await decided(runner, shell.command, shell.session.cwd, is_excluded=shell.exclude_from_context)
    match decision:
        case None:
            return False
        case Blocked(reason):
            shell.failure, shell.failure_code = reason, errors.ErrorCode.REFUSED_BY_EXTENSION
        case Ended(result):
            shell.result = result
        case _:
            try:
                exit_code = await run_by(decision, shell, profile, told)
            except ShellUnavailable as error:
                shell.failure = str(error)
            else:
                shell.result = _result(shell.output, exit_code, cancelled=False)
    return True


def _message(shell: ShellJob, result: BashResult) -> BashExecutionMessage:
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


def _result(output: OutputTail, exit_code: int | None, *, cancelled: bool) -> BashResult:
    shown = output.result()
    result: BashResult = {
        "output": shown.text,
        "cancelled": cancelled,
        "truncated": shown.truncation is not None,
    }
    if exit_code is not None:
        result["exitCode"] = exit_code
    if shown.full_output_path is not None:
        result["fullOutputPath"] = shown.full_output_path
    return result


CANCELLED: BashResult = {"output": "", "cancelled": True, "truncated": False}
