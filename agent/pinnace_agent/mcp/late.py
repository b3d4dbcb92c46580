"""MCP where no file names a server: nothing is loaded before an extension registers one.

The extension that is built in, as long as it has no server to connect.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.api.contexts import Context
from pinnace_agent.extensions.loading.loading import Inline

PATH: Final = "builtin:mcp"

Connect = Callable[[ExtensionAPI, Context], Awaitable[None]]


def late_extension(connect: Connect) -> Inline:
    """Return the extension; `connect` is called with the first server, and cares for all from then on."""
    return Inline(PATH, partial(_load, connect), is_replaceable=True)


def _load(connect: Connect, pi: ExtensionAPI) -> None:
    is_loaded = False

    async def look(ctx: Context, _event: object) -> None:
        nonlocal is_loaded
        if not is_loaded and pi.get_mcp_servers():
            is_loaded = True
            await connect(pi, ctx)

    pi.on("session_start", look)
    pi.on("mcp_servers_change", look)
