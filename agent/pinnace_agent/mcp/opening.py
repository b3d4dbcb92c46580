"""Connects to a configured server: resolves what its entry names, and lets `wire` do the rest.

For the extension of a session and for the command line alike.
"""

import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from pinnace_agent.mcp import launching
from pinnace_agent.mcp.entries import ServerEntry
from pinnace_agent.mcp.ports import Hooks, Link

LIBRARY: Final = "mcp"
MISSING: Final = "MCP servers need the package \"mcp\". Install it with: pip install 'mcp>=2.3,<3'"


def is_installed() -> bool:
    """Return whether the library of the protocol is there. Loads nothing of it."""
    return find_spec(LIBRARY) is not None


def load_library() -> None:
    """Load the library, which takes half a second: in a thread, if anything waits."""
    import_module("pinnace_agent.mcp.wire.link")
    for name in ("client", "mcp", "httpx2", "httpcore2"):
        # They log what servers send.
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def open_link(
    entry: ServerEntry,
    given: launching.Environment,
    hooks: Hooks,
    release: str,
    ending_s: Callable[[], float],
    use: Callable[[Link], Awaitable[None]],
) -> None:
    """Connect to a server, and let `use` have the connection; see `wire.link.hold`. The library must be loaded.

    Raises:
        LinkLost: There is no connection, or it has ended.
    """
    from pinnace_agent.mcp.wire.link import Address, Launch, hold

    to: Launch | Address
    if entry.command is not None:
        environment = await launching.environment_of(entry, given)
        to = Launch(launching.arguments_of(entry, given), launching.folder_of(entry, given), environment)
    else:
        to = Address(entry.url, await launching.headers_of(entry, given))
    await hold(to, hooks, release, ending_s, use, protocol=entry.protocol)
