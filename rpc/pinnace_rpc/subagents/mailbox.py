"""The messages to one sub-agent while it works, and the decision that its work is over.

Both are one state, changed by one task at a time without a checkpoint: a message is accepted before the end is decided,
and then the end waits for it, or it is refused. A message is accepted in two steps: it is taken, and counts when it is
on the disk, which is when it is sent; one that can't be brought there leaves no trace. The sub-agent itself may settle
while a message is on its way: it starts another run for it, and its answer, which precedes the records of that run,
takes the settling back. Pure. Rules R-SUB-10, R-SUB-12.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # for annotations alone
    from collections.abc import Collection, Mapping

    from pinnace_agent.session.child_agents import MessageState

_RUNS_FOR_IT: Final = ("started", "queued")


class Mailbox:
    """What was accepted for a sub-agent, and what became of it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        """What was taken, by its id, in the order in which that was."""
        self.is_open: bool = True
        """Whether messages are accepted: the end is not decided."""
        self._unsaved: set[str] = set()
        self._unanswered: set[str] = set()
        self._delivered: set[str] = set()
        self._refused: set[str] = set()
        self._is_settled = False

    def take(self, message_id: str, text: str) -> None:
        """Take a message, which must be new, and let the end wait for it. Only while the mailbox is open."""
        assert self.is_open
        self.texts[message_id] = text
        self._unsaved.add(message_id)
        self._unanswered.add(message_id)

    def accept(self, message_id: str) -> None:
        """Accept a message that was taken, since it is on the disk: it may be sent."""
        self._unsaved.discard(message_id)

    def drop(self, message_id: str) -> None:
        """Drop a message that was taken, since it can't be saved."""
        if message_id in self._unsaved:
            del self.texts[message_id]
            self._unsaved.remove(message_id)
            self._unanswered.remove(message_id)

    @property
    def waiting(self) -> int:
        """How many messages were neither delivered nor refused by the sub-agent."""
        return len(self.texts) - len(self._delivered | self._refused)

    def answered(self, message_id: str, disposition: object) -> None:
        """Take what the sub-agent has answered to a message.

        Args:
            message_id: The message.
            disposition: Of its answer; None: it has refused the message, or is gone.
        """
        self._unanswered.discard(message_id)
        if disposition in _RUNS_FOR_IT:
            self._is_settled = False
        elif disposition == "handled":  # by an extension of its own, which has it now
            self._delivered.add(message_id)
        elif message_id not in self._delivered:
            self._refused.add(message_id)

    def delivered(self, message_id: object) -> None:
        """Take that the conversation of the sub-agent has a message; others than those of this mailbox are ignored."""
        if isinstance(message_id, str) and message_id in self.texts:
            self._delivered.add(message_id)

    def settled(self, *, is_complete: bool) -> None:
        """Take that the sub-agent has settled. One that has failed, was aborted or has reached a limit is over."""
        self._is_settled = True
        if not is_complete:
            self.is_open = False

    def close_if_over(self) -> bool:
        """Return whether the work is over, and close the mailbox then."""
        if self._is_settled and not self._unanswered:
            self.is_open = False
        return not self.is_open

    def close(self) -> None:
        """Accept no more, since the end is decided elsewhere."""
        self.is_open = False

    def states(self) -> "Mapping[str, MessageState]":
        """Return what became of each message that was accepted, so far."""
        return {each: self._state(each) for each in self.texts if each not in self._unsaved}

    def _state(self, message_id: str) -> "MessageState":
        if message_id in self._delivered:
            return "delivered"
        return "returned" if message_id in self._refused else "accepted"

    def not_delivered(self, in_file: "Collection[str] | None") -> list[str]:
        """Return the ids of messages that are returned with the end.

        Args:
            in_file: The ids of the messages that its file holds; None: it has none.
        """
        has_it = self._delivered if in_file is None else self._delivered.union(in_file)
        return [each for each in self.texts if each not in has_it]
