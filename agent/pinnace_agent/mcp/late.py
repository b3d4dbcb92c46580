"""MCP where no file names a server: nothing is loaded before an extension registers one.

The extension that is built in, as long as it has no server to connect.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.api.contexts import Context
from pinnace_agent.extensions.events.session_events import McpServersChange, SessionStart
from pinnace_agent.extensions.loading.loading import Inline

if TYPE_CHECKING:  # loaded with the first server
    from pinnace_agent.mcp.extension import Given

PATH: Final = "builtin:mcp"


def late_extension(given: "Callable[[], Given]") -> Inline:
    """Return the extension; `given` is called with the first server."""
    return Inline(PATH, partial(_load, given), is_replaceable=True)


def _load(given: "Callable[[], Given]", pi: ExtensionAPI) -> None:
    is_loaded = False

    async def connect(ctx: Context) -> None:
        nonlocal is_loaded
        if is_loaded or not pi.get_mcp_servers():
            return
        is_loaded = True
        from pinnace_agent.mcp.extension import Servers

        await Servers(given(), pi).begin(ctx)

    async def begun(ctx: Context, _event: SessionStart) -> None:
        await connect(ctx)

    async def changed(ctx: Context, _event: McpServersChange) -> None:
        await connect(ctx)

    pi.on("session_start", begun)
    pi.on("mcp_servers_change", changed)
