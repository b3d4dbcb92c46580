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
from pinnace_agent.config.models.catalog_schema import check_file, check_model, check_override, check_provider
from pinnace_agent.config.models.description import built_in_models, described_models
from pinnace_agent.core.diagnostics import Diagnostic, Problem, hints
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_list, is_object, read_object
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
            checked = _Entry(provider, entry)
            if problems := _mistakes(
                [*checked.problems, *(each for group in checked.left_out.values() for each in group)]
            ):
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
        return Catalog(diagnostics=(_file_ignored(path, [Problem("", str(error))]),))
    if content is None:
        return Catalog()
    outside = check_file(content)
    providers = content.get("providers", {})
    if not is_object(providers):
        return Catalog(diagnostics=(_file_ignored(path, outside),))
    checked = [_Entry(provider, entry) for provider, entry in providers.items()]
    return Catalog(
        {each.provider: each.usable for each in checked if each.usable is not None},
        (
            *hints(str(path), outside),
            *(diagnostic for each in checked for diagnostic in each.diagnostics(str(path))),
        ),
        left_out=_left_out(checked),
    )


def _file_ignored(path: Path, problems: list[Problem]) -> Diagnostic:
    return Diagnostic(str(path), _screenful(problems), "the file is ignored")


def _screenful(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= _MAX_PROBLEMS:
        return tuple(problems)
    rest = problems[_MAX_PROBLEMS:]
    return (*problems[:_MAX_PROBLEMS], Problem("", f"and {len(rest)} more", all(each.is_hint for each in rest)))


def _mistakes(problems: Sequence[Problem]) -> list[Problem]:
    return [each for each in problems if not each.is_hint]


class _Entry:
    """The entry of one provider: what of it can be used, and what is wrong with the rest."""

    def __init__(self, provider: str, entry: object) -> None:
        """Check an entry of models.json."""
        self.provider: Final = provider
        self._path = f"providers.{provider}"
        self.problems: Final = [*check_provider(entry, self._path)]
        """Those of the provider itself, hints among them."""
        self.left_out: Final[dict[str, list[Problem]]] = {}
        """The mistakes in descriptions of models, by the id of the model that they describe; empty: it has none."""
        self.damaged: Final[list[JsonObject]] = []
        """The descriptions that can't be used, as they are in the file."""
        self._hints: list[Problem] = []
        self.usable: JsonObject | None = None
        """The entry without damaged descriptions of models; None: nothing of it can be used."""
        if not is_object(entry):
            return
        if not _mistakes(self.problems):
            self.problems.extend(self._contradictions(entry))
        models = list(self._models(entry))
        overrides = self._overrides(entry)
        if not _mistakes(self.problems):
            # The groups that are there stay there, also if they are empty now.
            kept = {name: group for name, group in (("models", models), ("modelOverrides", overrides)) if name in entry}
            self.usable = {**entry, **kept}
        else:
            self.damaged.append(entry)

    @property
    def mistakes(self) -> list[Problem]:
        """All problems but hints."""
        return [*_mistakes(self.problems), *(each for group in self.left_out.values() for each in group)]

    def diagnostics(self, file: str) -> Iterator[Diagnostic]:
        """Return what to report."""
        if self.usable is None:
            too = ", with its built-in models" if self.provider in index().providers else ""
            left_out = f'the provider "{self.provider}" is left out{too}'
            yield Diagnostic(file, _screenful(_mistakes(self.problems)), left_out)
        elif mistakes := self.mistakes:
            left_out = f'these models of the provider "{self.provider}" are left out'
            yield Diagnostic(file, _screenful(mistakes), left_out)
        yield from hints(file, _screenful([each for each in (*self.problems, *self._hints) if each.is_hint]))

    def _contradictions(self, entry: JsonObject) -> Iterator[Problem]:
        if not self.provider.strip():
            yield Problem("providers", "the id of a provider must not be empty")
        if self.provider == OFFLINE_PROVIDER:
            yield Problem(self._path, "this provider is built in and can't be described")
        if not entry.get("models") and not any(name in entry for name in _PROVIDER_FIELDS):
            is_harmless = self.provider in index().providers  # which stays as it is
            yield Problem(self._path, f"needs models, or one of {', '.join(_PROVIDER_FIELDS)}", is_harmless)

    def _models(self, entry: JsonObject) -> Iterator[JsonObject]:
        models = entry.get("models", [])
        for place, model in enumerate(models if is_list(models) else []):
            path = f"{self._path}.models[{place}]"
            problems = check_model(model, path)
            if is_object(model) and self.provider not in index().providers:  # whose models supply missing fields
                problems += [
                    Problem(path, f"needs {name}, here or in the provider")
                    for name in ("baseUrl", "api")
                    if name not in model and name not in entry
                ]
            if self._is_usable(model, model.get("id") if is_object(model) else None, problems) and is_object(model):
                yield model

    def _overrides(self, entry: JsonObject) -> JsonObject:
        overrides = entry.get("modelOverrides", {})
        return {
            model_id: override
            for model_id, override in (overrides.items() if is_object(overrides) else ())
            if self._is_usable(override, model_id, check_override(override, f"{self._path}.modelOverrides.{model_id}"))
        }

    def _is_usable(self, description: object, model_id: object, problems: Sequence[Problem]) -> bool:
        mistakes = _mistakes(problems)
        self._hints += [each for each in problems if each.is_hint]
        if mistakes:
            self.damaged.extend([description] if is_object(description) else [])
            self.left_out.setdefault(model_id if isinstance(model_id, str) else "", []).extend(mistakes)
        return not mistakes


def _left_out(checked: Sequence[_Entry]) -> LeftOut:
    damaged = [description for each in checked for description in each.damaged]
    headers = [fields for each in damaged if is_object(fields := each.get("headers"))]
    return LeftOut(
        frozenset(each.provider for each in checked if each.usable is None),
        frozenset((each.provider, model_id) for each in checked for model_id in each.left_out),
        tuple(Secret(key) for each in damaged if isinstance(key := each.get("apiKey"), str)),
        tuple({name: Secret(value) for name, value in each.items() if isinstance(value, str)} for each in headers),
        tuple(Secret(address) for each in damaged if isinstance(address := each.get("baseUrl"), str)),
    )


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
