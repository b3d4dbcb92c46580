"""How many tokens messages are: what the provider counted last, and four characters a token for the rest.

Pure. The figures are those that clients see and that compaction works by. Must not know any provider's tokenizer.
Rule R-CMP-04.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pinnace_agent.message_size import last_count, message_chars
from pinnace_spec.messages import Message

CHARS_PER_TOKEN: Final = 4


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
