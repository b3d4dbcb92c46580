"""Changes single queued messages: the protocol returns a queue as a whole, so that they are taken back and queued anew.

Each message is then queued once, or in what is returned; one that the agent has taken meanwhile stays taken. Pictures
do not come back with a queue, which is why one with pictures is not changed. Must not know widgets.
"""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import pinnace
from pinnace_tui.content.values import Record

if TYPE_CHECKING:
    from pinnace import AsyncioClient


class Queued(NamedTuple):
    """A queued message."""

    identity: str
    kind: str
    """`steer` or `followUp`."""
    text: str


Change = Callable[[list[Queued]], list[Queued]]


class HasPictures(Exception):
    """The queue has pictures, which would be lost. The text is for the user."""

    def __init__(self) -> None:
        """Say what can be done."""
        super().__init__("a queued message has pictures, which would be lost: the queue can't be changed")


async def queued(client: "AsyncioClient") -> list[Queued]:
    """Return the queued messages in the order of their delivery.

    Raises:
        HasPictures: One has pictures.
        ClientFailure: As every command.
    """
    messages = (await client.get_queue())["messages"]
    if any(each["imageCount"] for each in messages):
        raise HasPictures
    return [Queued(each["messageId"], each["kind"], each["text"]) for each in messages]


async def change_queue(client: "AsyncioClient", change: Change) -> list[str]:
    """Queue what a function makes of the queued messages; return the texts that could not be queued again.

    Raises:
        ClientFailure: The queue could not be taken; it is as it was.
    """
    token = uuid.uuid4().hex
    await client.clear_queue(by=token)
    returned = (await client.get_queue(returned=True)).get("returned", [])
    taken = [Queued(each["messageId"], each["kind"], each["text"]) for each in returned if each.get("by") == token]
    wanted = change(taken)
    for place, message in enumerate(wanted):
        try:
            await (client.steer if message.kind == "steer" else client.follow_up)(message.text)
        except pinnace.ClientFailure:
            return [each.text for each in wanted[place:]]
    return []


def queued_texts(queue: Record) -> list[str]:
    """Return the messages of both queues, in the order of their delivery."""
    return [
        each
        for kind in ("steering", "followUp")
        for each in cast("list[object]", queue.get(kind) or [])
        if isinstance(each, str)
    ]


def without(identity: str) -> Change:
    """Remove a message."""
    return lambda messages: [each for each in messages if each.identity != identity]


def with_text(identity: str, text: str) -> Change:
    """Replace the text of a message."""
    return lambda messages: [each._replace(text=text) if each.identity == identity else each for each in messages]


def moved(identity: str, step: int) -> Change:
    """Move a message among those of its kind, which are delivered in their order."""

    def change(messages: list[Queued]) -> list[Queued]:
        place = next((place for place, each in enumerate(messages) if each.identity == identity), None)
        if place is None:
            return messages
        other = place + step
        if 0 <= other < len(messages) and messages[other].kind == messages[place].kind:
            messages = list(messages)
            messages[place], messages[other] = messages[other], messages[place]
        return messages

    return change
