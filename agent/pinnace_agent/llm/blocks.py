"""The content blocks of a message that is still growing.

Each keeps its text in pieces, so that a delta costs the same however long the message is. Must not know
sinks, the order of events, or providers.
"""

from typing import Protocol

from pinnace_agent.llm.arguments import GrowingArguments, read_arguments
from pinnace_agent.llm.pieces import Pieces
from pinnace_spec.messages import AssistantContent, TextContent, ThinkingContent, ToolCall


class Block(Protocol):
    """One block: its place in the content, and the things that are said about it."""

    index: int
    is_open: bool
    pieces: Pieces
    kind: str
    """What its updates' types begin with."""

    def content(self) -> AssistantContent:
        """Return the block so far, in a dict of its own."""
        ...

    def end_event(self) -> dict[str, object]:
        """Close the block and return the event that says so."""
        ...


class TextBlock:
    """Text of the answer."""

    __slots__ = ("index", "is_open", "kind", "pieces", "signature")

    def __init__(self, index: int) -> None:
        self.index = index
        self.kind = "text"
        self.is_open = True
        self.pieces = Pieces()
        self.signature: str | None = None

    def content(self) -> TextContent:
        """Return the block so far."""
        content: TextContent = {"type": "text", "text": self.pieces.text()}
        if self.signature is not None:
            content["textSignature"] = self.signature
        return content

    def end_event(self) -> dict[str, object]:
        """Close the block."""
        self.is_open = False
        return {"type": "text_end", "contentIndex": self.index, "content": self.pieces.text()}


class ThinkingBlock:
    """Text of the thoughts before the answer."""

    __slots__ = ("index", "is_open", "is_redacted", "kind", "pieces", "signature")

    def __init__(self, index: int) -> None:
        self.index = index
        self.kind = "thinking"
        self.is_open = True
        self.is_redacted = False
        self.pieces = Pieces()
        self.signature: str | None = None

    def content(self) -> ThinkingContent:
        """Return the block so far."""
        content: ThinkingContent = {"type": "thinking", "thinking": self.pieces.text()}
        if self.signature is not None:
            content["thinkingSignature"] = self.signature
        if self.is_redacted:
            content["redacted"] = True
        return content

    def end_event(self) -> dict[str, object]:
        """Close the block."""
        self.is_open = False
        return {"type": "thinking_end", "contentIndex": self.index, "content": self.pieces.text()}


class ToolCallBlock:
    """A call with its arguments, read as far as they have come until the block is closed."""

    __slots__ = ("_arguments", "_final", "call_id", "index", "is_open", "kind", "name", "pieces", "signature")

    def __init__(self, index: int, call_id: str, name: str) -> None:
        self.index = index
        self.kind = "toolcall"
        self.is_open = True
        self.call_id = call_id
        self.name = name
        self.signature: str | None = None
        self._arguments = GrowingArguments()
        self.pieces = self._arguments.pieces
        self._final: ToolCall | None = None

    def content(self) -> ToolCall:
        """Return the call so far; its arguments are a guess while the block is open."""
        if self._final is not None:
            return self._final.copy()
        call: ToolCall = {
            "type": "toolCall",
            "id": self.call_id,
            "name": self.name,
            "arguments": self._arguments.guess(),
        }
        if self.signature is not None:
            call["thoughtSignature"] = self.signature
        return call

    def end_event(self) -> dict[str, object]:
        """Close the block: only now are the arguments to be trusted."""
        self.is_open = False
        value, error = read_arguments(self.pieces.text())
        call: ToolCall = {"type": "toolCall", "id": self.call_id, "name": self.name, "arguments": value}
        if error is not None:
            call["argumentsError"] = error
        if self.signature is not None:
            call["thoughtSignature"] = self.signature
        self._final = call
        return {"type": "toolcall_end", "contentIndex": self.index, "toolCall": call.copy()}
