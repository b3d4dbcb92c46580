"""Logs in to a provider in a browser, which brings its code to this machine, or whose user pastes it.

RFC 6749 with RFC 7636 and RFC 8252. Nothing opens the browser: its address is shown. A listener on the loopback takes
the redirect, at the port that the client is registered for; a browser on another machine can't reach it, so what it was
sent to can be pasted at the same time, and the first code counts. Where another program has the port, only pasting is
left. A redirect or a paste of another login ends nothing. The listener ends with the wait, whatever ends that. No text
has a code or a token. Not for start-up: it uses the HTTP client.
"""

import errno
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlencode

import trio

from pinnace_agent.config.credentials.authorization_servers import ask_for, refusal
from pinnace_agent.config.credentials.logins import Login, LoginCancelled, LoginFailed, is_safe_endpoint
from pinnace_agent.config.credentials.loopback_redirect import (
    ForeignRedirect,
    Pkce,
    Redirect,
    loopback_redirect,
    pkce,
)
from pinnace_agent.config.credentials.vendor_logins import Browser, Vendor

LIMIT_S: Final = 900.0
"""For the user, as long as a code is mostly good."""
_PORT_LIMIT_S: Final = 2.0
_PORT_PAUSE_S: Final = 0.05
"""How long, and how often, a port is tried: the login that this one replaces may be about to leave it."""
_MOST_PASTES: Final = 3
"""A client that answers each question at once is not asked for ever."""


class LoginPage(NamedTuple):
    """What the user needs to log in."""

    address: str
    """To open in a browser."""
    redirect_uri: str
    """Where the browser is sent at the end."""
    is_awaited: bool
    """Whether the browser is awaited there; else what it was sent to must be pasted."""
    expires_in_s: float


class BrowserUser(Protocol):
    """Who logs in."""

    def show(self, page: LoginPage) -> None:
        """Show where to log in. Called once, and never waits."""
        ...

    async def paste(self, page: LoginPage, problem: str | None) -> str | None:
        """Return what the user pastes: the address that the browser was sent to, or the code; None: nothing any more.

        Cancelled when the browser has come first.

        Args:
            page: What was shown.
            problem: Why what was pasted before is not taken; None: nothing was.
        """
        ...


class Tokens(Protocol):
    """What asks the server of a vendor for tokens, such as a `DeviceLogin`."""

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> Login:
        """Exchange a code for a login."""
        ...

    def page_fields(self, redirect_uri: str, state: str, challenge: str) -> Mapping[str, str]:
        """Return the parameters of the page where the user logs in, but for those of `Browser`."""
        ...


class BrowserLogin:
    """The logins of one provider in a browser."""

    def __init__(self, vendor: Vendor, tokens: Tokens) -> None:
        """Use the page of this vendor, which must have one, and ask for its tokens."""
        assert vendor.browser is not None
        self._vendor = vendor
        self._browser: Browser = vendor.browser
        self._tokens = tokens

    async def log_in(self, user: BrowserUser, limit_s: float = LIMIT_S) -> Login:
        """Let the user log in, and return the login. Cancelling gives up, and closes the port.

        Raises:
            LoginFailed: The server refuses it or can't be reached, the user was too slow, or there is neither a port to
                listen at nor a user who pastes.
        """
        proof = pkce()
        page = await self._page_address()
        outcome: list[tuple[str, str] | LoginFailed] = []
        with trio.move_on_after(limit_s):
            async with _redirect(self._browser) as (redirect, is_awaited):
                address = self._address(page, redirect, proof)
                shown = LoginPage(address, redirect.uri, is_awaited, limit_s)
                user.show(shown)
                await self._arrived(redirect, shown, user, outcome)
        if not outcome:
            raise LoginFailed(f"{self._vendor.name}: the login was not completed within {limit_s / 60:g} min")
        if isinstance(outcome[0], LoginFailed):
            raise outcome[0]
        code, redirect_uri = outcome[0]
        return await self._tokens.exchange(code, proof.verifier, redirect_uri)

    async def _page_address(self) -> str:
        """Return the address of the page without parameters: an address of the web alone, since users open it."""
        name, base = self._vendor.name, self._vendor.url.rstrip("/")
        if not self._browser.discovery_path:
            return f"{base}{self._browser.authorize_path}"
        answer = await ask_for(name, f"{base}{self._browser.discovery_path}", {})
        if answer.status != 200:
            raise refusal(name, "does not begin the login", answer)
        address = answer.body.get("authorizationEndpoint")
        if not isinstance(address, str) or not address.isprintable() or not is_safe_endpoint(address):
            raise LoginFailed(f"{name} sent an authorizationEndpoint that is no https address")
        return address

    def _address(self, page: str, redirect: Redirect, proof: Pkce) -> str:
        browser = self._browser
        fields = {
            **self._tokens.page_fields(redirect.uri, redirect.state, proof.challenge),
            **({"scope": browser.scope} if browser.scope else {}),
            **browser.parameters,
        }
        return f"{page}{'&' if '?' in page else '?'}{urlencode(fields)}"

    async def _arrived(
        self,
        redirect: Redirect,
        page: LoginPage,
        user: BrowserUser,
        outcome: list[tuple[str, str] | LoginFailed],
    ) -> None:
        """Wait until the browser has come or the user has pasted. Raises nothing: the listener would wrap it."""
        name = self._vendor.name

        async def listen() -> None:
            try:
                outcome.append((await redirect.code(), redirect.uri))
            except LoginCancelled as error:
                outcome.append(LoginFailed(f"{name}: {error}"))
            nursery.cancel_scope.cancel()

        async def paste() -> None:
            problem: str | None = None
            for _ in range(_MOST_PASTES):
                text = await user.paste(page, problem)
                if text is None:
                    break
                try:
                    outcome.append((redirect.read(text), redirect.uri))
                except ForeignRedirect as error:
                    problem = str(error)
                    continue
                except LoginCancelled as error:
                    outcome.append(LoginFailed(f"{name}: {error}"))
                nursery.cancel_scope.cancel()
                return
            if not page.is_awaited:
                why = (
                    problem
                    or f"nothing was pasted, and {page.redirect_uri} can't be used: another program may have its port"
                )
                outcome.append(LoginFailed(f"{name}: {why}"))
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            nursery.start_soon(paste)


@asynccontextmanager
async def _redirect(browser: Browser) -> AsyncGenerator[tuple[Redirect, bool], None]:
    """Listen for the browser; where that can't be, such as where another program has the port, nothing comes."""
    path = browser.path if browser.has_state else f"{browser.path}/{uuid.uuid4()}"
    deadline = trio.current_time() + _PORT_LIMIT_S
    while trio.current_time() < deadline:
        is_open = False
        try:
            async with loopback_redirect(browser.port, path, browser.host, has_state=browser.has_state) as redirect:
                is_open = True
                yield redirect, True
                return
        except OSError as error:
            if is_open:
                raise
            if error.errno != errno.EADDRINUSE:
                break  # nothing may listen here
            await trio.sleep(_PORT_PAUSE_S)
    uri = f"http://{browser.host}:{browser.port}{path}"
    yield Redirect(uri, path, has_state=browser.has_state), False
