"""What the messages of a growing context come to: how many there are of each kind, what they used, how large they are.

Pure. Each message is looked at once, when it is there: a look at all of them takes as long as the conversation is, and
clients ask after every turn. Must not know entries, nor why somebody asks. Rules R-MSG-03, R-CMP-04.
"""

from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from pinnace_agent.compaction.estimate import estimate_tokens
from pinnace_agent.message_size import counted_tokens
from pinnace_agent.session.totals import TokenTotals
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

    def with_(self, message: Message) -> "_Size":
        newest_ms = max(self.newest_ms, message["timestamp"])
        is_late = message["timestamp"] >= self.newest_ms  # else what it counted has been replaced since
        if message["role"] == "assistant" and is_late and (tokens := counted_tokens(message)):
            return _Size(newest_ms, tokens)
        return _Size(newest_ms, self.counted, self.estimated + estimate_tokens(message))


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

    def read(self, messages: Sequence[Message]) -> None:
        """Catch up with the list."""
        for place in range(self._read, len(messages)):
            self._size = self._size.with_(messages[place])
            self._count(messages[place])
        self._read = self._counts["totalMessages"] = len(messages)

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
                tokens["input"] += usage["input"]
                tokens["output"] += usage["output"]
                tokens["cacheRead"] += usage["cacheRead"]
                tokens["cacheWrite"] += usage["cacheWrite"]
                tokens["total"] = tokens["input"] + tokens["output"] + tokens["cacheRead"] + tokens["cacheWrite"]
                counts["cost"] += usage["cost"]["total"]
                counts["toolCalls"] += sum(block["type"] == "toolCall" for block in message["content"])
            case _:
                pass
