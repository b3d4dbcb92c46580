"""Settings commands, which take effect at once: the next request uses the new value.

Validation comes before any change. A change is emitted before its answer. Must not await. `message_agent`, whose answer
waits for the disk, is not among them (`agent_messages`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pinnace_agent.config.models.models import next_level
from pinnace_agent.config.models.patterns import full_name
from pinnace_agent.config.models.scope import ScopedModel, next_model
from pinnace_agent.session.tree import clean_name
from pinnace_rpc.server.queries import shown_model
from pinnace_spec.records.flat_commands import FlatCommand
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_spec.records import commands as cmd

Data = Mapping[str, object] | None


def set_model(agent: "AgentReads", command: "cmd.SetModel") -> Data:
    """Select a model that has credentials; the next request uses it."""
    available = agent.profile.registry.available()
    for model in available:
        if (model["provider"], model["id"]) == (command.provider, command.modelId):
            agent.settings.select_model(model, None, "set")
            return shown_model(model)
    from pinnace_spec.nearest import nearest

    near = nearest(f"{command.provider}/{command.modelId}", map(full_name, available))
    text = errors.model_not_found(command.provider, command.modelId)
    raise errors.ClientError(text, errors.ErrorCode.MODEL_NOT_FOUND, near)


def cycle_model(agent: "AgentReads", command: FlatCommand) -> Data:
    """Select the next model that has credentials; null when there is no other."""
    registry = agent.profile.registry
    scope = [scoped for scoped in agent.settings.scope if registry.is_usable(scoped.model)]
    candidates = scope or [ScopedModel(model, None) for model in registry.available()]
    chosen = next_model(candidates, agent.session.model)
    if chosen is None:
        return None
    agent.settings.select_model(chosen.model, chosen.level, "cycle")
    return {"model": shown_model(chosen.model), "thinkingLevel": agent.session.thinking_level, "isScoped": bool(scope)}


def set_thinking_level(agent: "AgentReads", command: "cmd.SetThinkingLevel") -> Data:
    """Select a level; one that the model does not have becomes the nearest, higher first."""
    agent.settings.select_level(command.level)
    return None


def cycle_thinking_level(agent: "AgentReads", command: FlatCommand) -> Data:
    """Select the model's next level; null when the model has only one."""
    model = agent.session.model
    level = next_level(model, agent.session.thinking_level) if model is not None else None
    if level is None:
        return None
    agent.settings.select_level(level)
    return {"level": level}


def set_session_name(agent: "AgentReads", command: "cmd.SetSessionName") -> Data:
    """Name the session, trimmed and without control characters."""
    name = clean_name(command.name)
    if name is None:
        raise errors.ClientError(errors.SESSION_NAME_EMPTY)
    agent.settings.rename(name)
    return None


def set_active_tools(agent: "AgentReads", command: "cmd.SetActiveTools") -> Data:
    """Select the tools that the next request declares; all of them must exist."""
    from pinnace_agent.engine.session_choices import choose_tools  # not at start

    choose_tools(agent, command.names, is_command=True)
    return None


def set_tool_approval(agent: "AgentReads", command: "cmd.SetToolApproval") -> Data:
    """Decide later tool calls by another mode."""
    agent.approval.set_mode(command.mode)
    return None


def abort_tool(agent: "AgentReads", command: "cmd.AbortTool") -> Data:
    """End one call that is being carried out."""
    if not agent.abort_call(command.entryId):
        raise errors.ClientError(errors.entry_not_found(command.entryId), errors.ErrorCode.ENTRY_NOT_FOUND)
    return None


def cancel_agent(agent: "AgentReads", command: "cmd.CancelAgent") -> Data:
    """End one sub-agent that works."""
    if not ((children := agent.profile.children) and children.cancel(command.agentId)):
        raise errors.ClientError(errors.agent_not_found(command.agentId), errors.ErrorCode.AGENT_NOT_FOUND)
    return None


def set_label(agent: "AgentReads", command: "cmd.SetLabel") -> Data:
    """Label an entry of the session, or remove its label."""
    if agent.session.tree.find(command.entryId) is None:
        raise errors.ClientError(errors.entry_not_found(command.entryId), errors.ErrorCode.ENTRY_NOT_FOUND)
    agent.settings.label(command.entryId, command.label or None)
    return None


SETTINGS: Final[Mapping[str, Callable[..., Data]]] = {
    setting.__name__: setting
    for setting in (
        set_model,
        cycle_model,
        set_thinking_level,
        cycle_thinking_level,
        set_session_name,
        set_active_tools,
        set_tool_approval,
        set_label,
        abort_tool,
        cancel_agent,
    )
}
