"""Divides a conversation that is to be summarised into requests that fit the model's window.

Pure. Nothing is left out: what one request can't hold goes into the next, and a text that no request can hold is
divided. Sizes are bytes of UTF-8, at a number of tokens for each that comes from the provider's own counts where there
are any (`context_meter.tokens_per_byte`). Rule R-CMP-08.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pinnace_agent.compaction.prompts import DIVIDED, continued
from pinnace_agent.llm.output_cap import GOOD_ROOM_TOKENS
from pinnace_spec.records.messages import Model

# Of the window: for what a server puts around a request, and for a piece of text with more tokens than the average. A
# request that is too long all the same is refused, and then divided; so the margin need not cover every case.
_MARGIN_SHARE: Final = 100
# What the wording of a request takes about. A quarter of the rest of the window is the most that an answer may take: in
# the next request the summary takes room beside the conversation, and in the context beside the kept messages.
_WORDING_TOKENS: Final = 1024
_MAX_ANSWER_SHARE: Final = 4
# Of the room for a request, what must be left for the conversation; else there would be requests without end.
_LEAST_CONVERSATION_SHARE: Final = 8
SEPARATOR_BYTES: Final = 2
"""Between two paragraphs."""

_LABEL: Final = re.compile(r"\[([A-Za-z ]{1,40})(?:, continued)?\]: ")
# Where a text is divided: behind the last line or the last word of this share of the room, if there is one.
_BREAK_SHARE: Final = 8


class WindowRoom(NamedTuple):
    """What a window leaves for a request and for its answer."""

    total: int | None
    """Tokens of both together; None: the window is unknown."""
    least_answer: int
    """Tokens that an answer must have room for."""
    most_answer: int
    """Tokens that it may take where there is room."""

    @property
    def request(self) -> int | None:
        """Tokens of a request that leaves the answer its least; None: as many as there are."""
        return None if self.total is None else max(0, self.total - self.least_answer)

    def answer(self, request_tokens: int) -> int:
        """Return how long the answer to a request may be."""
        if self.total is None:
            return self.most_answer
        return max(self.least_answer, min(self.most_answer, self.total - request_tokens))

    def halved(self, request_tokens: int, wording_tokens: int) -> "WindowRoom":
        """Return the room of a window that has refused a request: for half of its conversation, beside the wording."""
        conversation = (request_tokens - wording_tokens) // 2
        # The next request has this one's answer beside its conversation.
        least = max(1, min(self.least_answer, conversation // (_MAX_ANSWER_SHARE - 1)))
        return WindowRoom(wording_tokens + conversation + least, least, self.most_answer)


def room_for(model: Model, wanted: int) -> WindowRoom:
    """Divide a model's window between a request for a summary and its answer.

    Args:
        model: The model that writes the summary. One that thinks does so at the expense of its answer, so it may write
            more than is wanted where there is room.
        wanted: Tokens that the user's settings leave for the summary.
    """
    window = model["contextWindow"]
    limits = [limit for limit in (model["maxTokens"],) if limit > 0]
    if window > 0:
        limits.append((window - _WORDING_TOKENS) // _MAX_ANSWER_SHARE)
    least = max(1, min([wanted, *limits]))
    most = max(1, min([max(wanted, GOOD_ROOM_TOKENS), *limits])) if model["reasoning"] else least
    return WindowRoom(window - window // _MARGIN_SHARE if window > 0 else None, least, most)


def size(text: str) -> int:
    """Return the bytes of a text; a lone surrogate counts as any character of its range."""
    return len(text.encode("utf-8", "surrogatepass"))


def is_too_little(room_tokens: int, request_tokens: int) -> bool:
    """Return whether a request of so many tokens at most leaves too few of them for the conversation."""
    return room_tokens < max(1, request_tokens // _LEAST_CONVERSATION_SHARE)


class Paragraphs:
    """A conversation, or what is left of it, with its size. Never changed."""

    def __init__(self, texts: Sequence[str], sizes: Sequence[int] | None = None) -> None:
        """Take texts, oldest first; `sizes` are their bytes, where the caller knows them."""
        self.texts = texts
        self._sizes = [size(text) for text in texts] if sizes is None else sizes
        self.size = sum(self._sizes) + SEPARATOR_BYTES * max(0, len(texts) - 1)
        """Bytes, with what separates the texts."""

    def with_first(self, text: str) -> "Paragraphs":
        """Return these with one more before them."""
        return Paragraphs([text, *self.texts], [size(text), *self._sizes])

    def divided(self, room_bytes: int) -> tuple["Paragraphs", "Paragraphs"]:
        """Return a beginning that fits a request, and the rest.

        All pieces of a conversation come to about the same length. Only a paragraph that is longer than the room is
        divided itself; its parts are marked, and together they hold all of it.

        Args:
            room_bytes: For the piece. A piece has at least one character, also where that is more than the room.
        """
        if self.size <= room_bytes:
            return self, Paragraphs([])
        sizes = self._sizes
        goal = -(-self.size // -(-self.size // max(1, room_bytes)))
        taken, used = 0, 0
        while used < goal and used + sizes[taken] <= room_bytes:
            used += sizes[taken] + SEPARATOR_BYTES
            taken += 1
        is_worth_it = used < goal and sizes[taken] > room_bytes and room_bytes - used > room_bytes // 2
        if taken and not is_worth_it:
            return Paragraphs(self.texts[:taken], sizes[:taken]), Paragraphs(self.texts[taken:], sizes[taken:])
        head, end = _beginning(self.texts[taken], room_bytes - used)
        piece = Paragraphs([*self.texts[:taken], head], [*sizes[:taken], size(head)])
        first = self.texts[taken]
        if end == len(first):
            return piece, Paragraphs(self.texts[taken + 1 :], sizes[taken + 1 :])
        lead = continued(_label(first)[0])
        tail_size = size(lead) + sizes[taken] - size(first[:end])
        return piece, Paragraphs([lead + first[end:], *self.texts[taken + 1 :]], [tail_size, *sizes[taken + 1 :]])


def _beginning(text: str, room_bytes: int) -> tuple[str, int]:
    """Return the beginning of a text that fits, marked as continued, and how many characters of the text it has."""
    first = _label(text)[1]  # at least one character behind the label is taken
    end = _chars_within(text, max(0, room_bytes - len(DIVIDED)))
    near = text[max(first, end - end // _BREAK_SHARE) : end]
    if (cut := max(near.rfind("\n"), near.rfind(" "))) >= 0:
        end -= len(near) - cut - 1
    end = max(end, first + 1)
    return (text, len(text)) if end >= len(text) else (text[:end] + DIVIDED, end)


def _label(text: str) -> tuple[str, int]:
    """Return what is in front of a paragraph, and where its text begins."""
    label = _LABEL.match(text)
    return ("Text", 0) if label is None else (label[1], label.end())


def _chars_within(text: str, room_bytes: int) -> int:
    """Return how many characters of a text fit."""
    data = text[: room_bytes + 1].encode("utf-8", "surrogatepass")  # a character has a byte at least
    end = min(room_bytes, len(data))
    while 0 < end < len(data) and data[end] & 0xC0 == 0x80:  # within a character
        end -= 1
    return len(data[:end].decode("utf-8", "surrogatepass"))
