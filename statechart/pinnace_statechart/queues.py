"""Steering and follow-up queues: what waits, in which order, and what one delivery takes.

Pure. An item is a record with the number of the command that brought it; items are never matched by their text, so
equal texts and texts of images alone stay apart. When a delivery happens is the chart's to know. Rules R-QUE-01,
R-QUE-03, R-QUE-04, R-QUE-06.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pinnace_statechart.triggers import QueueMode


class Item(NamedTuple):
    """A text on its way into the conversation. `ref` is unique; those of clients rise with the order of arrival."""

    ref: int
    text: str
    blocks: tuple[object, ...] = ()
    unread: bool = False
    """Whether extensions may still change it."""
    custom: object = None
    """The message of an extension, whatever that is: it is not the user's, so no client is shown it in a queue."""
    message_id: str = ""
    """Of a text of the user: its identity, from the queue into the session. Empty for a message of an extension."""


class MessageQueue:
    """A first-in first-out queue of items with a delivery mode."""

    __slots__ = ("_items", "mode")

    def __init__(self, mode: QueueMode = "one-at-a-time") -> None:
        """Start empty."""
        self._items: list[Item] = []
        self.mode: QueueMode = mode

    def __len__(self) -> int:
        """Count the items that wait."""
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        """Iterate over a copy: an item may be taken meanwhile."""
        return iter(tuple(self._items))

    def put(self, item: Item) -> None:
        """Append an item."""
        self._items.append(item)

    def take(self) -> Item | None:
        """Remove and return the oldest item, or None."""
        return self._items.pop(0) if self._items else None

    def take_newest(self) -> Item:
        """Take the newest item."""
        return self._items.pop()

    def count(self) -> int:
        """Count the texts of the user."""
        return sum(item.custom is None for item in self._items) if self._items else 0

    def clear(self) -> tuple[Item, ...]:
        """Remove all items and return those of the user, oldest first."""
        items = self.items()
        self._items.clear()
        return items

    def items(self) -> tuple[Item, ...]:
        """Return the items of the user, oldest first."""
        return tuple(item for item in self._items if item.custom is None) if self._items else ()

    def texts(self) -> tuple[str, ...]:
        """Return the texts of the user, oldest first."""
        return tuple(item.text for item in self._items if item.custom is None)

    def __copy__(self) -> "MessageQueue":
        """Return a queue of its own with the same items."""
        twin = MessageQueue(self.mode)
        twin._items = list(self._items)
        return twin
