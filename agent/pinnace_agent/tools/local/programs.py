"""Commands and ripgrep on this machine, for the tools: processes in groups of their own.

Builds no texts of results; has no knowledge of the limits of output. Rules R-BSH-01, R-BSH-02.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from pinnace_agent.files.tool_calls import FileCall
from pinnace_agent.shell.process import ShellUnavailable, run_shell
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.local.file_calls import FILE_CALLS
from pinnace_agent.tools.local.process_files import unsearched_globs
from pinnace_agent.tools.local.search_program import NO_RG, FindProgram, find_rg, python_search, run_search
from pinnace_agent.tools.operations import CommandTimedOut, SearchEnd


class LocalBash:
    """`BashOperations` of this machine."""

    def __init__(self, *, is_outside: bool = False) -> None:
        """Run commands in the sandbox of this process, if it has one; or outside, for those that the user approves."""
        self._is_outside = is_outside

    async def exec(
        self,
        command: str,
        *,
        cwd: str,
        on_data: Callable[[bytes], None],
        timeout_s: float | None,
        env: Mapping[str, str],
        shell_path: str | None,
    ) -> int | None:
        """Run a command by a shell, in a process group that is killed as a whole; see `run_shell`."""
        output = _Passed(on_data)
        try:
            status = await run_shell(
                command,
                cwd=cwd,
                output=output,
                env=env,
                timeout_s=timeout_s,
                shell_path=shell_path,
                is_outside=self._is_outside,
            )
        except ShellUnavailable as error:
            raise ToolError(str(error)) from error
        if status.timed_out:
            raise CommandTimedOut(status.exit_code, status.exited_after_s)
        return status.exit_code


class LocalGrep:
    """`GrepOperations` of this machine."""

    def __init__(self, find_rg: FindProgram = find_rg) -> None:
        """Find ripgrep with this function."""
        self._find_rg = find_rg

    async def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder; raise unless it is one or a regular file."""
        return await FILE_CALLS.perform(FileCall("searchable", path)) is True

    async def search(
        self, arguments: Sequence[str], *, cwd: str, env: Mapping[str, str], take: Callable[[bytes], bool]
    ) -> SearchEnd:
        """Run the system's ripgrep, else the packaged one, else the search in Python."""
        rg = await trio.to_thread.run_sync(self._find_rg, env, abandon_on_cancel=True)
        command = python_search() if rg is None else [rg]
        if command is None:
            raise ToolError(NO_RG)
        end = arguments.index("--")
        unsearched = [f"--glob={glob}" for glob in unsearched_globs(cwd)]
        return await run_search(
            [*command, *arguments[:end], *unsearched, *arguments[end:]], cwd=cwd, env=env, take=take
        )


LOCAL_BASH: Final = LocalBash()
OUTSIDE_BASH: Final = LocalBash(is_outside=True)
LOCAL_GREP: Final = LocalGrep()


class _Passed:
    """Output that is passed on as bytes."""

    def __init__(self, on_data: Callable[[bytes], None]) -> None:
        self._on_data = on_data

    def feed(self, data: bytes) -> str:
        self._on_data(data)
        return ""

    def finish(self) -> str:
        return ""
