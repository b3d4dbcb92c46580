"""Entries as the page shows them: messages, summaries, choices, labels, and whatever else a file holds.

What is unknown is shown as JSON, so that nothing of a session is missing.
"""

from collections.abc import Callable, Mapping

from pinnace_agent.core.json_access import as_count, as_object, as_text
from pinnace_agent.export.calls import Calls
from pinnace_agent.export.figures import count, first_words, usage_words
from pinnace_agent.export.markup.parts import Parts
from pinnace_agent.export.markup.readable import readable
from pinnace_agent.export.messages import OUTLINE_CHARACTERS, MessageRenderer
from pinnace_agent.export.views import EntryView
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry


class EntryRenderer:
    """Shows the entries of one page."""

    def __init__(self, tree: EntryTree, parts: Parts, calls: Calls) -> None:
        self._tree = tree
        self._parts = parts
        self._messages = MessageRenderer(parts, calls)
        self._types: Mapping[str, Callable[[Entry, int], EntryView | None]] = {
            "message": self._message,
            "custom_message": lambda entry, _: self._messages.custom(entry),
            "model_change": self._model,
            "thinking_level_change": self._level,
            "compaction": self._compaction,
            "branch_summary": self._branch_summary,
            "label": self._label,
            "session_info": self._name,
            "custom": self._custom,
            "context_edit": self._edit,
            "usage": self._usage,
        }

    def view(self, place: int) -> EntryView:
        """Return what is shown of an entry."""
        entry = self._tree.entries[place]
        entry_type = entry.get("type")
        show = self._types.get(entry_type) if isinstance(entry_type, str) else None
        view = show(entry, place) if show is not None else None
        if view is None:
            name = first_words(readable(str(entry_type)), OUTLINE_CHARACTERS)
            return EntryView("other", name, self._parts.json(entry), name)
        return view._replace(title=readable(view.title), outline=readable(view.outline))

    def _message(self, entry: Entry, place: int) -> EntryView | None:
        message = as_object(entry.get("message"))
        return None if message is None else self._messages.view(message, place)

    def _model(self, entry: Entry, _place: int) -> EntryView:
        return _line(f"Model: {entry.get('provider')}/{entry.get('modelId')}")

    def _level(self, entry: Entry, _place: int) -> EntryView:
        return _line(f"Thinking: {entry.get('thinkingLevel')}")

    def _name(self, entry: Entry, _place: int) -> EntryView:
        name = as_text(entry.get("name"))
        return _line(f"Named: {name}" if name else "Name removed")

    def _label(self, entry: Entry, _place: int) -> EntryView:
        label = as_text(entry.get("label"))
        body = self._target(entry.get("targetId"))
        return _line(f"Label: {label}" if label else "Label removed", body)

    def _edit(self, entry: Entry, _place: int) -> EntryView:
        replacement = as_object(entry.get("replacement"))
        body = self._target(entry.get("targetId"))
        if replacement is None:
            return _line("Hidden from the model", body)
        body += self._messages.content(replacement.get("content"))
        return EntryView("note", "Shown to the model instead", body, "Shown to the model instead")

    def _usage(self, entry: Entry, _place: int) -> EntryView:
        words = ", ".join(usage_words(entry.get("usage")))
        return _line(f"Used by {entry.get('kind')}: {words or 'nothing'}", self._note_of(entry.get("note")))

    def _custom(self, entry: Entry, _place: int) -> EntryView:
        name = as_text(entry.get("customType")) or "extension"
        data = entry.get("data")
        body = "" if data is None else self._parts.fold("Data", self._parts.json(data), kind="more")
        return _line(f"Kept by {name}", body)

    def _compaction(self, entry: Entry, _place: int) -> EntryView:
        before = as_count(entry.get("tokensBefore"))
        note = "The entries above are in the model's context only as this summary"
        kept = self._target(entry.get("firstKeptEntryId"), "what was kept begins here")
        body = self._parts.note(f"{note}{f'; it had {count(before)} tokens' if before else ''}.") + kept
        body += self._parts.prose(as_text(entry.get("summary")) or "") + self._details(entry)
        return EntryView("note", "Compaction", body, "Compaction", tuple(usage_words(entry.get("usage"))))

    def _branch_summary(self, entry: Entry, _place: int) -> EntryView:
        text = as_text(entry.get("summary")) or ""
        body = self._target(entry.get("fromId"), "the branch") + self._parts.prose(text) + self._details(entry)
        outline = first_words(f"Summary: {text}", OUTLINE_CHARACTERS)
        return EntryView("note", "Summary of a branch", body, outline, tuple(usage_words(entry.get("usage"))))

    def _details(self, entry: Entry) -> str:
        details = entry.get("details")
        return self._parts.fold("Details", self._parts.json(details), kind="more") if details else ""

    def _note_of(self, text: object) -> str:
        return self._parts.note(text) if isinstance(text, str) and text else ""

    def _target(self, entry_id: object, text: str = "its entry") -> str:
        place = self._tree.find(entry_id) if isinstance(entry_id, str) else None
        return "" if place is None else self._parts.link(place, text)


def _line(text: str, body: str = "") -> EntryView:
    return EntryView("set", text, body, first_words(text, OUTLINE_CHARACTERS))
