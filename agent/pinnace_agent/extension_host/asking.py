"""What extensions are asked around a session: may it be replaced, and what else is there to load.

Decides which event a session command is, and where a path that an extension names leads. E2, E7, E8.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions import results as rs
from pinnace_agent.extensions.chains import Found
from pinnace_agent.extensions.runner import Runner
from pinnace_agent.session.replacement import BranchSession, ForkSession, NewSession, SessionRequest, SwitchSession


class AddedResources(NamedTuple):
    """Paths of further resources, absolute, in the order of their extensions."""

    skills: Sequence[str] = ()
    templates: Sequence[str] = ()


def asked_before(request: SessionRequest) -> str:
    """Return the event that asks about a session command."""
    return "session_before_switch" if isinstance(request, NewSession | SwitchSession) else "session_before_fork"


async def allows(runner: Runner, request: SessionRequest, leaf_id: str | None) -> bool:
    """Ask extensions whether a session command may be carried out."""

    def event() -> ev.SessionBeforeSwitch | ev.SessionBeforeFork:
        match request:
            case NewSession():
                return ev.SessionBeforeSwitch(reason="new")
            case SwitchSession():
                return ev.SessionBeforeSwitch(reason="resume", target_session_file=request.path)
            case ForkSession():
                return ev.SessionBeforeFork(entry_id=request.entry_id, position=request.position)
            case BranchSession():
                return ev.SessionBeforeFork(entry_id=leaf_id or "", position="before")
            case _:
                return ev.SessionBeforeFork(entry_id=leaf_id or "", position="at")

    return not isinstance(await runner.chains.decide(asked_before(request), event), rs.Cancel)


def found_resources(found: Sequence[Found]) -> AddedResources:
    """Return the paths that extensions add."""
    skills: list[str] = []
    templates: list[str] = []
    for each in found:
        base = each.extension.source.get("baseDir") or os.path.dirname(each.extension.path)
        skills += [os.path.join(base, path) for path in each.resources.skills]
        templates += [os.path.join(base, path) for path in each.resources.prompts]
    return AddedResources(skills, templates)
