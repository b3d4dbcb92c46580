"""Settings commands: what takes effect at once and is seen by the next request.

Validation comes before any change. A change is told before its answer; `choices` makes it. Must not await.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pinnace_agent.host import Host
from pinnace_agent.resources.model_scope import ScopedModel, next_model
from pinnace_agent.resources.models import next_level
from pinnace_agent.session.tree import clean_name
from pinnace_rpc.shown_models import shown_model
from pinnace_spec import errors
from pinnace_spec.flat_commands import FlatCommand

if TYPE_CHECKING:
    from pinnace_spec import commands as cmd

Data = Mapping[str, object] | None


def set_model(host: Host, command: "cmd.SetModel") -> Data:
    """Select a model that has credentials; the next request uses it."""
    registry = host.profile.registry
    for model in registry.available():
        if (model["provider"], model["id"]) == (command.provider, command.modelId):
            host.choices.select_model(model, None, "set")
            return shown_model(model)
    raise errors.ClientError(
        errors.model_not_found(command.provider, command.modelId), errors.ErrorCode.MODEL_NOT_FOUND
    )


def cycle_model(host: Host, command: FlatCommand) -> Data:
    """Select the next model that has credentials; null when there is no other."""
    registry = host.profile.registry
    scope = [scoped for scoped in host.profile.scope if registry.is_usable(scoped.model)]
    candidates = scope or [ScopedModel(model, None) for model in registry.available()]
    chosen = next_model(candidates, host.session.model)
    if chosen is None:
        return None
    host.choices.select_model(chosen.model, chosen.level, "cycle")
    return {"model": shown_model(chosen.model), "thinkingLevel": host.session.thinking_level, "isScoped": bool(scope)}


def set_thinking_level(host: Host, command: "cmd.SetThinkingLevel") -> Data:
    """Select a level; one that the model does not have becomes the nearest, higher first."""
    host.choices.select_level(command.level)
    return None


def cycle_thinking_level(host: Host, command: FlatCommand) -> Data:
    """Select the model's next level; null when it has none to choose from."""
    model = host.session.model
    level = next_level(model, host.session.thinking_level) if model is not None else None
    if level is None:
        return None
    host.choices.select_level(level)
    return {"level": level}


def set_session_name(host: Host, command: "cmd.SetSessionName") -> Data:
    """Name the session, trimmed and without control characters."""
    name = clean_name(command.name)
    if name is None:
        raise errors.ClientError(errors.SESSION_NAME_EMPTY)
    host.choices.rename(name)
    return None


SETTINGS: Final[Mapping[str, Callable[..., Data]]] = {
    "set_model": set_model,
    "cycle_model": cycle_model,
    "set_thinking_level": set_thinking_level,
    "cycle_thinking_level": cycle_thinking_level,
    "set_session_name": set_session_name,
}
