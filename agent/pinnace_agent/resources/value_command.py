"""Runs the command whose output is a value of a configuration file.

The command has no terminal and no stdin, what it says on stderr is not looked at, and nothing of it survives. No text
made here holds the command or its output.
"""

import subprocess
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.resources.values import UnresolvedValue
from pinnace_agent.shell import SHELL_GROUPS, kill_group

# A key is a few hundred bytes and a token a few thousand: more is a mistake such as `!cat` of the wrong file.
MAX_COMMAND_OUTPUT_BYTES: Final = 64 * 1024
# After SIGKILL to its group, a shell is gone at once unless the kernel is in trouble.
_REAP_S: Final = 1.0


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
        env=dict(env),
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
