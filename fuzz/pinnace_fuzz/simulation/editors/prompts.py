"""The messages of editors, and what the files of sessions say of each: it is there once, or it was handed back.

Each text is unique. What an editor knows of a message follows from the answers to its requests: it is accepted, with
the entry that has it, it is rejected, or nothing is known, since a process has crashed.
"""

import random
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pinnace_fuzz.records import Record
from pinnace_fuzz.session_verdict import Files, entries_of, own_operations, text_of
from pinnace_fuzz.simulation.client import draw_text

_LEAF: Final = "pinnace.leaf"
"""Of entries that leave out what was written before them (R-SES-05)."""


@dataclass(slots=True)
class EditorMessage:
    """A message of an editor, and what its answers have said of it."""

    text: str
    session: str
    is_accepted: bool = False
    entry: str | None = None
    """The entry that an answer has named."""
    is_rejected: bool = False
    """An answer has said that it is not in the conversation, and never will be."""
    is_shown_back: bool = False
    """The user was shown that it was not delivered."""
    is_shown: bool = False
    """It was shown as a part of the conversation, live or by a replay."""


@dataclass(slots=True)
class Messages:
    """All messages of a history."""

    every: list[EditorMessage] = field(default_factory=list[EditorMessage])
    by_text: dict[str, EditorMessage] = field(default_factory=dict[str, EditorMessage])

    def draw(self, draws: random.Random, session: str) -> EditorMessage:
        """Draw a message for a session."""
        message = EditorMessage(draw_text(draws, len(self.every)), session)
        self.every.append(message)
        self.by_text[message.text] = message
        return message

    def see(self, text: str) -> None:
        """A text of the user was shown as a part of the conversation."""
        if (message := self.by_text.get(text)) is not None:
            message.is_shown = True

    def see_returned(self, shown: str) -> None:
        """A text was shown to a user that names messages which were not delivered."""
        for message in self.every:
            if message.text in shown:
                message.is_shown_back = True

    def see_returned_of(self, sessions: Container[str]) -> None:
        """What is handed back of these sessions can't be shown to their user any more."""
        for message in self.every:
            if message.session in sessions:
                message.is_shown_back = True


class _Fates(NamedTuple):
    """What the files say of messages, by their texts."""

    delivered: Mapping[str, frozenset[str]]
    """The entries."""
    queued: frozenset[str]
    returned: frozenset[str]


def find_wrong(messages: Messages, files: Files, *, is_trusted: bool, calm_since: int) -> Iterable[str]:
    """Find messages of which the files say something else than the answers.

    Args:
        messages: All of them.
        files: The session files, when no process writes to them.
        is_trusted: Whether no disk has failed until now.
        calm_since: Nothing has crashed or was cut off since the message of this number.
    """
    fates = _fates(files)
    for number, message in enumerate(messages.every):
        name = message.text[:12]
        entries = fates.delivered.get(message.text, frozenset())
        is_queued, is_returned = message.text in fates.queued, message.text in fates.returned
        if len(entries) > 1:
            yield f"{name!r} was delivered {len(entries)} times"
        if message.is_rejected and is_trusted and (entries or is_queued):
            yield f"{name!r} was rejected and is {'delivered' if entries else 'queued'}"
        if message.is_rejected and message.is_shown:
            yield f"{name!r} was rejected, and shown as a part of the conversation"
        if message.is_accepted and not (entries or is_queued or is_returned):
            yield f"{name!r} was accepted and is in no file"
        if message.entry is not None and message.entry not in entries:
            yield f"{name!r} was accepted as {message.entry}, and is delivered as {sorted(entries)}"
        if entries and (is_queued or is_returned):
            yield f"{name!r} was delivered, and is {'queued' if is_queued else 'returned'}"
        if number >= calm_since and is_returned and not message.is_shown_back:
            yield f"{name!r} was handed back, and its user was not shown it"


def _fates(files: Files) -> _Fates:
    delivered: dict[str, set[str]] = {}
    queued: set[str] = set()
    returned: set[str] = set()
    for data in files.values():
        waiting: dict[str, str] = {}
        known: dict[str, str] = {}
        back: set[str] = set()
        for operation in own_operations(data):
            match operation:
                case {"op": "add", "messageId": str(message_id), "text": str(text)}:
                    waiting[message_id] = known[message_id] = text
                    back.discard(text)
                case {"op": op, "messageIds": [*message_ids]}:
                    for message_id in message_ids:
                        waiting.pop(message_id, None)
                        if op == "remove" and message_id in known:
                            back.add(known[message_id])
                case _:
                    pass
        latest: Record | None = None
        for entry in entries_of(data):
            if entry["type"] == "message" and entry["message"].get("role") == "user":
                waiting.pop(str(entry.get("messageId")), None)
                delivered.setdefault(text_of(entry["message"]), set()).add(entry["id"])
                latest = entry
            elif entry.get("customType") == _LEAF and latest is not None and latest["parentId"] == entry["parentId"]:
                # Readers go on from before the message: its prompt was rejected when it was written.
                delivered[text_of(latest["message"])].discard(latest["id"])
        queued.update(waiting.values())
        returned |= back
    return _Fates(
        {text: frozenset(entries) for text, entries in delivered.items()}, frozenset(queued), frozenset(returned)
    )
