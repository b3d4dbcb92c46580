"""Resolves the credentials of a request: the key of a provider, and the headers that go with it.

The sources of a key, in this order: `--api-key`, the login or key in auth.json, the key in models.json, the provider's
environment variables, Google's credentials. Whether there is one is determined without running a command; a command
runs when a request needs its output. A header that carries a key counts as one, and so do the variables by which a
cloud gives credentials to programs. Has no knowledge of the models.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.config.credentials.credentials import AUTHENTICATION_HEADERS, AuthFile, Credentials, StoredKey
from pinnace_agent.config.credentials.known_keys import learn_keys, learn_login
from pinnace_agent.config.models.builtin import (
    OFFLINE_PROVIDER,
    VERTEX_PROVIDER,
    ambient_variables,
    index,
    key_variables,
    unset_variables,
)
from pinnace_agent.config.models.catalog import Catalog, HeaderValues, merge_headers
from pinnace_agent.config.values import (
    UnresolvedValue,
    is_command,
    is_configured,
    legacy_variable,
    literal,
    resolve,
)
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_spec.records.messages import Model
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # loaded with the first login
    from pinnace_agent.config.credentials.google_credentials import GoogleTokens
    from pinnace_agent.config.credentials.key_status import KeyStatus
    from pinnace_agent.config.credentials.login_refresh import LoginStore
    from pinnace_agent.config.credentials.logins import Login, LoginMethod

_NO_SECRET: Final = Secret("")
_NO_STORED_KEY: Final = StoredKey(None, {})


class _KeySource(NamedTuple):
    """One source of a key."""

    value: Secret
    name: str
    """For users: `The key in auth.json`."""
    is_kept: bool = False
    """Whether the output of a command is cached for the life of the process."""
    is_bearer: bool = False
    """Whether it is a token, sent as `Authorization: Bearer` only."""
    login: "Login | None" = None
    """The login whose token is the key, in place of `value`."""
    google: Path | str | None = None
    """Where Google's token is from, in place of `value`."""


class _LoginRefused(Exception):
    """A login can't be refreshed; the text follows its error."""


class CredentialResolver:
    """The credentials of all providers."""

    def __init__(self, catalog: Catalog, auth: AuthFile, env: Mapping[str, str]) -> None:
        """Take the content of the files and the environment; they are not read again."""
        self._catalog = catalog
        self._auth = auth
        self._env = env
        self._given: dict[str, Secret] = {}
        self._kept: dict[str, Secret] = {}
        self._methods: dict[str, LoginMethod] = {}
        self._renewed: dict[str, Login] = {}
        self._logins: LoginStore | None = None
        self._google: dict[Path | str, GoogleTokens] = {}
        self._read_s = time.monotonic()
        """When auth.json was read: of two readings the later one counts."""
        learn_keys(catalog, auth, env)

    def __repr__(self) -> str:
        """Return nothing of what is inside."""
        return "CredentialResolver(...)"

    def use_catalog(self, catalog: Catalog) -> None:
        """Take the keys and headers of another catalog."""
        self._catalog = catalog
        learn_keys(catalog, self._auth, self._env)

    def take(self, read: "CredentialResolver") -> None:
        """Take the auth.json that another resolver has read since; commands run again."""
        self._kept.clear()
        self._google.clear()
        self.use_auth(read._auth, read._read_s)

    def use_auth(self, auth: AuthFile, read_s: float) -> None:
        """Take an auth.json, unless a later reading was taken before.

        Args:
            auth: Its content.
            read_s: When it was read, by the monotonic clock.
        """
        if read_s < self._read_s:
            return
        self._auth, self._read_s = auth, read_s
        self._renewed.clear()
        learn_keys(self._catalog, auth, self._env)

    def forget_output(self, provider: str) -> None:
        """Run the command of a stored key again: it is another one now."""
        self._kept.pop(provider, None)

    def stored_providers(self) -> list[str]:
        """Return the providers of which auth.json has an entry."""
        return list(self._auth.entries)

    def status(self, provider: str) -> "KeyStatus":
        """Return where a provider's key comes from, as the next request would find it. Runs no command."""
        from pinnace_agent.config.credentials.key_status import KeyStatus, key_status

        if provider in self._given:
            return KeyStatus(provider, "option", is_usable=True)
        login, auth = self.login_of(provider), self._auth
        if login is not None and provider in self._methods:
            return KeyStatus(provider, "login", is_usable=True)
        if login is not None:
            stored = self._stored(provider)._replace(login=login)
            auth = auth._replace(entries={**auth.entries, provider: stored})
        return key_status(provider, self._catalog, auth, self._env)

    def use(self, provider: str, key: str) -> None:
        """Use this key for a provider, before any other, for the life of the process."""
        self._given[provider] = Secret(key)
        REDACTOR.learn(key)

    def use_method(self, provider: str, method: "LoginMethod | None") -> None:
        """Set the code that refreshes and uses the logins of a provider; None: there is none."""
        if method is None:
            self._methods.pop(provider, None)
        else:
            self._methods[provider] = method

    @property
    def auth_path(self) -> Path | None:
        """Where auth.json is; None: nowhere."""
        return self._auth.path

    def use_login(self, provider: str, login: "Login") -> None:
        """Use a login that was just stored in auth.json."""
        self._renewed[provider] = login
        learn_login(login)

    def login_of(self, provider: str) -> "Login | None":
        """Return the login of a provider, as this process last read or refreshed it."""
        return self._renewed.get(provider) or self._stored(provider).login

    def opens_provider(self, provider: str) -> bool:
        """Return whether there is a source of credentials for all models of a provider. Runs no command."""
        if provider == OFFLINE_PROVIDER:
            return True
        env = self._env_of(provider)
        has_key = self._key_source(provider, env) is not None or bool(ambient_variables(provider, env))
        return (has_key or _has_key(self._catalog.access_of(provider).headers, env)) and (
            not unset_variables(provider, env) or self._catalog.has_own_address(provider)
        )

    def opened_alone(self, provider: str) -> list[str]:
        """Return the ids of the models with a header of their own that carries a key."""
        own, env = self._catalog.headers_of(provider), self._env_of(provider)
        return [model_id for model_id, headers in own.items() if _has_key(headers, env)]

    def opens(self, model: Model) -> bool:
        """Return whether there is a source of credentials for a model. Runs no command, so a request may still fail."""
        return self.opens_provider(model["provider"]) or model["id"] in self.opened_alone(model["provider"])

    async def credentials(self, model: Model) -> Credentials:
        """Return the credentials of a request to a model; a failure is in `problem`, for the user.

        Runs the command of a key or header, ten seconds each at most. Cancelling kills it. Refreshes a login that has
        expired; cancelling lets the refresh finish.
        """
        return await self.credentials_of(model["provider"], model["id"])

    async def credentials_of(self, provider: str, model_id: str) -> Credentials:
        """Return the same as `credentials`, by the names of provider and model."""
        if provider == OFFLINE_PROVIDER:
            return Credentials()
        env, variables = self._env_of(provider), self._stored(provider).variables()
        source = self._key_source(provider, env)
        try:
            key = None if source is None else await self._key_of(provider, source, env)
            headers = await self._resolve_headers(provider, model_id, env)
        except _LoginRefused as why:
            text = f"{errors.authentication_failed(provider)}{why}."
            return Credentials(problem=text, is_login_refused=True)
        except UnresolvedValue as why:
            return Credentials(problem=self._no_key(provider, f"{why}."))
        REDACTOR.learn(key)
        REDACTOR.learn_values(headers)
        is_sent = "authorization" in (name.lower() for name in headers)
        if key is not None and self._catalog.access_of(provider).has_auth_header:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {key}"
        elif source is not None and source.is_bearer and not is_sent:
            headers["Authorization"] = f"Bearer {key}"
        if source is not None and source.is_bearer:
            key = None
        has_header = any(name.lower() in AUTHENTICATION_HEADERS for name in headers)
        if key is None and not has_header and not ambient_variables(provider, env):
            return Credentials(problem=self._no_key(provider))
        if source is not None and source.login is not None and source.login.domain:
            variables["enterpriseUrl"] = source.login.domain
        return Credentials(key, headers, variables=variables)

    def _stored(self, provider: str) -> StoredKey:
        return self._auth.entries.get(provider, _NO_STORED_KEY)

    def _env_of(self, provider: str) -> Mapping[str, str]:
        """Return the environment of a provider: with the variables of its entry in auth.json."""
        own = self._stored(provider).variables()
        return {**self._env, **own} if own else self._env

    def _key_source(self, provider: str, env: Mapping[str, str]) -> _KeySource | None:
        """Return the first source that is configured, without running a command."""
        stored = self._stored(provider).key
        described = self._catalog.access_of(provider).api_key
        if provider in self._given:
            return _KeySource(literal(self._given[provider]), "The key of --api-key")
        login = self.login_of(provider)
        if login is not None:
            from pinnace_agent.config.credentials.logins import is_sent_as_bearer, is_usable_as_key

            if provider in self._methods or is_usable_as_key(provider, login):
                bearer = provider not in self._methods and is_sent_as_bearer(provider)
                return _KeySource(_NO_SECRET, "Its login in auth.json", is_bearer=bearer, login=login)
        if stored is not None and is_configured(stored, env):
            return _KeySource(legacy_variable(stored, env), "Its key in auth.json", is_kept=True)
        if described is not None and is_configured(described, env):
            return _KeySource(legacy_variable(described, env), "Its apiKey in models.json")
        for name in key_variables(provider):
            if env.get(name) and is_configured(Secret(f"${name}"), env):  # most are not set
                is_bearer = name in index().bearer_variables
                return _KeySource(Secret(f"${name}"), f"The variable {name}", is_bearer=is_bearer)
        if provider == VERTEX_PROVIDER:
            from pinnace_agent.llm.google.location import usable_source

            if (found := usable_source(env)) is not None:
                return _KeySource(_NO_SECRET, "Google's credentials", is_bearer=True, google=found)
        return None

    async def _key_of(self, provider: str, source: _KeySource, env: Mapping[str, str]) -> str:
        if source.login is not None:
            return await self._token_of(provider, source.login)
        if source.google is not None:
            return await self._google_token(source.google)
        if source.is_kept and provider in self._kept:
            return self._kept[provider].reveal()
        try:
            key = await resolve(source.value, env)
        except UnresolvedValue as why:
            raise UnresolvedValue(f"{source.name} can't be used: {why}") from None
        if source.is_kept and is_command(source.value):
            self._kept[provider] = Secret(key)
        return key

    async def _token_of(self, provider: str, login: "Login") -> str:
        """Return the access token of a login, refreshed if it has expired."""
        from pinnace_agent.config.credentials.logins import LoginFailed, hidden, how_to_log_in, is_refreshable, key_of

        if (path := self._auth.path) is None:
            return login.access
        method = self._methods.get(provider)
        if method is None and (login.is_valid or not is_refreshable(provider, login)):
            return login.access
        if self._logins is None:
            from pinnace_agent.config.credentials.login_refresh import LoginStore

            self._logins = LoginStore(path)
        try:
            valid = await self._logins.valid(provider, login, method)
            self._renewed[provider] = valid
            learn_login(valid)
            return valid.access if method is None else key_of(method, valid)
        except LoginFailed as why:
            raise _LoginRefused(f" {how_to_log_in(provider)}\n\n{hidden(str(why), login)}") from None

    async def _google_token(self, source: Path | str) -> str:
        from pinnace_agent.config.credentials.google_credentials import GoogleTokens
        from pinnace_agent.config.credentials.logins import LoginFailed

        try:
            return await self._google.setdefault(source, GoogleTokens(source)).token()
        except LoginFailed as why:
            raise _LoginRefused(f"\n\n{why}") from None

    async def _resolve_headers(self, provider: str, model_id: str, env: Mapping[str, str]) -> dict[str, str]:
        own = self._catalog.headers_of(provider).get(model_id, {})
        headers: dict[str, str] = {}
        for name, value in merge_headers(self._catalog.access_of(provider).headers, own).items():
            try:
                headers[name] = await resolve(value, env)
            except UnresolvedValue as why:
                raise UnresolvedValue(f"The header {name} in models.json can't be used: {why}") from None
        return headers

    def _no_key(self, provider: str, why: str | None = None) -> str:
        from pinnace_agent.config.credentials.key_status import hint, no_key

        if why is None:
            stored, described = self._stored(provider).key, self._catalog.access_of(provider).api_key
            why = hint(provider, self.login_of(provider), stored, described, self._env_of(provider))
        return no_key(provider, why)


def _has_key(headers: HeaderValues, env: Mapping[str, str]) -> bool:
    return any(name.lower() in AUTHENTICATION_HEADERS and is_configured(value, env) for name, value in headers.items())
