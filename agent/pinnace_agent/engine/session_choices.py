"""What a session is continued with: its model, its thinking level and its tools, as its branch records them.

Decides what becomes of these choices when another session becomes current, when the session moves in its tree, and when
tools are chosen. A choice of tools is recorded in the session before it has an effect, so that a crash loses none; an
extension's, which can't be refused, is recorded with the next entry if it can't be now. Loaded when one of these
happens. Never waits. Rules R-SET-09, R-SET-10.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace_agent.config.models.models import clamp_level
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.store.file import SaveError
from pinnace_agent.session.tool_records import ToolChange, declared, recorded_tools
from pinnace_agent.tools.registry import ToolRegistry
from pinnace_spec.nearest import nearest
from pinnace_spec.records.messages import THINKING_LEVELS, ThinkingLevel
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.config.models.models import ModelRegistry
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_agent.engine.profile import AgentProfile


def choose_tools(agent: "AgentReads", names: Sequence[str], *, is_command: bool) -> None:
    """Declare these tools from the next request on, and no others.

    Args:
        agent: Whose tools.
        names: Of tools.
        is_command: Whether the choice is refused if a name is unknown or the choice can't be saved. Else unknown names
            are ignored, and it is recorded as soon as it can be.

    Raises:
        ClientError: It is refused: nothing was changed.
    """
    toolbox, session = agent.toolbox, agent.session
    if is_command and (unknown := [name for name in names if name not in toolbox.all]):
        near = nearest(unknown[0], toolbox.all)
        raise errors.ClientError(errors.unknown_tools(unknown), errors.ErrorCode.TOOL_NOT_FOUND, near)
    chosen = {name: tool for name, tool in toolbox.all.items() if name in names}
    if chosen.keys() != toolbox.keys():
        awaited = frozenset(toolbox.awaited if chosen.keys() >= toolbox.keys() else ())
        before = declared(toolbox.values()) if session.tools is None else session.tools.before
        change = ToolChange(before, declared(chosen.values()), awaited)
        if is_command:
            try:
                session.choose(
                    model=session.model, thinking_level=session.thinking_level, name=session.name, tools=change
                )
            except SaveError as error:
                raise errors.ClientError(error.text, errors.ErrorCode.SESSION_NOT_SAVED) from None
        else:
            session.tools = change
            if (session.file is None or session.file.exists) and not session.is_beside_owner:
                session.record_choices()
    toolbox.activate(chosen)
    agent.profile.resources.use_tools(tuple(toolbox.values()))


def continue_tools(profile: "AgentProfile", session: Session) -> None:
    """Activate the tools that the branch of a session records; without a record, those that a session begins with."""
    toolbox = profile.tools
    assert isinstance(toolbox, ToolRegistry)  # a running agent has one
    session.tools = None
    if not restore_tools(toolbox, session):
        if not toolbox.is_chosen:
            return
        toolbox.reset()
    profile.resources.use_tools(tuple(toolbox.values()))


def restore_tools(toolbox: ToolRegistry, session: Session) -> bool:
    """Activate the tools that the branch of a session records; return whether it records any."""
    if not session.tree.kinds.get("message"):  # messages of roles that the context does not have
        return False
    recorded = recorded_tools(session.tree.branch())
    if recorded is not None:
        toolbox.restore(*recorded)
    return recorded is not None


# DEVIATION D-97: the branch counts, not the command line.
def restored_level(
    session: Session, former: Session, registry: "ModelRegistry", preferred: ThinkingLevel
) -> ThinkingLevel:
    """Give a session the model and the level that its branch records, if they are available.

    Returns the level that was requested, whatever the model supports.

    Args:
        session: Of which nothing else was chosen.
        former: Has the model if there is no other.
        registry: Has the models.
        preferred: The level that was requested last, if the branch has none.
    """
    recorded = session.recorded_model
    model = None if recorded is None else registry.find(*recorded)
    if model is None or not registry.is_usable(model) or registry.price_refusal(model):
        model = former.model
    session.model = model
    for level in THINKING_LEVELS:
        if level == session.recorded_level:
            preferred = level
    session.thinking_level = preferred if model is None else clamp_level(model, preferred)
    return preferred
