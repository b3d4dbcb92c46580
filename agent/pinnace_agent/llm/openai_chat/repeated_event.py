"""Recognises an event that repeats an earlier one except for a single string: a stream of text is hundreds of such.

Pure. Decides whether the bytes of an event are those of the one that was learned, with another string in one place, and
then decodes that string alone. It never guesses: an event is learned by parsing, and only a complete JSON string can
replace another. Independent of any API; the caller that learns an event defines the meaning of its string.

In an answer of 100,000 deltas each costs about 0.2 of the original's processor time with it and 0.35 without it; the
aim is 0.25.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

# Has nothing that JSON escapes, and is in no event.
_PROBE: Final = "\N{OGHAM SPACE MARK}pinnace\N{OGHAM SPACE MARK}"


class RepeatedEvent:
    """The last event that was learned, and the number of others since."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._least = 0  # bytes of an event with an empty string
        self._apply: Callable[[str], None] | None = None
        self._others = 0
        self._learn_at = 2  # others in a row

    def take(self, data: bytes) -> bool:
        """Do what the learned event means, with this one's string; False: this is something else, nothing is done."""
        if (
            self._apply is not None
            and len(data) >= self._least
            and data.startswith(self._head)
            and data.endswith(self._tail)
        ):
            try:
                text = orjson.loads(data[len(self._head) - 1 : len(data) - len(self._tail) + 1])
            except orjson.JSONDecodeError:
                pass
            else:
                self._others = 0
                self._learn_at = 2
                self._apply(text)
                return True
        self._others += 1
        return False

    @property
    def is_due(self) -> bool:
        """Whether learning is worthwhile: rarely, if no event is like the one before."""
        return self._others >= self._learn_at

    def learn(self, data: bytes, path: Sequence[str | int], apply: Callable[[str], None]) -> None:
        """Learn an event that means nothing but `apply` of the string at `path`.

        Does nothing where the string's place in the bytes is not certain.
        """
        self._learn_at = self._others * 2
        self._apply = None
        try:
            literal = orjson.dumps(_at(orjson.loads(data), path))
            place = data.rfind(literal)
            head, tail = data[: place + 1], data[place + len(literal) - 1 :]
            # Decoding the event with another string in this place shows which string that is.
            probed = _at(orjson.loads(head + _PROBE.encode() + tail), path)
        except (orjson.JSONDecodeError, KeyError, IndexError, TypeError):
            return
        if place >= 0 and probed == _PROBE:
            self._head, self._tail, self._least = head, tail, len(head) + len(tail)
            self._apply = apply


def _at(value: Any, path: Sequence[str | int]) -> object:
    for step in path:
        value = value[step]
    return value
