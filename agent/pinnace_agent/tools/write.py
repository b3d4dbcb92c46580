"""The tool that creates or overwrites one file.

Writes what it is given, byte for byte in UTF-8; must not look at what was there. Rules R-TOL-02, R-TOL-03.
"""

import os
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_argument, text_result
from pinnace_agent.tools.file_replacement import encode_text
from pinnace_agent.tools.local_files import LOCAL_WRITE
from pinnace_agent.tools.mutation_queue import MUTATIONS, NOT_BOUND, MutationQueue, bound_to, unfollowed
from pinnace_agent.tools.operations import BindsWrites, FollowsLinks, WriteOperations
from pinnace_agent.tools.parameters import FILE, fields, text
from pinnace_agent.tools.paths import os_error_text, resolve_path

PARAMETERS: Final = fields({"path": FILE, "content": text("The complete content of the file")})


class WriteTool:
    """Create or overwrite a file, and the folders above it."""

    name: str = "write"
    label: str = "write"
    description: str = (
        "Create a file with the given content, or overwrite the one that is there. Missing parent folders are created."
    )
    snippet: str = "Create a file or overwrite it as a whole"
    guidelines: tuple[str, ...] = ("Use write for new files and for complete rewrites only.",)
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False

    def __init__(self, mutations: MutationQueue = MUTATIONS, operations: WriteOperations = LOCAL_WRITE) -> None:
        """Write through `operations`, by default files of this machine.

        The lines of `mutations` are shared with whatever else changes files.
        """
        self._mutations = mutations
        self._operations = operations
        self._real_path = operations.real_path if isinstance(operations, FollowsLinks) else None

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Leave the arguments as they are."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Write the file. Cancelling takes effect between the steps; the file is the old or the new one.

        Raises:
            ToolError: The system refused; the text is its message.
            ApprovalOutdated: The path leads to another file than the one that was approved; nothing was written.
        """
        path = text_argument(args, "path")
        target = resolve_path(path, ctx.cwd)
        data = encode_text(text_argument(args, "content"))
        operations = self._operations if ctx.bound_path is None else self._without_links()
        file = target if ctx.bound_path is None else ctx.bound_path
        try:
            async with (
                self._mutations.hold(target, ctx.order, self._real_path),
                bound_to(ctx.bound_path, target, self._real_path or unfollowed),
            ):
                await _make_folder(operations, os.path.dirname(file))
                await trio.lowlevel.checkpoint_if_cancelled()
                await operations.write_file(file, data)
                # A call that was aborted meanwhile says so, although it has written.
                await trio.lowlevel.checkpoint_if_cancelled()
        except OSError as error:
            raise ToolError(os_error_text(error, "open", target)) from error
        return text_result(f"Successfully wrote to {path}")

    def _without_links(self) -> WriteOperations:
        if not isinstance(self._operations, BindsWrites):
            raise ToolError(NOT_BOUND)
        return self._operations.without_links()


async def _make_folder(operations: WriteOperations, path: str) -> None:
    try:
        await operations.make_folder(path)
    except OSError as error:
        raise ToolError(os_error_text(error, "mkdir", error.filename or path)) from error
