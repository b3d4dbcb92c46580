"""A user signs in to a server: the page that the browser comes back to, the address that is shown, the time limit.

Nothing opens a browser. The redirect comes to a listener on this machine, or the user pastes its address.
"""

import errno
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import trio

from pinnace_agent.config.credentials.logins import LoginCancelled
from pinnace_agent.config.credentials.loopback_redirect import Redirect, loopback_redirect
from pinnace_agent.config.server_entries import OAuth, ServerEntry
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_list
from pinnace_agent.mcp import launching
from pinnace_agent.mcp.oauth.credentials import FILE_NAME, Credentials
from pinnace_agent.mcp.ports import Challenge, LinkLost, SignInCancelled, SignInFailed

Host: TypeAlias = Literal["127.0.0.1", "localhost", "::1"]

LIMIT_S: Final = 300.0
"""For a whole sign-in, unless the user says otherwise."""
_PATH: Final = "/callback"
_HOSTS: Final[Sequence[Host]] = ("127.0.0.1", "localhost", "::1")


class SignInUser(Protocol):
    """Who signs in."""

    def show(self, url: str) -> None:
        """Show the address of the authorization server. Never waits."""
        ...

    async def paste(self) -> str | None:
        """Return the address that the browser was sent to, if the user enters it; None: the user cancels."""
        ...


# DEVIATION D-94: no browser is opened, and no client metadata document is shown.
async def sign_in_to(
    entry: ServerEntry,
    given: launching.Environment,
    credentials: Credentials,
    challenge: Challenge,
    user: SignInUser,
    limit_s: float = LIMIT_S,
) -> None:
    """Let a user sign in to a server, and store the tokens. The library must be loaded. Cancelling stores nothing.

    Args:
        entry: The server.
        given: What its variables are resolved from.
        credentials: Where the tokens are stored.
        challenge: With what the server has refused a request.
        user: Who signs in.
        limit_s: For all of it.

    Raises:
        SignInFailed: There are no tokens; the text says why.
    """
    from pinnace_agent.mcp.wire.authorization import sign_in
    from pinnace_agent.mcp.wire.http import client_opener

    oauth = entry.oauth or OAuth()
    if oauth.registration == "cimd":
        raise SignInFailed(
            'oauth.clientRegistration "cimd": pinnace has no client metadata document of its own; use "dcr", or name '
            "your own document as oauth.clientId"
        )
    failed: list[SignInFailed] = []
    try:
        with trio.fail_after(limit_s):
            settings = await launching.client_settings_of(entry, given)
            open_client = client_opener(credentials.url, settings.metadata_url)
            stored = (await trio.to_thread.run_sync(credentials.load)).client if oauth.client_id is None else {}
            async with _page(oauth, stored, user) as page:
                try:
                    await sign_in(credentials, settings, challenge, page, open_client)
                except SignInFailed as error:
                    failed.append(error)  # the listener would wrap it into a group
    except LinkLost as error:
        raise SignInFailed(str(error)) from None
    except (ConfigurationFileError, LockHeld) as error:
        raise SignInFailed(f"{FILE_NAME}: {error}") from None
    except trio.TooSlowError:
        raise SignInFailed(f"it was not completed within {limit_s:g} seconds") from None
    if failed:
        raise failed[0]


class _Page:
    """The page of the redirect, and the user who may paste its address."""

    def __init__(self, redirect: Redirect, uri: str, user: SignInUser) -> None:
        self.uri = uri
        self._redirect = redirect
        self._user = user

    async def response(self, url: str, state: str) -> Mapping[str, str]:
        self._redirect.state = state
        self._user.show(url)
        pasted: list[str | None] = []

        async def paste() -> None:
            pasted.append(await self._user.paste())
            nursery.cancel_scope.cancel()

        async def arrive() -> None:
            await self._redirect.arrived()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(paste)
            nursery.start_soon(arrive)
        try:
            if not pasted or self._redirect.has_arrived:
                return await self._redirect.response()
            if not pasted[0]:
                raise SignInCancelled("it was cancelled")
            return await self._redirect.response(pasted[0])
        except LoginCancelled as error:
            raise SignInFailed(str(error)) from None


@asynccontextmanager
async def _page(oauth: OAuth, client: JsonObject, user: SignInUser) -> AsyncGenerator[_Page, None]:
    """Listen for the redirect: where it is configured, else where the client is registered for, else anywhere."""
    parts = urlsplit(oauth.callback_url or f"http://127.0.0.1{_PATH}")
    host: Host = _HOSTS[0]
    for each in _HOSTS:
        host = each if each == parts.hostname else host
    wanted = parts.port or oauth.callback_port
    path = parts.path or "/"
    for port in dict.fromkeys((wanted or _registered_port(client, host, parts.path), wanted or 0)):
        is_yielded = False
        try:
            async with loopback_redirect(port, path, host) as redirect:
                is_yielded = True
                uri = redirect.uri if parts.path else redirect.uri.removesuffix("/")
                yield _Page(redirect, uri, user)
                return
        except OSError as error:
            if is_yielded or error.errno != errno.EADDRINUSE:
                raise
            if wanted:
                raise SignInFailed(f"port {wanted}, which oauth wants for the redirect, is in use") from None


def _registered_port(client: JsonObject, host: str, path: str) -> int:
    """Return the port of the redirect that a client is registered for; 0: any."""
    uris = client.get("redirect_uris")
    for uri in uris if is_list(uris) else ():
        try:
            parts = urlsplit(str(uri))
            if parts.hostname == host and parts.path == path and parts.port:
                return parts.port
        except ValueError:
            continue
    return 0
