"""`pinnace auth login PROVIDER --device-code`: shows a code on stderr and waits until the user has entered it.

Asks nothing, so it works without a terminal, over SSH and in a container. Shows no token.
"""

import sys
from pathlib import Path

import trio

from pinnace_agent.config.credentials.device_login import DeviceCode
from pinnace_agent.config.credentials.login_methods import device_login_of
from pinnace_agent.config.credentials.logins import Login, LoginFailed
from pinnace_agent.config.credentials.vendor_logins import VENDORS, LoginSettingsWrong
from pinnace_agent.llm.transport.client import close_clients
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
        raise CommandError(f"no login with a code for {provider}, only for {', '.join(VENDORS)}: store a key instead")
    name = VENDORS[provider].name

    def show(code: DeviceCode) -> None:
        minutes = max(1, round(code.expires_in_s / 60))
        sys.stderr.write(
            f"To log in to {name}, open {code.address} and enter the code {code.user_code} within {minutes} min\n"
        )
        sys.stderr.flush()

    async def work() -> Login:
        try:
            return await method.log_in(show)
        finally:
            await close_clients()

    try:
        return trio.run(work)
    except LoginFailed as error:
        raise CommandError(f"{error}; nothing was stored") from None
