"""`/login` and `/logout`: keys and logins of providers, stored where the agent runs.

A key is written into a line that does not show it, and goes nowhere else: not into the prompts that were sent, nor into
the draft. A code is shown until its login has ended; Escape ends it. So is the question for what a browser was sent to.
What is stored counts at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, Literal, cast

from rich.text import Text

from pinnace_tui.content.values import Record, number, objects, text, texts
from pinnace_tui.screens import InputDialog, Notice, Picker, SelectDialog, ask
from pinnace_tui.session import Session
from pinnace_tui.terminal import Terminal

_KEY: Final = "key"
_WAYS: Final[Mapping[str, str]] = {
    _KEY: "Enter a key",
    "device-code": "Log in with a code, in a browser",
    "browser": "Log in in a browser on the agent's machine, or paste what it was sent to",
    "extension": "Log in as the provider's extension does",
}


class Logins:
    """The logins that the user makes in one terminal."""

    def __init__(self, terminal: Terminal, session: Session) -> None:
        """Log in by the agent of this terminal; the state of the session is another afterwards."""
        self._terminal = terminal
        self._session = session
        self._announced: dict[str, asyncio.Future[Record]] = {}
        """By provider: the `login_start` that is awaited."""
        self._browsing: set[str] = set()
        """The providers that this terminal's user logs in to and whose logins ask questions."""

    def take(self, event: Record) -> None:
        """Take a `login_start`; that of another client is not for this user."""
        awaited = self._announced.get(text(event, "provider"))
        if awaited is not None and not awaited.done():
            awaited.set_result(event)

    async def log_in(self, wanted: str) -> None:
        """Log in to a provider: to one that is named, or from the list."""
        provider = await self._choose(wanted, "Log in", lambda each: bool(texts(each, "methods")))
        if provider is None:
            return
        name, methods = text(provider, "provider"), texts(provider, "methods")
        if not methods:
            self._terminal.reports.show(f"{name} has neither a key nor a login that could be stored", "error")
            return
        method = methods[0]
        if len(methods) > 1:
            ways = [_WAYS.get(each, each) for each in methods]
            way = await ask(self._terminal.app, SelectDialog(f"How to log in to {name}?", ways, marked=0))
            if way is None:
                return
            method = methods[ways.index(way)]
        if method == "browser":
            await self._use_browser(name)
        elif method != _KEY:
            await self._enter_code(name, "extension" if method == "extension" else "device-code")
        elif not await self._store_key(provider):
            return
        self._terminal.transcript.notice(f"{name}: stored; /model lists its models")
        await self._session.refresh()

    async def log_out(self, wanted: str) -> None:
        """Remove what is stored for a provider: for one that is named, or from the list."""
        provider = await self._choose(wanted, "Log out", lambda each: text(each, "source") in {"auth.json", "login"})
        if provider is None:
            return
        name = text(provider, "provider")
        left = cast("Record", await self._terminal.connection.client.logout(name))
        rest = f"; it still has credentials from: {text(left, 'source')}" if text(left, "source") else ""
        self._terminal.transcript.notice(f"{name}: nothing is stored any more{rest}")
        await self._session.refresh()

    async def _choose(self, wanted: str, title: str, is_offered: Callable[[Record], bool]) -> Record | None:
        """Return what the agent says of a provider; None: none was chosen."""
        client = self._terminal.connection.client
        if wanted:
            [found] = cast("list[Record]", (await client.auth_status(provider=wanted))["providers"])
            return found
        every = cast("list[Record]", (await client.auth_status())["providers"])
        offered = sorted((each for each in every if is_offered(each)), key=lambda each: not text(each, "source"))
        if not offered:
            self._terminal.transcript.notice("nothing is stored for any provider")
            return None
        choice = await ask(self._terminal.app, Picker(title, [_row(each) for each in offered]))
        return None if choice is None else offered[choice.index]

    async def _store_key(self, provider: Record) -> bool:
        """Ask for a key and store it; return whether there was one."""
        name, replaces = text(provider, "provider"), text(provider, "source") == "login"
        title = f"Key of {name}" + ("\nIt replaces the login that is stored." if replaces else "")
        may_lack = provider.get("needsKey") is False
        hint = (
            "Enter: store it; without one, go on · Escape: cancel" if may_lack else "Enter: store it · Escape: cancel"
        )
        key = await ask(self._terminal.app, InputDialog(title, hint, is_secret=True))
        if key is None or not (key or may_lack):
            return False
        settings: list[str] = []
        for each in objects(provider, "settings"):
            if each.get("isAsked") is True:
                title = f"{text(each, 'name')} of {name}: {text(each, 'about')}"
                value = await ask(
                    self._terminal.app, InputDialog(title, "Enter: go on, also without it · Escape: cancel")
                )
                if value is None:
                    return False
                settings += [f"{text(each, 'name')}={value}"] if value.strip() else []
        if not key and not settings:
            return False
        await self._terminal.connection.client.login(
            name, "key", key=key or None, settings=settings or None, force=replaces or None
        )
        return True

    async def leave(self, provider: str) -> None:
        """End the login of a provider whose question the user has left; nothing happens to one of another client."""
        if provider in self._browsing:
            await self._terminal.connection.client.abort_login(provider=provider)

    async def _use_browser(self, provider: str) -> None:
        """Wait for the end of a login in a browser: its address is in the question of the agent.

        Raises:
            CommandFailed: It has ended without a login, as when the user has left the question.
        """
        self._browsing.add(provider)
        try:
            await self._terminal.connection.client.login(provider, "browser")
        finally:
            self._browsing.discard(provider)

    async def _enter_code(self, provider: str, method: Literal["device-code", "extension"]) -> None:
        """Show the code of a login, or the address of an extension's, until that has ended.

        Raises:
            CommandFailed: It has ended without a login, as when the user has left the question.
        """
        client = self._terminal.connection.client
        announced = self._announced[provider] = asyncio.get_running_loop().create_future()
        login = asyncio.ensure_future(cast("Awaitable[object]", client.login(provider, method)))
        question: asyncio.Future[str | None] | None = None
        if method == "extension":
            self._browsing.add(provider)
        try:
            await asyncio.wait({login, announced}, return_when=asyncio.FIRST_COMPLETED)
            if announced.done() and not login.done():
                question = asyncio.ensure_future(ask(self._terminal.app, _code_dialog(announced.result())))
                await asyncio.wait({login, question}, return_when=asyncio.FIRST_COMPLETED)
                if question.done() and not login.done():
                    await client.abort_login(provider=provider)
            await login
        finally:
            del self._announced[provider]
            self._browsing.discard(provider)
            announced.cancel()
            for each in (login, question):
                if each is not None:
                    each.cancel()


def _code_dialog(announced: Record) -> Notice:
    code, until = text(announced, "userCode"), "Escape: cancel"
    if ends_ms := number(announced, "expiresAt"):
        until = f"It is good until {datetime.fromtimestamp(ends_ms / 1000):%H:%M}. {until}"
    lines = [Text(""), Text(text(announced, "url"), "underline"), Text(code, "bold"), Text(until, "dim")]
    details = Text("\n").join(each for each in lines if each.plain or each is lines[0])
    task = "open the address and enter the code" if code else "open the address"
    return Notice(f"Log in to {text(announced, 'provider')}: {task}.", details)


def _row(provider: Record) -> str:
    source = text(provider, "source")
    return f"{text(provider, 'provider')}  ({source})" if source else text(provider, "provider")
