"""What the operations of a session's file come to: which messages are queued, returned, refused, or handled.

Reads alone: `operations` says what each is.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.session.conversation import LEAF_MARKER, REFUSED
from pinnace_agent.session.queue.operations import CLEAR_QUEUE, KINDS, QUEUE, QueuedMessage, Texts

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.session.conversation import Session


class ReturnedMessage(NamedTuple):
    """A message that was returned to a client."""

    message: QueuedMessage
    reason: str
    """The command that has returned it, or what that did."""
    by: str | None
    """The identity of that command; None: it had none."""


class QueueHistory:
    """What the operations of a session's file come to."""

    def __init__(self, session: "Session") -> None:
        """Read them. Linear in the entries of type `custom`, and in the user's messages only if anything is queued."""
        self.queued: dict[str, QueuedMessage] = {}
        """By id, in their order."""
        self.returned: dict[str, ReturnedMessage] = {}
        """By id, messages that were returned to a client, in the order in which they were."""
        self.newest: tuple[int, str | None] | None = None
        """The place of the newest operation and, if it is a `clear_queue`, that command's identity."""
        self.refused: dict[str, int] = {}
        """By id, the place of the entry that made it unknown again."""
        self.handled: set[str] = set()
        """The ids of those that an extension has taken."""
        self._added: dict[str, int] = {}  # by id, the place of the entry that has queued a message
        for place, entry in session.tree.of_type("custom"):
            data = as_object(entry.get("data")) or {}
            if entry.get("customType") == QUEUE:
                self.apply(data, session.id, place)
            elif entry.get("customType") == LEAF_MARKER and isinstance(refused := data.get(REFUSED), str):
                self.refused[refused] = place
        for message_id in tuple(self.queued):
            entry_id = session.entry_of_message_id(message_id)
            # One before it is of a prompt that was refused, and whose message was sent again.
            if entry_id is not None and (session.tree.find(entry_id) or 0) > self._added[message_id]:
                del self.queued[message_id]

    def apply(self, data: Mapping[str, object], session_id: str, place: int) -> None:
        """Take an operation, the data of the entry at a place."""
        if data.get("session") != session_id:
            return
        by, reason = data.get("by"), str(data.get("reason"))
        by = by if isinstance(by, str) else None
        self.newest = (place, by if reason == CLEAR_QUEUE else None)
        if data.get("op") == "add":
            if (message := _message(data)) is not None:
                # Again, if it was to be returned and that could not be brought to the disk: it has stayed queued.
                self.returned.pop(message.message_id, None)
                self.queued[message.message_id] = message
                self._added[message.message_id] = place
            return
        for message_id in as_array(data.get("messageIds")):
            message = self.queued.pop(str(message_id), None)
            if data.get("op") == "refused":
                self.refused[str(message_id)] = place
            elif data.get("op") == "handled":
                self.handled.add(str(message_id))
            elif message is not None:
                self.returned[message.message_id] = ReturnedMessage(message, reason, by)

    def texts_of(self, by: str) -> Texts | None:
        """Return what a `clear_queue` of this identity has returned; None: nothing, or there was none."""
        found = [each.message for each in self.returned.values() if (each.reason, each.by) == (CLEAR_QUEUE, by)]
        if not found:
            return None
        steering, follow_up = (tuple(each.text for each in found if each.kind == kind) for kind in KINDS)
        return steering, follow_up


def _message(data: Mapping[str, object]) -> QueuedMessage | None:
    """Read an `add`; None: it is damaged, and nothing can be delivered."""
    message_id, text, blocks = (data.get(name) for name in ("messageId", "text", "blocks"))
    kind = KINDS.get(str(data.get("kind")))
    if not (isinstance(message_id, str) and isinstance(text, str)) or kind is None:
        return None
    return QueuedMessage(message_id, kind, text, tuple(as_array(blocks)))
