"""What extensions in Node may ask of the agent: the members of `pi`, `ctx` and their parts, by the names of the wire.

Each goes to the same public `pi` and `ctx` that extensions in Python have; only spelling and units differ. A member
that does not wait is in the `NOW` of a room, one that waits in its `ASK`. What is in none is refused by name.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pinnace_agent.node_extensions import pi_members
from pinnace_agent.node_extensions.values import Ask, Now

CHANGES: Final = frozenset({"ctx.newSession", "ctx.fork", "ctx.navigateTree", "ctx.switchSession", "ctx.reload"})
"""Those that change the session: their outcome comes when the extensions of the former one have ended."""


def now_member(name: str) -> "Now | None":
    """Return the member of a name that does not wait; None: there is none."""
    return next((found for now, _ in _rooms() if (found := now.get(name)) is not None), None)


def ask_member(name: str) -> "Ask | None":
    """Return the member of a name that waits; None: there is none."""
    return next((found for _, ask in _rooms() if (found := ask.get(name)) is not None), None)


def _rooms() -> Iterator[tuple[Mapping[str, Now], Mapping[str, Ask]]]:
    """Return the rooms of members. Each is loaded with the first name that those before it lack."""
    yield pi_members.NOW, pi_members.ASK
    from pinnace_agent.node_extensions import context_members

    yield context_members.NOW, context_members.ASK
    from pinnace_agent.node_extensions import ui_members

    yield ui_members.NOW, ui_members.ASK
    from pinnace_agent.node_extensions import surface_members

    yield surface_members.NOW, surface_members.ASK
    from pinnace_agent.node_extensions import package_members

    yield package_members.NOW, package_members.ASK
    from pinnace_agent.node_extensions import library_members

    yield library_members.NOW, library_members.ASK
