"""All known models: the built-in ones, merged with the user's models.json.

A damaged description leaves out what it describes, a model or a provider, and nothing else: also where the built-in
catalog describes the same, since a request would otherwise go to another server, with another key or at another price
than the user configured. Each is reported as a diagnostic, and the process continues. Models are built at the first
request for their provider, so that unused built-in providers cost nothing. Providers are in the order of the built-in
catalog, then of the file. Secrets (keys and headers) are stored beside the models, never in them: models are sent to
clients.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from pinnace_agent.config.models.builtin import index, read_descriptions
from pinnace_agent.config.models.catalog_schema import check_models_file
from pinnace_agent.config.models.description import built_in_models, described_models
from pinnace_agent.core.diagnostics import Diagnostic, Problem
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object
from pinnace_agent.redaction.policy import Secret
from pinnace_spec.records.messages import Model

HeaderValues = Mapping[str, Secret]


class ProviderAccess(NamedTuple):
    """The credentials of a provider in models.json."""

    api_key: Secret | None = None
    headers: HeaderValues = MappingProxyType({})
    has_auth_header: bool = False
    """Whether the key is also sent as `Authorization: Bearer`."""


_NO_ACCESS: Final = ProviderAccess()


class LeftOut(NamedTuple):
    """What damaged descriptions leave out, also of the built-in catalog."""

    providers: frozenset[str] = frozenset()
    models: frozenset[tuple[str, str]] = frozenset()
    """By provider and id."""
    keys: tuple[Secret, ...] = ()
    """The keys in these descriptions, which are kept out of output and of the environment of commands like others."""
    headers: tuple[HeaderValues, ...] = ()
    addresses: tuple[Secret, ...] = ()


_NOTHING_LEFT_OUT: Final = LeftOut()


class Catalog:
    """Every model, built at the first request for its provider."""

    def __init__(
        self,
        entries: Mapping[str, JsonObject] | None = None,
        diagnostics: tuple[Diagnostic, ...] = (),
        replacing: frozenset[str] = frozenset(),
        left_out: LeftOut = _NOTHING_LEFT_OUT,
    ) -> None:
        """Take the checked entries of models.json by provider, the problems in the rest, and what they leave out.

        The models of providers in `replacing` replace the built-in ones; those of others are added to them.
        """
        self.diagnostics = diagnostics
        self.left_out = left_out
        self._entries = entries or {}
        self._replacing = replacing
        self._access = {provider: _access(entry) for provider, entry in self._entries.items()}
        self._model_headers = {provider: _model_headers(entry) for provider, entry in self._entries.items()}
        self._models: dict[str, list[Model]] = {}

    def __repr__(self) -> str:
        """Return the ids of the user's providers only: the rest may hold a key."""
        return f"Catalog({', '.join(self._entries)})"

    def with_provider(self, provider: str, entry: JsonObject | None, *, replaces_models: bool = False) -> "Catalog":
        """Return a catalog with this entry for a provider, in place of its former one; None: with no entry.

        With `replaces_models`, the models of the entry replace the built-in ones.

        Raises:
            ValueError: It violates the schema of models.json or is inconsistent; the text gives the reason.
        """
        entries = {name: each for name, each in self._entries.items() if name != provider}
        if entry is not None:
            problems = [each for each in check_models_file({"providers": {provider: entry}}) if not each.is_hint]
            if problems:
                raise ValueError(
                    "; ".join(f"{each.path}: {each.message}" if each.path else each.message for each in problems)
                )
            entries[provider] = entry
        replacing = self._replacing - {provider}
        if replaces_models and entry is not None and "models" in entry:
            replacing |= {provider}
        left_out = self.left_out._replace(
            providers=self.left_out.providers - {provider},
            models=frozenset(each for each in self.left_out.models if each[0] != provider),
        )
        return Catalog(entries, self.diagnostics, replacing, self.left_out if entry is None else left_out)

    def entry_of(self, provider: str) -> JsonObject | None:
        """Return the entry of a provider, beside its built-in facts."""
        return self._entries.get(provider)

    def has_own_address(self, provider: str) -> bool:
        """Return whether the user gives the models of a provider another address."""
        return "baseUrl" in self._entries.get(provider, {})

    def providers(self) -> list[str]:
        """Return the ids of all providers, including those without models."""
        return list(dict.fromkeys([*index().providers, *self._entries]))

    def described(self) -> Iterable[str]:
        """Return the ids of the providers that the user or an extension describes: only these may have a key here."""
        return self._entries.keys()

    def models_of(self, provider: str) -> Sequence[Model]:
        """Return the models of a provider, in order; empty for an unknown one."""
        if provider not in self._models:
            self._models[provider] = self._made(provider)
        return self._models[provider]

    def models(self) -> Iterator[Model]:
        """Yield all models, provider by provider; those of later providers are built when they are reached."""
        for provider in self.providers():
            yield from self.models_of(provider)

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return the model of exactly this name, or None."""
        return next((model for model in self.models_of(provider) if model["id"] == model_id), None)

    def has_prices(self, provider: str, model_id: str) -> bool:
        """Return whether the built-in catalog or the user states the prices of a model; a free one has zeros."""
        entry = self._entries.get(provider, {})
        overrides = cast("dict[str, JsonObject]", entry.get("modelOverrides", {}))
        described = {str(each["id"]): each for each in cast("list[JsonObject]", entry.get("models", []))}
        if model_id in described and "cost" not in described[model_id]:
            return "cost" in overrides.get(model_id, {})
        return True

    def access_of(self, provider: str) -> ProviderAccess:
        """Return the key and headers of a provider in models.json."""
        return self._access.get(provider, _NO_ACCESS)

    def headers_of(self, provider: str) -> Mapping[str, HeaderValues]:
        """Return the headers of single models, by id, in addition to the provider's own."""
        return self._model_headers.get(provider, {})

    def _made(self, provider: str) -> list[Model]:
        if provider in self.left_out.providers:
            return []
        facts = index().providers.get(provider)
        built_in = [] if facts is None else built_in_models(provider, facts, read_descriptions(provider))
        entry = self._entries.get(provider)
        if entry is None:
            return built_in
        models = described_models(provider, entry, built_in, keeps_built_in=provider not in self._replacing)
        return [model for model in models if (provider, model["id"]) not in self.left_out.models]


def read_catalog(path: Path) -> Catalog:
    """Read models.json. Without the file the catalog is the built-in one."""
    try:
        content = read_object(path, is_relaxed=True)
    except ConfigurationFileError as error:
        return Catalog(diagnostics=(Diagnostic(str(path), (Problem("", str(error)),), "the file is ignored"),))
    if content is None:
        return Catalog()
    if not check_models_file(content):
        return Catalog(cast("dict[str, JsonObject]", content.get("providers", {})))  # the schema was checked
    # Not at a start with a valid file.
    from pinnace_agent.config.models.damaged_catalog import usable_entries

    entries, diagnostics, left_out = usable_entries(path, content)
    return Catalog(entries, diagnostics, left_out=LeftOut(*left_out))


def _access(entry: JsonObject) -> ProviderAccess:
    return ProviderAccess(
        api_key=Secret(str(entry["apiKey"])) if "apiKey" in entry else None,
        headers=_headers(entry),
        has_auth_header=entry.get("authHeader") is True,
    )


def _model_headers(entry: JsonObject) -> dict[str, HeaderValues]:
    overrides = cast("dict[str, JsonObject]", entry.get("modelOverrides", {}))
    described = {str(one["id"]): one for one in cast("list[JsonObject]", entry.get("models", []))}
    merged = {
        model_id: merge_headers(_headers(overrides.get(model_id, {})), _headers(described.get(model_id, {})))
        for model_id in (*overrides, *described)
    }
    return {model_id: headers for model_id, headers in merged.items() if headers}


def _headers(entry: JsonObject) -> HeaderValues:
    return {name: Secret(value) for name, value in cast("dict[str, str]", entry.get("headers", {})).items()}


def merge_headers(*layers: HeaderValues) -> HeaderValues:
    """Merge layers of headers: the last one wins, ignoring the case of names."""
    merged: dict[str, tuple[str, Secret]] = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name.lower()] = (name, value)
    return dict(merged.values())
