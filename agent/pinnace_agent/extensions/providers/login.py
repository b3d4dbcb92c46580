"""Calls the `oauth` functions of a provider that an extension registered.

`login` asks the user through callbacks; its result, and that of `refresh_token`, is checked here. Has no access to
stored logins.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NoReturn, Protocol, cast

import trio

from pinnace_agent.config.credentials.logins import Login, LoginCallbacks, LoginCancelled, LoginEnded, new_login
from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.registration.provider_config import OAuth
from pinnace_agent.extensions.services.error_records import failure_text, ownership
from pinnace_agent.extensions.services.watchdog import Owner
from pinnace_agent.files.relaxed_json import JsonObject


class ExtensionLogin:
    """The login of one provider, as the agent uses it: an `OwnLogin`, until the registration ends."""

    def __init__(self, caller: Caller, path: str, provider: str, oauth: OAuth, on_stored: Callable[[], None]) -> None:
        """Call the functions that the extension at `path` registered, and `on_stored` after a login was stored."""
        self.provider = provider
        self.name = oauth.name
        self.stored = on_stored
        self._caller = caller
        self._owner = Owner(path, "oauth")
        self._oauth = oauth
        self._asking: set[trio.CancelScope] = set()
        self._end: str | None = None

    def end(self, why: str) -> None:
        """Cancel the logins that wait for their users, and refuse others: the registration ends for this reason."""
        self._end = why
        for scope in self._asking:
            scope.cancel()

    async def log_in(self, callbacks: LoginCallbacks) -> Login:
        """Let the user log in.

        Raises:
            ValueError: The login failed; the text says why.
            LoginCancelled: The user cancelled it.
            LoginEnded: The registration has ended, whatever the function of the extension has come to.
        """
        value: object = None
        with trio.CancelScope() as scope:
            self._asking.add(scope)
            if self._end is not None:
                scope.cancel()
            try:
                value = await self._called(lambda: self._oauth.login(callbacks), "login")
            except (ValueError, LoginCancelled):
                if self._end is None:
                    raise
            finally:
                self._asking.discard(scope)
        if self._end is not None:
            raise LoginEnded(f"The login was ended: {self._end}; log in again")
        return _read(self.provider, "login", value)

    async def refresh(self, credentials: JsonObject) -> object:
        """Return new credentials."""
        return await self._called(lambda: self._oauth.refresh_token(credentials), "refresh_token")

    def api_key(self, credentials: JsonObject) -> str:
        """Return what requests carry as their key."""
        return self._oauth.get_api_key(credentials)

    async def _called(self, function: Callable[[], object], what: str) -> object:
        try:
            return await self._caller.run(self._owner, function, in_thread=False, is_timed=False)
        except BaseException as error:
            _raise(error, what)


async def log_in(provider: str, oauth: OAuth, callbacks: LoginCallbacks) -> Login:
    """Let the user log in without a session. Raises as `ExtensionLogin.log_in` does."""
    try:
        value = oauth.login(callbacks)
        if inspect.isawaitable(value):
            value = await cast("Awaitable[object]", value)
    except BaseException as error:
        _raise(error, "login")
    return _read(provider, "login", value)


def _raise(error: BaseException, what: str) -> NoReturn:
    """Raise the exception of an extension's function as a ValueError with a text, or as a cancellation."""
    passing, failure = ownership(error)
    if passing is not None:
        raise passing from None
    if isinstance(failure, LoginCancelled):
        raise failure
    assert failure is not None
    raise ValueError(f"{what} failed: {failure_text(failure)}") from None


def _read(provider: str, what: str, value: object) -> Login:
    try:
        return new_login(value)
    except ValueError as error:
        raise ValueError(f"provider {provider}: what {what} returns {_verb(str(error))}") from None


def _verb(text: str) -> str:
    return text if text.startswith("must") else f"is wrong: {text}"


class Dialogs(Protocol):
    """What asks the user, such as the interface of a session."""

    def notify(self, message: str, kind: str | None = None, /) -> None:
        """Show a message."""
        ...

    def input(self, title: str, placeholder: str | None = None, /) -> Awaitable[str | None]:
        """Let the user enter a line; None: cancelled."""
        ...

    def select(self, title: str, options: Sequence[str], /) -> Awaitable[str | None]:
        """Let the user choose; None: cancelled."""
        ...


@usable_from_any_thread()
class DialogCallbacks:
    """Asks the user through dialogs. Async methods raise in another thread than the event loop's."""

    def __init__(self, ui: Dialogs, name: str) -> None:
        """Ask through `ui` for the provider with this display name."""
        self._ui = ui
        self._name = name
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show the URL at which the user logs in."""
        more = f"\n{instructions}" if instructions else ""
        self._ui.notify(f"To log in to {self._name}, open {url}{more}", "info")

    def on_device_code(self, user_code: str, verification_uri: str, expires_in_s: float | None = None) -> None:
        """Show the code that the user enters at a URL."""
        limit = "" if expires_in_s is None else f" within {expires_in_s:g} s"
        self._ui.notify(f"To log in to {self._name}, enter the code {user_code} at {verification_uri}{limit}", "info")

    def on_progress(self, message: str) -> None:
        """Show progress."""
        self._ui.notify(message, "info")

    async def on_prompt(self, message: str, placeholder: str | None = None, *, allow_empty: bool = False) -> str:
        """Let the user enter a line."""
        return _entered(await self._ui.input(message, placeholder), allow_empty=allow_empty)

    async def on_manual_code_input(self) -> str:
        """Let the user paste the code."""
        return await self.on_prompt("Paste the authorization code, or the address to which the browser was sent")

    async def on_select(self, message: str, options: Mapping[str, str]) -> str | None:
        """Let the user choose one of the options."""
        labels: Sequence[str] = list(options.values())
        chosen = await self._ui.select(message, labels)
        return next((each for each, label in options.items() if label == chosen), None)


def _entered(text: str | None, *, allow_empty: bool) -> str:
    if text is None or (not text.strip() and not allow_empty):
        raise LoginCancelled("the login was cancelled")
    return text.strip()
