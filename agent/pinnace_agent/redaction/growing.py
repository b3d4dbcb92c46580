"""Redaction of texts that arrive in pieces: a key that is split over two pieces, or over fifty, is found.

Pieces keep their times and their borders until the text holds what a key begins with: eight characters of it, or as
many as are no words (as many of its characters in an encoded form). From there on characters are held back until the
next ones decide: one mark stands for a key, and what was none follows unchanged. What was handed out before that stays
out. A text that ends in the beginning of a key has ended: nothing more is handed out of it. A key that no text is
certain to hold by design (`forms`) is left out as far as it is in one piece.
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

    __slots__ = ("_held", "_is_marked", "_is_start", "_redactor", "tail")

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        """Begin with nothing."""
        self._redactor = redactor
        self.tail = ""  # as long as the longest form: what begins in it is recognised until it has ended
        self._held = 0  # so many characters of its end are not handed out: the next ones decide
        self._is_start = True  # whether nothing was before the tail
        self._is_marked = False  # whether a mark was handed out last

    def is_clean(self, piece: str) -> bool:
        """Take the next piece if it can be written as it is; if not, nothing is taken: `add` has to."""
        known = self._redactor.known()
        text = self.tail + piece
        if self._held or known.in_text.in_text(text):
            return False
        self._is_marked = self._is_marked and not piece
        self._keep(text, known.longest)
        return True

    def add(self, piece: str) -> str:
        """Take the next piece and return what of the text may be written now."""
        if not self._redactor.is_active or self.is_clean(piece):
            return piece
        from pinnace_agent.redaction.replacing import growing_spans

        known = self._redactor.known()
        at, text = len(self.tail) - self._held, self.tail + piece
        spans, limit = growing_spans(text, known.forms, is_start=self._is_start)
        # A key is left out as a whole, though another may begin in it.
        limit = max([at, limit, *(end for start, end in spans if start < limit < end)])
        pieces: list[str] = []
        done = at
        for start, end in spans:
            if at < end <= limit:
                pieces.append(text[done : max(done, start)])
                if start >= at or not self._is_marked:
                    pieces.append(REDACTED)
                done = end
        pieces.append(text[done:limit])
        if limit > at:
            self._is_marked = done == limit
        self._held = len(text) - limit
        self._keep(text, max(known.longest, self._held))
        return "".join(pieces)

    def _keep(self, text: str, size: int) -> None:
        self._is_start = self._is_start and len(text) <= size
        self.tail = text[max(0, len(text) - size) :]


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
        delta = str(event["delta"])
        text = self._open.get(index)
        # Without a beginning, in the records of an unknown producer, a delta stands for itself.
        return self._redactor.text(delta) if text is None else text.add(delta)
