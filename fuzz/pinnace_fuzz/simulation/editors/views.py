"""What an editor has been shown of a session, and what must be shown again when it is loaded.

A view outlives the connections of its editor. What was complete when the work had ended is in every later replay, with
the same ids and texts, unless the machine has lost power; a replay of a session that is at rest shows the same as what
was shown live, since the editor was shown all of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pinnace_fuzz.acp.conversation import Conversation, conversation
from pinnace_fuzz.judge.scenarios.shapes import as_object

Message: TypeAlias = Mapping[str, Any]  # Any: JSON
_LONGEST: Final = 300
_ENDED: Final = "agent_ended"
_OF_CANCELLED: Final = frozenset({"cancelled", "error"})


@dataclass(slots=True)
class SessionView:
    """One session of one editor."""

    identity: str
    version: int
    is_open: bool = False
    """On the current connection, as far as the editor knows."""
    has_messages: bool = False
    """A message was accepted in it, so it has a file."""
    is_at_work: bool = False
    """As the last update of its state has said, on the current connection."""
    works: int = 0
    """How often work has begun."""
    has_turn: bool = False
    """A prompt has begun the work (version 2)."""
    is_cancelled: bool = False
    """And it was cancelled, so it ends so."""
    is_whole: bool = False
    """Everything was shown on this connection, from the session's start on."""
    shown: list[Message] = field(default_factory=list[Message])
    """The notifications of the current connection about it, since a replay of it began."""
    is_ordered: bool = True
    """No update that came live has preceded the replay, whose place in the order it would have."""
    is_settled_ordered: bool = True
    settled: Conversation | None = None
    """What was shown when its work last ended, where that must be shown again."""

    def leave(self) -> None:
        """The connection has ended."""
        self.is_open = self.is_at_work = self.is_whole = self.has_turn = self.is_cancelled = False
        self.shown.clear()

    def end(self) -> None:
        """Its agent has ended, or it was closed."""
        self.is_open = self.is_at_work = self.is_whole = self.has_turn = self.is_cancelled = False

    def lose(self) -> None:
        """The machine has lost power: what was not flushed need not be shown again."""
        self.settled = None

    def begin_again(self) -> None:
        """A replay was asked for."""
        self.shown.clear()
        self.is_whole = self.is_ordered = True

    def take(self, notification: Message, *, has_prompt: bool) -> str | None:
        """Take an update; return what is wrong with it.

        Args:
            notification: The whole message.
            has_prompt: A prompt of the session is not answered.
        """
        update: Message = notification["params"]["update"]
        if _is_notice(update):
            return None
        self.shown.append(notification)
        if update["sessionUpdate"] == "state_update":
            was_at_work, self.is_at_work = self.is_at_work, update["state"] != "idle"
            if not was_at_work:
                self.works += self.is_at_work
                self.has_turn = self.is_at_work and has_prompt
            if inner(update, "error", "data").get("errorCode") == _ENDED:
                self.end()  # of what was at work, the end was not shown
            elif not self.is_at_work:
                is_cancelled, self.is_cancelled, self.has_turn = self.is_cancelled, False, False
                if is_cancelled and update.get("stopReason", "cancelled") not in _OF_CANCELLED:
                    return f"work that was cancelled has ended with {update['stopReason']}"
        else:
            running = inner(update, "_meta", "pinnace").get("running")
            if isinstance(running, bool):
                self.works += running
                self.is_at_work = running
        return None

    def settle(self) -> None:
        """Note what is shown: all work has ended, and nothing is owed."""
        if self.is_whole:
            self.settled, self.is_settled_ordered = self._conversation(), self.is_ordered

    def find_missing(self) -> Iterable[str]:
        """Find what was shown when the work last ended, and is not in the replay that has come."""
        if self.settled is None:
            return
        now = self._conversation()
        for name in ("messages", "calls", "terminals"):
            yield from _missing(name, _items(self.settled, name), _items(now, name), has_order=self._has_order)

    def find_other(self) -> Iterable[str]:
        """Find what differs in a replay of a session that was at rest since its work last ended."""
        if self.settled is None:
            return
        now = self._conversation()
        for name in ("messages", "calls", "terminals"):
            former, found = _items(self.settled, name), _items(now, name)
            yield from _missing(name, former, found, has_order=self._has_order)
            for key in found:
                if key not in former:
                    yield f"{name}: {key} is in the replay, and was not shown live: {_short(found[key])}"

    @property
    def _has_order(self) -> bool:
        return self.is_ordered and self.is_settled_ordered

    def _conversation(self) -> Conversation:
        return conversation(self.shown, self.version)


def inner(fields: Message, *names: str) -> Message:
    """Return an object inside of objects, by the names on the way to it; empty if there is none."""
    for name in names:
        fields = as_object(fields.get(name)) or {}
    return fields


def _missing(
    name: str, former: Mapping[object, object], now: Mapping[object, object], *, has_order: bool
) -> Iterable[str]:
    for key, item in former.items():
        if key not in now:
            yield f"{name}: {key} was shown live, and is not in the replay: {_short(item)}"
        elif now[key] != item:
            yield f"{name}: {key} was shown live as {_short(item)}, and is replayed as {_short(now[key])}"
    order, found = [key for key in former if key in now], [key for key in now if key in former]
    if has_order and order != found:
        yield f"{name}: the order is {found} in the replay, and was {order} live"


def _items(shown: Conversation, name: str) -> Mapping[object, object]:
    """Return the messages, calls or terminals by their ids, in their order."""
    if name == "messages":
        found: dict[object, object] = {}
        messages: Sequence[Message] = shown["messages"]
        for each in messages:
            key = (each["kind"], each["messageId"])
            if not each["text"].startswith("/"):  # a command of an extension is in no entry
                found[key] = f"{found.get(key, '')}{each['text']}"
        return found
    items: Mapping[str, object] = shown.get(name, {})
    # Nor is a question about no call, which version 1 announces as one.
    return {key: item for key, item in items.items() if not key.startswith("dialog:")}


def _is_notice(update: Message) -> bool:
    return bool(inner(update, "_meta", "pinnace").get("notice"))


def _short(item: object) -> str:
    text = repr(item)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
