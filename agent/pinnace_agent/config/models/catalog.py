"""All known models: the built-in ones, merged with the user's models.json.

A file that violates the schema is not used at all; an entry with inconsistent content is left out alone. Both are
reported as diagnostics, and the process continues. Models are built at the first request for their provider, so that
unused built-in providers cost nothing. Providers are in the order of the built-in catalog, then of the file. Secrets
(keys and headers) are stored beside the models, never in them: models are sent to clients.
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

OFFLINE_PROVIDER: Final = "offline"

# One screen. A file with more problems than this is of another kind.
_MAX_PROBLEMS: Final = 20

# A provider without models must have one of these, or its entry has no effect.
_PROVIDER_FIELDS: Final = ("baseUrl", "compat", "modelOverrides", "headers", "apiKey", "oauth", "authHeader")

HeaderValues = Mapping[str, Secret]


class ProviderAccess(NamedTuple):
    """The credentials of a provider in models.json."""

    api_key: Secret | None = None
    headers: HeaderValues = MappingProxyType({})
    has_auth_header: bool = False
    """Whether the key is also sent as `Authorization: Bearer`."""


_NO_ACCESS: Final = ProviderAccess()


class Catalog:
    """Every model, built at the first request for its provider."""

    def __init__(
        self,
        entries: Mapping[str, JsonObject] | None = None,
        diagnostics: tuple[Diagnostic, ...] = (),
        replacing: frozenset[str] = frozenset(),
    ) -> None:
        """Take the checked entries of models.json by provider, and the problems in the rest.

        The models of providers in `replacing` replace the built-in ones; those of others are added to them.
        """
        self.diagnostics = diagnostics
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
            problems = check_models_file({"providers": {provider: entry}}) or [*_provider_problems(provider, entry)]
            if problems:
                raise ValueError(
                    "; ".join(f"{each.path}: {each.message}" if each.path else each.message for each in problems)
                )
            entries[provider] = entry
        replacing = self._replacing - {provider}
        if replaces_models and entry is not None and "models" in entry:
            replacing |= {provider}
        return Catalog(entries, self.diagnostics, replacing)

    def entry_of(self, provider: str) -> JsonObject | None:
        """Return the entry of a provider, beside its built-in facts."""
        return self._entries.get(provider)

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
        facts = index().providers.get(provider)
        built_in = [] if facts is None else built_in_models(provider, facts, read_descriptions(provider))
        entry = self._entries.get(provider)
        if entry is None:
            return built_in
        return described_models(provider, entry, built_in, keeps_built_in=provider not in self._replacing)


def read_catalog(path: Path) -> Catalog:
    """Read models.json. Without the file the catalog is the built-in one."""
    try:
        content = read_object(path, is_relaxed=True)
    except ConfigurationFileError as error:
        return Catalog(diagnostics=(_file_ignored(path, [Problem("", str(error))]),))
    if content is None:
        return Catalog()
    if problems := check_models_file(content):
        return Catalog(diagnostics=(_file_ignored(path, problems),))
    entries = cast("dict[str, JsonObject]", content.get("providers", {}))  # the schema was checked
    problems_of = {provider: tuple(_provider_problems(provider, entry)) for provider, entry in entries.items()}
    return Catalog(
        {provider: entry for provider, entry in entries.items() if not problems_of[provider]},
        tuple(
            Diagnostic(str(path), problems, f'what it says of the provider "{provider}" is not used')
            for provider, problems in problems_of.items()
            if problems
        ),
    )


def _file_ignored(path: Path, problems: list[Problem]) -> Diagnostic:
    shown = problems[:_MAX_PROBLEMS]
    if len(problems) > len(shown):
        shown = [*shown, Problem("", f"and {len(problems) - len(shown)} more")]
    return Diagnostic(str(path), tuple(shown), "the file is ignored")


def _provider_problems(provider: str, entry: JsonObject) -> Iterator[Problem]:
    path = f"providers.{provider}"
    models = cast("list[JsonObject]", entry.get("models", []))
    if not provider.strip():
        yield Problem("providers", "the id of a provider must not be empty")
    if provider == OFFLINE_PROVIDER:
        yield Problem(path, "this provider is built in and can't be described")
    if not models and not any(name in entry for name in _PROVIDER_FIELDS):
        yield Problem(path, f"needs models, or one of {', '.join(_PROVIDER_FIELDS)}")
    if provider in index().providers:
        return  # the built-in models supply missing fields
    for place, model in enumerate(models):
        for name in ("baseUrl", "api"):
            if name not in model and name not in entry:
                yield Problem(f"{path}.models[{place}]", f"needs {name}, here or in the provider")


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
