"""Runs the tools on another machine over ssh: files and commands of this machine are not used.

    pinnace --mode rpc -e examples/extensions/remote_operations.py --ssh me@host:/srv/project

The tools are the built-in ones with other operations, so limits, texts and the order of changes stay the same. If the
machine can't be reached, a call fails; it never runs here instead.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress

import trio

from pinnace.extensions import BeforeStart, Block, Context, ExtensionAPI, UserBash, builtin, operations
from pinnace.extensions import events as ev

MISSING, DENIED, FOLDER, SSH_FAILED = 66, 67, 68, 255  # exit codes of the scripts below, and that of ssh itself


class Remote:
    """The operations of `read`, `write`, `edit` and `bash` on one machine. They raise `OSError`, as local ones do."""

    def __init__(self, host: str, folder: str) -> None:
        self.host = host
        self.folder = folder

    async def run(self, script: str, data: bytes = b"") -> bytes:
        """Run a script there, and return its output."""
        command = ["ssh", self.host, script]
        done = await trio.run_process(command, stdin=data, capture_stdout=True, capture_stderr=True, check=False)
        match done.returncode:
            case 0:
                return bytes(done.stdout)
            case 66:
                raise FileNotFoundError(2, "No such file or directory")
            case 67:
                raise PermissionError(13, "Permission denied")
            case 68:
                raise IsADirectoryError(21, "Is a directory")
            case _:
                raise ConnectionError(f"{self.host}: {done.stderr.decode(errors='replace').strip()}")

    async def access(self, path: str) -> None:
        where = shlex.quote(path)
        await self.run(
            f"test -e {where} || exit {MISSING}; test -d {where} && exit {FOLDER}; test -r {where} || exit {DENIED}"
        )

    async def read_file(self, path: str) -> bytes:
        return await self.run(f"cat -- {shlex.quote(path)}")

    async def make_folder(self, path: str) -> None:
        await self.run(f"mkdir -p -- {shlex.quote(path)}")

    async def write_file(self, path: str, data: bytes) -> None:
        # Written beside the file first, so that the file is never incomplete.
        where, beside = shlex.quote(path), shlex.quote(f"{path}.new~")
        with trio.CancelScope(shield=True):  # a write must not be interrupted
            await self.run(f"cat > {beside} && mv -- {beside} {where}", data)

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
        """Run a command there. Working folder, environment and shell of this machine do not apply."""
        script = f"cd {shlex.quote(self.folder)} && {{ {command}\n}}"
        # stderr goes into the same pipe; the command does not read this program's stdin.
        process = await trio.lowlevel.open_process(
            ["ssh", self.host, script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            with trio.move_on_after(float("inf") if timeout_s is None else timeout_s) as scope:
                async for data in process.stdout:
                    on_data(bytes(data))
                code = await process.wait()
        finally:
            with suppress(ProcessLookupError):  # already ended; else ends its local processes as well
                os.killpg(process.pid, signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await process.stdout.aclose()
                await process.wait()
        if scope.cancelled_caught:
            raise operations.CommandTimedOut
        if code == SSH_FAILED:
            raise ConnectionError(f"{self.host} can't be reached, or the connection broke")
        return code


def extension(pi: ExtensionAPI) -> None:
    pi.flag("ssh", type=str, description="Work on another machine: HOST:FOLDER")
    remote: list[Remote] = []  # empty: no flag was given, and the tools stay local

    @pi.on("session_start")
    def start(ctx: Context, event: ev.SessionStart) -> None:
        place = pi.get_flag("ssh")  # the values of flags are known from here on
        if not isinstance(place, str):
            return
        host, _, folder = place.partition(":")
        there = Remote(host, folder or "/")
        remote.append(there)
        for make in (builtin.read, builtin.write, builtin.edit, builtin.bash):
            pi.register_tool(make(there.folder, operations=there))
        ctx.ui.set_status("ssh", f"on {host}")

    @pi.on("tool_call")
    def only_there(ctx: Context, event: ev.ToolCall) -> Block | None:
        """Deny three tools that have no remote operations, because they would search this machine."""
        if remote and event.tool_name in ("grep", "find", "ls"):
            return Block(f"{event.tool_name} does not reach {remote[0].host}; use bash.")
        return None

    @pi.on("user_bash")
    def there_as_well(ctx: Context, event: ev.UserBash) -> UserBash | None:
        # Shell commands of the user run on the same machine. A handler that raises here denies the command.
        return UserBash(operations=remote[0]) if remote else None

    @pi.on("before_agent_start")
    def tell(ctx: Context, event: ev.BeforeAgentStart) -> BeforeStart | None:
        if not remote:
            return None
        where = (
            f"You work on {remote[0].host}, in {remote[0].folder}: read, write, edit and bash reach that machine alone."
        )
        return BeforeStart(system_prompt=f"{event.system_prompt}\n\n{where}")
