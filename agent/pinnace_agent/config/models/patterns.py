"""Resolves the model that a text on the command line names.

A text is an id, `provider/id` or a part of a name, with an optional `:level` at its end. Pure: the models and their
usability are passed in. The outcome is a value, also for a failure; its texts are for the user.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from pinnace_agent.config.models.thinking import is_level
from pinnace_agent.core.collation import collation_key
from pinnace_spec.records.messages import Model, ThinkingLevel

_DATED = re.compile(r"-\d{8}$")
_EMPTY: Final = "The model's name is empty."
# More names than this don't help to find the right one.
_MAX_LISTED: Final = 12
# A new model has a name that resembles those of its provider; a misspelling resembles one of them more.
_NEARLY: Final = 0.9


class ModelRequest(NamedTuple):
    """A model as the user names it."""

    pattern: str
    provider: str | None = None
    level: ThinkingLevel | None = None
    """The level of the flag; it takes precedence over one in the pattern."""
    has_key: bool = False
    """Whether a key came with the request: then stored keys do not influence the choice of the provider."""


class Resolution(NamedTuple):
    """The resolved model, or the reason why there is none."""

    model: Model | None = None
    level: ThinkingLevel | None = None
    """The level that the pattern names."""
    warning: str | None = None
    error: str | None = None


class ModelMatch(NamedTuple):
    """Models with the same id from different providers, and the level that the pattern names."""

    models: Sequence[Model]
    level: ThinkingLevel | None = None


def split_level(pattern: str) -> tuple[str, ThinkingLevel | None]:
    """Cut a level off the end of a pattern; an id may have colons of its own."""
    before, colon, after = pattern.rpartition(":")
    if colon and before and is_level(after):
        return before, after
    return pattern, None


def find(
    pattern: str, models: Sequence[Model], is_preferred: Callable[[Model], bool] | None = None
) -> ModelMatch | None:
    """Find the models that a pattern matches: by exact id, else by a part, else the same without a level.

    A part matches the preferred models if it matches any of them, else all.
    """
    if found := find_exact(pattern, models) or find_by_part(pattern, models, is_preferred):
        return ModelMatch(found)
    rest, level = split_level(pattern)
    if level is not None and (match := find(rest, models, is_preferred)) is not None:
        return ModelMatch(match.models, level)
    return None


def find_exact(pattern: str, models: Sequence[Model]) -> list[Model]:
    """Return the models with this id or `provider/id`; the case of letters decides only among these."""
    lower = pattern.lower()
    hits = [model for model in models if lower in (model["id"].lower(), full_name(model).lower())]
    # DEVIATION D-33: the case as typed counts.
    same_case = [model for model in hits if pattern in (model["id"], full_name(model))]
    return _one_each(same_case or hits)


def find_by_part(
    pattern: str, models: Sequence[Model], is_preferred: Callable[[Model], bool] | None = None
) -> list[Model]:
    """Return the models of the best id that contains the pattern, or whose name does.

    An id without a date takes precedence over a dated one; among equals the last in the alphabet is the newest.
    """
    lower = pattern.lower()
    if not lower:
        return []
    hits = [model for model in models if lower in model["id"].lower() or lower in model["name"].lower()]
    if is_preferred is not None:
        hits = [model for model in hits if is_preferred(model)] or hits
    candidates = [model for model in hits if not _DATED.search(model["id"])] or hits
    if not candidates:
        return []
    best = max((model["id"] for model in candidates), key=collation_key)
    return _one_each([model for model in candidates if model["id"] == best])


def _one_each(models: Sequence[Model]) -> list[Model]:
    first: dict[str, Model] = {}
    for model in models:
        first.setdefault(model["provider"], model)
    return list(first.values())


def full_name(model: Model) -> str:
    """Return `provider/id`."""
    return f"{model['provider']}/{model['id']}"


class KnownModels(Protocol):
    """All described models by provider, so that the files of other providers stay unread."""

    def providers(self) -> Sequence[str]:
        """Return all known providers, including those without a model."""
        ...

    def models_of(self, provider: str) -> Sequence[Model]:
        """Return the models of a provider, in order."""
        ...

    def default_of(self, provider: str) -> Model | None:
        """Return the default model of a provider, if it has one."""
        ...


class PatternResolver:
    """Resolves requests against a fixed list of models."""

    def __init__(self, known: KnownModels, is_usable: Callable[[Model], bool]) -> None:
        """Search all known models; usable ones have credentials."""
        self._known = known
        self._providers = known.providers()
        self._is_usable = is_usable

    def resolve(self, request: ModelRequest) -> Resolution:
        """Find the model that a request names."""
        pattern = request.pattern.strip()
        if not pattern:
            return Resolution(error=_EMPTY)
        if request.provider is not None:
            return self._under_named_provider(request, pattern)
        inferred = self._inferred_provider(pattern)
        if inferred is not None:
            return self._under_inferred_provider(request, pattern, inferred)
        if (match := find(pattern, self._all(), self._preferred(request))) is not None:
            return self._pick(request, match)
        return Resolution(error=self._not_found(pattern))

    def _under_named_provider(self, request: ModelRequest, pattern: str) -> Resolution:
        wanted = (request.provider or "").strip().lower()
        provider = next((known for known in self._providers if known.lower() == wanted), None)
        if provider is None:
            return Resolution(error=self._unknown_provider(request.provider or ""))
        prefix = f"{provider}/"
        if pattern.lower().startswith(prefix.lower()):
            pattern = pattern[len(prefix) :]
        if not pattern:
            return Resolution(error=_EMPTY)
        if (match := find(pattern, self._known.models_of(provider))) is not None:
            return self._pick(request, match)
        return self._custom(request, provider, pattern)

    def _under_inferred_provider(self, request: ModelRequest, pattern: str, provider: str) -> Resolution:
        rest = pattern[len(provider) + 1 :]
        named = find(rest, self._known.models_of(provider))
        if named is not None and (request.has_key or self._is_usable(named.models[0])):
            return self._pick(request, named)
        # `vendor/model` may also be the whole id of a model that another provider offers.
        elsewhere = self._raw(pattern, other_than=provider)
        usable = [model for model in elsewhere.models if self._is_usable(model)]
        if not request.has_key and len(usable) == 1:
            return Resolution(usable[0], elsewhere.level)
        if named is not None:
            return self._pick(request, named)
        if (match := find(pattern, self._all(), self._preferred(request))) is not None:
            return self._pick(request, match)
        return self._custom(request, provider, rest) if rest else Resolution(error=self._not_found(pattern))

    def _raw(self, pattern: str, *, other_than: str) -> ModelMatch:
        others = [model for model in self._all() if model["provider"] != other_than]
        for text, level in ((pattern, None), split_level(pattern)):
            if found := [model for model in others if model["id"].lower() == text.lower()]:
                return ModelMatch(_one_each(found), level)
        return ModelMatch(())

    def _preferred(self, request: ModelRequest) -> Callable[[Model], bool] | None:
        return None if request.has_key else self._is_usable

    def _pick(self, request: ModelRequest, match: ModelMatch) -> Resolution:
        if len(match.models) == 1:
            return Resolution(match.models[0], match.level)
        usable = [model for model in match.models if self._is_usable(model)]
        if len(usable) == 1 and not request.has_key:
            return Resolution(usable[0], match.level)
        names = ", ".join(full_name(model) for model in match.models)
        return Resolution(
            error=f'Model "{request.pattern}" is offered by several providers: {names}. '
            "Name one with --provider, or as provider/model."
        )

    def _custom(self, request: ModelRequest, provider: str, model_id: str) -> Resolution:
        """Accept an undescribed id as it is: servers offer more models than are described."""
        described = self._known.models_of(provider)
        first = next((model for model in described if self._is_usable(model)), described[0] if described else None)
        base = self._known.default_of(provider) or first
        if base is None:
            return Resolution(error=f'Provider "{provider}" has no models here: describe them in models.json.')
        level = None
        if request.level is None:
            model_id, level = split_level(model_id)
        model: Model = {**base, "id": model_id, "name": model_id}
        if (request.level or level or "off") != "off":
            model["reasoning"] = True
        return Resolution(
            model,
            level,
            warning=f'Model "{model_id}" is not described for the provider "{provider}": '
            f'the id is used as it is, with the properties of "{base["id"]}"'
            + _hint(model_id, [each["id"] for each in described], _NEARLY),
        )

    def _inferred_provider(self, pattern: str) -> str | None:
        """Return the provider that the pattern begins with; ids may have slashes, so the longest one."""
        lower = pattern.lower()
        begins = [provider for provider in self._providers if lower.startswith(f"{provider.lower()}/")]
        return max((one for one in begins if self._known.models_of(one)), key=len, default=None)

    def _all(self) -> list[Model]:
        return [model for provider in self._providers for model in self._known.models_of(provider)]

    def _unknown_provider(self, provider: str) -> str:
        return (
            f'Unknown provider "{provider}"{_hint(provider, self._providers)} {_listed("Known here", self._providers)}'
        )

    def _not_found(self, pattern: str) -> str:
        usable = [model for model in self._all() if self._is_usable(model)]
        hint = _hint(pattern, [*(model["id"] for model in usable), *map(full_name, usable)])
        return f'Model "{pattern}" not found{hint} {_listed("Available", list(map(full_name, usable)))}'


def _hint(word: str, names: Sequence[str], least: float = 0.6) -> str:
    from pinnace_spec.nearest import did_you_mean

    return did_you_mean(word, names, least) or "."


def _listed(title: str, names: Sequence[str]) -> str:
    if not names:
        return (
            "No provider has a key: set the variable of one, such as OPENAI_API_KEY, run pinnace auth login PROVIDER, "
            "describe a server in models.json, or try --provider offline."
        )
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{title}: {', '.join(names[:_MAX_LISTED])}{more}."
