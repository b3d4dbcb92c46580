"""The models of this process: which ones exist, which are usable, and the credentials of their requests.

Immutable after construction except for extensions' changes; the built-in file of a provider is read at the first
request for its models. Listing models reads no other file, runs no command and uses no network. The offline model is
always found by its name, but is listed among the available models only when the user asked for it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.config.credentials.credentials import AuthFile, Credentials
from pinnace_agent.config.credentials.resolver import CredentialResolver
from pinnace_agent.config.models.builtin import OFFLINE_PROVIDER, index
from pinnace_agent.config.models.catalog import Catalog, LeftOut
from pinnace_agent.config.models.patterns import (
    ModelRequest,
    PatternResolver,
    Resolution,
    full_name,
    split_level,
)
from pinnace_agent.config.models.thinking import clamp_level, next_level, supported_levels
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_spec.records.messages import Model
from pinnace_spec.rules import errors
from pinnace_spec.rules.errors import ClientError, ErrorCode

if TYPE_CHECKING:
    from pinnace_agent.config.credentials.key_status import KeyStatus
    from pinnace_agent.config.credentials.logins import Login, OwnLogin
    from pinnace_agent.llm.providers import Provider

__all__ = ["ModelRegistry", "ProviderCode", "clamp_level", "next_level", "supported_levels"]


# From the check of a prompt to its request: saving the prompt, on a slow disk. A key may be replaced at any time.
_AHEAD_S: Final = 10.0


class _Ahead(NamedTuple):
    """Credentials that were resolved before they are needed."""

    name: str
    credentials: Credentials
    until_s: float


class ProviderCode(NamedTuple):
    """The code of an extension for a provider, which models.json can't contain."""

    api: str | None = None
    """The API of the models that the code serves; None: none."""
    provider: "Provider | None" = None
    """The provider that serves them; None: the extension is only inspected."""
    login: "OwnLogin | None" = None
    """The code that refreshes and uses logins of the provider."""


class ModelRegistry:
    """All models, and the credentials of their providers."""

    def __init__(self, catalog: Catalog, auth: AuthFile, env: Mapping[str, str]) -> None:
        """Take the content of the files and the environment; they are not read again."""
        self._catalog = catalog
        self._keys = CredentialResolver(catalog, auth, env)
        self.given_key_provider: str | None = None
        """The provider that `use_key` was called for last."""
        self._offers_offline = False
        self._overridden: dict[str, JsonObject | None] = {}
        self._code: dict[str, ProviderCode] = {}
        self._ahead: _Ahead | None = None
        self._requires_prices = False
        self.wrap_provider: Callable[[Provider], Provider] | None = None
        """Applied to what `provider_for` returns."""

    def __repr__(self) -> str:
        """Return the catalog only, since the rest holds keys."""
        return f"ModelRegistry({self._catalog!r})"

    def all(self) -> list[Model]:
        """Return every model, in the order of the catalog, the offline one last."""
        return [*self._catalog.models(), _offline_model()]

    def available(self) -> list[Model]:
        """Return the models with a supported API and a source of credentials. Runs no command."""
        return list(self._available())

    def first_available(self) -> Model | None:
        """Return the model that a process starts with when none was chosen.

        That is the default model of the first provider with a key, in the order of the built-in catalog, else the
        first available model.
        """
        for provider in index().default_order:
            if self._keys.opens_provider(provider):
                model = self.default_of(provider)
                if model is not None and self._is_supported(model):
                    return model
        return next(self._available(), None)

    def _available(self) -> Iterator[Model]:
        for provider in self._catalog.providers():
            if self._keys.opens_provider(provider):
                models = self._catalog.models_of(provider)
            elif alone := self._keys.opened_alone(provider):
                models = [model for model in self._catalog.models_of(provider) if model["id"] in alone]
            else:
                continue  # without reading its file
            yield from (model for model in models if self._is_supported(model) and self._is_offered(model))
        if self._offers_offline:
            yield _offline_model()

    def is_usable(self, model: Model) -> bool:
        """Return whether a model has a supported API and a source of credentials."""
        return self._is_supported(model) and self._keys.opens(model) and self._is_offered(model)

    def providers(self) -> list[str]:
        """Return the ids of all providers, the offline one last."""
        return [*self._catalog.providers(), OFFLINE_PROVIDER]

    def models_of(self, provider: str) -> list[Model]:
        """Return the described models of a provider; the offline provider has none."""
        return list(self._catalog.models_of(provider))

    def default_of(self, provider: str) -> Model | None:
        """Return the default model of a built-in provider."""
        facts = index().providers.get(provider)
        return None if facts is None else self._catalog.find(provider, facts.default_model)

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return the model of exactly this name, or None. The path of a script is an id of `offline`."""
        if provider == OFFLINE_PROVIDER:
            return _find_offline(model_id)
        return self._catalog.find(provider, model_id)

    def resolve(self, request: ModelRequest) -> Resolution:
        """Find the model that a request means; an API that is not supported is an error."""
        if offline_id := _offline_id(request):
            return _resolve_offline(offline_id)
        if any(self._catalog.left_out):
            from pinnace_agent.config.models.unusable import name_left_out

            if (left_out := name_left_out(self._catalog.left_out, request)) is not None:
                return Resolution(error=f"{left_out}.")
        found = PatternResolver(self, self.is_usable).resolve(request)
        if found.model is not None and not self._is_supported(found.model):
            name, api = full_name(found.model), found.model["api"]
            supported = ", ".join(_supported_apis())
            return Resolution(error=f'Model {name}: the API "{api}" is not supported. Supported: {supported}.')
        return found

    @property
    def left_out(self) -> LeftOut:
        """What damaged descriptions in models.json leave out."""
        return self._catalog.left_out

    def has_own_server(self, model: Model) -> bool:
        """Return whether the server of a model is the user's: on this machine, or of a provider that is not built in.

        Code of an extension that serves the model is no server.
        """
        if model["provider"] == OFFLINE_PROVIDER or self._code_for(model) is not None:
            return False
        if model["provider"] not in index().providers:
            return True
        from pinnace_agent.llm.failure_report import is_loopback

        return is_loopback(model["baseUrl"])

    def require_prices(self, *, is_required: bool = True) -> None:
        """Reject models without prices from now on: a limit of cost could not be enforced for them."""
        self._requires_prices = is_required

    def price_refusal(self, model: Model) -> ClientError | None:
        """Return the error for a model without required prices; None: it can be used."""
        provider, model_id = model["provider"], model["id"]
        if not self._requires_prices or provider == OFFLINE_PROVIDER or self._catalog.has_prices(provider, model_id):
            return None
        return ClientError(errors.no_prices(provider, model_id), ErrorCode.NO_MODEL)

    def offer_offline(self) -> None:
        """List the offline model among the available ones: the user asked for it."""
        self._offers_offline = True

    def describe_provider(self, provider: str, entry: JsonObject, code: ProviderCode | None = None) -> None:
        """Use this entry for a provider, in place of the one in models.json, until `forget_provider`.

        Models of the entry replace those of the built-in catalog.

        Raises:
            ValueError: It violates the schema of models.json or is inconsistent; the text gives the reason.
        """
        catalog = self._catalog.with_provider(provider, entry, replaces_models=True)
        self._overridden.setdefault(provider, self._catalog.entry_of(provider))
        if code is None:
            self._code.pop(provider, None)
        else:
            self._code[provider] = code
        self._keys.use_method(provider, None if code is None else code.login)
        self._use(catalog)

    def forget_provider(self, provider: str) -> None:
        """Restore the entry of a provider in models.json; does nothing while that is current."""
        if provider in self._overridden:
            self._code.pop(provider, None)
            self._keys.use_method(provider, None)
            self._use(self._catalog.with_provider(provider, self._overridden.pop(provider)))

    def forget_providers(self) -> None:
        """Undo every `describe_provider`."""
        for provider in tuple(self._overridden):
            self.forget_provider(provider)

    def take(self, read: "ModelRegistry") -> None:
        """Take the files that another registry has read since; keys of the command line stay."""
        self.forget_providers()
        self._keys.take(read._keys)
        self._use(read._catalog)

    def _use(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._keys.use_catalog(catalog)
        self._ahead = None

    def use_key(self, provider: str, key: str) -> None:
        """Use this key for a provider, with precedence over any other, for the life of the process."""
        self._keys.use(provider, key)
        self.given_key_provider = provider

    def use_login(self, provider: str, login: "Login") -> None:
        """Use a login that was just stored in auth.json."""
        self._keys.use_login(provider, login)
        self._ahead = None

    def use_auth(self, provider: str, auth: AuthFile, read_s: float) -> None:
        """Use an auth.json in which the entry of a provider was just changed. `read_s`: as of the resolver."""
        self._keys.use_auth(auth, read_s)
        self._keys.forget_output(provider)
        self._ahead = None

    def key_status(self, provider: str) -> "KeyStatus":
        """Return where a provider's key comes from, as the next request would find it. Runs no command."""
        return self._keys.status(provider)

    def own_login(self, provider: str) -> "OwnLogin | None":
        """Return the logins that an extension has registered for a provider, if one has."""
        return self._code.get(provider, ProviderCode()).login

    def login_of(self, provider: str) -> "Login | None":
        """Return the login of a provider, as this process last read or refreshed it."""
        return self._keys.login_of(provider)

    def login_providers(self) -> list[str]:
        """Return the providers that may have credentials: those of the catalog, and those that auth.json names."""
        return list(dict.fromkeys([*self._catalog.providers(), *self._keys.stored_providers()]))

    @property
    def auth_path(self) -> Path | None:
        """The file of logins; None: there is none."""
        return self._keys.auth_path

    async def provider_credentials(self, provider: str) -> Credentials:
        """Return the credentials of requests to a provider, for any of its models. Like `credentials`."""
        return await self._keys.credentials_of(provider, "")

    async def provider_token(self, provider: str) -> str | None:
        """Return the key of a provider, or the token of its login, for what it serves beside models; None: no key."""
        found = await self._keys.credentials_of(provider, "")
        if found.api_key is not None:
            return found.api_key
        sent = {name.lower(): value for name, value in found.headers.items()}.get("authorization", "")
        return sent.removeprefix("Bearer ") if sent.startswith("Bearer ") else None

    async def credentials(self, model: Model) -> Credentials:
        """Return the credentials of a request to a model; a failure is in `problem`, for the user.

        Runs the command of a key or header, ten seconds each at most. Cancelling kills it.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.name == full_name(model) and time.monotonic() < ahead.until_s:
            return ahead.credentials
        return await self._keys.credentials(model)

    async def check_credentials(self, model: Model) -> Credentials:
        """Return the credentials as `credentials` does, and keep them for the request that follows at once.

        A command then runs once: a password manager would ask its user twice otherwise.
        """
        self._ahead = None
        credentials = await self._keys.credentials(model)
        if credentials.problem is None:
            self._ahead = _Ahead(full_name(model), credentials, time.monotonic() + _AHEAD_S)
        return credentials

    def refusal(self, model: Model) -> ClientError | None:
        """Return the error of any request to a model, regardless of keys; None: requests are possible."""
        provider = model["provider"]
        if provider != OFFLINE_PROVIDER and provider not in self._catalog.providers():
            return ClientError(errors.provider_is_gone(provider, model["id"]), ErrorCode.NO_MODEL)
        if not self._is_supported(model):
            from pinnace_agent.llm.providers import unsupported_api

            return unsupported_api(model["api"])
        return self.price_refusal(model)

    def provider_for(self, model: Model) -> "Provider | None":
        """Return the provider of a model: the code of an extension, else that of its API; None: there is none."""
        from pinnace_agent.llm.providers import find_provider

        code = self._code_for(model)
        provider = find_provider(model["api"]) if code is None else code.provider
        return provider if provider is None or self.wrap_provider is None else self.wrap_provider(provider)

    def _code_for(self, model: Model) -> ProviderCode | None:
        """Return the extension's code that serves a model, if there is any."""
        code = self._code.get(model["provider"])
        return code if code is not None and code.api == model["api"] else None

    def _is_offered(self, model: Model) -> bool:
        login = self._keys.login_of(model["provider"])
        return login is None or login.offers(model["id"])

    def _is_supported(self, model: Model) -> bool:
        if model["provider"] == OFFLINE_PROVIDER or model["api"] in _supported_apis():
            return True
        return self._code_for(model) is not None


def _supported_apis() -> tuple[str, ...]:
    from pinnace_agent.llm.providers import SUPPORTED_APIS

    return SUPPORTED_APIS


def _offline_model() -> Model:
    # Imported at the first use: it imports the player of scripts.
    from pinnace_agent.llm.offline.provider import OFFLINE_MODEL

    return OFFLINE_MODEL


def _find_offline(model_id: str) -> Model | None:
    from pinnace_agent.llm.offline.provider import offline_model

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

    The flag or the prefix must name it in full. The flag alone means the built-in model.
    """
    pattern = request.pattern.strip()
    prefix = f"{OFFLINE_PROVIDER}/"
    if request.provider is not None:
        if request.provider.strip().lower() != OFFLINE_PROVIDER:
            return None
        return pattern.removeprefix(prefix) or _offline_model()["id"]
    return pattern.removeprefix(prefix) if pattern.startswith(prefix) else None
