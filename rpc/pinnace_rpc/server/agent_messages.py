"""The sub-agents of a session as clients see them, and the messages that a client gives one (R-SUB-07, R-SUB-10)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.session.child_agents import listed_children
from pinnace_agent.session.identity import new_message_id
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_spec.records import commands as cmd


def shown_agents(agent: "AgentReads") -> list[Mapping[str, object]]:
    """Return the sub-agents of the session, as `list_agents` answers them."""
    session = agent.session
    if (children := agent.profile.children) is None:
        return listed_children(session.tree.entries, session.id, session.path)
    return listed_children(session.tree.entries, session.id, session.path, children.messages)


def give_message(agent: "AgentReads", command: "cmd.MessageAgent") -> Mapping[str, object]:
    """Give one sub-agent that works a message; one that it was given before is not given again.

    Raises:
        ClientError: There is no such sub-agent, its end is decided, it has too many, or that can't be saved.
    """
    shown = next((each for each in shown_agents(agent) if each["agentId"] == command.agentId), None)
    if shown is None:
        raise errors.ClientError(errors.agent_not_found(command.agentId), errors.ErrorCode.AGENT_NOT_FOUND)
    for known in as_array(shown.get("messages")):
        message = as_object(known) or {}
        if command.messageId is not None and message.get("messageId") == command.messageId:
            return {"messageId": command.messageId, "state": message["state"]}
    children = agent.profile.children
    if shown["state"] != "running" or children is None:
        text = errors.agent_not_running(command.agentId, str(shown["state"]))
        raise errors.ClientError(text, errors.ErrorCode.AGENT_NOT_FOUND)
    message_id = command.messageId or new_message_id()
    children.message(command.agentId, message_id, command.message)
    return {"messageId": message_id, "state": "accepted"}
