"""The files of sub-agents, for a client that is shown them again. Blocks on the file system: called in a thread."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from pinnace_agent.core.json_access import as_object
from pinnace_agent.session.child_agents import listed_children
from pinnace_agent.session.opening import read_text
from pinnace_rpc.acp.translation.children import StoredChild
from pinnace_rpc.acp.translation.shown import Json
from pinnace_spec.rules import errors


def read_children(agents: Sequence[object]) -> list[StoredChild]:
    """Read sub-agents with those that they have started. One whose file can't be read has shown nothing.

    Args:
        agents: As `list_agents` has them.
    """
    return [_read(agent) for each in agents if (agent := as_object(each)) is not None]


def _read(agent: Json) -> StoredChild:
    file = agent.get("sessionFile")
    if not isinstance(file, str):  # its session is in memory
        return StoredChild(agent, (), ())
    try:
        entries = list(read_text(Path(file)).entries)
    except errors.ClientError:
        return StoredChild(agent, (), ())
    below = listed_children(entries, str(agent.get("agentId")), file)
    return StoredChild(agent, cast("Sequence[Json]", entries), read_children(below))
