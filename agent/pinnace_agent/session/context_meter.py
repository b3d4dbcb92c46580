"""Counts the messages of a growing context by kind, adds up their usage and estimates their size in tokens.

Pure. Each message is read once: reading all of them takes time in proportion to the conversation, and clients ask after
every turn. Sizes are what the provider counted last, and four characters a token for the rest; `tokens_per_byte` is for
requests that must fit a window. Has no access to any tokenizer. Rules R-MSG-03, R-CMP-04, R-CMP-08.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from typing_extensions import TypedDict

from pinnace_agent.llm.message_size import (
    FAILED_STOPS,
    counted_tokens,
    input_counts,
    last_count,
    message_bytes,
    message_chars,
)
from pinnace_agent.session.store.entries import StoredMessage
from pinnace_agent.session.totals import TokenTotals, add_tokens
from pinnace_spec.records.messages import Message

CHARS_PER_TOKEN: Final = 4

# Of UTF-8, where no provider has counted. Prose has four and more, code more than three; Chinese has one character in
# three, and that is a token or less. Only generated text, such as base64, has fewer.
BYTES_PER_TOKEN: Final = 3
# So much of a conversation weighs as much as that assumption.
_ASSUMED_BYTES: Final = 3000
# A count beyond these is none of the text: of servers that count only what was new to them, of messages that are short
# beside their surroundings.
_MOST_BYTES_PER_TOKEN: Final = 5
_LEAST_BYTES_PER_TOKEN: Final = 1


class ContextCounts(TypedDict):
    """Counts, tokens and cost of the messages of a context, as reported to clients."""

    userMessages: int
    assistantMessages: int
    toolCalls: int
    toolResults: int
    totalMessages: int
    tokens: TokenTotals
    cost: float
    """US dollars."""


class _Size(NamedTuple):
    """How large a context is in tokens. `context_tokens` returns the same of a whole one."""

    newest_ms: int = 0
    counted: int = 0
    estimated: int = 0
    """Of what came after the last count that can be trusted."""
    is_counted: bool = False
    """By the last message: there is nothing to estimate yet."""

    def with_(self, message: Message) -> "_Size":
        tokens = counted_tokens(message) if message["role"] == "assistant" else 0
        newest_ms = max(self.newest_ms, message["timestamp"])
        if tokens and message["timestamp"] >= newest_ms:  # else what it counted has been replaced since
            return _Size(newest_ms, tokens, is_counted=True)
        return _Size(newest_ms, self.counted, self.estimated).with_estimate(message)

    def with_estimate(self, message: Message) -> "_Size":
        return self._replace(estimated=self.estimated + estimate_tokens(message))


class ContextMeter:
    """Follows one list of messages that is only appended to."""

    def __init__(self) -> None:
        """Start before the first message."""
        self._read = 0
        self._size = _Size()
        self._tokens: TokenTotals = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
        self._counts: ContextCounts = {
            "userMessages": 0,
            "assistantMessages": 0,
            "toolCalls": 0,
            "toolResults": 0,
            "totalMessages": 0,
            "tokens": self._tokens,
            "cost": 0,
        }

    @property
    def has_read(self) -> bool:
        """Whether anything was read."""
        return self._read > 0

    def read(self, messages: Sequence[Message]) -> None:
        """Catch up with the list."""
        for place in range(self._read, len(messages)):
            self._size = self._size.with_(messages[place])
            self._count(messages[place])
        self._read = self._counts["totalMessages"] = len(messages)

    def begin(self, items: Iterable[StoredMessage | Message]) -> None:
        """Read the beginning of the list, of which some messages have not been decoded, and as few as possible are."""
        items_read = list(items)
        self._read = self._counts["totalMessages"] = len(items_read)
        times_ms = self._count_all(items_read)
        # Nearly always in order, which takes a tenth of the time to find out.
        newest_ms = times_ms if times_ms == sorted(times_ms) else list(accumulate(times_ms, max))
        # The last count that can be trusted includes what came before, so only what follows it is read.
        first, counted = 0, 0
        for place in range(len(items_read) - 1, -1, -1):
            if times_ms[place] >= newest_ms[place] and (counted := _counted_tokens(items_read[place])):
                first = place + 1
                break
        self._size = _Size(newest_ms[-1] if newest_ms else 0, counted)
        for item in items_read[first:]:
            self._size = self._size.with_estimate(item.message() if isinstance(item, StoredMessage) else item)

    def tokens(self, *more: Message) -> int:
        """Return how large the context is, or would be with more messages."""
        size = self._size
        for message in more:
            size = size.with_(message)
        return size.counted + size.estimated

    def counts(self) -> ContextCounts:
        """Return what was counted so far; a copy."""
        return {**self._counts, "tokens": self._tokens.copy()}

    def _count(self, message: Message) -> None:
        counts, tokens = self._counts, self._tokens
        match message["role"]:
            case "user":
                counts["userMessages"] += 1
            case "toolResult":
                counts["toolResults"] += 1
            case "assistant":
                counts["assistantMessages"] += 1
                usage = message["usage"]
                add_tokens(tokens, usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"])
                counts["cost"] += usage["cost"]["total"]
                counts["toolCalls"] += sum(block["type"] == "toolCall" for block in message["content"])
            case _:
                pass

    def _count_all(self, items: Sequence[StoredMessage | Message]) -> list[int]:
        """Count many; return the time of each.

        The path of a line that has not been decoded is kept short, and takes all of it at once: little of it is in the
        processor's caches, so a second pass would cost as much as the first.
        """
        counts, spent = self._counts, self._counts["cost"]
        roles: list[str] = []
        times_ms: list[int] = []
        input_ = output = cache_read = cache_write = tool_calls = 0
        for item in items:
            if not isinstance(item, StoredMessage):
                times_ms.append(item["timestamp"])
                counts["cost"] = spent
                self._count(item)
                spent = counts["cost"]
                continue
            _, _, _, role, time_ms, usage, _, calls, _ = item
            times_ms.append(time_ms)
            roles.append(role)
            if usage is not None and role == "assistant":
                tool_calls += calls
                spent += usage.cost.total
                input_ += usage.input
                output += usage.output
                cache_read += usage.cacheRead
                cache_write += usage.cacheWrite
        counts["cost"] = spent
        counts["toolCalls"] += tool_calls
        counts["userMessages"] += roles.count("user")
        counts["toolResults"] += roles.count("toolResult")
        counts["assistantMessages"] += roles.count("assistant")
        add_tokens(self._tokens, input_, output, cache_read, cache_write)
        return times_ms


def _counted_tokens(item: StoredMessage | Message) -> int:
    if isinstance(item, StoredMessage):
        return stored_tokens(item)
    return counted_tokens(item) if item["role"] == "assistant" else 0


def stored_tokens(stored: StoredMessage) -> int:
    """Return the tokens of the context that a provider has counted for an answer, as `message_size.counted_tokens`."""
    usage = stored.usage
    if stored.role != "assistant" or usage is None or stored.stop_reason in FAILED_STOPS:
        return 0
    return usage.totalTokens or usage.input + usage.output + usage.cacheRead + usage.cacheWrite


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
