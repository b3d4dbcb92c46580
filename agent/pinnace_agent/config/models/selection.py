"""Selects the model and the thinking level that a process starts with.

The first of these counts: the model of the command line, the first of the scope or the model of a resumed session, the
saved default, the default of the first provider with a key, the first available one, none. A process without a model
starts: prompts fail until `set_model`. A name that can't be resolved is an error, never replaced by another model.
"""

from typing import Final, NamedTuple

from pinnace_agent.config.models.builtin import OFFLINE_PROVIDER
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import ModelRequest, full_name
from pinnace_agent.config.models.scope import Scope, ScopedModel, resolve_scope
from pinnace_agent.config.models.thinking import clamp_level
from pinnace_agent.config.settings import Settings
from pinnace_spec.records.messages import Model, ThinkingLevel


class Choice(NamedTuple):
    """The command line's choice of models. The key is not here, since a tuple shows its members."""

    provider: str | None = None
    model: str | None = None
    scope: tuple[str, ...] = ()
    level: ThinkingLevel | None = None


class ResumedChoice(NamedTuple):
    """The model and level of a resumed session."""

    model: tuple[str, str] | None = None
    """Provider and id."""
    level: ThinkingLevel | None = None
    has_messages: bool = False


NOTHING_KEPT: Final = ResumedChoice()


class Selection(NamedTuple):
    """The model and level that the process starts with."""

    model: Model | None = None
    level: ThinkingLevel = "off"
    """A level that the model supports."""
    preferred_level: ThinkingLevel = "off"
    """The level before it was clamped to the model's levels; another model may support it."""
    scope: tuple[ScopedModel, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None
    """Why the process can't start."""
    is_usage_error: bool = False
    """Whether the error is a contradiction between options or settings."""


class _Candidate(NamedTuple):
    """The outcome of one source of the choice."""

    model: Model | None = None
    level: ThinkingLevel | None = None
    warning: str | None = None
    error: str | None = None


def select_initial(
    registry: ModelRegistry,
    settings: Settings,
    choice: Choice,
    api_key: str | None = None,
    kept: ResumedChoice = NOTHING_KEPT,
) -> Selection:
    """Select model and level; `api_key` is used for the provider of the model from now on."""
    if _is_offline(choice.provider):
        registry.offer_offline()
    patterns = choice.scope or settings.enabled_models
    scope = resolve_scope(patterns, registry.available()) if patterns else Scope()
    named = _from_command_line(registry, choice, has_key=api_key is not None)
    if named is None and not kept.has_messages:
        named = _from_scope(settings, scope)
    if named is None and api_key is not None:
        return Selection(error="--api-key needs a model: name it with --model, or with --provider and --model.")
    picked = named or _from_session(registry, settings, kept)
    if picked.error is not None:
        return Selection(error=picked.error)
    model = picked.model or registry.first_available()
    if model is not None and model["provider"] == OFFLINE_PROVIDER:
        registry.offer_offline()
    if model is not None and api_key is not None:
        registry.use_key(model["provider"], api_key)
    wanted = choice.level or picked.level or kept.level or settings.thinking_level_of(model)
    warnings = (*scope.warnings, picked.warning) if picked.warning else scope.warnings
    level = clamp_level(model, wanted) if model is not None else "off"
    return Selection(model, level, wanted, scope.models, warnings)


def _from_session(registry: ModelRegistry, settings: Settings, kept: ResumedChoice) -> _Candidate:
    """Return the model of the resumed session, if it is available."""
    if kept.model is None or not kept.has_messages:
        return _from_settings(registry, settings)
    model = registry.find(*kept.model)
    if model is not None and registry.is_usable(model):
        return _Candidate(model)
    provider, model_id = kept.model
    instead = _from_settings(registry, settings)
    why = _why_unusable(registry, provider, model_id)
    return instead._replace(warning=f"The session's model {provider}/{model_id} is not available: {why}.")


def _is_offline(provider: str | None) -> bool:
    return provider is not None and provider.strip().lower() == OFFLINE_PROVIDER


def _from_command_line(registry: ModelRegistry, choice: Choice, *, has_key: bool) -> _Candidate | None:
    if choice.model is None and choice.provider is None:
        return None
    if choice.model is None and not _is_offline(choice.provider):
        return _Candidate(error=f"--provider needs --model, for example: --provider {choice.provider} --model ID")
    found = registry.resolve(ModelRequest(choice.model or "", choice.provider, choice.level, has_key))
    return _Candidate(found.model, found.level, found.warning, found.error)


def _from_scope(settings: Settings, scope: Scope) -> _Candidate | None:
    if not scope.models:
        return None
    saved = f"{settings.default_provider}/{settings.default_model}"
    by_name = {full_name(scoped.model): scoped for scoped in scope.models}
    scoped = by_name.get(saved, scope.models[0])
    return _Candidate(scoped.model, scoped.level)


def _from_settings(registry: ModelRegistry, settings: Settings) -> _Candidate:
    """Return the saved default, or a candidate without a model, with the reason if there was a default."""
    provider, model_id = settings.default_provider, settings.default_model
    if provider is None or model_id is None:
        return _Candidate()
    if (problem := default_model_problem(registry, settings)) is not None:
        return _Candidate(warning=f"{problem}.")
    return _Candidate(registry.find(provider, model_id))


def default_model_problem(registry: ModelRegistry, settings: Settings) -> str | None:
    """Return why the default model of the settings is not used; None: it is, or there is none."""
    provider, model_id = settings.default_provider, settings.default_model
    if provider is None or model_id is None:
        return None
    if provider == OFFLINE_PROVIDER:
        return "The saved default model is the offline one, which only --provider selects"
    model = registry.find(provider, model_id)
    if model is not None and registry.is_usable(model):
        return None
    why = _why_unusable(registry, provider, model_id)
    return f"The saved default model {provider}/{model_id} is not available: {why}"


def _why_unusable(registry: ModelRegistry, provider: str, model_id: str) -> str:
    from pinnace_agent.config.models.unusable import why_unusable  # most starts have a model

    return why_unusable(registry, provider, model_id)
