"""What a client understands, read from `initialize` by the translation of its version."""

from collections.abc import Sequence
from typing import NamedTuple


class Abilities(NamedTuple):
    """The abilities of one client. Absent and malformed ones are absent."""

    notices: bool = False
    """It shows messages that belong to no answer."""
    compactions: bool = False
    """It shows summaries of the conversation as what they are."""
    switches: bool = False
    """It has options that are on or off."""
    forms: bool = False
    addresses: bool = False
    """It can have its user open an address."""
    terminals: bool = False
    """It can run the agent's program at a terminal, for a login."""
    plans: bool = False
    """It tracks plans by their ids."""
    children: bool = False
    """It shows sub-agents as sessions of their own."""
    knows_unstable: bool = False
    """It has a capability of the unstable schema of its version, so that it knows results of that."""
    files: Sequence[str] = ()
    """What it does with files, as the agent calls it."""
