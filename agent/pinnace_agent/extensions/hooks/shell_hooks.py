"""The hooks of the client's shell commands: extensions run a command, refuse it, or give its result.

Fails closed: a handler that raises, or whose answer is invalid, refuses the command.
"""

from collections.abc import Callable
from typing import Final

from pinnace_agent.core.ports.shells import ShellCommand, ShellSettings
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.extensions.services.error_records import failure_text, ownership
from pinnace_agent.shell.output import BashResult, shell_result
from pinnace_agent.shell.process import ShellUnavailable
from pinnace_agent.tools.operations import BashOperations, CommandTimedOut
from pinnace_spec.rules import errors

_UNKNOWN: Final = 1
"""The exit code of a command that has failed without one: clients get one of each (R-BSH-01)."""


class GuardedCommands:
    """The handlers of `user_bash`. A `CommandGuard`."""

    def __init__(self, runner: Runner) -> None:
        """Ask the extensions of one session instance."""
        self._runner = runner

    async def run(self, shell: ShellCommand, settings: ShellSettings, on_output: Callable[[str], None]) -> bool:
        """Run a command, or refuse it. Returns False if the shell of this machine is to run it."""
        answer = await self._runner.gates.user_bash(
            lambda: ev.UserBash(
                command=shell.command, exclude_from_context=shell.exclude_from_context, cwd=shell.session.cwd
            )
        )
        if answer is None:
            return False
        if isinstance(answer, rs.Block):
            _refuse(shell, answer.reason)
        elif answer.operations is not None:
            try:
                exit_code = await _run_by(answer.operations, shell, settings, on_output)
            except ShellUnavailable as error:
                shell.failure = str(error)
            else:
                shell.result = shell_result(shell.output, exit_code, cancelled=False)
        elif answer.result is None:
            _refuse(shell, None)
        else:
            shell.result = _given_result(answer.result)
        return True


def _refuse(shell: ShellCommand, reason: str | None) -> None:
    shell.failure, shell.failure_code = reason or errors.SHELL_BLOCKED, errors.ErrorCode.REFUSED_BY_EXTENSION


async def _run_by(
    operations: BashOperations, shell: ShellCommand, settings: ShellSettings, on_output: Callable[[str], None]
) -> int:
    """Run a command by an extension's operations, and return its exit code: 1 where it is unknown.

    Raises:
        ShellUnavailable: It has failed before it wrote anything.
    """
    prefix, output = settings.shell_command_prefix, shell.output
    has_output = False

    def take(data: bytes) -> None:
        nonlocal has_output
        has_output = True
        if text := output.feed(data):
            on_output(text)

    try:
        exit_code = await operations.exec(
            f"{prefix}\n{shell.command}" if prefix else shell.command,
            cwd=shell.session.cwd,
            on_data=take,
            timeout_s=None,
            env=settings.environment,
            shell_path=settings.shell_path,
        )
        _check_code(exit_code)
    except CommandTimedOut as timeout:
        exit_code = timeout.exit_code
    except BaseException as error:
        passing, failure = ownership(error)
        if passing is not None:
            raise passing from None
        assert failure is not None
        if not has_output:
            raise ShellUnavailable(failure_text(failure)) from failure
        take(f"\n{failure_text(failure)}".encode())
        exit_code = _UNKNOWN
    finally:
        if text := output.finish():
            on_output(text)
    return _UNKNOWN if exit_code is None else exit_code


def _check_code(exit_code: object) -> None:
    if exit_code is not None and (not isinstance(exit_code, int) or isinstance(exit_code, bool)):
        raise TypeError(f"exec of operations must return an exit code or None, not {type(exit_code).__name__}")


def _given_result(given: rs.BashOutput) -> BashResult:
    result: BashResult = {
        "output": given["output"],
        "cancelled": given["cancelled"],
        "truncated": given["truncated"],
    }
    code = given.get("exitCode")
    if code is not None:
        result["exitCode"] = code
    elif not given["cancelled"]:
        result["exitCode"] = 0  # clients get a code of each command that has ended by itself, and no failure was named
    if (path := given.get("fullOutputPath")) is not None:
        result["fullOutputPath"] = path
    return result
