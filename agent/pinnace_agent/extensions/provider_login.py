"""Logins of providers that extensions register: `oauth` of a provider (A24).

An author writes `login`, which asks the user by callbacks, `refresh_token` and `get_api_key`. What they return is
checked here. Has no access to where logins are kept.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, cast

from pinnace_agent.extensions.calling import Caller
from pinnace_agent.extensions.error_records import failure_text, ownership
from pinnace_agent.extensions.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.result_shapes import is_object
from pinnace_agent.extensions.signatures import check_function, is_async
from pinnace_agent.extensions.user_interface import UserInterface
from pinnace_agent.extensions.watchdog import Owner
from pinnace_agent.resources.logins import Login, new_login
from pinnace_agent.resources.relaxed_json import JsonObject

Credentials = Mapping[str, object]
"""`access`, `refresh`, `expires` in milliseconds since the epoch, and whatever else a provider needs; JSON values."""

_SHAPES: Final = {"login": "(callbacks)", "refreshToken": "(credentials)", "getApiKey": "(credentials)"}
_IGNORED: Final = frozenset({"name", "isSubscription", "usesCallbackServer", "id"})
_SPELLED: Final = {"refresh_token": "refreshToken", "get_api_key": "getApiKey"}


class LoginCancelled(Exception):
    """The user has given a login up, or there is nobody to ask."""


class LoginCallbacks(Protocol):
    """What `login` asks and shows. Everything that waits is cancelled with the login."""

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show the address at which the user logs in."""
        ...

    def on_device_code(self, user_code: str, verification_uri: str, expires_in_s: float | None = None) -> None:
        """Show the code that the user enters at an address."""
        ...

    def on_progress(self, message: str) -> None:
        """Show what is going on."""
        ...

    async def on_prompt(self, message: str, placeholder: str | None = None, *, allow_empty: bool = False) -> str:
        """Let the user enter a line.

        Raises:
            LoginCancelled: He does not, or it is empty and may not be.
        """
        ...

    async def on_manual_code_input(self) -> str:
        """Let the user paste the code, or the address to which the browser was sent; raises as `on_prompt` does."""
        ...

    async def on_select(self, message: str, options: Mapping[str, str]) -> str | None:
        """Let the user choose one of the options, labels by id; returns the id, None if he does not choose."""
        ...


@dataclass(slots=True, frozen=True)
class OAuth:
    """The logins of a provider. Each function may be async, but `get_api_key`."""

    name: str
    """For people: `Corporate AI (SSO)`."""
    login: Callable[[LoginCallbacks], object]
    """Lets the user log in; returns credentials."""
    refresh_token: Callable[[Credentials], object]
    """Returns credentials in the place of those that have expired. Called by one process at a time."""
    get_api_key: Callable[[Credentials], str]
    """Returns what requests carry as their key; mostly `credentials["access"]`."""


def read_oauth(provider: str, value: object) -> OAuth:
    """Read the `oauth` of a provider: an `OAuth`, or a dict in its spelling or in that of the original.

    Raises:
        TypeError: It is none; the text names the field.
    """
    what = f"provider {provider}: oauth"
    if isinstance(value, OAuth):
        fields: dict[str, object] = {
            "name": value.name,
            "login": value.login,
            "refreshToken": value.refresh_token,
            "getApiKey": value.get_api_key,
        }
    elif is_object(value):
        fields = {_SPELLED.get(name, name): each for name, each in value.items()}
    else:
        raise TypeError(f"{what} must be an OAuth or a dict, not {type(value).__name__}")
    if unknown := sorted(fields.keys() - _SHAPES.keys() - _IGNORED):
        raise TypeError(f"{what}: there is no field {unknown[0]!r}")
    name = fields.get("name", provider)
    if not isinstance(name, str):
        raise TypeError(f"{what}: name must be a text")
    for field, shape in _SHAPES.items():
        if field not in fields:
            raise TypeError(f"{what}: {field} is missing")
        check_function(fields[field], f"{what}: {field}", shape)
    if is_async(fields["getApiKey"]):
        raise TypeError(f"{what}: getApiKey must not be async: it only picks the key out of the credentials")
    # cast: what can be called was checked
    functions = cast("dict[str, Callable[..., str]]", fields)
    return OAuth(name, functions["login"], functions["refreshToken"], functions["getApiKey"])


class ExtensionLogin:
    """The logins of one provider, as the agent uses them: a `LoginMethod`."""

    def __init__(self, caller: Caller, path: str, provider: str, oauth: OAuth) -> None:
        """Call the functions that the extension at `path` has registered."""
        self.provider = provider
        self.name = oauth.name
        self._caller = caller
        self._owner = Owner(path, "oauth")
        self._oauth = oauth

    async def log_in(self, callbacks: LoginCallbacks) -> Login:
        """Let the user log in.

        Raises:
            ValueError: It failed; the text says why.
            LoginCancelled: The user gave it up.
        """
        value = await self._called(lambda: self._oauth.login(callbacks), "login")
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
    """Raise what an author's function has raised, as a failure with a text, a cancellation or an interrupt."""
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


@usable_from_any_thread()
class DialogCallbacks:
    """Asks the user of a session, by dialogs. What is awaited raises at once in another thread than the loop's."""

    def __init__(self, ui: UserInterface, name: str) -> None:
        """Ask by `ui` for the provider of this display name."""
        self._ui = ui
        self._name = name
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show the address at which the user logs in."""
        more = f"\n{instructions}" if instructions else ""
        self._ui.notify(f"To log in to {self._name}, open {url}{more}", "info")

    def on_device_code(self, user_code: str, verification_uri: str, expires_in_s: float | None = None) -> None:
        """Show the code that the user enters at an address."""
        limit = "" if expires_in_s is None else f" within {expires_in_s:g} s"
        self._ui.notify(f"To log in to {self._name}, enter the code {user_code} at {verification_uri}{limit}", "info")

    def on_progress(self, message: str) -> None:
        """Show what is going on."""
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
