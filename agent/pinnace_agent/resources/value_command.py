"""Runs the command whose output is a value of a configuration file.

It runs in the agent folder, and finds no programs and modules by a relative path or by variables that add to where an
interpreter looks: what lies in the working folder belongs to a project, which nobody may have trusted. It has no
terminal and no stdin, what it says on stderr is not looked at, and nothing of it survives. No text made here holds the
command or its output.
"""

import os
import subprocess
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.resources.paths import agent_dir
from pinnace_agent.resources.values import UnresolvedValue
from pinnace_agent.shell import SHELL_GROUPS, kill_group

# A key is a few hundred bytes and a token a few thousand: more is a mistake such as `!cat` of the wrong file.
MAX_COMMAND_OUTPUT_BYTES: Final = 64 * 1024
# After SIGKILL to its group, a shell is gone at once unless the kernel is in trouble.
_REAP_S: Final = 1.0
# Each names code that an interpreter or a shell loads, from a place that may be a project's.
_CODE_VARIABLES: Final = frozenset(
    """BASH_ENV ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE NODE_PATH NODE_OPTIONS RUBYLIB RUBYOPT GEM_PATH
    GEM_HOME BUNDLE_GEMFILE PERLLIB PERL5LIB PERL5OPT PERL5DB LUA_PATH LUA_CPATH CLASSPATH JAVA_TOOL_OPTIONS
    JDK_JAVA_OPTIONS _JAVA_OPTIONS""".split()
)


def command_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: only absolute folders in PATH, and nothing that adds to a module path."""
    own = {name: value for name, value in env.items() if name not in _CODE_VARIABLES}
    # An empty PATH would mean the folder that the command runs in; without one a shell has its own.
    folders = [folder for folder in own.pop("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    own |= {"PATH": os.pathsep.join(folders)} if folders else {}
    # Python otherwise looks for modules first in the folder of a script, or where it was started.
    return {**own, "PYTHONSAFEPATH": "1"}


# DEVIATION D-81: the working folder is a project's.
def command_folder(env: Mapping[str, str]) -> str:
    """Return the folder that commands run in: the agent folder, or while there is none the root of all."""
    folder = str(agent_dir(env))
    return folder if os.path.isdir(folder) else "/"


async def output_of(command: str, env: Mapping[str, str], timeout_s: float) -> str:
    """Return what a command says, trimmed. Cancelling kills its process group before `Cancelled` leaves.

    Raises:
        UnresolvedValue: It failed, took too long, or wrote too much or something that is no text.
    """
    output: bytes | None = None
    with trio.move_on_after(timeout_s):
        output = await _bytes_of(command, env)
    if output is None:
        raise UnresolvedValue(f"its command took longer than {timeout_s:g} s")
    try:
        return output.decode().strip()
    except UnicodeDecodeError:
        raise UnresolvedValue("its command wrote something that is not UTF-8 text") from None


async def _bytes_of(command: str, env: Mapping[str, str]) -> bytes:
    SHELL_GROUPS.prepare()
    process = await trio.lowlevel.open_process(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=command_environment(env),
        cwd=command_folder(env),
        start_new_session=True,
    )
    assert process.stdout is not None
    SHELL_GROUPS.add(process.pid)
    is_done = False
    output = bytearray()
    try:
        async for chunk in process.stdout:
            output += chunk
            if len(output) > MAX_COMMAND_OUTPUT_BYTES:
                raise UnresolvedValue(f"its command wrote more than {MAX_COMMAND_OUTPUT_BYTES} bytes")
        status = await process.wait()
        is_done = True
    finally:
        if not is_done:
            # The shell may be gone and a child of it still hold the pipe, so the group is what is killed.
            kill_group(process.pid)
        SHELL_GROUPS.discard(process.pid)
        with trio.move_on_after(_REAP_S, shield=True):
            async with process.stdout:
                await process.wait()
    if status != 0:
        raise UnresolvedValue(f"its command failed with status {status}")
    return bytes(output)
