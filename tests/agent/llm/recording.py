"""What tests of providers share: a rich answer, a sink that keeps what is reported, and the frame of a reader."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import trio
from hypothesis import strategies as st

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.transport.exchange import StreamReader
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_spec.records.messages import AssistantMessage, Model

RICH: Final[Mapping[str, object]] = {
    "reasoning": ["I th", "ink 𝄞"],
    "text": ["Hé", "llo\u2028wo\u0085rld ", "😀"],
    "tool_calls": [
        {"name": "bash", "args": {"command": "ls 'a b'\n", "n": 3}, "pieces": 5, "id": "c1"},
        {"name": "bash", "args": "{}", "id": "c2"},
    ],
    "usage": {"input": 100, "output": 20, "cacheRead": 40, "reasoning": 7},
}
"""A scripted answer with every kind of block, in pieces, and with characters that break lines elsewhere."""


def json_values(keys: Sequence[str], leaves: st.SearchStrategy[object] | None = None) -> st.SearchStrategy[object]:
    """Make JSON values of any shape, whose objects have some of these keys; `leaves` replaces the whole numbers."""
    simple = st.none() | st.booleans() | st.floats() | st.text(max_size=5)
    return st.recursive(
        simple | (st.integers() if leaves is None else leaves),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=6),
        max_leaves=20,
    )


def cost_ratio(seconds_each: Callable[[int], float], few: int, many: int) -> float:
    """Return how many times as much of the processor one of many takes as one of few, each at its best."""
    small = min(seconds_each(few) for _ in range(3))
    return min(seconds_each(many) for _ in range(2)) / small


def rich_content(signature: str) -> list[Any]:
    """Return the content of the message that `RICH` becomes; the API signs the thoughts."""
    return [
        {"type": "thinking", "thinking": "I think 𝄞", "thinkingSignature": signature},
        {"type": "text", "text": "Héllo\u2028wo\u0085rld 😀"},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls 'a b'\n", "n": 3}},
        {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {}},
    ]


class Recorder:
    """Keeps every update, also in words: `text_delta 0 what`."""

    def __init__(self) -> None:
        self.starts = 0
        self.rooms = 0
        self.events: list[Mapping[str, Any]] = []
        self.words: list[str] = []
        self.asked_after_delta = trio.Event()
        """Set when room was asked for and there had been a delta."""

    @property
    def kinds(self) -> list[str]:
        """The types of the updates."""
        return [event["type"] for event in self.events]

    def started(self, message: AssistantMessage) -> None:
        """Count the start."""
        self.starts += 1

    def update(self, event: Mapping[str, Any], builder: MessageBuilder) -> None:
        """Keep an update."""
        self.events.append(dict(event))
        call = f"{event.get('toolName', '')} {event.get('id', '')}"
        what = event.get("delta", event.get("content", call))
        self.words.append(f"{event['type']} {event['contentIndex']} {what}".rstrip())

    async def room(self) -> None:
        """Have room, after a checkpoint."""
        self.rooms += 1
        if any(kind.endswith("_delta") for kind in self.kinds):
            self.asked_after_delta.set()
        await trio.lowlevel.checkpoint()


class Reading:
    """A reader of one API, which each module of tests makes for its own, and the message that it fills."""

    reader: StreamReader

    def __init__(self, model: Model) -> None:
        self.recorder = Recorder()
        self.builder = MessageBuilder(model, self.recorder, 0)
        self.builder.start()

    def read(self, *events: object) -> Self:
        """Read events without a name; bytes as they are, anything else as JSON."""
        for event in events:
            self.reader.read(SseEvent(b"", event if isinstance(event, bytes) else json.dumps(event).encode()))
        return self

    def finish(self) -> AssistantMessage:
        """End the stream and return the message."""
        self.reader.finish()
        return self.builder.message


def without_number(answer_id: str | None) -> str | None:
    """Without what distinguishes the answers of the model server: each of two readers has asked for one."""
    return answer_id and re.sub(r"(?<=_fake)-\d+$", "", answer_id)
