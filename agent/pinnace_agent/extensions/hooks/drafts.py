"""Entries that extensions propose in settle hooks: the context with them, and appending them to the session.

Defines how a draft is written in a session file. Drafts were validated by `settle_hooks`.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from pinnace_agent.core.frozen import frozen
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.session.context import build_context
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.identity import iso_time
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message

Draft = Mapping[str, object]

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "custom": ("customType", "data"),
    "custom_message": ("customType", "content", "display", "details"),
    "context_edit": ("targetId", "replacement"),
    "compaction": ("summary", "firstKeptEntryId", "tokensBefore", "details", "usage"),
}


def preview(session: Session, drafts: Sequence[Draft]) -> list[Message]:
    """Return the context as it would be with the drafts, immutable."""
    timestamp = iso_time(session.now_ms())
    entries: list[Entry] = [
        {"type": draft["type"], "id": f"draft-{number}", "timestamp": timestamp, **_fields(draft)}
        for number, draft in enumerate(drafts)
    ]
    messages = build_context([*session.tree.branch(), *entries]).messages
    return [cast("Message", frozen(message)) for message in messages]  # cast: a copy of it


def commit(session: Session, emitter: Emitter, drafts: Sequence[Draft]) -> None:
    """Append drafts, and emit `entry_appended` for each."""
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
