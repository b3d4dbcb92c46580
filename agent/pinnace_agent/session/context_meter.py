"""What the messages of a growing context come to: how many there are of each kind, what they used, how large they are.

Pure. Each message is looked at once, when it is there: a look at all of them takes as long as the conversation is, and
clients ask after every turn. Must not know entries, nor why somebody asks. Rules R-MSG-03, R-CMP-04.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from typing_extensions import TypedDict

from pinnace_agent.compaction.estimate import estimate_tokens
from pinnace_agent.message_size import FAILED_STOPS, counted_tokens
from pinnace_agent.session.entry_list import StoredMessage
from pinnace_agent.session.totals import TokenTotals, add_tokens
from pinnace_spec.messages import Message


class ContextCounts(TypedDict):
    """Counts, tokens and cost of the messages of a context, as clients are told."""

    userMessages: int
    assistantMessages: int
    toolCalls: int
    toolResults: int
    totalMessages: int
    tokens: TokenTotals
    cost: float
    """US dollars."""


class _Size(NamedTuple):
    """How large a context is in tokens. `compaction.estimate.context_tokens` says the same of a whole one."""

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
        held = list(items)
        self._read = self._counts["totalMessages"] = len(held)
        times_ms = [item.timestamp_ms if isinstance(item, StoredMessage) else item["timestamp"] for item in held]
        newest_ms = list(accumulate(times_ms, max, initial=0))
        self._count_all(held)
        # The last count that can be trusted includes what came before, so only what follows it is looked at.
        first, counted = 0, 0
        for place in range(len(held) - 1, -1, -1):
            if times_ms[place] >= newest_ms[place + 1] and (counted := _counted_tokens(held[place])):
                first = place + 1
                break
        self._size = _Size(newest_ms[-1], counted)
        for item in held[first:]:
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

    def _count_all(self, items: Iterable[StoredMessage | Message]) -> None:
        """Count many. The path of a line that has not been decoded is kept short."""
        counts = self._counts
        roles: list[str] = []
        input_ = output = cache_read = cache_write = 0
        for item in items:
            if not isinstance(item, StoredMessage):
                self._count(item)
                continue
            roles.append(item.role)
            if item.role == "assistant" and (usage := item.usage) is not None:
                counts["toolCalls"] += item.tool_calls
                counts["cost"] += usage.cost.total
                input_ += usage.input
                output += usage.output
                cache_read += usage.cacheRead
                cache_write += usage.cacheWrite
        counts["userMessages"] += roles.count("user")
        counts["toolResults"] += roles.count("toolResult")
        counts["assistantMessages"] += roles.count("assistant")
        add_tokens(self._tokens, input_, output, cache_read, cache_write)


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
