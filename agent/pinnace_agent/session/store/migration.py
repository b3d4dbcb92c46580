"""Sessions of format version 1 and 2 as sessions of the current version.

Pure, and in memory only: the caller decides whether the file is replaced. No field gets lost, known or unknown, and two
readings of one file give the same ids.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_object
from pinnace_agent.session.store.entries import head_of
from pinnace_agent.session.store.reading import SessionText
from pinnace_spec.records.entries import CURRENT_VERSION, Entry
from pinnace_spec.wire.json_text import encode_record

# As long as the ids that entries get when they are made.
_ID_DIGITS: Final = 8


def migrate(text: SessionText) -> SessionText:
    """Return the session in the current version. One of that version, or of a newer one, comes back as it is.

    Damage, size and the state of the tail stay those of the file that was read. Bytes of entries that changed are
    encoded anew, those of the others stay.
    """
    if text.version >= CURRENT_VERSION:
        return text
    entries = text.entries
    if text.version == 1:
        entries = _with_tree(entries, "" if text.header is None else str(text.header["id"]))
    entries = [_with_custom_role(entry) for entry in entries]
    raw = [
        line if entry is former else encode_record(entry)[:-1]
        for entry, former, line in zip(entries, text.entries, text.raw, strict=False)  # raw is empty if not asked for
    ]
    header = None if text.header is None else {"type": "session", **text.header, "version": CURRENT_VERSION}
    heads = [head_of(entry) for entry in entries]
    return text._replace(header=header, entries=entries, version=CURRENT_VERSION, raw=raw, heads=heads)


def _with_tree(entries: Sequence[Entry], session_id: str) -> list[Entry]:
    """Make a chain of a plain list: each entry follows the one before it."""
    ids = list(_new_ids(entries, session_id))
    chain: list[Entry] = []
    parent: str | None = None
    for entry, entry_id in zip(entries, ids, strict=True):
        # In the order in which every program writes them, the rest as it was.
        fields = {"type": entry.get("type"), "id": entry_id, "parentId": parent}
        fields |= {name: value for name, value in entry.items() if name not in fields}
        if entry.get("type") == "compaction":
            _name_first_kept(fields, ids)
        chain.append(fields)
        parent = entry_id
    return chain


def _new_ids(entries: Sequence[Entry], session_id: str) -> Iterator[str]:
    """Yield each entry an id made from the session's and its own position; one that has an id of its own keeps it."""
    from hashlib import sha256  # loads OpenSSL

    taken = {""}
    for position, entry in enumerate(entries):
        entry_id = entry.get("id")
        if not isinstance(entry_id, str) or entry_id in taken:
            digits = sha256(f"{session_id}/{position}".encode(errors="surrogatepass")).hexdigest()
            entry_id = digits[:_ID_DIGITS] if digits[:_ID_DIGITS] not in taken else digits
        taken.add(entry_id)
        yield entry_id


def _name_first_kept(compaction: dict[str, object], ids: list[str]) -> None:
    """Replace the position of the first kept entry, counted from the header, by its id; the header itself has none."""
    position = compaction.get("firstKeptEntryIndex")
    if isinstance(position, bool) or not isinstance(position, int | float):
        return
    del compaction["firstKeptEntryIndex"]
    if 1 <= position <= len(ids) and position == int(position):
        compaction["firstKeptEntryId"] = ids[int(position) - 1]


def _with_custom_role(entry: Entry) -> Entry:
    """Give an extension's message the name of its role in version 3."""
    message = as_object(entry.get("message"))
    if entry.get("type") == "message" and message is not None and message.get("role") == "hookMessage":
        return {**entry, "message": {**message, "role": "custom"}}
    return entry
