"""The tool that creates or overwrites one file.

Writes the given text in UTF-8, without reading the former content. Rules R-TOL-02, R-TOL-03.
"""

import os
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.files.text_file import encode_text
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_argument, text_result
from pinnace_agent.tools.change_queue import FILE_CHANGES, NOT_BOUND, ChangeQueue, bound_to, unfollowed
from pinnace_agent.tools.local.files import LOCAL_WRITE, check_client_write, is_same_outside
from pinnace_agent.tools.operations import BindsWrites, FollowsLinks, SeesFiles, WriteOperations
from pinnace_agent.tools.parameters import FILE, fields, text
from pinnace_agent.tools.paths import existing_path, os_error_text, resolve_path

PARAMETERS: Final = fields({"path": FILE, "content": text("The complete content of the file")})


class WriteTool:
    """Create or overwrite a file, and the folders above it.

    The details of a result are `{"created": bool}`, whether nothing was there before; absent without `SeesFiles`.
    """

    name: str = "write"
    label: str = "write"
    description: str = (
        "Create a file with the given content, or overwrite the one that is there. Missing parent folders are created."
    )
    snippet: str = "Create a file or overwrite it as a whole"
    guidelines: tuple[str, ...] = ("Use write for new files and for complete rewrites only.",)
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False
    checks_itself = False
    prefers_strict: bool = True

    def __init__(self, changes: ChangeQueue | None = None, operations: WriteOperations = LOCAL_WRITE) -> None:
        """Write through `operations`, by default files of this machine.

        The queue of `changes` is shared with everything else that changes files.
        """
        self._changes = changes or FILE_CHANGES.get()
        self._operations = operations
        self._real_path = operations.real_path if isinstance(operations, FollowsLinks) else None

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments unchanged."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Write the file, atomically, or have the client write it. Cancelling takes effect between the steps.

        Raises:
            ToolError: A system call failed, or the client refused; the text is its message.
            ApprovalOutdated: The path leads to another file than the one that was approved; nothing was written.
        """
        path = text_argument(args, "path")
        target = resolve_path(path, ctx.cwd)
        data = encode_text(text_argument(args, "content"))
        operations = self._operations if ctx.bound_path is None else self._without_links()

        async def real_path(path: str) -> str:
            return await (self._real_path or unfollowed)(await existing_path(path, ctx.cwd, self._exists))

        try:
            async with self._changes.hold(target, ctx.order, real_path), bound_to(ctx.bound_path, target, real_path):
                # Only now: nothing may wait before the lock, which is taken in call order.
                target = await existing_path(path, ctx.cwd, self._exists)
                file = target if ctx.bound_path is None else ctx.bound_path
                details = None
                if isinstance(operations, SeesFiles):
                    details = {"created": not await operations.exists(file)}
                client = ctx.client_files if self._operations is LOCAL_WRITE else None
                is_bound = ctx.bound_path is not None
                if client is not None:
                    await check_client_write(file)
                    if not await is_same_outside(file, ctx.cwd):
                        client = None
                # The client creates the folders, so that nothing is changed if it refuses.
                if client is None or not await client.write(file, data, is_bound=is_bound):
                    await _make_folder(operations, os.path.dirname(file))
                    await trio.lowlevel.checkpoint_if_cancelled()
                    await operations.write_file(file, data)
                # A call that was aborted during the write reports the abort.
                await trio.lowlevel.checkpoint_if_cancelled()
        except OSError as error:
            raise ToolError(os_error_text(error, "open", target)) from error
        return text_result(f"Successfully wrote to {path}", details)

    async def _exists(self, path: str) -> bool:
        return isinstance(self._operations, SeesFiles) and await self._operations.exists(path)

    def _without_links(self) -> WriteOperations:
        if not isinstance(self._operations, BindsWrites):
            raise ToolError(NOT_BOUND)
        return self._operations.without_links()


async def _make_folder(operations: WriteOperations, path: str) -> None:
    try:
        await operations.make_folder(path)
    except OSError as error:
        raise ToolError(os_error_text(error, "mkdir", error.filename or path)) from error
