"""The outcome of a client's messages: accepted, queued, delivered, returned; and the content of the queues.

Pure. A part of the fold (`fold`). Messages are identified by their text: a client that sends each text once can follow
each message; of equal ones the oldest counts. A message that begins with a slash may be reported with another text.
Judges nothing. Rules R-PRM-02, R-PRM-03, R-PRM-07, R-QUE-01 to R-QUE-10, C-1.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from pinnace_spec.observers import edge
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, TEXT_COMMANDS, Sent, SentCommands
from pinnace_spec.observers.verdicts import Record, Step
from pinnace_spec.rules.errors import ErrorCode

Way = Literal["own", "steering", "followUp", "any"]
"""How a text enters the conversation: as the text that starts a run, through a queue, or unknown so far."""
QUEUES: tuple[Literal["steering", "followUp"], ...] = ("steering", "followUp")


@dataclass(slots=True, eq=False)
class Text:
    """One message of the client, with numbers of steps; 0: it has not happened."""

    words: str
    way: Way
    sent: Sent
    accepted: int = 0
    refused: int = 0
    queued: int = 0
    """The first `queue_update` that shows it."""
    reported: str = ""
    """Its text in queues, if it differs."""
    unqueued: int = 0
    """The first `queue_update` without it."""
    delivered: int = 0
    returned: int = 0
    """The response that returned it."""
    replaced: int = 0
    """Its session was replaced."""
    is_handled: bool = False
    """An extension has handled it."""

    @property
    def is_over(self) -> bool:
        """It has an outcome."""
        return bool(self.delivered or self.returned or self.refused or self.is_handled)

    @property
    def may_change(self) -> bool:
        """It may be reported with another text: of a template or a command, or without an image."""
        has_pictures = bool(self.sent.record.get("images") or self.sent.record.get("attachments"))
        return has_pictures or self.words.lstrip().startswith("/")


@dataclass(slots=True)
class QueueTexts:
    """All texts, and both queues as the agent shows them."""

    view: dict[str, list[Text | str]] = field(
        default_factory=lambda: dict[str, list[Text | str]](steering=[], followUp=[])
    )
    """As in the last `queue_update`; a plain string is a message without a known sender."""
    view_step: int = 0
    delivered: Text | None = None
    """What this step delivers."""
    again: Text | None = None
    """What this step delivers once more."""
    is_unknown: bool = False
    """This step delivers what no client sent."""
    strangers: list[str] = field(default_factory=list[str])
    """What this step shows as queued although no client sent it."""
    added: list[Text] = field(default_factory=list[Text])
    """What this step shows as queued for the first time."""
    removed: list[Text] = field(default_factory=list[Text])
    """What this step shows as queued no more."""
    out_of_order: list[Text] = field(default_factory=list[Text])
    """What this step shows in another order than before, or once more."""
    texts: list[Text] = field(default_factory=list[Text])
    """All, in the order in which they were sent."""
    last_abort: Sent | None = None
    """The last abort that has paused the queue, or may have."""
    held_at: int = 0
    """The last `agent_settled` of a run that a limit has cut short, or the report of a restored queue: both pause the
    queue as an abort does."""
    last_release: Sent | None = None
    """The last `abort` with `continue`."""
    has_former: bool = False
    """Whether a session was opened that existed: a message that is sent may be known there, from a former process."""
    session_opened: int | None = None
    """The step after which queued messages of a session that was opened may be reported; None: it was new."""
    is_restoring: bool = False
    """The last report is the first one of a session that was opened: what the command before it has released may
    already be taken out, and is delivered next."""
    restored: list[str] = field(default_factory=list[str])
    """What was queued in a session that was opened, and is neither delivered nor returned."""
    last_accepted: Text | None = None
    """Of the accepted ones, the last one sent."""
    _by_words: dict[str, deque[Text]] = field(default_factory=dict[str, deque[Text]])
    _over: dict[str, Text] = field(default_factory=dict[str, Text])
    _slashed: deque[Text] = field(default_factory=deque[Text])
    _of: dict[int, Text] = field(default_factory=dict[int, Text])
    _unreplaced: list[Text] = field(default_factory=list[Text])

    def advance(self, step: Step, commands: SentCommands) -> None:
        """Take a step that `commands` has taken."""
        self.delivered = self.again = None
        self.is_unknown = False
        self.strangers, self.added, self.removed, self.out_of_order = [], [], [], []
        if commands.sent is not None:
            self._send(commands.sent)
        elif commands.answered is not None and step.record is not None:
            self._answer(commands.answered, step.number, step.record)
        elif (kind := edge.out_kind(step)) == "queue_update" and step.record is not None:
            self._show(step.number, step.record)
        elif kind == "agent_settled" and edge.as_record(step.record).get("reason") == "limit":
            self.held_at = step.number
        elif kind == "message_start" and step.record is not None:
            message = edge.inner(step.record, "message")
            if message.get("role") == "user":
                self._deliver(step.number, edge.words(message))

    @property
    def pending(self) -> int:
        """How many the queues show."""
        return sum(map(len, self.view.values()))

    @property
    def is_held(self) -> bool:
        """An abort may have paused the queue: no message that was sent after it was accepted."""
        newest = self.last_accepted.sent.number if self.last_accepted is not None else 0
        aborted = self.last_abort.number if self.last_abort is not None else 0
        return max(aborted, self.held_at) > newest

    def of(self, sent: Sent) -> Text | None:
        """Find the text of a command."""
        return self._of.get(sent.number)

    def forget(self) -> None:
        """Set the queues to empty, after they were dropped without a record."""
        self.view = {"steering": [], "followUp": []}

    def _send(self, sent: Sent) -> None:
        if sent.kind == "abort":
            if sent.record.get("queue") == "continue":
                self.last_abort, self.last_release, self.held_at = None, sent, 0
            else:
                self.last_abort = sent
        if sent.kind not in TEXT_COMMANDS or not isinstance(sent.record.get("message"), str):
            return
        match sent.kind:
            case "steer" | "queue_message":
                way: Way = "steering"
            case "follow_up":
                way = "followUp"
            case _:
                way = "any" if isinstance(sent.record.get("streamingBehavior"), str) else "own"
        text = Text(edge.text(sent.record, "message"), way, sent)
        self.texts.append(text)
        self._unreplaced.append(text)
        self._of[sent.number] = text
        self._by_words.setdefault(text.words, deque()).append(text)
        if text.may_change:
            self._slashed.append(text)

    def _answer(self, sent: Sent, number: int, record: Record) -> None:
        data = edge.inner(record, "data")
        if (text := self._of.get(sent.number)) is not None:
            # It may be a repetition of which the agent could not say that its first one is on the disk (R-QUE-14).
            is_unconfirmed = self.has_former and record.get("errorCode") == ErrorCode.SESSION_NOT_SAVED
            self._answer_text(
                text, number, "duplicate" if is_unconfirmed else data.get("disposition"), is_success=sent.is_success
            )
        if not sent.is_success:
            return
        cleared = data if sent.kind == "clear_queue" else edge.inner(data, "cleared")
        for queue in QUEUES:
            for words in edge.texts(cleared, queue) or ():
                self._return(words, number)
        if sent.kind in SESSION_COMMANDS and data.get("cancelled") is not True:
            self.session_opened = number if sent.kind == "switch_session" else None
            self.has_former = sent.kind == "switch_session"
            self.restored.clear()
            kept: list[Text] = []
            for each in self._unreplaced:
                if each.is_over:
                    continue
                if each.sent.number < sent.number:
                    each.replaced = number
                else:
                    kept.append(each)
            self._unreplaced = kept
            self.last_abort = None

    def _answer_text(self, text: Text, number: int, disposition: object, *, is_success: bool) -> None:
        if is_success:
            text.accepted = number
        elif disposition is None:
            text.refused = number
            return
        text.is_handled = disposition in {"handled", "duplicate"}
        if disposition == "duplicate" and text.queued:
            # The queue was shown before this answer: what it shows is the message of a former process.
            self.restored.append(text.reported or text.words)
        is_newest = self.last_accepted is None or text.sent.number > self.last_accepted.sent.number
        if is_newest and not text.is_handled:
            self.last_accepted = text
        match disposition:
            case "started" if text.way == "any":
                text.way = "own"
            case _:
                pass

    def _return(self, words: str, number: int) -> None:
        if words in self.restored:
            self.restored.remove(words)
            return
        found = self._take(words)
        if found is not None:
            found.returned = number
            self._over[found.words] = found

    def _deliver(self, number: int, words: str) -> None:
        found = self._take(words)
        if found is not None:
            found.delivered = number
            self._over[words] = self.delivered = found
        elif words in self.restored:
            self.restored.remove(words)
        elif words in self._over:
            self.again = self._over[words]
        else:
            self.is_unknown = self.session_opened is None and not self.is_restoring

    def _take(self, words: str) -> Text | None:
        """Find the message with this text and without an outcome: accepted ones first."""
        waiting = self._by_words.get(words)
        while waiting and waiting[0].is_over:
            waiting.popleft()
        if waiting:
            live = [text for text in waiting if not text.is_over]
            return next((text for text in live if text.queued or text.accepted), live[0])
        while self._slashed and self._slashed[0].is_over:
            self._slashed.popleft()
        return next((text for text in self._slashed if not text.is_over), None)

    def _show(self, number: int, record: Record) -> None:
        view: dict[str, list[Text | str]] = {}
        for queue in QUEUES:
            old, shown = self.view[queue], edge.texts(record, queue) or []
            gone = _removed(old, shown)
            kept = old[gone:]
            view[queue] = [*kept, *(self._enqueue(words, queue, number) for words in shown[len(kept) :])]
            for each in old[:gone]:
                if isinstance(each, Text) and not any(each is other for other in view[queue]):
                    each.unqueued = number
                    self.removed.append(each)
        self.view, self.view_step = view, number
        self.is_restoring = False
        # An empty report: what was queued is being delivered, before a first answer.
        if self.session_opened is not None and self.pending:
            self.session_opened = None
            if self.strangers:
                self.restored, self.strangers, self.held_at = self.strangers, [], number
                self.is_restoring = True

    def _enqueue(self, words: str, queue: Literal["steering", "followUp"], number: int) -> Text | str:
        live = [text for text in self._by_words.get(words, ()) if not text.is_over and text.way != "own"]
        live = live or [text for text in self._slashed if not text.is_over and not text.queued and text.way != "own"]
        fresh = next((text for text in live if not text.queued and text.way in {queue, "any"}), None)
        if fresh is not None:
            fresh.queued, fresh.way = number, queue
            self.added.append(fresh)
            if fresh.words != words:
                fresh.reported = words
                self._by_words.setdefault(words, deque()).append(fresh)
            return fresh
        if (seen := next((text for text in live if text.queued), None)) is not None:
            seen.unqueued = 0  # its return could not be saved (R-QUE-12)
            self.out_of_order.append(seen)
            return seen
        self.strangers.append(words)
        return words


def shown_words(each: Text | str) -> str:
    """Return the content of a queue."""
    return each.reported or each.words if isinstance(each, Text) else each


def _removed(old: list[Text | str], shown: list[str]) -> int:
    """Count the fewest texts that must have left the head of a queue, so that the rest is the head of what it shows."""
    words = [shown_words(each) for each in old]
    if words == shown[: len(words)]:
        return 0
    # A delivery takes one message or all; only late reads show a number between.
    for gone in range(1, len(words) + 1):
        rest = words[gone:]
        if rest == shown[: len(rest)]:
            return gone
    return len(words)
