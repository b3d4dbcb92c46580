"""Redaction of texts that arrive in pieces: a key that is split over two pieces, or over fifty, is found.

Nothing is held back, so pieces keep their times and their borders. What was handed out before a part of a key could be
recognised stays out: seven characters of the key at most (as many of its characters in an encoded form). From there on
every character of the key is left out, and one mark stands for all.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace_agent.redaction.policy import REDACTED
from pinnace_agent.redaction.redactor import REDACTOR, Redactor

Event = Mapping[str, object]

_STARTS: Final = frozenset({"text_start", "thinking_start", "toolcall_start"})
_ENDS: Final = frozenset({"text_end", "thinking_end", "toolcall_end"})


class GrowingText:
    """One text. Not for several threads."""

    __slots__ = ("_redactor", "tail")

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        """Begin with nothing."""
        self._redactor = redactor
        self.tail = ""  # as long as the longest form: what begins in it is recognised until it has ended

    def is_clean(self, piece: str) -> bool:
        """Take the next piece if it can be written as it is; if not, nothing is taken: `add` has to."""
        known = self._redactor.known()
        text = self.tail + piece
        if known.in_text.in_text(text):
            return False
        self.tail = text[max(0, len(text) - known.longest) :]
        return True

    def add(self, piece: str) -> str:
        """Take the next piece and return what of it may be written."""
        if not self._redactor.is_active or self.is_clean(piece):
            return piece
        tail, text = self.tail, self.tail + piece
        self.tail = text[max(0, len(text) - self._redactor.known().longest) :]
        at = len(tail)
        is_marked = any(end == at for _, end in self._redactor.spans(tail))
        pieces: list[str] = []
        done = at
        for start, end in self._redactor.spans(text):
            if end > at:
                pieces.append(text[done : max(done, start)])
                if start >= at or not is_marked:
                    pieces.append(REDACTED)
                done = end
        return "".join((*pieces, text[done:]))


class GrowingMessage:
    """The blocks of the messages that a writer writes, one message after the other."""

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        """Begin before the first message."""
        self._redactor = redactor
        self._open: dict[object, GrowingText] = {}

    def take(self, events: Sequence[Event]) -> list[str | None] | None:
        """Take the next events, and return what of the delta of each may be written; None: all as they are.

        One search for all of them where they add to one block.
        """
        if len(self._open) == 1:
            (text,) = self._open.values()
            try:
                # str: an event's values are objects to its type, and a delta is a text
                added = "".join([str(event["delta"]) for event in events])
            except KeyError:  # a block begins or ends
                pass
            else:
                if text.is_clean(added):
                    return None
        shown = [self._add(event) for event in events]
        is_changed = any(each != event.get("delta") for each, event in zip(shown, events, strict=True))
        return shown if is_changed else None

    def _add(self, event: Event) -> str | None:
        kind, index = event["type"], event.get("contentIndex")
        if kind in _STARTS:
            self._open[index] = GrowingText(self._redactor)
        elif kind in _ENDS:
            self._open.pop(index, None)
        if "delta" not in event:
            return None
        # Without a beginning, in the records of an unknown producer, a delta stands for itself.
        text = self._open.get(index) or GrowingText(self._redactor)
        return text.add(str(event["delta"]))
