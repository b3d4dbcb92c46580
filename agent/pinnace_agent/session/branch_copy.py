"""A branch as a session of its own: what a fork or a clone copies, and where forks may start.

Pure. The copy is one chain of entries from a root to its leaf, each a child of the line before it, and gives a model
the same context as the branch that it was taken from.
"""

from collections.abc import Callable
from typing import Final

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.session.context import edit_targets, first_kept
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry

_LABEL: Final = "label"


def copy_path(tree: EntryTree, leaf: int | None, new_id: Callable[[], str], now: str) -> list[Entry]:
    """Return the entries of the branch that ends at `leaf`, as the lines of a new file.

    Ids stay. Entries that need no change are the same objects. Labels are left out, and the current labels of
    the entries of the copy are made anew at its end, with their times: a label may occur anywhere, also after the leaf,
    and must not separate its neighbours. What a compaction kept begins after a label that is left out. If an id occurs
    on the branch twice, the last entry keeps it, and the former get new ones along with what refers to them.

    Args:
        tree: Not changed.
        leaf: A place in it; None copies nothing.
        new_id: Makes an id that no entry of the tree has, another one with each call.
        now: The time of a label whose own is not known.
    """
    path = [tree.entries[place] for place in tree.path(leaf)]
    ids = _distinct_ids(path, new_id)
    renamed = {place: {"targetId": ids[target]} for place, target in edit_targets(path).items()}
    renamed |= {place: {"firstKeptEntryId": ids[target]} for place, target in _kept_by_compactions(path).items()}
    copied: list[Entry] = []
    copied_ids: list[str] = []
    for place, entry in enumerate(path):
        if entry.get("type") == _LABEL:
            continue
        parent_id = copied_ids[-1] if copied_ids else None
        fields: dict[str, object] = {"id": ids[place], "parentId": parent_id, **renamed.get(place, {})}
        is_same = all(name in entry and entry[name] == value for name, value in fields.items())
        copied.append(entry if is_same else {**entry, **fields})
        copied_ids.append(ids[place])
    labels = [(entry_id, tree.labels[entry_id]) for entry_id in copied_ids if entry_id in tree.labels]
    for target_id, label in labels:
        base = {"type": _LABEL, "id": new_id(), "parentId": copied_ids[-1], "timestamp": label.timestamp or now}
        copied.append({**base, "targetId": target_id, "label": label.label})
        copied_ids.append(base["id"])
    return copied


def fork_point(tree: EntryTree, entry_id: str) -> tuple[int | None, str] | None:
    """Return where a fork before a user's message ends, None for nothing at all, and the text of the message.

    None if no entry has this id, or it is no message of the user.
    """
    place = tree.find(entry_id)
    text = None if place is None else user_text(tree.entries[place])
    return None if place is None or text is None else (tree.parent(place), text)


def fork_messages(tree: EntryTree) -> list[tuple[str, str]]:
    """Return id and text of the user's messages that have a text, from all branches, in the order of the file."""
    texts = ((str(entry.get("id", "")), user_text(entry)) for entry in tree.entries if entry.get("type") == "message")
    return [(entry_id, text) for entry_id, text in texts if text and entry_id]


def _distinct_ids(path: list[Entry], new_id: Callable[[], str]) -> list[str]:
    """Return an id for each entry of a branch: its own, if no later one has it."""
    ids: list[str] = []
    taken: set[str] = set()
    for entry in reversed(path):
        entry_id = entry.get("id")
        if not isinstance(entry_id, str) or not entry_id or entry_id in taken:
            entry_id = new_id()
        taken.add(entry_id)
        ids.append(entry_id)
    ids.reverse()
    return ids


def _kept_by_compactions(path: list[Entry]) -> dict[int, int]:
    """Return the first entry of a copy that each compaction keeps, place to place; itself if it keeps none before it.

    A compaction that names what is not there is left out.
    """
    kept: dict[int, int] = {}
    for place, entry in enumerate(path):
        if entry.get("type") != "compaction":
            continue
        first = place if entry.get("firstKeptEntryId") == entry.get("id") else first_kept(path, place)
        if first is not None:
            kept[place] = next(each for each in range(first, place + 1) if path[each].get("type") != _LABEL)
    return kept


def user_text(entry: Entry) -> str | None:
    """Return the text of a message of the user, its images left out; None if it is none."""
    message = as_object(entry.get("message")) if entry.get("type") == "message" else None
    if message is None or message.get("role") != "user":
        return None
    return content_text(message.get("content"))


def content_text(content: object) -> str:
    """Return the texts of a message's content, its images left out."""
    if isinstance(content, str):
        return content
    blocks = (as_object(block) or {} for block in as_array(content))
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))
