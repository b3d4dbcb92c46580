"""The operations of the queue in a session's file, and how they are appended.

An operation is a `custom` entry, which every reader of the format passes over: `add` before a message is accepted,
`remove` before it is returned to the client, `refused` for one that was not accepted after all, `handled` for one that
an extension takes: before its command begins, or when it has taken the message. A message that is delivered is marked
by its own entry, which has its `messageId`, and reaches the disk before the model's request: a crash can't separate the
two. So after any crash the file alone decides which messages are still queued, and they are restored paused. The whole
file counts, not the branch, and an operation belongs to the session whose id it has, so that a copy takes no queue
along.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.session.conversation import Session

QUEUE: Final = "pinnace.queue"
CLEAR_QUEUE: Final = "clear_queue"

QueueKind = Literal["steer", "follow_up"]
KINDS: Final[Mapping[str, QueueKind]] = {"steer": "steer", "follow_up": "follow_up"}

Texts = tuple[tuple[str, ...], tuple[str, ...]]
"""Of the steering queue and of the follow-ups."""


class QueuedMessage(NamedTuple):
    """A message of the user that waits in a queue."""

    message_id: str
    kind: QueueKind
    text: str
    """As it is delivered: extensions have read it, and it is expanded."""
    blocks: tuple[object, ...]
    """The content behind the text."""


def add(session: "Session", message: QueuedMessage) -> None:
    """Append that a message is queued. It is on the disk only after `session.sync`.

    Raises:
        SaveError: It is not in the file, and nothing of it will be.
    """
    failure = session.accept_custom(QUEUE, addition(session, message))
    if failure is not None:
        raise failure


def addition(session: "Session", message: QueuedMessage) -> Mapping[str, object]:
    """Return the data of an `add`."""
    data: dict[str, object] = {"op": "add", "session": session.id, **message._asdict()}
    data["messageId"] = data.pop("message_id")
    if not data["blocks"]:
        del data["blocks"]
    return data


def mark_returned(session: "Session", message_ids: Iterable[str], reason: str, by: str | None) -> None:
    """Append that messages are returned to the client.

    Args:
        session: Where they were queued.
        message_ids: Their ids.
        reason: The command that returns them, or what it does.
        by: The identity of that command; None: it has none.

    Raises:
        SaveError: It is not in the file, and nothing of it will be.
    """
    data: dict[str, object] = {"op": "remove", "session": session.id, "messageIds": list(message_ids), "reason": reason}
    failure = session.accept_custom(QUEUE, data if by is None else {**data, "by": by})
    if failure is not None:
        raise failure


def mark_handled(session: "Session", message_id: str, *, makes_file: bool) -> None:
    """Append that an extension takes a message, which is no part of the conversation.

    Args:
        session: The current one.
        message_id: As the client calls it.
        makes_file: Whether that is worth a file where the session has none yet; else it waits for a message.

    Raises:
        SaveError: It is not in the file, and nothing of it will be.
    """
    data = {"op": "handled", "session": session.id, "messageIds": [message_id]}
    if (failure := session.accept_custom(QUEUE, data, makes_file=makes_file)) is not None:
        raise failure


def mark_refused(session: "Session", message_id: str) -> None:
    """Append that a message that was added is not accepted after all: its id is unknown again."""
    session.keep_custom(QUEUE, {"op": "refused", "session": session.id, "messageIds": [message_id]})
