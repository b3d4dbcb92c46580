"""The conversation in memory: its messages, its name, its model and thinking level.

Decides nothing; appends what it is given. Must not know records, queues or providers.
"""

import time
import uuid
from dataclasses import dataclass, field

from pinnace_spec.messages import Message, Model, ThinkingLevel


@dataclass(slots=True)
class Session:
    """One conversation. A session command replaces the object; a shell keeps the one in which it was admitted."""

    cwd: str
    model: Model | None = None
    thinking_level: ThinkingLevel = "off"
    name: str | None = None
    parent_session: str | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    messages: list[Message] = field(default_factory=list[Message])
    _last_ms: int = 0

    def append(self, message: Message) -> None:
        """Add a message at the end."""
        self.messages.append(message)

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch, never earlier than it was before (I-EVT-12)."""
        self._last_ms = max(self._last_ms, time.time_ns() // 1_000_000)
        return self._last_ms

    def successor(self, parent_session: str | None) -> "Session":
        """Return a fresh session in the same folder with the same choices."""
        return Session(self.cwd, self.model, self.thinking_level, parent_session=parent_session)
