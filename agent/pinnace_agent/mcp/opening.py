"""Connects to a configured server: resolves what its entry names, and lets `wire` do the rest.

For the extension of a session and for the command line alike.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pinnace_agent.config.server_entries import ServerEntry
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.mcp import launching
from pinnace_agent.mcp.oauth.credentials import Credentials
from pinnace_agent.mcp.ports import LinkLost, ServerHooks, ServerLink

if TYPE_CHECKING:  # of the library
    from pinnace_agent.mcp.wire.http import Address

LIBRARY: Final = "mcp"


def missing() -> str:
    """Return what to do where the library is not there."""
    from pinnace_agent.core.installing import how_to_install

    return f"MCP servers need the extra mcp. Install it with: {how_to_install('mcp')}"


def is_installed() -> bool:
    """Return whether the library of the protocol is there. Loads nothing of it."""
    return find_spec(LIBRARY) is not None


def load_library() -> None:
    """Load the library, which takes half a second: in a thread, if anything waits."""
    for name in ("link", "authorization"):
        import_module(f"pinnace_agent.mcp.wire.{name}")
    for name in ("client", "mcp", "httpx2", "httpcore2"):
        # They log what servers send.
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def open_link(
    entry: ServerEntry,
    given: launching.Environment,
    hooks: ServerHooks,
    release: str,
    ending_s: Callable[[], float],
    use: Callable[[ServerLink], Awaitable[None]],
) -> None:
    """Connect to a server, and let `use` have the connection; see `wire.link.hold`. The library must be loaded.

    Raises:
        LinkLost: There is no connection, or it has ended.
    """
    from pinnace_agent.mcp.wire.link import Address, Launch, hold

    if (refusal := launching.sandbox_refusal(entry, given.sandbox)) is not None:
        raise LinkLost(refusal)
    to: Launch | Address
    if entry.command is not None:
        environment = await launching.environment_of(entry, given)
        folder = launching.folder_of(entry, given)
        to = Launch(launching.arguments_of(entry, given), folder, environment, is_outside=not entry.is_sandboxed)
    else:
        to = await _address_of(entry, given)
    await hold(to, hooks, release, ending_s, use, protocol=entry.protocol)


async def _address_of(entry: ServerEntry, given: launching.Environment) -> "Address":
    from pinnace_agent.mcp.wire.authorization import ProviderToken, StoredToken
    from pinnace_agent.mcp.wire.http import Address, client_opener

    headers = await launching.headers_of(entry, given)
    if entry.uses_oauth:
        settings = await launching.client_settings_of(entry, given)
        opener = client_opener(entry.url, settings.metadata_url)
        auth = StoredToken(credentials_of(entry, given), settings, opener)
        return Address(entry.url, headers, auth, "it wants you to sign in")
    provider = entry.auth_provider
    if provider is not None and given.provider_token is not None:
        token = ProviderToken(partial(given.provider_token, provider))
        return Address(entry.url, headers, token, f"it refuses the login of the provider {provider}")
    return Address(entry.url, headers)


def credentials_of(entry: ServerEntry, given: launching.Environment) -> Credentials:
    """Return where the sign-in to a server is kept."""
    return Credentials(agent_dir(given.own), entry.name, entry.url)
