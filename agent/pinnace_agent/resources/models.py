"""The models that this process knows, which of them can be used, and what lets a request in.

Data after it is made: asking for models reads no file, runs no command and uses no network; a command that
gives a key is run when a request needs it. The offline model is built in and always found by its name, but
never among the models to choose from unless it was asked for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.resources.catalog import OFFLINE_PROVIDER, Catalog, ProviderAccess, merge_headers
from pinnace_agent.resources.credentials import (
    AUTHENTICATION_HEADERS,
    PROVIDER_VARIABLES,
    AuthFile,
    Credentials,
    StoredKey,
)
from pinnace_agent.resources.model_patterns import (
    ModelRequest,
    PatternResolver,
    Resolution,
    full_name,
    split_level,
)
from pinnace_agent.resources.thinking import clamp_level, next_level, supported_levels
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

__all__ = ["ModelRegistry", "clamp_level", "next_level", "supported_levels"]

_NO_ACCESS: Final = ProviderAccess()
_NO_STORED_KEY: Final = StoredKey(None, {})


class _KeySource(NamedTuple):
    """Where a key comes from."""

    value: Secret
    name: str
    """As the user knows it: `the key in auth.json`."""
    is_kept: bool
    """Whether the output of a command is kept for the life of the process."""


class ModelRegistry:
    """All models, and the credentials of their providers."""

    def __init__(self, catalog: Catalog, auth: AuthFile, env: Mapping[str, str]) -> None:
        """Take what the files and the environment say; they are not read again."""
        self._catalog = catalog
        self._auth = auth
        self._env = env
        self._keys: dict[str, Secret] = {}
        self._kept: dict[str, Secret] = {}
        self._offers_offline = False

    def __repr__(self) -> str:
        """Return a count, since everything inside is near a key."""
        return f"ModelRegistry({len(self._catalog.models)} models)"

    def all(self) -> list[Model]:
        """Return every model, in the order of models.json, the offline one last."""
        return [*self._catalog.models, _offline_model()]

    def available(self) -> list[Model]:
        """Return the models to choose from: a supported API, some source of credentials. Nothing is run."""
        models = self.all() if self._offers_offline else self._catalog.models  # or else it need not be loaded
        return [model for model in models if self.is_usable(model)]

    def is_usable(self, model: Model) -> bool:
        """Tell whether a model has a supported API and some source of credentials."""
        return self._is_supported(model) and self.has_credentials(model)

    def providers(self) -> list[str]:
        """Return the ids of all providers, the offline one last."""
        described = [model["provider"] for model in self._catalog.models]
        return list(dict.fromkeys([*self._catalog.access, *described, OFFLINE_PROVIDER]))

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return the model of exactly this name, or None. The path of a script is an id of `offline`."""
        if provider == OFFLINE_PROVIDER:
            return _find_offline(model_id)
        for model in self._catalog.models:
            if (model["provider"], model["id"]) == (provider, model_id):
                return model
        return None

    def resolve(self, request: ModelRequest) -> Resolution:
        """Find the model that a request means; an API that is not supported is an error."""
        if offline_id := _offline_id(request):
            return _resolve_offline(offline_id)
        resolver = PatternResolver(self._catalog.models, self.providers(), self.is_usable)
        found = resolver.resolve(request)
        if found.model is not None and not self._is_supported(found.model):
            name, api = full_name(found.model), found.model["api"]
            supported = ", ".join(_supported_apis())
            return Resolution(error=f'Model {name}: the API "{api}" is not supported yet. Supported: {supported}.')
        return found

    def offer_offline(self) -> None:
        """Put the offline model among the models to choose from: the user asked for it."""
        self._offers_offline = True

    def use_key(self, provider: str, key: str) -> None:
        """Use this key for a provider, before any other, for the life of the process."""
        self._keys[provider] = Secret(key)

    def has_credentials(self, model: Model) -> bool:
        """Tell whether there is some source of credentials. Nothing is run, so it may still not work."""
        provider = model["provider"]
        if provider == OFFLINE_PROVIDER or provider in self._keys:
            return True
        if self._key_source(provider) is not None:
            return True
        env = self._env_of(provider)
        return any(
            name.lower() in AUTHENTICATION_HEADERS and is_configured(value, env)
            for name, value in self._headers_of(model).items()
        )

    async def credentials(self, model: Model) -> Credentials:
        """Get what a request to a model carries; a failure is in `problem`, for the user.

        Runs the command of a key or header, ten seconds each at most. Cancelling kills it.
        """
        provider = model["provider"]
        if provider == OFFLINE_PROVIDER:
            return Credentials()
        try:
            key = await self._resolve_key(provider)
            headers = await self._resolve_headers(model)
        except UnresolvedValue as why:
            return Credentials(problem=_no_key(provider, f"{why}."))
        access = self._catalog.access.get(provider, _NO_ACCESS)
        if access.has_auth_header and key is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {key}"
        if key is None and not any(name.lower() in AUTHENTICATION_HEADERS for name in headers):
            return Credentials(problem=_no_key(provider, self._hint(provider)))
        return Credentials(key, headers)

    def _is_supported(self, model: Model) -> bool:
        return model["provider"] == OFFLINE_PROVIDER or model["api"] in _supported_apis()

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
        described = self._catalog.access.get(provider, _NO_ACCESS).api_key
        if provider in self._keys:
            return _KeySource(_quoted(self._keys[provider]), "the key of --api-key", is_kept=False)
        if stored is not None and is_configured(stored, env):
            return _KeySource(legacy_variable(stored, env), "its key in auth.json", is_kept=True)
        if described is not None and is_configured(described, env):
            return _KeySource(legacy_variable(described, env), "its apiKey in models.json", is_kept=False)
        for name in PROVIDER_VARIABLES.get(provider, ()):
            if env.get(name):
                return _KeySource(Secret(f"${name}"), f"the variable {name}", is_kept=False)
        return None

    async def _resolve_key(self, provider: str) -> str | None:
        source = self._key_source(provider)
        if source is None:
            return None
        if source.is_kept and provider in self._kept:
            return self._kept[provider].reveal()
        try:
            key = await resolve(source.value, self._env_of(provider))
        except UnresolvedValue as why:
            raise UnresolvedValue(f"{_capitalised(source.name)} can't be used: {why}") from None
        if source.is_kept and is_command(source.value):
            self._kept[provider] = Secret(key)
        return key

    def _headers_of(self, model: Model) -> Mapping[str, Secret]:
        access = self._catalog.access.get(model["provider"], _NO_ACCESS)
        own = self._catalog.model_headers.get((model["provider"], model["id"]), {})
        return merge_headers(access.headers, own)

    async def _resolve_headers(self, model: Model) -> dict[str, str]:
        env = self._env_of(model["provider"])
        headers: dict[str, str] = {}
        for name, value in self._headers_of(model).items():
            try:
                headers[name] = await resolve(value, env)
            except UnresolvedValue as why:
                raise UnresolvedValue(f"The header {name} in models.json can't be used: {why}") from None
        return headers

    def _hint(self, provider: str) -> str:
        """Say what is there and can't be used; empty if nothing is."""
        if self._stored(provider).is_login:
            return f"auth.json has a login for {provider}; this release can only use keys."
        env = self._env_of(provider)
        described = self._catalog.access.get(provider, _NO_ACCESS).api_key
        for value, name in ((self._stored(provider).key, "auth.json"), (described, "models.json")):
            if value is None:
                continue
            try:
                interpolate(value, env)
            except UnresolvedValue as why:
                return f"The key in {name} can't be used: {why}."
        return ""


def _quoted(key: Secret) -> Secret:
    """Make a key that is meant as it is into a value: nothing in it is a variable or a command."""
    return Secret(key.reveal().replace("$", "$$").replace("!", "$!"))


def _no_key(provider: str, hint: str) -> str:
    text = errors.no_api_key(provider)
    return f"{text}\n\n{hint}" if hint else text


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _supported_apis() -> tuple[str, ...]:
    from pinnace_agent.llm.providers import SUPPORTED_APIS

    return SUPPORTED_APIS


def _offline_model() -> Model:
    # Only when somebody asks for it: it brings a player of scripts along.
    from pinnace_agent.llm.offline import OFFLINE_MODEL

    return OFFLINE_MODEL


def _find_offline(model_id: str) -> Model | None:
    from pinnace_agent.llm.offline import offline_model

    if model_id == _offline_model()["id"] or _is_file(model_id):
        return offline_model(model_id)
    return None


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long or too odd for a path
        return False


def _resolve_offline(model_id: str) -> Resolution:
    for text, level in ((model_id, None), split_level(model_id)):
        if (model := _find_offline(text)) is not None:
            return Resolution(model, level)
    known = _offline_model()["id"]
    return Resolution(error=f'Offline model "{model_id}" not found: it is neither {known} nor the path of a script.')


def _offline_id(request: ModelRequest) -> str | None:
    """Return the id that a request for the offline provider names, or None if it is for another.

    The flag or the prefix must say so in full. The flag alone means the built-in model.
    """
    pattern = request.pattern.strip()
    prefix = f"{OFFLINE_PROVIDER}/"
    if request.provider is not None:
        if request.provider.strip().lower() != OFFLINE_PROVIDER:
            return None
        return pattern.removeprefix(prefix) or _offline_model()["id"]
    return pattern.removeprefix(prefix) if pattern.startswith(prefix) else None
