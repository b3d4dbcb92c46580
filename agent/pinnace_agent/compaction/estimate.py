"""How many tokens messages are: what the provider counted last, and four characters a token for the rest.

Pure. The figures are those that clients see and that compaction works by; `tokens_per_byte` is for requests that must
fit a window. Must not know any provider's tokenizer. Rules R-CMP-04, R-CMP-08.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pinnace_agent.message_size import input_counts, last_count, message_bytes, message_chars
from pinnace_spec.messages import Message

CHARS_PER_TOKEN: Final = 4

# Of UTF-8, where no provider has counted. Prose has four and more, code more than three; Chinese has one character in
# three, and that is a token or less. Only what nobody wrote, such as base64, has fewer.
BYTES_PER_TOKEN: Final = 3
# So much of a conversation weighs as much as that assumption.
_ASSUMED_BYTES: Final = 3000
# A count beyond these is none of the text: of servers that count only what was new to them, of messages that are short
# beside what stands around them.
_MOST_BYTES_PER_TOKEN: Final = 5
_LEAST_BYTES_PER_TOKEN: Final = 1


def estimate_tokens(message: Message) -> int:
    """Estimate the tokens of one message."""
    return -(-message_chars(message) // CHARS_PER_TOKEN)


def sum_of_estimates(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages of which nothing was counted."""
    return sum(map(estimate_tokens, messages))


def context_tokens(messages: Sequence[Message]) -> int:
    """Return how large the context is: the last count that can be trusted plus an estimate of what followed."""
    count = last_count(messages)
    if count is None:
        return sum_of_estimates(messages)
    return count.tokens + sum_of_estimates(messages[count.place + 1 :])


def tokens_per_byte(messages: Sequence[Message]) -> float:
    """Return how many tokens a byte of a conversation comes to, by what its provider has counted.

    The difference of two counts is that of the messages between them: the system prompt and the tools are in both.
    """
    counts = input_counts(messages)
    tokens, read = _ASSUMED_BYTES / BYTES_PER_TOKEN, _ASSUMED_BYTES
    if counts:
        first, last = counts[0], counts[-1]
        tokens += max(0, last.tokens - first.tokens)
        read += sum(map(message_bytes, messages[first.place : last.place]))
    return min(1 / _LEAST_BYTES_PER_TOKEN, max(1 / _MOST_BYTES_PER_TOKEN, tokens / read))
