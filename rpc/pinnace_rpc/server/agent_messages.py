"""The sub-agents of a session as clients see them, and the messages that a client gives one.

A message is answered when it is on the disk: what was accepted outlives a loss of power, too. Until then it is not sent
to the sub-agent, and nothing shows it. Rules R-SUB-07, R-SUB-10, R-SUB-12.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.session.child_agents import listed_children
from pinnace_agent.session.identity import new_message_id
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_agent.session.conversation import Session
    from pinnace_agent.session.store.save_error import SaveError
    from pinnace_spec.records import commands as cmd

OnAnswer = Callable[[Mapping[str, object] | errors.ProtocolError], None]


def shown_agents(agent: "AgentReads") -> list[Mapping[str, object]]:
    """Return the sub-agents of the session, as `list_agents` answers them."""
    return shown_agents_of(agent, agent.session)


def shown_agents_of(agent: "AgentReads", session: "Session") -> list[Mapping[str, object]]:
    """Return the sub-agents of a session of this process, which another one may have replaced.

    One whose beginning is not on the disk is not among them.
    """
    if (children := agent.profile.children) is None:
        return listed_children(session.tree.entries, session.id, session.path)
    listed = listed_children(session.tree.entries, session.id, session.path, children.messages)
    return [each for each in listed if not children.is_beginning(str(each["agentId"]))]


def shown_agent(agent: "AgentReads", session: "Session", agent_id: str) -> Mapping[str, object] | None:
    """Return one of them; None: the session has started no such sub-agent."""
    return next((each for each in shown_agents_of(agent, session) if each["agentId"] == agent_id), None)


class GivenMessages:
    """The messages to sub-agents that clients have sent, and that are not answered yet."""

    def __init__(self) -> None:
        """Know none."""
        self._waiting: dict[tuple[str, str], list[OnAnswer]] = {}
        """By sub-agent and message: their answers, when it is on the disk."""

    def give(self, agent: "AgentReads", ref: int, command: "cmd.MessageAgent", answer: OnAnswer) -> None:
        """Give one sub-agent that works a message; one that it was given before is not given again.

        Args:
            agent: The agent that has started it.
            ref: The command.
            command: Its fields.
            answer: Takes the data of the answer, or the error: there is no such sub-agent, its end is decided, it has
                too many, or that can't be saved. Perhaps at once.

        Raises:
            ClientError: The same, at once.
        """
        if not command.message:
            raise errors.ClientError(errors.invalid_field("message_agent", "message", errors.NO_TEXT))
        agent_id, message_id = command.agentId, command.messageId or new_message_id()
        if (waiting := self._waiting.get((agent_id, message_id))) is not None:
            waiting.append(answer)
            return
        session, children = agent.session, agent.profile.children
        if (shown := shown_agent(agent, session, agent_id)) is None:
            raise errors.ClientError(errors.agent_not_found(agent_id), errors.ErrorCode.AGENT_NOT_FOUND)
        is_new = _state_of(shown, message_id) is None
        if is_new:
            if shown["state"] != "running" or children is None:
                text = errors.agent_not_running(agent_id, str(shown["state"]))
                raise errors.ClientError(text, errors.ErrorCode.AGENT_NOT_FOUND)
            children.take_message(agent_id, message_id, command.message)
        self._waiting[agent_id, message_id] = [answer]

        def saved(failure: "SaveError | None") -> None:
            if is_new and children is not None:
                children.decide_message(agent_id, message_id, is_saved=failure is None)
            outcome: Mapping[str, object] | errors.ProtocolError
            if failure is not None:
                outcome = errors.ClientError(failure.text, errors.ErrorCode.SESSION_NOT_SAVED)
            else:  # its sub-agent may have ended meanwhile, and has returned it then
                found = shown_agent(agent, session, agent_id)
                assert found is not None
                outcome = {"messageId": message_id, "state": _state_of(found, message_id)}
            for each in self._waiting.pop((agent_id, message_id)):
                each(outcome)

        agent.sessions.queue.when_saved(ref, saved)


def _state_of(shown: Mapping[str, object], message_id: str) -> object:
    """Return what became of a message to a sub-agent; None: it was not given that."""
    messages = (as_object(each) or {} for each in as_array(shown.get("messages")))
    return next((each["state"] for each in messages if each.get("messageId") == message_id), None)
