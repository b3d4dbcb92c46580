"""What extensions in Node may ask of the agent: the members of `pi`, `ctx` and their parts, by the names of the wire.

Each goes to the same public `pi` and `ctx` that extensions in Python have; only spelling and units differ. A member
that does not wait is in `NOW`, one that waits in `ASK`. What is not here is refused by name.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.node_extensions import context_members, package_members, pi_members, surface_members, ui_members
from pinnace_agent.node_extensions.values import Ask, Now

_ROOMS: Final = (pi_members, context_members, ui_members, surface_members, package_members)

NOW: Final[Mapping[str, Now]] = {name: member for room in _ROOMS for name, member in room.NOW.items()}
ASK: Final[Mapping[str, Ask]] = {name: member for room in _ROOMS for name, member in room.ASK.items()}

CHANGES: Final = frozenset({"ctx.newSession", "ctx.fork", "ctx.navigateTree", "ctx.switchSession", "ctx.reload"})
"""Those of `ASK` that change the session: their outcome comes when the extensions of the former one have ended."""
