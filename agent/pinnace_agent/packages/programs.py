"""Runs npm and git for the commands that install packages: those of the user, with the user's configuration.

They ask nothing: there is no terminal. Their output is shown where they fail. Programs of packages (npm's scripts) run
only if the user asks for it.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.shell.child_processes import children
from pinnace_spec.printable import printable

# The end of an output explains a failure.
_SHOWN_LINES: Final = 12
_KEPT_BYTES: Final = 1024 * 1024
_REAP_S: Final = 1.0
# Of a git that runs this one as a hook: they name another repository.
_OF_ANOTHER_REPOSITORY: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")
_SCRIPTS_OFF: Final = "--ignore-scripts"


class PackageError(Exception):
    """A package can't be installed, updated or removed. The text is for the user."""


class Programs:
    """npm and git, as the user has them."""

    def __init__(self, env: Mapping[str, str], npm_command: Sequence[str] = (), *, runs_scripts: bool = False) -> None:
        """Start nothing.

        Args:
            env: The environment.
            npm_command: The program in place of npm, with its first arguments (`npmCommand`).
            runs_scripts: Whether packages may run programs while they are installed.
        """
        self._env = {name: value for name, value in env.items() if name not in _OF_ANOTHER_REPOSITORY}
        self._env |= {"GIT_TERMINAL_PROMPT": "0"}
        self._npm_command = npm_command
        self.runs_scripts = runs_scripts

    async def npm(self, *arguments: str, cwd: str) -> str:
        """Run npm and return its standard output. Cancelling ends it.

        Raises:
            PackageError: It is missing, or fails.
        """
        program, *first = self._npm_command or ("npm",)
        what = os.path.basename(next((word for word in reversed(self._npm_command) if not word.startswith("-")), "npm"))
        if what not in ("npm", "npm.cmd"):
            raise PackageError(
                f"npmCommand in settings.json ends with {what}: expected npm, other programs are not used"
            )
        scripts = () if self.runs_scripts else (_SCRIPTS_OFF,)
        return await self._run([self._found(program, "Node.js"), *first, *arguments, *scripts], cwd)

    async def git(self, *arguments: str, cwd: str) -> str:
        """Run git and return its standard output. Cancelling ends it.

        Raises:
            PackageError: It is missing, or fails.
        """
        return await self._run([self._found("git", "git"), *arguments], cwd)

    def _found(self, program: str, brought_by: str) -> str:
        path = shutil.which(program, path=self._env.get("PATH"))
        # A relative folder on the path would be one of the working folder, which may be a project's.
        if path is None or not os.path.isabs(path):
            raise PackageError(f"there is no {program} on the PATH: install {brought_by}")
        return path

    async def _run(self, arguments: Sequence[str], cwd: str) -> str:
        shown = " ".join([os.path.basename(arguments[0]), *arguments[1:]])
        try:
            child = await children().start(
                arguments,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=cwd,
                is_outside=True,
            )
        except (OSError, ValueError) as error:
            raise PackageError(f"{shown}: can't be started: {error}") from None
        output: dict[str, bytes] = {}
        status: int | None = None
        is_done = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_collect, child.process.stdout, output, "out")
                nursery.start_soon(_collect, child.process.stderr, output, "err")
            await child.exited()
            is_done = True
        finally:
            if not is_done:
                child.kill()
            with trio.CancelScope(shield=True):
                status = await child.reap(_REAP_S)
            child.release()
        text = output["out"].decode("utf-8", "replace")
        if status != 0:
            errors = output["err"].decode("utf-8", "replace") or text
            lines = [line for line in errors.splitlines() if line.strip()][-_SHOWN_LINES:]
            details = "".join(f"\n> {printable(REDACTOR.text(line))}" for line in lines)
            raise PackageError(f"{printable(REDACTOR.text(shown))}: exited with {status}{details}")
        return text


async def _collect(stream: trio.abc.ReceiveStream | None, output: dict[str, bytes], name: str) -> None:
    """Keep the end of what a program writes."""
    output[name] = b""
    assert stream is not None
    async for chunk in stream:
        output[name] = (output[name] + bytes(chunk))[-_KEPT_BYTES:]
