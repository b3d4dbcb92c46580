"""Settings commands: what takes effect at once and is seen by the next request.

They change the session, never the user's files (R-SET-03). Validation comes before any change. A change is told before
its answer. Must not await.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pinnace_agent.emitter import Emitter
from pinnace_agent.host import Host
from pinnace_agent.resources.model_scope import ScopedModel, next_model
from pinnace_agent.resources.models import clamp_level, next_level
from pinnace_agent.session.file import SaveError
from pinnace_agent.session.tree import clean_name
from pinnace_rpc.shown_models import shown_model
from pinnace_spec import errors
from pinnace_spec.messages import Model, ThinkingLevel
from pinnace_spec.plain_commands import PlainCommand

if TYPE_CHECKING:
    from pinnace_spec import commands as cmd

Data = Mapping[str, object] | None


def set_model(host: Host, emitter: Emitter, command: "cmd.SetModel") -> Data:
    """Select a model that has credentials; the next request uses it."""
    registry = host.profile.registry
    for model in registry.available():
        if (model["provider"], model["id"]) == (command.provider, command.modelId):
            _select(host, emitter, model, None)
            return shown_model(model)
    raise errors.ClientError(
        errors.model_not_found(command.provider, command.modelId), errors.ErrorCode.MODEL_NOT_FOUND
    )


def cycle_model(host: Host, emitter: Emitter, command: PlainCommand) -> Data:
    """Select the next model that has credentials; null when there is no other."""
    registry = host.profile.registry
    scope = [scoped for scoped in host.profile.scope if registry.is_usable(scoped.model)]
    candidates = scope or [ScopedModel(model, None) for model in registry.available()]
    chosen = next_model(candidates, host.session.model)
    if chosen is None:
        return None
    _select(host, emitter, chosen.model, chosen.level)
    return {"model": shown_model(chosen.model), "thinkingLevel": host.session.thinking_level, "isScoped": bool(scope)}


def _select(host: Host, emitter: Emitter, model: Model, level: ThinkingLevel | None) -> None:
    # DEVIATION D-18: the level that was asked for survives a model that can't have it.
    preferred = level or host.sessions.preferred_level
    _choose(host, emitter, model, clamp_level(model, preferred))
    host.sessions.preferred_level = preferred


def set_thinking_level(host: Host, emitter: Emitter, command: "cmd.SetThinkingLevel") -> Data:
    """Select a level; one that the model does not have becomes the nearest, higher first."""
    model = host.session.model
    _choose(host, emitter, model, clamp_level(model, command.level) if model is not None else command.level)
    host.sessions.preferred_level = command.level
    return None


def cycle_thinking_level(host: Host, emitter: Emitter, command: PlainCommand) -> Data:
    """Select the model's next level; null when it has none to choose from."""
    model = host.session.model
    level = next_level(model, host.session.thinking_level) if model is not None else None
    if level is None:
        return None
    _choose(host, emitter, model, level)
    host.sessions.preferred_level = level
    return {"level": level}


def _choose(host: Host, emitter: Emitter, model: Model | None, level: ThinkingLevel) -> None:
    session = host.session
    is_changed = level != session.thinking_level
    _saved(lambda: session.choose(model=model, thinking_level=level, name=session.name))
    if is_changed:
        emitter.emit({"type": "thinking_level_changed", "level": level})


def _saved(change: Callable[[], None]) -> None:
    try:
        change()
    except SaveError as error:
        raise errors.ClientError(error.text, errors.ErrorCode.SESSION_NOT_SAVED) from None


def set_session_name(host: Host, emitter: Emitter, command: "cmd.SetSessionName") -> Data:
    """Name the session, trimmed and without control characters."""
    session = host.session
    name = clean_name(command.name)
    if name is None:
        raise errors.ClientError(errors.SESSION_NAME_EMPTY)
    _saved(lambda: session.choose(model=session.model, thinking_level=session.thinking_level, name=name))
    emitter.emit({"type": "session_info_changed", "name": name})
    return None


SETTINGS: Final[Mapping[str, Callable[..., Data]]] = {
    "set_model": set_model,
    "cycle_model": cycle_model,
    "set_thinking_level": set_thinking_level,
    "cycle_thinking_level": cycle_thinking_level,
    "set_session_name": set_session_name,
}
