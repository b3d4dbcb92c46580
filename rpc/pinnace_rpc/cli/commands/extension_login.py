"""`pinnace auth login` for a provider that an extension registers with `oauth`: asks at the terminal.

Loads extensions as `--list-models` does, calls the login of the provider's extension, and stores the result in
auth.json. What is shown goes to stderr, answers come from stdin, a line each. Shows no token.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinnace_agent.config.credentials.logins import Login, LoginCancelled
from pinnace_agent.extensions.providers.login import log_in
from pinnace_agent.extensions.registration.provider_config import OAuth, read_oauth
from pinnace_rpc.cli.commands.answered_lines import line
from pinnace_rpc.options.extension_hints import may_find_extensions
from pinnace_rpc.options.extension_preview import Preview, preview
from pinnace_rpc.options.parser import CommandError


class TerminalCallbacks:
    """The user interface of a login: questions on stderr, answers from stdin."""

    def __init__(self, name: str) -> None:
        """Ask for the provider of this display name."""
        self._name = name

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show the address at which the user logs in."""
        _show(f"To log in to {self._name}, open {url}")
        if instructions:
            _show(instructions)

    def on_device_code(self, user_code: str, verification_uri: str, expires_in_s: float | None = None) -> None:
        """Show the code that the user enters at an address."""
        limit = "" if expires_in_s is None else f" within {expires_in_s:g} s"
        _show(f"To log in to {self._name}, enter the code {user_code} at {verification_uri}{limit}")

    def on_progress(self, message: str) -> None:
        """Show the progress."""
        _show(message)

    async def on_prompt(self, message: str, placeholder: str | None = None, *, allow_empty: bool = False) -> str:
        """Let the user enter a line."""
        hint = f" ({placeholder})" if placeholder else ""
        text = await line(f"{message}{hint}: ")
        if text is None or (not text and not allow_empty):
            raise LoginCancelled("the login was cancelled")
        return text

    async def on_manual_code_input(self) -> str:
        """Let the user paste the code."""
        return await self.on_prompt("Paste the authorization code, or the address to which the browser was sent")

    async def on_select(self, message: str, options: Mapping[str, str]) -> str | None:
        """Let the user choose one of the options, by number or id."""
        _show(message)
        for number, (each, label) in enumerate(options.items(), 1):
            _show(f"  {number}. {label} ({each})")
        text = await line("Number: ")
        numbers = {str(number): each for number, each in enumerate(options, 1)}
        return None if text is None else numbers.get(text, text if text in options else None)


def extension_login(provider: str, named: Sequence[str], *, is_known: bool) -> Login | None:
    """Let the user log in to a provider of an extension.

    Args:
        provider: Its id.
        named: Extensions that are named on the command line; if there are none, installed ones are searched for.
        is_known: Whether the catalog has the provider: then only named extensions are loaded for it.

    Returns:
        The login; None: no extension has logins for the provider.

    Raises:
        CommandError: It failed, or was cancelled.
    """
    if not named and (is_known or not may_find_extensions(os.environ)):
        return None
    found: list[Login] = []

    async def work(seen: Preview) -> None:
        oauth = _oauth_of(provider, seen)
        if oauth is not None:
            found.append(await log_in(provider, oauth, TerminalCallbacks(oauth.name)))

    try:
        preview([str(Path(each)) for each in named], is_discovering=not named, work=work)
    except LoginCancelled as error:
        raise CommandError(f"{error}; nothing was stored") from None
    except ValueError as error:
        raise CommandError(f"{error}; nothing was stored") from None
    return found[0] if found else None


def providers_with_logins(named: Sequence[str]) -> list[str]:
    """Return the ids of the providers that these extensions, or without any installed ones, register with logins."""
    seen = preview([str(Path(each)) for each in named], is_discovering=not named)
    return [name for name in dict.fromkeys(name for name, _ in seen.providers) if _oauth_of(name, seen) is not None]


def _oauth_of(provider: str, seen: Preview) -> OAuth | None:
    value: object = None
    for name, config in seen.providers:
        if name == provider:
            value = None if config is None else config.get("oauth")
    return None if value is None else read_oauth(provider, value)


def _show(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
