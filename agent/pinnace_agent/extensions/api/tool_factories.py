"""The built-in tools as definitions, for extensions that wrap them or run them elsewhere: `builtin`.

Registered under its own name, such a tool replaces the built-in one. `dataclasses.replace` makes a variant with another
`execute`, which may call the first.

    pi.register_tool(builtin.read(operations=MyFiles()))
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

import trio

from pinnace_agent.config.credentials.known_keys import keyless_environment
from pinnace_agent.extensions.api.contexts import CURRENT_CALL, Context
from pinnace_agent.extensions.registration.registrations import ToolDefinition
from pinnace_agent.tools import base
from pinnace_agent.tools import operations as ops
from pinnace_agent.tools.bash import BashTool
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.find import FindTool
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.local.files import LOCAL_EDIT, LOCAL_LS, LOCAL_READ, LOCAL_WRITE
from pinnace_agent.tools.local.find import LOCAL_FIND
from pinnace_agent.tools.local.programs import LOCAL_BASH, LOCAL_GREP
from pinnace_agent.tools.ls import LsTool
from pinnace_agent.tools.read import ReadTool
from pinnace_agent.tools.write import WriteTool

Folder = str | os.PathLike[str] | None
"""The working folder of a tool; None: that of the session."""


class Spawn(NamedTuple):
    """A command that `bash` is about to run."""

    command: str
    cwd: str
    env: Mapping[str, str]


SpawnHook = Callable[[Spawn], Spawn]
"""Returns the command to run instead."""


def read(cwd: Folder = None, *, operations: ops.ReadOperations | None = None) -> ToolDefinition:
    """Return `read`, by default for files of this machine."""
    return _definition(ReadTool(operations or LOCAL_READ), cwd, is_read_only=True)


def write(cwd: Folder = None, *, operations: ops.WriteOperations | None = None) -> ToolDefinition:
    """Return `write`; calls that change the same file run one after another."""
    return _definition(WriteTool(operations=operations or LOCAL_WRITE), cwd)


def edit(cwd: Folder = None, *, operations: ops.EditOperations | None = None) -> ToolDefinition:
    """Return `edit`; calls that change the same file run one after another."""
    return _definition(EditTool(operations=operations or LOCAL_EDIT), cwd)


def bash(
    cwd: Folder = None, *, operations: ops.BashOperations | None = None, spawn_hook: SpawnHook | None = None
) -> ToolDefinition:
    """Return `bash`.

    Args:
        cwd: The working folder of commands.
        operations: What runs them.
        spawn_hook: Called before each command; may change it, its folder and its environment.
    """
    chosen = operations or LOCAL_BASH
    return _definition(BashTool(operations=chosen if spawn_hook is None else _Hooked(chosen, spawn_hook)), cwd)


def grep(cwd: Folder = None, *, operations: ops.GrepOperations | None = None) -> ToolDefinition:
    """Return `grep`."""
    return _definition(GrepTool(operations or LOCAL_GREP), cwd, is_read_only=True)


def find(cwd: Folder = None, *, operations: ops.FindOperations | None = None) -> ToolDefinition:
    """Return `find`."""
    return _definition(FindTool(operations or LOCAL_FIND), cwd, is_read_only=True)


def ls(cwd: Folder = None, *, operations: ops.LsOperations | None = None) -> ToolDefinition:
    """Return `ls`."""
    return _definition(LsTool(operations or LOCAL_LS), cwd, is_read_only=True)


def local_bash() -> ops.BashOperations:
    """Return the operations that run commands on this machine, for operations that delegate to them."""
    return LOCAL_BASH


def _definition(tool: base.Tool, cwd: Folder, *, is_read_only: bool = False) -> ToolDefinition:
    folder = None if cwd is None else os.path.abspath(cwd)

    async def execute(ctx: Context, params: Mapping[str, object]) -> base.ToolResult:
        call = CURRENT_CALL.get() or _call(ctx)
        own = call if folder is None else dataclasses.replace(call, cwd=folder)
        try:
            return await tool.execute(params, own)
        except trio.Cancelled:
            # The output of an aborted command so far is read from the call itself.
            call.aborted_result = own.aborted_result
            raise

    return ToolDefinition(
        tool.name,
        tool.description,
        tool.parameters,
        execute,
        tool.label,
        tool.snippet,
        tool.guidelines,
        tool.prepare,
        tool.is_sequential,
        is_read_only=is_read_only,
    )


def _call(ctx: Context) -> base.ToolContext:
    """Return the context of a call that no model made."""
    return base.ToolContext(str(ctx.cwd), "", _no_reader, keyless_environment())


def _no_reader(_progress: base.ToolResult) -> None:
    """Drop the progress."""


class _Hooked:
    """Operations that apply a hook to each command."""

    def __init__(self, operations: ops.BashOperations, hook: SpawnHook) -> None:
        self._operations = operations
        self._hook = hook

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
        run = self._hook(Spawn(command, cwd, env))
        return await self._operations.exec(
            run.command, cwd=run.cwd, on_data=on_data, timeout_s=timeout_s, env=run.env, shell_path=shell_path
        )
