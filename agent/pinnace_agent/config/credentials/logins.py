"""Logins in auth.json: access tokens with an expiry.

A login has `access`, `refresh` and `expires` (milliseconds since the epoch), and any other fields that its provider
needs. Code of an extension refreshes it (`login_refresh`). Nothing here shows a token.
"""

import time
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

from pinnace_agent.config.credentials.vendor_logins import has_login, login_option
from pinnace_agent.core.json_access import is_finite
from pinnace_agent.files.relaxed_json import JsonObject, is_object

# 1973 in milliseconds: a smaller number counts seconds, or is a duration.
_LEAST_MS: Final = 100_000_000_000
# Logins whose access token the provider takes as a key. They are used while they are valid; `vendor_logins` says
# which of them are refreshed. Those of `_BEARER` are sent as `Authorization: Bearer`.
_USED_AS_KEY: Final = frozenset(
    {"anthropic", "github-copilot", "meta", "openai", "openai-codex", "openrouter", "radius", "xai"}
)
_BEARER: Final = frozenset({"kimi-coding"})


class LoginFailed(Exception):
    """A login can't be used; the text gives the reason, without a token."""


class LoginCancelled(Exception):
    """The user cancelled a login, or no user can be asked."""


class LoginEnded(LoginCancelled):
    """A login was ended since the code that performs it is gone; the text says what has become of it."""


class Login:
    """One login, as it is stored. Shown without its contents."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, object]) -> None:
        """Take the fields of the entry."""
        self._fields = dict(fields)

    def __repr__(self) -> str:
        """Return the same for every login."""
        return "Login(...)"

    def reveal(self) -> JsonObject:
        """Return the fields, as a copy."""
        return dict(self._fields)

    @property
    def access(self) -> str:
        """The access token; empty if the login has none."""
        return str(self._fields.get("access", ""))

    @property
    def refresh_token(self) -> str:
        """The token for requesting a new access token; may be empty."""
        return str(self._fields.get("refresh", ""))

    @property
    def domain(self) -> str:
        """The server of a company that the login is for; empty: the vendor's own."""
        return str(self._fields.get("enterpriseUrl") or "")

    def offers(self, model_id: str) -> bool:
        """Return whether the account has a model; without a list of its models it has all."""
        models = self._fields.get("availableModelIds")
        return not isinstance(models, list) or model_id in models

    @property
    def expires_ms(self) -> float:
        """When it expires, in milliseconds since the epoch."""
        expires = self._fields.get("expires")
        return float(expires) if is_finite(expires) else 0.0

    @property
    def damage(self) -> str | None:
        """What is wrong with the entry, so that it can't be refreshed, without a token; None: nothing is."""
        try:
            read_login(self._fields)
        except ValueError as why:
            return str(why)
        return None

    @property
    def is_valid(self) -> bool:
        """Whether it has not expired."""
        return is_token(self._fields.get("access")) and time.time() * 1000 < self.expires_ms


def read_login(entry: Mapping[str, object]) -> Login:
    """Read a login.

    Raises:
        ValueError: It is not a login; the text names the field, and contains no token.
    """
    access, refresh, expires = (entry.get(name) for name in ("access", "refresh", "expires"))
    if not is_token(access):
        raise ValueError("access must be a token, a string of printable ASCII characters")
    if not isinstance(refresh, str):
        raise ValueError("refresh must be a string; empty where nothing can be refreshed")
    if not is_finite(expires):
        raise ValueError("expires must be a number of milliseconds since the epoch")
    return Login({**entry, "type": "oauth"})


def is_token(value: object) -> bool:
    """Return whether a value is a string that a header can carry."""
    return isinstance(value, str) and value != "" and value.isascii() and value.isprintable()


def new_login(value: object) -> Login:
    """Read a login that a provider has just returned.

    Raises:
        ValueError: It is not a login; the text names the field, and contains no token.
    """
    if not is_object(value):
        raise ValueError("must be a dict with access, refresh and expires")
    login = read_login(value)
    if 0 < login.expires_ms < _LEAST_MS:
        raise ValueError("expires must count milliseconds since the epoch, such as (time.time() + 3600) * 1000")
    import json

    try:
        copied: object = json.loads(json.dumps(login.reveal(), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"must hold JSON values only ({type(error).__name__})") from None
    return Login(copied) if is_object(copied) else login


def is_used_as_key(provider: str) -> bool:
    """Return whether the access token of a login of pi may be used without code of an extension."""
    return provider in _USED_AS_KEY or provider in _BEARER


def is_refreshable(provider: str, login: Login) -> bool:
    """Return whether this program refreshes a login without code of an extension."""
    return has_login(provider) and is_token(login.refresh_token) and login.damage is None


def is_usable_as_key(provider: str, login: Login) -> bool:
    """Return whether the access token of a login is a key now, or after a refresh that this program makes."""
    return is_used_as_key(provider) and (login.is_valid or is_refreshable(provider, login))


def is_safe_endpoint(url: str) -> bool:
    """Return whether tokens may be sent to an address: over TLS, or to this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def is_sent_as_bearer(provider: str) -> bool:
    """Return whether that token is sent as `Authorization: Bearer`."""
    return provider in _BEARER


def refused_login(provider: str, login: Login) -> str:
    """Return why a login can't be used without code of an extension, and what to do."""
    if not is_used_as_key(provider):
        return (
            f"auth.json has a login for {provider}, which only the extension that registers the provider can use; "
            "without it, use a key."
        )
    if is_refreshable(provider, login):
        return f"The login for {provider} in auth.json has expired."
    if has_login(provider):
        damage = login.damage
        why = "has expired and can't be refreshed" if damage is None else f"can't be used: {damage}"
        return (
            f"The login for {provider} in auth.json {why}. Log in again: "
            f"pinnace auth login {provider} {login_option(provider)}."
        )
    return (
        f"The login for {provider} in auth.json has expired, and only pi refreshes it: start pi and send a prompt, "
        f"or log in there again. Or keep a key: pinnace auth login {provider} --force."
    )


def how_to_log_in(provider: str) -> str:
    """Return what to do when a login was refused, for readers of any client."""
    option = f" {login_option(provider)}" if has_login(provider) else ""
    return (
        f"Run 'pinnace auth login {provider}{option}', or '/login {provider}' in the terminal client, "
        "to re-authenticate."
    )


class LoginMethod(Protocol):
    """How a provider refreshes and uses its logins. May raise any exception of its code."""

    async def refresh(self, credentials: JsonObject) -> object:
        """Return new credentials in place of expired ones."""
        ...

    def api_key(self, credentials: JsonObject) -> str:
        """Return the key that requests carry."""
        ...


class LoginCallbacks(Protocol):
    """The dialogs and displays of `login`. Waiting methods are cancelled with the login."""

    def on_auth(self, url: str, instructions: str | None = None) -> None:
        """Show the URL at which the user logs in."""
        ...

    def on_device_code(self, user_code: str, verification_uri: str, expires_in_s: float | None = None) -> None:
        """Show the code that the user enters at a URL."""
        ...

    def on_progress(self, message: str) -> None:
        """Show progress."""
        ...

    async def on_prompt(self, message: str, placeholder: str | None = None, *, allow_empty: bool = False) -> str:
        """Let the user enter a line.

        Raises:
            LoginCancelled: The user cancelled it, or the line is empty and may not be.
        """
        ...

    async def on_manual_code_input(self) -> str:
        """Let the user paste the code, or the URL that the browser was redirected to; raises as `on_prompt` does."""
        ...

    async def on_select(self, message: str, options: Mapping[str, str]) -> str | None:
        """Let the user choose one of the options, labels by id; returns the id, or None if cancelled."""
        ...


class OwnLogin(LoginMethod, Protocol):
    """The logins of a provider that an extension has registered."""

    @property
    def name(self) -> str:
        """Of the provider, for users."""
        ...

    async def log_in(self, callbacks: LoginCallbacks) -> Login:
        """Let the user log in.

        Raises:
            ValueError: The login failed; the text says why.
            LoginCancelled: The user cancelled it.
            LoginEnded: The extension has taken the provider away, or was unloaded.
        """
        ...

    def stored(self) -> None:
        """Have the models requested anew: a login was stored. Never waits."""
        ...


def key_of(method: LoginMethod, login: Login) -> str:
    """Return the key that requests carry, of a login that is valid.

    Raises:
        LoginFailed: The code of the method fails, or returns none.
    """
    try:
        key = method.api_key(login.reveal())
    except Exception as why:  # the boundary: code of an extension
        text = hidden(str(why), login) or type(why).__name__
        raise LoginFailed(f"get_api_key failed: {text}") from None
    if not is_token(key):
        raise LoginFailed("get_api_key must return a key, a string of printable ASCII characters")
    return key


def hidden(text: str, login: Login) -> str:
    """Remove the tokens of a login from a text, and its full stop."""
    for token in (login.access, login.refresh_token):
        text = text.replace(token, "[redacted]") if token else text
    return text.rstrip(".")
