"""What lets a request in: where the key of a provider comes from, and which headers go with it.

In this order: `--api-key`, the key in auth.json, the one in models.json, the provider's environment variables. Whether
there is one is told without running anything; a command is run when a request needs its output. A header that carries a
key is as good as a key. Must not know which models there are.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.resources.builtin import index, key_variables
from pinnace_agent.resources.catalog import OFFLINE_PROVIDER, Catalog, HeaderValues, merge_headers
from pinnace_agent.resources.credentials import AUTHENTICATION_HEADERS, AuthFile, Credentials, StoredKey
from pinnace_agent.resources.values import (
    Secret,
    UnresolvedValue,
    interpolate,
    is_command,
    is_configured,
    legacy_variable,
    resolve,
)
from pinnace_spec import errors
from pinnace_spec.messages import Model

_NO_STORED_KEY: Final = StoredKey(None, {})


class _KeySource(NamedTuple):
    """Where a key comes from."""

    value: Secret
    name: str
    """As the user knows it: `the key in auth.json`."""
    is_kept: bool = False
    """Whether the output of a command is kept for the life of the process."""
    is_bearer: bool = False
    """Whether it is a token, to be sent as `Authorization: Bearer` and in no other way."""


class KeyRing:
    """The keys of all providers."""

    def __init__(self, catalog: Catalog, auth: AuthFile, env: Mapping[str, str]) -> None:
        """Take what the files and the environment say; they are not read again."""
        self._catalog = catalog
        self._auth = auth
        self._env = env
        self._given: dict[str, Secret] = {}
        self._kept: dict[str, Secret] = {}

    def __repr__(self) -> str:
        """Return nothing of what is inside."""
        return "KeyRing(...)"

    def use_catalog(self, catalog: Catalog) -> None:
        """Take what another catalog says about getting in."""
        self._catalog = catalog

    def take(self, read: "KeyRing") -> None:
        """Take what another one has read of auth.json since; the output of commands is asked for anew."""
        self._auth = read._auth
        self._kept.clear()

    def use(self, provider: str, key: str) -> None:
        """Use this key for a provider, before any other, for the life of the process."""
        self._given[provider] = Secret(key)

    def opens_provider(self, provider: str) -> bool:
        """Tell whether there is some source of credentials for all models of a provider. Nothing is run."""
        if provider == OFFLINE_PROVIDER or self._key_source(provider) is not None:
            return True
        return self._has_key(provider, self._catalog.access_of(provider).headers)

    def opened_alone(self, provider: str) -> list[str]:
        """Return the ids of the models that have a header of their own which carries a key."""
        own = self._catalog.headers_of(provider)
        return [model_id for model_id, headers in own.items() if self._has_key(provider, headers)]

    def opens(self, model: Model) -> bool:
        """Tell whether there is some source of credentials for a model. Nothing is run, so it may still not work."""
        return self.opens_provider(model["provider"]) or model["id"] in self.opened_alone(model["provider"])

    async def credentials(self, model: Model) -> Credentials:
        """Get what a request to a model carries; a failure is in `problem`, for the user.

        Runs the command of a key or header, ten seconds each at most. Cancelling kills it.
        """
        provider = model["provider"]
        if provider == OFFLINE_PROVIDER:
            return Credentials()
        source = self._key_source(provider)
        try:
            key = None if source is None else await self._key_of(provider, source)
            headers = await self._resolve_headers(model)
        except UnresolvedValue as why:
            return Credentials(problem=_no_key(provider, f"{why}."))
        is_sent = "authorization" in (name.lower() for name in headers)
        if key is not None and self._catalog.access_of(provider).has_auth_header:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {key}"
        elif source is not None and source.is_bearer and not is_sent:
            headers["Authorization"] = f"Bearer {key}"
        if source is not None and source.is_bearer:
            key = None
        if key is None and not any(name.lower() in AUTHENTICATION_HEADERS for name in headers):
            return Credentials(problem=_no_key(provider, self._hint(provider)))
        return Credentials(key, headers)

    def _has_key(self, provider: str, headers: HeaderValues) -> bool:
        env = self._env_of(provider)
        return any(
            name.lower() in AUTHENTICATION_HEADERS and is_configured(value, env) for name, value in headers.items()
        )

    def _stored(self, provider: str) -> StoredKey:
        return self._auth.entries.get(provider, _NO_STORED_KEY)

    def _env_of(self, provider: str) -> Mapping[str, str]:
        """Return the environment as this provider sees it: with the variables of its entry in auth.json."""
        own = {name: value.reveal() for name, value in self._stored(provider).env.items()}
        return {**self._env, **own} if own else self._env

    def _key_source(self, provider: str) -> _KeySource | None:
        """Return the first source that has a key, as far as can be told without running anything."""
        env = self._env_of(provider)
        stored = self._stored(provider).key
        described = self._catalog.access_of(provider).api_key
        if provider in self._given:
            return _KeySource(_quoted(self._given[provider]), "the key of --api-key")
        if stored is not None and is_configured(stored, env):
            return _KeySource(legacy_variable(stored, env), "its key in auth.json", is_kept=True)
        if described is not None and is_configured(described, env):
            return _KeySource(legacy_variable(described, env), "its apiKey in models.json")
        for name in key_variables(provider):
            if env.get(name):
                is_bearer = name in index().bearer_variables
                return _KeySource(Secret(f"${name}"), f"the variable {name}", is_bearer=is_bearer)
        return None

    async def _key_of(self, provider: str, source: _KeySource) -> str:
        if source.is_kept and provider in self._kept:
            return self._kept[provider].reveal()
        try:
            key = await resolve(source.value, self._env_of(provider))
        except UnresolvedValue as why:
            raise UnresolvedValue(f"{_capitalised(source.name)} can't be used: {why}") from None
        if source.is_kept and is_command(source.value):
            self._kept[provider] = Secret(key)
        return key

    async def _resolve_headers(self, model: Model) -> dict[str, str]:
        provider = model["provider"]
        env = self._env_of(provider)
        own = self._catalog.headers_of(provider).get(model["id"], {})
        headers: dict[str, str] = {}
        for name, value in merge_headers(self._catalog.access_of(provider).headers, own).items():
            try:
                headers[name] = await resolve(value, env)
            except UnresolvedValue as why:
                raise UnresolvedValue(f"The header {name} in models.json can't be used: {why}") from None
        return headers

    def _hint(self, provider: str) -> str:
        """Say what is there and can't be used, else what would help; empty if nothing is known."""
        if self._stored(provider).is_login:
            return f"auth.json has a login for {provider}; this release can only use keys."
        env = self._env_of(provider)
        described = self._catalog.access_of(provider).api_key
        for value, name in ((self._stored(provider).key, "auth.json"), (described, "models.json")):
            if value is None:
                continue
            try:
                interpolate(value, env)
            except UnresolvedValue as why:
                return f"The key in {name} can't be used: {why}."
        variables = key_variables(provider)
        return f"It may be in the variable {variables[-1]}, or in auth.json." if variables else ""


def _quoted(key: Secret) -> Secret:
    """Make a key that is meant as it is into a value: nothing in it is a variable or a command."""
    return Secret(key.reveal().replace("$", "$$").replace("!", "$!"))


def _no_key(provider: str, hint: str) -> str:
    text = errors.no_api_key(provider)
    return f"{text}\n\n{hint}" if hint else text


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
