"""Reads: snapshots of the state as it is, without any effect.

One function a command. Each sees every command that was admitted before it (R-ORD-02). Must not change anything and
must not await.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final

from pinnace_agent.host import Host
from pinnace_agent.resources.models import supported_levels
from pinnace_rpc.prompt_commands import get_commands
from pinnace_rpc.session_queries import (
    get_branch_messages,
    get_fork_messages,
    get_session_stats,
    get_tree,
    session_status,
)
from pinnace_rpc.shown_models import shown_model, shown_models
from pinnace_spec.messages import AssistantMessage
from pinnace_statechart.effects import View

Data = Mapping[str, object]


def get_state(host: Host, view: View) -> Data:
    """What the agent is doing, with what, and what waits."""
    session = host.session
    # DEVIATION D-11: with the additive fields of ours and those of the oldest generation.
    data: dict[str, object] = {
        "model": None if session.model is None else shown_model(session.model),
        "thinkingLevel": session.thinking_level,
        "isStreaming": view.is_streaming,
        "isCompacting": view.is_compacting,
        "isBashRunning": view.is_bash_running,
        "steeringMode": view.steering_mode,
        "followUpMode": view.follow_up_mode,
        "queueMode": view.steering_mode,
        "sessionId": session.id,
        "sessionStatus": session_status(session),
        "autoCompactionEnabled": view.auto_compaction,
        "messageCount": session.message_count,
        "pendingMessageCount": view.pending,
        "queuedMessageCount": view.pending,
        "pid": os.getpid(),
        "cwd": session.cwd,
        "projectTrusted": host.profile.resources.is_trusted(session.cwd),
    }
    if (interruption := session.interruption) is not None:
        data["interrupted"] = interruption
    if (path := session.path) is not None:
        data["sessionFile"] = path
    if session.name is not None:
        data["sessionName"] = session.name
    return data


def get_messages(host: Host) -> Data:
    """All messages of the context; one that is being streamed is not among them."""
    return {"messages": host.session.encoded_messages()}


def get_last_assistant_text(host: Host) -> Data:
    """The text of the newest answer; one that was aborted before it said anything is skipped."""
    for message in host.session.newest_first():
        if message["role"] == "assistant" and (message["content"] or message["stopReason"] != "aborted"):
            return {"text": _text(message).strip() or None}
    # DEVIATION D-10: null, as published.
    return {"text": None}


def _text(message: AssistantMessage) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def get_available_models(host: Host) -> Data:
    """Every model that has credentials."""
    return {"models": shown_models(host.profile.registry.available())}


def get_available_thinking_levels(host: Host) -> Data:
    """The levels of the current model."""
    model = host.session.model
    return {"levels": supported_levels(model) if model is not None else ["off"]}


QUERIES: Final[Mapping[str, Callable[[Host], Data]]] = {
    query.__name__: query
    for query in (
        get_messages,
        get_last_assistant_text,
        get_available_models,
        get_available_thinking_levels,
        get_session_stats,
        get_fork_messages,
        get_branch_messages,
        get_tree,
        get_commands,
    )
}
