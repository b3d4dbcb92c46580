"""Where the agent writes its records.

The agent has no access to lines, command ids or stdout: it hands records to an `Emitter`. All methods but `room` are
synchronous, since effects are performed without a checkpoint between them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.llm.builder import MessageBuilder

Record = Mapping[str, object]


def extension_error(path: str, event: str, text: str) -> Record:
    """Make `extension_error`: also for failures beside commands that no extension has caused."""
    return {"type": "extension_error", "extensionPath": path, "event": event, "error": text}


class Emitter(Protocol):
    """Takes the records of the conversation in the order in which they happen."""

    def emit(self, record: Record) -> None:
        """Write an event record. Never waits; the record must not change afterwards."""

    def update(self, event: Record, builder: "MessageBuilder") -> None:
        """Write a `message_update` for one delta of the message that `builder` holds."""

    def progress(self, record: Record, key: str) -> None:
        """Write a cumulative record; an unwritten one with the same key may be replaced by it."""

    async def room(self) -> None:
        """Wait until the reader has taken enough for more to be produced. A checkpoint."""
