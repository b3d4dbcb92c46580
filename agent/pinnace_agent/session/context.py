"""What a model is shown of a branch: its messages, compacted and edited, and the choices in force at its end.

Pure. Works on entries as files hold them, whoever wrote them, and never changes one. Which entries make the branch is
the tree's to decide; what a provider can read of the messages is `llm.context`'s. Source: R-MSG-01.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pinnace_agent.llm.json_edge import as_list, as_object, as_text
from pinnace_agent.session.entry_time import time_ms
from pinnace_agent.session.message_repair import whole_message
from pinnace_spec.entries import Entry
from pinnace_spec.messages import Message


class Context(NamedTuple):
    """What a branch comes to."""

    messages: list[Message]
    model: tuple[str, str] | None
    """Provider and id of the model chosen last, or that answered last; None: neither."""
    thinking_level: str | None
    """The level chosen last, which may be one that is unknown here; None: none was."""


# The roles of which an edit may replace the content, the type `custom_message` aside.
_EDITABLE: Final = ("user", "assistant", "toolResult", "custom")


class _Choices(NamedTuple):
    """What a walk along a branch found beside messages."""

    model: tuple[str, str] | None
    thinking_level: str | None
    compaction: int | None
    """The place of the last one."""
    has_edits: bool


def build_context(path: Sequence[Entry]) -> Context:
    """Return the context at the end of a branch.

    The last compaction stands first, then what it kept of the entries before it, then what follows it. Older ones
    among those, and everything before, is no longer in the context. The choices are those of the whole branch.

    Args:
        path: From the root to the leaf.
    """
    choices = _choices(path)
    places = range(len(path)) if choices.compaction is None else _kept_places(path, choices.compaction)
    edits = _edits(path, places) if choices.has_edits else {}
    messages: list[Message] = []
    for place in places:
        entry = path[place]
        message = _edited_message(entry, edits[place]) if place in edits else context_message(entry)
        if message is not None:
            messages.append(message)
    return Context(messages, choices.model, choices.thinking_level)


def context_message(entry: Entry) -> Message | None:
    """Return what one entry adds to the context, as a whole message; None if nothing, or nothing that has a meaning.

    A message that is well-formed is returned as it is, not a copy. System messages, which other programs store, add
    nothing: the system prompt is made anew.
    """
    timestamp = entry.get("timestamp")
    match entry.get("type"):
        case "message":
            return whole_message(entry.get("message"), timestamp)
        case "custom_message":
            fields = {name: entry[name] for name in ("customType", "content", "display", "details") if name in entry}
            role = "custom"
        case "branch_summary" if as_text(entry.get("summary")) is not None:
            fields = {"summary": entry.get("summary"), "fromId": entry.get("fromId")}
            role = "branchSummary"
        case "compaction":
            fields = {"summary": entry.get("summary"), "tokensBefore": entry.get("tokensBefore")}
            role = "compactionSummary"
        case _:
            return None
    return whole_message({"role": role, **fields, "timestamp": time_ms(timestamp)}, timestamp)


def first_kept(path: Sequence[Entry], compaction: int) -> int | None:
    """Return the place of the first entry before a compaction that it kept; None: it kept none.

    It keeps none if it names itself, and if what it names is not before it. Of several entries with the id, the one
    closest to the compaction counts, as it does for parents.
    """
    kept_id = path[compaction].get("firstKeptEntryId")
    if not isinstance(kept_id, str) or kept_id == path[compaction].get("id"):
        return None
    return next((place for place in range(compaction - 1, -1, -1) if path[place].get("id") == kept_id), None)


def edit_targets(path: Sequence[Entry]) -> dict[int, int]:
    """Return which entry each edit is about, place to place.

    Of several entries with the id, that is the one before the edit and closest to it, else the last one behind it.
    Edits of what is not on the branch are left out.
    """
    targets: dict[int, int] = {}
    unmet: list[tuple[int, str]] = []
    latest: dict[object, int] = {}
    for place, entry in enumerate(path):
        target_id = entry.get("targetId") if entry.get("type") == "context_edit" else None
        if isinstance(target_id, str):
            if target_id in latest:
                targets[place] = latest[target_id]
            else:
                unmet.append((place, target_id))
        latest[_id(entry)] = place
    targets.update((place, latest[target_id]) for place, target_id in unmet if target_id in latest)
    return targets


def _id(entry: Entry) -> str | None:
    entry_id = entry.get("id")
    return entry_id if isinstance(entry_id, str) else None


def _choices(path: Sequence[Entry]) -> _Choices:
    model: tuple[str, str] | None = None
    level: str | None = None
    compaction: int | None = None
    has_edits = False
    for place, entry in enumerate(path):
        match entry.get("type"):
            case "message":
                message = as_object(entry.get("message"))
                if message is not None and message.get("role") == "assistant":
                    model = _model(message.get("provider"), message.get("model")) or model
            case "model_change":
                model = _model(entry.get("provider"), entry.get("modelId")) or model
            case "thinking_level_change":
                level = as_text(entry.get("thinkingLevel")) or level
            case "compaction":
                compaction = place
            case "context_edit":
                has_edits = True
            case _:
                pass
    return _Choices(model, level, compaction, has_edits)


def _model(provider: object, model_id: object) -> tuple[str, str] | None:
    """Return a model if it is named in full."""
    if isinstance(provider, str) and isinstance(model_id, str) and provider and model_id:
        return provider, model_id
    return None


def _kept_places(path: Sequence[Entry], compaction: int) -> Sequence[int]:
    """Return the places that are left after a compaction, in the order in which a model reads them."""
    kept = first_kept(path, compaction)
    before = range(compaction if kept is None else kept, compaction)
    return [
        compaction,
        *(place for place in before if path[place].get("type") != "compaction"),
        *range(compaction + 1, len(path)),
    ]


def _edits(path: Sequence[Entry], places: Sequence[int]) -> dict[int, str | list[object] | None]:
    """Return what the edits among some entries make of contents, by place; None: the message is taken out.

    The latest edit of an entry counts. One that says neither counts for nothing.
    """
    chosen = frozenset(places)
    edits: dict[int, str | list[object] | None] = {}
    for place, target in sorted(edit_targets(path).items()):
        if place not in chosen or "replacement" not in path[place]:
            continue
        replacement = path[place]["replacement"]
        content = (as_object(replacement) or {}).get("content")
        if replacement is None:
            edits[target] = None
        elif isinstance(content, str):
            edits[target] = content
        elif (blocks := as_list(content)) is not None:
            edits[target] = blocks
    return edits


def _edited_message(entry: Entry, content: str | list[object] | None) -> Message | None:
    if content is None:
        return None
    message = as_object(entry.get("message"))
    if entry.get("type") == "custom_message":
        entry = {**entry, "content": content}
    elif message is not None and message.get("role") in _EDITABLE:
        entry = {**entry, "message": {**message, "content": content}}
    return context_message(entry)
