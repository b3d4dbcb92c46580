"""What the messages of a growing context come to: how many there are of each kind, what they used, how large they are.

Pure. Each message is looked at once, when it is there: a look at all of them takes as long as the conversation is, and
clients ask after every turn. Must not know entries, nor why somebody asks. Rules R-MSG-03, R-CMP-04.
"""

from collections.abc import Iterable, Sequence
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
        uncounted: list[StoredMessage] = []
        newest_ms, counted, estimated, _ = self._size
        for item in items:
            self._read += 1
            if isinstance(item, StoredMessage):
                self._count_stored(item)
                newest_ms = max(newest_ms, item.timestamp_ms)
                tokens = stored_tokens(item) if item.usage is not None and item.timestamp_ms >= newest_ms else 0
                if not tokens:
                    uncounted.append(item)
                    continue
                counted, estimated = tokens, 0
            else:
                self._count(item)
                newest_ms, counted, estimated, is_counted = _Size(newest_ms, counted, estimated).with_(item)
                if not is_counted:
                    continue
            uncounted.clear()  # what was counted includes what came before
        self._size = _Size(newest_ms, counted, estimated)
        for stored in uncounted:
            self._size = self._size.with_estimate(stored.message())
        self._counts["totalMessages"] = self._read

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

    def _count_stored(self, stored: StoredMessage) -> None:
        counts = self._counts
        match stored.role:
            case "user":
                counts["userMessages"] += 1
            case "toolResult":
                counts["toolResults"] += 1
            case "assistant":
                counts["assistantMessages"] += 1
                counts["toolCalls"] += stored.tool_calls
                if (usage := stored.usage) is not None:
                    add_tokens(self._tokens, usage.input, usage.output, usage.cacheRead, usage.cacheWrite)
                    counts["cost"] += usage.cost.total
            case _:
                pass


def stored_tokens(stored: StoredMessage) -> int:
    """Return the tokens of the context that a provider has counted for an answer, as `message_size.counted_tokens`."""
    usage = stored.usage
    if stored.role != "assistant" or usage is None or stored.stop_reason in FAILED_STOPS:
        return 0
    return usage.totalTokens or usage.input + usage.output + usage.cacheRead + usage.cacheWrite
