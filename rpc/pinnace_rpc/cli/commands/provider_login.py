"""`pinnace auth login PROVIDER --device-code`, and `--browser`: shows an address on stderr, and waits for the user.

With a code it asks nothing, so it works without a terminal, over SSH and in a container. In a browser it also takes a
line from stdin: what the browser was sent to. Opens no browser. Shows no token.
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from pinnace_agent.config.credentials.browser_login import LoginPage
from pinnace_agent.config.credentials.device_login import DeviceCode
from pinnace_agent.config.credentials.login_methods import browser_login_of, device_login_of
from pinnace_agent.config.credentials.logins import Login, LoginFailed
from pinnace_agent.config.credentials.vendor_logins import VENDORS, LoginSettingsWrong, has_login, login_option
from pinnace_agent.llm.transport.client import close_clients
from pinnace_rpc.cli.commands.answered_lines import line
from pinnace_rpc.options.parser import CommandError


def device_login(provider: str, folder: Path) -> Login:
    """Let the user log in to a provider.

    Args:
        provider: Its id.
        folder: The user's, with settings.json.

    Raises:
        CommandError: It failed, or the provider has no such login.
    """
    try:
        method = device_login_of(provider, folder)
    except LoginSettingsWrong as error:
        raise CommandError(f"{error}; nothing was stored") from None
    if method is None:
        having = [each for each, vendor in VENDORS.items() if vendor.device_path]
        raise CommandError(f"no login with a code for {provider}, only for {', '.join(having)}: {_instead(provider)}")
    name = VENDORS[provider].name

    def show(code: DeviceCode) -> None:
        minutes = max(1, round(code.expires_in_s / 60))
        sys.stderr.write(
            f"To log in to {name}, open {code.address} and enter the code {code.user_code} within {minutes} min\n"
        )
        sys.stderr.flush()

    return _made(lambda: method.log_in(show))


def browser_login(provider: str, folder: Path) -> Login:
    """Let the user log in to a provider in a browser. Arguments, result and errors as of `device_login`."""
    try:
        method = browser_login_of(provider, folder)
    except LoginSettingsWrong as error:
        raise CommandError(f"{error}; nothing was stored") from None
    if method is None:
        having = [each for each, vendor in VENDORS.items() if vendor.browser is not None]
        raise CommandError(f"no login in a browser for {provider}, only for {', '.join(having)}: {_instead(provider)}")
    user = _Terminal(VENDORS[provider].name)
    return _made(lambda: method.log_in(user))


class _Terminal:
    """The user of a login in a browser."""

    def __init__(self, name: str) -> None:
        self._name = name

    def show(self, page: LoginPage) -> None:
        minutes = round(page.expires_in_s / 60)
        sys.stderr.write(f"To log in to {self._name}, open this address in a browser within {minutes} min:\n")
        sys.stderr.write(f"{page.address}\n")
        sys.stderr.flush()

    async def paste(self, page: LoginPage, problem: str | None) -> str | None:
        if problem is not None:
            sys.stderr.write(f"pinnace: {problem}\n")
        when = "If it then can't show" if page.is_awaited else "It then can't show"
        return await line(f"{when} the page at {page.redirect_uri}, paste its whole address here, or the code: ")


def _instead(provider: str) -> str:
    """Return what to do for a provider that has no such login."""
    return f"use {login_option(provider)}" if has_login(provider) else "store a key instead"


def _made(log_in: Callable[[], Awaitable[Login]]) -> Login:
    async def work() -> Login:
        try:
            return await log_in()
        finally:
            await close_clients()

    try:
        return trio.run(work)
    except LoginFailed as error:
        raise CommandError(f"{error}; nothing was stored") from None
