"""What a session records of the choice of tools: messages of role `system` that say what was added and removed.

Decides what a change of the active tools is recorded as, and which tools the records of a branch come to. Each record
holds the difference to those before it on the branch, with the whole declaration of a tool that is added; the first one
declares all tools that were chosen, and names those that were active before. A branch without a record has the tools
that its session began with. The format is that of pi, which records the tools of every session with its first request,
together with the sections of the system prompt. Pure. Source: R-SET-09.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypedDict

from pinnace_agent.core.json_access import as_array, as_object, as_text
from pinnace_agent.session.branch import Branch
from pinnace_agent.tools.base import Tool
from pinnace_spec.records.entries import Entry

_KIND = "message"
"""The kind of entries with a message of another role than the context has."""


class Declaration(TypedDict):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, object]


class RecordedTools(NamedTuple):
    """What a branch records of choices of tools."""

    active: Collection[str]
    """The names of those that were chosen last."""
    mentioned: Collection[str]
    """Those, and all that were added or removed before."""


class ToolChange(NamedTuple):
    """A choice of tools that a session is to record. By name."""

    before: Mapping[str, Declaration]
    """Those that were active when it was made."""
    after: Mapping[str, Declaration]
    awaited: frozenset[str] = frozenset()
    """The names of recorded tools that stay recorded, although they do not exist yet."""


def declared(tools: Iterable[Tool]) -> dict[str, Declaration]:
    """Return the declarations of tools."""
    return {
        tool.name: {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
    }


def recorded_tools(branch: Branch) -> RecordedTools | None:
    """Return what a branch records, also before a compaction; None: nothing."""
    if (found := _replayed(branch)) is None:
        return None
    current, mentioned = found
    return RecordedTools(list(current), mentioned)


# DEVIATION D-96: what no choice has changed is not recorded, and what was not chosen is named.
def record_of(change: ToolChange, branch: Branch, now_ms: int) -> dict[str, object] | None:
    """Return the message that records a choice at the end of a branch; None: the branch comes to it already."""
    replayed = _replayed(branch)
    recorded: dict[str, object] = {} if replayed is None else replayed[0]
    after = change.after
    if replayed is None and change.before == after:
        return None
    dropped = [
        name
        for name in dict.fromkeys((*recorded, *change.before))
        if name not in change.awaited and (name not in after or (name in recorded and recorded[name] != after[name]))
    ]
    added = [each for name, each in after.items() if recorded.get(name) != each]
    if not (added or dropped):
        return None
    message: dict[str, object] = {"role": "system", "content": "", "timestamp": now_ms}
    if added:
        message["toolsAdded"] = added
    if dropped:
        message["toolsRemoved"] = [{"name": name} for name in dropped]
    return message


def _replayed(branch: Branch) -> tuple[dict[str, object], set[str]] | None:
    """Return the declarations that the records of a branch come to, and all names in them."""
    current: dict[str, object] = {}
    mentioned: set[str] = set()
    has_record = False
    for place in range(len(branch)):
        message = _system_message(branch[place]) if branch.kind(place) == _KIND else None
        if message is None:
            continue
        has_record = True
        for each in as_array(message.get("toolsRemoved")):
            if (name := _name(each)) is not None:
                current.pop(name, None)
                mentioned.add(name)
        for each in as_array(message.get("toolsAdded")):
            if (name := _name(each)) is not None:
                current[name] = each
                mentioned.add(name)
    return (current, mentioned) if has_record else None


def _system_message(entry: Entry) -> Mapping[str, object] | None:
    message = as_object(entry.get("message"))
    return None if message is None or message.get("role") != "system" else message


def _name(tool: object) -> str | None:
    return as_text((as_object(tool) or {}).get("name"))
