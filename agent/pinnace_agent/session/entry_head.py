"""What an entry says about itself at a glance: who it is, what it hangs from, of which kind it is.

Pure. Taken while an entry is read, when it is at hand: a long session is looked through several times when it is
opened, and coming back to each entry costs more than what is done with it. Must not know what the parts mean.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from pinnace_agent.llm.json_edge import as_object

Head: TypeAlias = tuple[object, object, str]
"""The id; the id of the parent, "" if there is none, which is no id; the kind. A tuple, since there are many."""

_ROLES: Final = ("user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary")
MESSAGE_KINDS: Final[Mapping[object, str]] = {role: f"message/{role}" for role in _ROLES}
"""The kinds of entries that hold a message, by its role. Any other entry's kind is its type, "" if that is no text."""


def head_of(entry: Mapping[str, object]) -> Head:
    """Return an entry's head."""
    kind = entry.get("type")
    if not isinstance(kind, str):
        kind = ""
    elif kind == "message":
        message = as_object(entry.get("message"))
        role = None if message is None else message.get("role")
        if isinstance(role, str):
            kind = MESSAGE_KINDS.get(role, kind)
    return entry.get("id"), entry.get("parentId", ""), kind
