"""The hooks of extensions around a session: may it be replaced, how is a new one filled, which resources are added.

Decides which event belongs to a session command, and how the paths that an extension names are resolved; runs the
`setup` of `ctx.new_session`.
"""

import inspect
import os
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, cast

from pinnace_agent.core.json_values import json_copy
from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.handlers.chains import FoundResources
from pinnace_agent.extensions.ports.arguments import given_name
from pinnace_agent.extensions.ports.host_view import Setup
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.replacement import BranchSession, EmptySession, ForkSession, SessionRequest, SwitchSession
from pinnace_agent.session.store.message_repair import whole_message
from pinnace_agent.session.tree import clean_name
from pinnace_spec.records.messages import Message


@usable_from_any_thread()
class Writer:
    """Writes into a session that is not current yet."""

    def __init__(self, session: Session) -> None:
        """Write into a session."""
        self._session = session
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    def append_message(self, message: Message) -> str:
        """Append a message. Returns the entry's id.

        Raises:
            TypeError: It is no message, or something in it is no JSON.
        """
        whole = whole_message(json_copy(message, "message"), None)
        if whole is None:
            raise TypeError("message must be an object with a role of a session's messages, and its content")
        self._session.keep(whole)
        return self._leaf_id()

    def append_custom(self, custom_type: str, data: object) -> str:
        """Append an entry that no model reads. Returns its id."""
        kept = json_copy(data, "data")
        return str(self._session.keep_custom(given_name("custom_type", custom_type), kept)["id"])

    def set_name(self, name: str | None) -> None:
        """Give the session a name; None removes it."""
        self._session.name = None if name is None else clean_name(given_name("name", name))

    def _leaf_id(self) -> str:
        tree = self._session.tree
        assert tree.leaf is not None
        return str(tree.entries[tree.leaf]["id"])


async def fill(session: Session, setup: Setup) -> None:
    """Let an extension fill a session. Raises whatever the extension raises."""
    answer = setup(Writer(session))
    if inspect.isawaitable(answer):
        await cast("Awaitable[object]", answer)


class AddedResources(NamedTuple):
    """Paths of further resources, absolute, in the order of their extensions."""

    skills: Sequence[str] = ()
    templates: Sequence[str] = ()


def asked_before(request: SessionRequest) -> str:
    """Return the event that asks about a session command."""
    return "session_before_switch" if isinstance(request, EmptySession | SwitchSession) else "session_before_fork"


async def allows(runner: Runner, request: SessionRequest, leaf_id: str | None) -> bool:
    """Ask extensions whether a session command may be carried out."""

    def event() -> ev.SessionBeforeSwitch | ev.SessionBeforeFork:
        match request:
            case EmptySession():
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


def found_resources(found: Sequence[FoundResources]) -> AddedResources:
    """Return the paths that extensions add, absolute."""
    skills: list[str] = []
    templates: list[str] = []
    for each in found:
        base = each.extension.source.get("baseDir") or os.path.dirname(each.extension.path)
        skills += [os.path.join(base, path) for path in each.resources.skills]
        templates += [os.path.join(base, path) for path in each.resources.prompts]
    return AddedResources(skills, templates)
