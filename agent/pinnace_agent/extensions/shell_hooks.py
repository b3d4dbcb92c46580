"""What extensions have a say in when the user runs a command: who runs it, or what has become of it.

Fails closed: what guards a command and fails, or answers what can't be right, refuses it. Must not know the shell of
this machine, nor what is answered to a client. E42.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions import results as rs
from pinnace_agent.extensions.error_records import failure_text, ownership
from pinnace_agent.extensions.runner import Runner
from pinnace_agent.profile import AgentProfile
from pinnace_agent.shell import ShellUnavailable
from pinnace_agent.tools.operations import BashOperations, CommandTimedOut
from pinnace_spec import errors

if TYPE_CHECKING:
    from pinnace_agent.shells import BashResult, ShellJob


_UNKNOWN: Final = 1
"""The exit code of a command that has failed, and nobody knows with which: clients are told one (R-BSH-01)."""


class Blocked(NamedTuple):
    """The command must not run."""

    reason: str


class Ended(NamedTuple):
    """An extension has run it."""

    result: "BashResult"


async def decided(
    runner: Runner, command: str, cwd: str, *, is_excluded: bool
) -> Blocked | Ended | BashOperations | None:
    """Ask who runs a command. None: the shell of this machine."""
    answer = await runner.gates.user_bash(
        lambda: ev.UserBash(command=command, exclude_from_context=is_excluded, cwd=cwd)
    )
    if answer is None:
        return None
    if isinstance(answer, rs.Block):
        return Blocked(answer.reason or errors.SHELL_BLOCKED)
    if answer.operations is not None:
        return answer.operations
    return Blocked(errors.SHELL_BLOCKED) if answer.result is None else Ended(_result(answer.result))


async def run_by(
    operations: BashOperations, shell: "ShellJob", profile: AgentProfile, told: Callable[[str], None]
) -> int:
    """Run a command by what an extension has for it, and return its exit code: 1 where nobody knows it.

    Raises:
        ShellUnavailable: It has failed before it said anything.
    """
    prefix, output = profile.shell_command_prefix, shell.output
    has_spoken = False

    def take(data: bytes) -> None:
        nonlocal has_spoken
        has_spoken = True
        if text := output.feed(data):
            told(text)

    try:
        exit_code = await operations.exec(
            f"{prefix}\n{shell.command}" if prefix else shell.command,
            cwd=shell.session.cwd,
            on_data=take,
            timeout_s=None,
            env=profile.environment,
            shell_path=profile.shell_path,
        )
        _check_code(exit_code)
    except CommandTimedOut as timeout:
        exit_code = timeout.exit_code
    except BaseException as error:
        passing, failure = ownership(error)
        if passing is not None:
            raise passing from None
        assert failure is not None
        if not has_spoken:
            raise ShellUnavailable(failure_text(failure)) from failure
        take(f"\n{failure_text(failure)}".encode())
        exit_code = _UNKNOWN
    finally:
        if text := output.finish():
            told(text)
    return _UNKNOWN if exit_code is None else exit_code


def _check_code(exit_code: object) -> None:
    if exit_code is not None and (not isinstance(exit_code, int) or isinstance(exit_code, bool)):
        raise TypeError(f"exec of operations must return an exit code or None, not {type(exit_code).__name__}")


def _result(given: rs.BashOutput) -> "BashResult":
    result: BashResult = {
        "output": given["output"],
        "cancelled": given["cancelled"],
        "truncated": given["truncated"],
    }
    code = given.get("exitCode")
    if code is not None:
        result["exitCode"] = code
    elif not given["cancelled"]:
        result["exitCode"] = 0  # clients are told a code of all that has ended by itself, and no failure was spoken of
    if (path := given.get("fullOutputPath")) is not None:
        result["fullOutputPath"] = path
    return result
