"""Entries that extensions propose at a boundary: the context with them, and how they get into the session.

Decides how a draft is spelled in a session file. That a draft is valid was checked (`boundaries`). R28; E20, E23.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from pinnace_agent.emitter import Emitter
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.session import Session
from pinnace_agent.session.context import build_context
from pinnace_agent.session.identity import iso_time
from pinnace_spec.entries import Entry
from pinnace_spec.messages import Message

Draft = Mapping[str, object]

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "custom": ("customType", "data"),
    "custom_message": ("customType", "content", "display", "details"),
    "context_edit": ("targetId", "replacement"),
    "compaction": ("summary", "firstKeptEntryId", "tokensBefore", "details", "usage"),
}


def preview(session: Session, drafts: Sequence[Draft]) -> list[Message]:
    """Return the context as it would be with some drafts, to be read only."""
    timestamp = iso_time(session.now_ms())
    entries: list[Entry] = [
        {"type": draft["type"], "id": f"draft-{number}", "timestamp": timestamp, **_fields(draft)}
        for number, draft in enumerate(drafts)
    ]
    messages = build_context([*session.tree.branch(), *entries]).messages
    return [cast("Message", frozen(message)) for message in messages]  # cast: a copy of it


def commit(session: Session, emitter: Emitter, drafts: Sequence[Draft]) -> None:
    """Append drafts, and tell each of them."""
    for draft in drafts:
        entry = session.keep_entry(str(draft["type"]), _fields(draft))
        emitter.emit({"type": "entry_appended", "entry": entry})


def _fields(draft: Draft) -> dict[str, object]:
    kind = str(draft["type"])
    fields = {name: draft[name] for name in _FIELDS[kind] if name in draft}
    match kind:
        case "context_edit":
            replacement = fields.get("replacement")
            fields["replacement"] = None if replacement is None else {"content": replacement}
        case "compaction":
            fields["fromHook"] = True
        case _:
            pass
    return fields
