"""Filling a new session before it begins: `setup` of `ctx.new_session` (K2)."""

import inspect
from collections.abc import Awaitable
from typing import cast

from pinnace_agent.extensions.given import given_name
from pinnace_agent.extensions.host_view import Setup
from pinnace_agent.extensions.json_values import json_copy
from pinnace_agent.extensions.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.session import Session
from pinnace_agent.session.message_repair import whole_message
from pinnace_agent.session.tree import clean_name
from pinnace_spec.messages import Message


@usable_from_any_thread()
class Writer:
    """A session that is not in force yet."""

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
        """Name it."""
        self._session.name = None if name is None else clean_name(given_name("name", name))

    def _leaf_id(self) -> str:
        tree = self._session.tree
        assert tree.leaf is not None
        return str(tree.entries[tree.leaf]["id"])


async def fill(session: Session, setup: Setup) -> None:
    """Let an extension fill a session. What it raises is raised."""
    answer = setup(Writer(session))
    if inspect.isawaitable(answer):
        await cast("Awaitable[object]", answer)
