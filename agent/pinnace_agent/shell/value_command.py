"""Runs a command of the user's own configuration and takes its output, such as a key.

The command runs in the agent folder and finds no programs or modules by a relative path, nor by variables that extend
an interpreter's search path: the working folder belongs to a project, which may be untrusted. It has no terminal and no
stdin, its stderr is discarded, and no process of it survives. Error texts contain neither the command nor its output.
"""

import os
import subprocess
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.files.paths import agent_dir
from pinnace_agent.files.protected import WRITABLE, is_inside
from pinnace_agent.shell.child_processes import children

# A key is a few hundred bytes and a token a few thousand: more is a mistake such as `!cat` of the wrong file.
MAX_COMMAND_OUTPUT_BYTES: Final = 64 * 1024
# After SIGKILL to its group, a shell is gone at once unless the kernel is in trouble.
_REAP_S: Final = 1.0
# Each names code that an interpreter or a shell loads, possibly from a project's folder.
_CODE_VARIABLES: Final = frozenset(
    """BASH_ENV ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE NODE_PATH NODE_OPTIONS RUBYLIB RUBYOPT GEM_PATH
    GEM_HOME BUNDLE_GEMFILE PERLLIB PERL5LIB PERL5OPT PERL5DB LUA_PATH LUA_CPATH CLASSPATH JAVA_TOOL_OPTIONS
    JDK_JAVA_OPTIONS _JAVA_OPTIONS""".split()
)


class CommandFailed(Exception):
    """The command has no usable output. The text gives the reason, without the command or its output."""


def command_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: nothing that adds to a module path, and in PATH only absolute folders.

    None of them is one that commands in the sandbox can write, such as that of an activated environment.
    """
    own = {name: value for name, value in env.items() if name not in _CODE_VARIABLES}
    # An empty PATH would mean the folder that the command runs in; without one a shell has its own.
    folders = [folder for folder in own.pop("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    folders = [each for each in folders if not any(is_inside(os.path.realpath(each), root) for root in WRITABLE)]
    own |= {"PATH": os.pathsep.join(folders)} if folders else {}
    # Python otherwise looks for modules first in the folder of a script, or where it was started.
    return {**own, "PYTHONSAFEPATH": "1"}


# DEVIATION D-81: the working folder is a project's.
def command_folder(env: Mapping[str, str]) -> str:
    """Return the folder that commands run in: the agent folder, or while there is none the root of all."""
    folder = str(agent_dir(env))
    return folder if os.path.isdir(folder) else "/"


async def output_of(command: str, env: Mapping[str, str], timeout_s: float, *, is_outside: bool = True) -> str:
    """Return the output of a command, trimmed. Cancelling kills all its processes before `Cancelled` leaves.

    Args:
        command: For a shell.
        env: Its environment, before `command_environment`.
        timeout_s: How long it may take.
        is_outside: Whether it runs outside of the sandbox, if there is one: it is of the user's own files.

    Raises:
        CommandFailed: It failed, took too long, or wrote too much or something that is no text.
    """
    output: bytes | None = None
    with trio.move_on_after(timeout_s):
        output = await _bytes_of(command, env, is_outside)
    if output is None:
        raise CommandFailed(f"its command took longer than {timeout_s:g} s")
    try:
        return output.decode().strip()
    except UnicodeDecodeError:
        raise CommandFailed("its command wrote something that is not UTF-8 text") from None


async def _bytes_of(command: str, env: Mapping[str, str], is_outside: bool) -> bytes:
    try:
        child = await children().start(
            ["/bin/sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=command_environment(env),
            cwd=command_folder(env) if is_outside else "/",  # inside, the agent folder is hidden
            is_outside=is_outside,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        raise CommandFailed(f"its command cannot be started: {_reason(error)}") from None
    stdout = child.process.stdout
    assert stdout is not None
    is_done = False
    output = bytearray()
    try:
        async for chunk in stdout:
            output += chunk
            if len(output) > MAX_COMMAND_OUTPUT_BYTES:
                raise CommandFailed(f"its command wrote more than {MAX_COMMAND_OUTPUT_BYTES} bytes")
        await child.exited()
        is_done = True
    finally:
        if not is_done:
            # The shell may be gone and a child of it still hold the pipe.
            child.kill()
        status = await child.reap(_REAP_S)
        with trio.CancelScope(shield=True):  # closing a pipe waits for nothing
            await stdout.aclose()
    if status != 0:
        raise CommandFailed(f"its command failed with status {status}")
    return bytes(output)


def _reason(error: OSError | ValueError) -> str:
    """Return the reason without the name of a file, which may be a part of the command."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
