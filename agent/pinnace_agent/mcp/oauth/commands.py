"""Signing in to servers, and out, in a session: the commands, and sign-ins by other processes.

Tokens that another process stores are used with the next run.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.config.server_entries import ServerEntry
from pinnace_agent.extensions.api.contexts import CommandContext, Context
from pinnace_agent.extensions.api.user_interface import UserInterface
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError
from pinnace_agent.mcp.launching import Environment
from pinnace_agent.mcp.oauth.credentials import FILE_NAME
from pinnace_agent.mcp.oauth.sign_in import SignInUser, sign_in_to
from pinnace_agent.mcp.opening import credentials_of
from pinnace_agent.mcp.ports import Challenge, NeedsAuth, SignInCancelled, SignInFailed
from pinnace_agent.mcp.server import Server

NOT_USED: Final = "does not use OAuth: only HTTP servers without an Authorization header do"
_PLACEHOLDER: Final = "http://127.0.0.1:.../callback?code=..."


def sign_in_hint(entry: ServerEntry) -> str:
    """Return what the user of a server does that wants a sign-in, for people."""
    if entry.auth_provider is not None:
        return f"refuses the credentials of {entry.auth_provider} (pinnace auth login {entry.auth_provider})"
    return f"needs sign-in (/mcp login {entry.name}, or pinnace mcp login {entry.name})"


class SignIns:
    """The sign-ins to the servers of a session."""

    def __init__(
        self,
        servers: Callable[[], Sequence[Server]],
        environment: Callable[[Context], Environment],
        wait_s: float,
    ) -> None:
        """Know of no sign-in.

        Args:
            servers: Returns the servers.
            environment: Returns what their variables are resolved from.
            wait_s: How long a run waits for servers that can be connected now.
        """
        self._servers = servers
        self._environment = environment
        self._wait_s = wait_s
        self._waiting: dict[str, object] = {}
        """The servers that want a sign-in, with the state of the file of tokens when they were refused."""

    def changed(self, ctx: Context, server: Server) -> None:
        """Take the state of a server. Never waits."""
        if server.state == "connected":
            self._waiting.pop(server.name, None)
        elif server.state == "needs-auth" and server.name not in self._waiting:
            self._waiting[server.name] = _stamp(self._environment(ctx))

    async def renew(self, ctx: Context, _event: object) -> None:
        """Connect servers that another process has signed in to."""
        now = _stamp(self._environment(ctx)) if self._waiting else None
        signed_in = [server for server in self._servers() if self._waiting.get(server.name, now) != now]
        if not signed_in:
            return
        with trio.move_on_after(self._wait_s):
            async with trio.open_nursery() as nursery:
                for server in signed_in:
                    self._waiting[server.name] = now
                    nursery.start_soon(server.connect_anew)

    async def log_in(self, ctx: CommandContext, name: str) -> None:
        """Let the user sign in to a server; without a name to the one that wants it."""
        server = await self._chosen(ctx, name)
        if server is None:
            return
        if not ctx.has_ui:
            ctx.ui.notify(f'Signing in to MCP server "{server.name}" requires a client that shows dialogs.', "error")
            return
        failure = await self._signed_in(ctx, server)
        if failure is not None:
            ctx.ui.notify(failure, "info" if failure == _CANCELLED else "error")
        else:
            ctx.ui.notify(f'Signed in to MCP server "{server.name}" ({len(server.tools)} tools).', "info")

    async def _signed_in(self, ctx: Context, server: Server) -> str | None:
        """Sign in and connect; return what has failed."""
        is_short = server.challenge is not None and "insufficient_scope" in server.challenge.header
        # Connecting shows whether a sign-in is needed.
        if not is_short and await server.connect_anew() == "connected":
            return None
        if server.challenge is None:
            return f'MCP server "{server.name}" failed to connect: {server.error or server.state}'
        environment = self._environment(ctx)
        credentials = credentials_of(server.entry, environment)
        dialog = _Dialog(ctx.ui, server.name)
        try:
            await sign_in_to(server.entry, environment, credentials, server.challenge, dialog)
        except SignInCancelled:
            return _CANCELLED
        except SignInFailed as error:
            return f"Sign-in failed: {error}"
        return None if await server.connect_anew() == "connected" else f"Signed in, but {server.error or server.state}"

    async def log_out(self, ctx: CommandContext, name: str) -> None:
        """Remove what is stored for a server, and end its connection."""
        server = await self._chosen(ctx, name)
        if server is None:
            return
        credentials = credentials_of(server.entry, self._environment(ctx))
        try:
            is_removed = await trio.to_thread.run_sync(credentials.remove)
        except (ConfigurationFileError, LockHeld, OSError) as error:
            ctx.ui.notify(f"{FILE_NAME}: {error}", "error")
            return
        self._waiting[server.name] = _stamp(self._environment(ctx))
        server.deny(NeedsAuth("signed out", Challenge(401, "")))
        said = "Signed out of" if is_removed else "No stored credentials for"
        ctx.ui.notify(f'{said} MCP server "{server.name}".', "info")

    async def _chosen(self, ctx: CommandContext, name: str) -> Server | None:
        """Return the server of a name; without one the only one that comes into question, or the user's choice."""
        enabled = [server for server in self._servers() if server.entry.is_enabled]
        if name:
            server = next((each for each in self._servers() if each.name == name), None)
            provider = None if server is None else server.entry.auth_provider
            if server is None:
                known = ", ".join(each.name for each in self._servers()) or "none"
                ctx.ui.notify(f'No MCP server named "{name}". There are: {known}', "error")
            elif not server.entry.is_enabled:
                ctx.ui.notify(f'MCP server "{name}" is disabled.', "error")
            elif provider is not None:
                text = (
                    f'MCP server "{name}" uses the credentials of provider "{provider}": pinnace auth login {provider}'
                )
                ctx.ui.notify(text, "error")
            elif not server.entry.uses_oauth:
                ctx.ui.notify(f'MCP server "{name}" {NOT_USED}.', "error")
            else:
                return server
            return None
        eligible = [server for server in enabled if server.entry.uses_oauth]
        wanting = [server for server in eligible if server.state == "needs-auth"] or eligible
        if not wanting:
            ctx.ui.notify(f"No enabled MCP server uses OAuth. {NOT_USED.partition(': ')[2].capitalize()}.", "error")
        if len(wanting) < 2:
            return wanting[0] if wanting else None
        chosen = await ctx.ui.select("MCP server", [server.name for server in wanting])
        return next((server for server in wanting if server.name == chosen), None)


_CANCELLED: Final = "Sign-in cancelled."


class _Dialog(SignInUser):
    """The user of a session."""

    def __init__(self, ui: UserInterface, name: str) -> None:
        self._ui = ui
        self._name = name

    def show(self, url: str) -> None:
        self._ui.notify(f'Sign in to MCP server "{self._name}" in your browser:\n{url}', "info")

    async def paste(self) -> str | None:
        title = (
            f'Waiting for sign-in to "{self._name}". If the browser cannot reach this machine, paste the URL it was '
            "redirected to."
        )
        return await self._ui.input(title, _PLACEHOLDER)


def _stamp(environment: Environment) -> object:
    """Return what is another one when the file of tokens was changed."""
    try:
        state = Path(agent_dir(environment.own) / FILE_NAME).stat()
    except OSError:
        return None
    return (state.st_ino, state.st_mtime_ns, state.st_size)
