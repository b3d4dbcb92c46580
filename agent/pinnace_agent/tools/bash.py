"""The tool that runs a shell command for the model: progress, then the end of its output.

Builds the texts of results; `shell` runs the command and keeps its output. Rules R-TOL-05, R-BSH-01 to R-BSH-04.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.shell.output import OutputSnapshot, OutputTail
from pinnace_agent.shell.truncation import MAX_BYTES, MAX_LINES, format_size
from pinnace_agent.tools.base import (
    ApprovalOutdated,
    ToolContext,
    ToolError,
    ToolResult,
    number_argument,
    text_argument,
    text_result,
)
from pinnace_agent.tools.change_queue import real_path
from pinnace_agent.tools.local.programs import LOCAL_BASH, OUTSIDE_BASH
from pinnace_agent.tools.operations import BashOperations, CommandTimedOut
from pinnace_agent.tools.parameters import fields, flag, number, text
from pinnace_agent.tools.validation import number_text
from pinnace_spec.rules import errors

UPDATE_INTERVAL_S: Final = 0.1
"""Ten updates a second look continuous to a person; each carries up to 50 KB."""

MAX_TIMEOUT_S: Final = 2_147_483.647
"""2^31 - 1 milliseconds, 24 days: the longest timer of other implementations."""


PARAMETERS: Final = fields(
    {"command": text("The command, as bash reads it")},
    {"timeout": number("Seconds after which it is killed; by default never")},
)


_CONFINED_PARAMETERS: Final = fields(
    {"command": text("The command, as bash reads it")},
    {
        "timeout": number("Seconds after which it is killed; by default never"),
        "outside": flag("Ask the user to run exactly this command once outside the sandbox"),
        "reason": text("Why it has to run outside; the user reads it"),
    },
)

# What commands print that the sandbox has stopped; other programs print the same for other reasons.
_SIGNS: Final = ("Read-only file system", "Operation not permitted", "Network is unreachable")
_SIGNS_WITHOUT_MOUNTS: Final = (*_SIGNS, "Permission denied")


class SandboxFacts(NamedTuple):
    """What a model has to know of the sandbox of its commands."""

    mode: str
    writable: tuple[str, ...]
    has_network: bool
    may_escalate: bool
    has_mounts: bool = True
    """Whether `/tmp` is the sandbox's own; else a folder `TMPDIR` is, and what is refused looks like missing rights."""

    @property
    def signs(self) -> Sequence[str]:
        """What a command prints that the sandbox may have stopped."""
        return _SIGNS if self.has_mounts else _SIGNS_WITHOUT_MOUNTS

    @property
    def where(self) -> str:
        """What can be written."""
        places = ", ".join((*self.writable, "/tmp" if self.has_mounts else "$TMPDIR"))
        is_bounded = self.writable and not self.has_mounts
        return f"{places} (nothing new directly in {self.writable[0]})" if is_bounded else places

    @property
    def hint(self) -> str:
        """The line behind the output of a command that the sandbox may have stopped."""
        network = "" if self.has_network else " There is no network."
        ask = " If it has to run outside, set `outside` and `reason`; the user decides." if self.may_escalate else ""
        return f"[A sandbox is active ({self.mode}): only {self.where} can be written.{network}{ask}]"


class BashTool:
    """Run a shell command."""

    name: str = "bash"
    label: str = "bash"
    description: str = (
        "Run a command with bash in the working folder. Returns what it writes to stdout and stderr. "
        f"Only the last {MAX_LINES} lines or {MAX_BYTES // 1024}KB of output are returned, "
        "whichever is less; when it is longer, all of it is saved to a file whose path is given. "
        "A timeout in seconds can be set; without one the command may run for ever."
    )
    snippet: str = "Run shell commands"
    guidelines: tuple[str, ...] = ()
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False
    checks_itself = False
    prefers_strict: bool = True

    def __init__(
        self,
        temp_dir: str | None = None,
        operations: BashOperations = LOCAL_BASH,
        sandbox: SandboxFacts | None = None,
    ) -> None:
        """Run commands through `operations`, by default on this machine.

        Long output is always stored on this machine: in `temp_dir`, or a private folder of the user's if it is None.
        `sandbox` describes the sandbox in which the commands run, which the operations enforce.
        """
        self._temp_dir = temp_dir
        self._operations = operations
        self._sandbox: SandboxFacts | None = None
        if sandbox is not None:
            self.use_sandbox(sandbox)

    def use_sandbox(self, sandbox: SandboxFacts) -> None:
        """Describe the sandbox of the commands from now on."""
        self._sandbox = sandbox
        self.description = f"{type(self).description} {_in_sandbox(sandbox)}"
        if sandbox.may_escalate:
            self.parameters = _CONFINED_PARAMETERS

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments unchanged."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Run the command. Cancelling kills it with all its processes and sets `ctx.aborted_result`.

        Raises:
            ToolError: It was not started: an invalid timeout, or a missing folder or shell.
            ApprovalOutdated: The folder is not the one for which it was approved; it was not started.
        """
        timeout_s = _checked_timeout(number_argument(args, "timeout")) or ctx.timeout_s
        # Not cancelled from outside: its output so far belongs to the result.
        ctx.time_limit.deadline = math.inf
        command = text_argument(args, "command")
        operations = self._operations
        if self._sandbox is not None and args.get("outside") is True:
            if not ctx.may_leave_sandbox:
                raise ToolError(errors.OUTSIDE_REFUSED)
            operations = OUTSIDE_BASH
        if ctx.bound_path is not None and await real_path(ctx.cwd) != ctx.bound_path:
            raise ApprovalOutdated(f"{ctx.cwd} no longer leads to {ctx.bound_path}")
        output = OutputTail(self._temp_dir)
        updates = _Updates(output, ctx.on_update)
        try:
            async with open_flat_nursery() as nursery:
                nursery.start_soon(updates.run)
                exit_code = await operations.exec(
                    f"{ctx.command_prefix}\n{command}" if ctx.command_prefix else command,
                    cwd=ctx.cwd,
                    on_data=updates.take,
                    timeout_s=timeout_s,
                    env=ctx.env,
                    shell_path=ctx.shell_path,
                )
                nursery.cancel_scope.cancel()
        except trio.Cancelled:
            ctx.aborted_result = _failed(updates.end(), errors.SHELL_ABORTED, shows_no_output=False)
            raise
        except CommandTimedOut as timeout:
            return _failed(updates.end(), _timeout_text(timeout, timeout_s), shows_no_output=False)
        except (OSError, ToolError) as error:
            shown = updates.end()
            if shown.text:  # it was started, and the connection was lost
                return _failed(shown, str(error), shows_no_output=False)
            raise ToolError(str(error)) from error
        finally:
            output.finish()
        return _result(updates.end(), exit_code, None if operations is OUTSIDE_BASH else self._sandbox)


def _in_sandbox(sandbox: SandboxFacts) -> str:
    network = "the network is available" if sandbox.has_network else "there is no network"
    return (
        f"Commands run in a sandbox: only {sandbox.where} can be written, {network}, and what a command leaves running "
        "ends with it."
    )


class _Updates:
    """Progress: at once after a pause, else at the end of the interval; no output is lost."""

    def __init__(self, output: OutputTail, emit: Callable[[ToolResult], None]) -> None:
        self._output = output
        self._emit = emit
        self._next_s = -math.inf
        self._wake = trio.Event()
        self._is_pending = False
        # The first update, without output, reports the start of the command.
        emit(ToolResult([]))

    def take(self, data: bytes) -> None:
        """Add output."""
        if not self._output.feed(data):
            return
        self._is_pending = True
        if trio.current_time() >= self._next_s:
            self._flush()
        else:
            self._wake.set()

    def end(self) -> OutputSnapshot:
        """End the output, send the last update, and return what to show."""
        if self._output.finish():
            self._is_pending = True
        self._flush()
        return self._output.result()

    def _flush(self) -> None:
        if self._is_pending:
            self._is_pending = False
            self._next_s = trio.current_time() + UPDATE_INTERVAL_S
            shown = self._output.snapshot()
            self._emit(text_result(shown.text, _details(shown)))

    async def run(self) -> None:
        """Send delayed updates at the end of their interval. Runs until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await trio.sleep_until(self._next_s)
            self._flush()


def _checked_timeout(timeout_s: float | None) -> float | None:
    if timeout_s is None:
        return None
    if not math.isfinite(timeout_s) or timeout_s <= 0:
        raise ToolError("Invalid timeout: must be a finite number of seconds")
    if timeout_s > MAX_TIMEOUT_S:
        raise ToolError(f"Invalid timeout: maximum is {MAX_TIMEOUT_S} seconds")
    return timeout_s


def _timeout_text(timeout: CommandTimedOut, timeout_s: float | None) -> str:
    text = errors.shell_timed_out(number_text(timeout_s or 0))
    if timeout.exited_after_s is None:
        return text
    return (
        f"{text} (the shell itself exited with code {timeout.exit_code} after {timeout.exited_after_s:.1f} "
        "seconds; its background processes continued to write and were killed)"
    )


def _result(shown: OutputSnapshot, exit_code: int | None, sandbox: SandboxFacts | None) -> ToolResult:
    if exit_code is None:
        return _failed(shown, "Command was killed and its exit status is unknown", shows_no_output=True)
    if exit_code != 0:
        ending = errors.shell_exited(exit_code)
        if sandbox is not None and any(sign in shown.text for sign in sandbox.signs):
            ending = f"{ending}\n\n{sandbox.hint}"
        return _failed(shown, ending, shows_no_output=True)
    return text_result(_body(shown) or "(no output)", _details(shown) or None)


def _failed(shown: OutputSnapshot, ending: str, *, shows_no_output: bool) -> ToolResult:
    body = _body(shown) or ("(no output)" if shows_no_output else "")
    details = _details(shown)
    # Like a success, a result with an exit code has details only if there are any.
    shown_details = details or None if shows_no_output else details
    return text_result(f"{body}\n\n{ending}" if body else ending, shown_details, is_error=True)


def _body(shown: OutputSnapshot) -> str:
    """Return the text with the notice of what was cut."""
    cut = shown.truncation
    if cut is None:
        return shown.text
    last = cut.total_lines
    if cut.last_line_partial:
        size = format_size(cut.output_bytes)
        what = f"last {size} of line {last} (line is {format_size(shown.last_line_bytes)})"
    else:
        limit = f" ({format_size(cut.max_bytes)} limit)" if cut.truncated_by == "bytes" else ""
        what = f"lines {last - cut.output_lines + 1}-{last} of {last}{limit}"
    file = shown.full_output_path or "could not be saved"
    return f"{shown.text}\n\n[Showing {what}. Full output: {file}]"


def _details(shown: OutputSnapshot) -> dict[str, object]:
    if shown.truncation is None:
        return {}
    details: dict[str, object] = {"truncation": shown.truncation.record()}
    if shown.full_output_path is not None:
        details["fullOutputPath"] = shown.full_output_path
    return details
