"""The assistant message while it grows.

Decides the order of updates and the message at any moment; the cost of a delta does not depend on
how long the message is. Independent of any API and of the use of updates. `start`, `done` and `error` are
no updates: `UpdateSink.started` and the builder itself report the message's start and end.
Source: R-FRM-09, C-15.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, Protocol

from pinnace_agent.core.pieces import Pieces, combine_surrogates
from pinnace_agent.llm.arguments import GrowingArguments, read_arguments
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    FailureCode,
    Model,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    zero_usage,
)
from pinnace_spec.rules import errors
from pinnace_spec.rules.limits import MAX_ANSWER_CHARACTERS, MAX_CONTENT_BLOCKS


class GrowingBlock(Protocol):
    """One block: its place in the content, and what is reported of it."""

    index: int
    is_open: bool
    pieces: Pieces
    kind: str
    """What its updates' types begin with."""

    def content(self) -> AssistantContent:
        """Return the block so far, in a dict of its own."""
        ...

    def end_event(self) -> dict[str, object]:
        """Close the block and return its closing event."""
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
        """Close the block: only now are the arguments complete and validated."""
        self.is_open = False
        value, error = read_arguments(self.pieces.text())
        call: ToolCall = {"type": "toolCall", "id": self.call_id, "name": self.name, "arguments": value}
        if error is not None:
            call["argumentsError"] = error
        if self.signature is not None:
            call["thoughtSignature"] = self.signature
        self._final = call
        return {"type": "toolcall_end", "contentIndex": self.index, "toolCall": call.copy()}


class FailureSigns(NamedTuple):
    """The machine-readable part of a failure, beside its text."""

    status: int | None = None
    """Of HTTP, also where a stream that began well reports it."""
    codes: tuple[str, ...] = ()
    """How the provider classifies it."""
    retry_after_s: float | None = None
    """How long the server asks to wait before the next request; not negative, without an upper limit."""
    kind: FailureCode | None = None
    """The kind of failure, where it is known without the provider's text."""
    address: str | None = None
    """The address of the request, without parts that may be secret."""


class UpdateSink(Protocol):
    """Takes what a message builder reports, in order."""

    def started(self, message: AssistantMessage) -> None:
        """The provider has begun to answer. At most once, before any update."""

    def update(self, event: Mapping[str, object], builder: "MessageBuilder") -> None:
        """Take one `assistantMessageEvent`, without `partial`: `builder.snapshot()` is that."""

    async def room(self) -> None:
        """Wait until more may be produced. A checkpoint; awaited after each piece of the network's."""


class Silence:
    """Takes updates that nothing shows."""

    def started(self, message: AssistantMessage) -> None:
        """Ignore it."""

    def update(self, event: Mapping[str, object], builder: "MessageBuilder") -> None:
        """Ignore it."""

    async def room(self) -> None:
        """Return at the next checkpoint."""
        from trio.lowlevel import checkpoint  # messages are also read where no event loop runs

        await checkpoint()


def _nothing() -> None:
    pass


class MessageBuilder:
    """Owns one growing assistant message and reports every step to its sink.

    A block is named by a key of the provider's choice: any hashable, unique within the message. The first
    delta for a key opens the block; blocks stay in the order in which they were opened, may grow in turns,
    and are closed by `end_block` or, all that are left and in content order, by the end of the message. What is
    reported and what the message holds has no unpaired surrogates, whatever the provider sends.
    """

    def __init__(self, model: Model, sink: UpdateSink, timestamp_ms: int) -> None:
        self.model = model
        self.has_started = False
        self.is_finished = False
        self.usage: Usage = zero_usage()
        """Replaced as a whole, never changed, so that updates may hold it."""
        self.response_id: str | None = None
        self.response_model: str | None = None
        """The answering model, if the provider reports another one than the requested one."""
        self.effort: str | None = None
        self.entry_id = ""
        """Of the entry that the message will be in a session; empty where there is none. Not part of the message."""
        self.raw_stop_reason: str | None = None
        """The provider's own stop reason. Not part of the message."""
        self.unknown_stop_reason: str | None = None
        """The provider's own stop reason, if it was taken as a success without being known. Not part of the message."""
        self.on_excess: Callable[[], object] = _nothing
        """Called when the message gets more blocks or text than one may have: ends the stream (R-LIM-04)."""
        self.excess = ""
        """What the message has too much of, in words; empty if nothing."""
        self.signs = FailureSigns()
        """The signs of a failure beside `errorMessage`. Not part of the message."""
        self._sink = sink
        self._timestamp_ms = timestamp_ms
        self._blocks: list[GrowingBlock] = []
        self._texts: dict[Hashable, TextBlock] = {}
        self._thoughts: dict[Hashable, ThinkingBlock] = {}
        self._ended_thoughts: dict[Hashable, ThinkingBlock] = {}  # the last of each key
        self._calls: dict[Hashable, ToolCallBlock] = {}
        self._call_ids: set[str] = set()
        self._stop_reason: StopReason = "stop"  # the stop reason of an unfinished message
        self._error_message: str | None = None
        self._message: AssistantMessage | None = None
        self._size = 0  # characters of all deltas; added up in place, since a delta takes few calls

    @property
    def message(self) -> AssistantMessage:
        """The final message. Only once `is_finished`."""
        assert self._message is not None, "the message has not ended"
        return self._message

    @property
    def has_calls(self) -> bool:
        """Whether there is a tool call."""
        return any(isinstance(block, ToolCallBlock) for block in self._blocks)

    @property
    def has_content(self) -> bool:
        """Whether there is more than blank text: a tool call, or thoughts."""
        return any(not isinstance(block, TextBlock) or block.pieces.text().strip() for block in self._blocks)

    def start(self) -> None:
        """Report that the provider has begun to answer. Once; before it, nothing can be added."""
        assert not self.has_started
        self.has_started = True
        self._sink.started(self.snapshot())

    async def room(self) -> None:
        """Wait until the sink can take more. A checkpoint; providers await it after each piece they read."""
        await self._sink.room()

    def text_delta(self, key: Hashable, delta: str) -> None:
        """Append to the text block `key`, opening it if need be. An empty delta opens it and is not reported."""
        block = self._texts.get(key)
        if block is None:
            block = self._texts[key] = TextBlock(len(self._blocks))
            self._open(block, "text_start", {})
        if delta := block.pieces.add(delta):
            self._sink.update({"type": "text_delta", "contentIndex": block.index, "delta": delta}, self)
            self._size += len(delta)
            if self._size > MAX_ANSWER_CHARACTERS:
                self._exceed(errors.too_long_answer(MAX_ANSWER_CHARACTERS))

    def has_block(self, key: Hashable) -> bool:
        """Return whether a block of this key is open."""
        return key in self._texts or key in self._thoughts or key in self._calls

    def thinking_delta(self, key: Hashable, delta: str, signature: str | None = None) -> None:
        """Append to the thinking block `key`, opening it if need be. An empty delta opens it and is not reported.

        Args:
            key: Names the block.
            delta: A piece of the thoughts.
            signature: Replaces the block's signature if given.
        """
        block = self._thoughts.get(key)
        if block is None:
            block = self._thoughts[key] = ThinkingBlock(len(self._blocks))
            block.signature = None if signature is None else combine_surrogates(signature)
            self._open(block, "thinking_start", {})
        elif signature is not None:
            block.signature = combine_surrogates(signature)
        if delta := block.pieces.add(delta):
            self._sink.update({"type": "thinking_delta", "contentIndex": block.index, "delta": delta}, self)
            self._size += len(delta)
            if self._size > MAX_ANSWER_CHARACTERS:
                self._exceed(errors.too_long_answer(MAX_ANSWER_CHARACTERS))

    def toolcall_start(self, key: Hashable, call_id: str, name: str) -> None:
        """Open the tool call `key`. An id that another call has gets a number, since results name calls."""
        plain = unused = combine_surrogates(call_id)
        number = 1
        while unused in self._call_ids:
            number += 1
            unused = f"{plain}_{number}"
        self._call_ids.add(unused)
        block = ToolCallBlock(len(self._blocks), unused, combine_surrogates(name))
        self._calls[key] = block
        self._open(block, "toolcall_start", {"id": block.call_id, "toolName": block.name})

    def toolcall_delta(self, key: Hashable, delta: str) -> None:
        """Append to the JSON text of the arguments of the call `key`. An empty delta is reported too."""
        block = self._calls[key]
        said = block.pieces.add(delta)
        if said or not delta:
            self._sink.update({"type": "toolcall_delta", "contentIndex": block.index, "delta": said}, self)
            self._size += len(said)
            if self._size > MAX_ANSWER_CHARACTERS:
                self._exceed(errors.too_long_answer(MAX_ANSWER_CHARACTERS))

    def toolcall_text(self, key: Hashable) -> str:
        """Return the JSON text of the arguments of the call `key` so far."""
        return self._calls[key].pieces.text()

    def sign_call(self, key: Hashable, signature: str) -> None:
        """Keep the provider's signature of the call `key`, to be sent back with it."""
        self._calls[key].signature = combine_surrogates(signature)

    def sign_text(self, key: Hashable, signature: str) -> None:
        """Keep the provider's data to be sent back with the text block `key`."""
        self._texts[key].signature = combine_surrogates(signature)

    def sign_thinking(self, key: Hashable, signature: str) -> None:
        """Keep the provider's signature of the thinking block `key`, in the place of an earlier one.

        Also of one that is closed: some providers sign only in the end.
        """
        block = self._thoughts.get(key) or self._ended_thoughts[key]
        block.signature = combine_surrogates(signature)

    def redact_thinking(self, key: Hashable, signature: str) -> None:
        """Mark the thinking block `key` as one whose thoughts only the provider can read, from its signature."""
        block = self._thoughts[key]
        block.is_redacted = True
        block.signature = combine_surrogates(signature)

    def end_block(self, key: Hashable, final: str | None = None) -> None:
        """Close the block `key`, for providers that end blocks themselves. A key may then be used again.

        Args:
            key: Names the block; one that is not open is left alone.
            final: The complete block as the provider reports it. A part that the deltas left out is reported as one
                more delta. A text that contradicts them is ignored, since it has been shown; the JSON text of a call's
                arguments is used, since it is executed.
        """
        block = self._texts.pop(key, None) or self._thoughts.pop(key, None) or self._calls.pop(key, None)
        if block is None or not block.is_open:
            return
        if final is not None:
            self._complete(block, final)
        if isinstance(block, ThinkingBlock):
            self._ended_thoughts[key] = block
        self._close(block)

    def snapshot(self) -> AssistantMessage:
        """Return the message so far, safe to keep: it never changes afterwards."""
        message: AssistantMessage = {
            "role": "assistant",
            "content": [block.content() for block in self._blocks],
            "api": self.model["api"],
            "provider": self.model["provider"],
            "model": self.model["id"],
            "usage": self.usage,
            "stopReason": self._stop_reason,
            "timestamp": self._timestamp_ms,
        }
        if self.response_id is not None:
            message["responseId"] = combine_surrogates(self.response_id)
        if self.response_model is not None:
            message["responseModel"] = combine_surrogates(self.response_model)
        if self.effort is not None:
            message["providerThinkingLevel"] = self.effort
        if self._error_message is not None:
            message["errorMessage"] = self._error_message
            if self.raw_stop_reason is not None:
                message["rawStopReason"] = self.raw_stop_reason
        return message

    def finish(self, stop_reason: StopReason, error_message: str | None = None) -> None:
        """End the message as the provider ended it: every open block is closed, in content order.

        A success that lacks what it claims to hold ends as an error that is worth another attempt: a use of tools
        without a call, and an answer with nothing in it (R-RTY-04).

        Args:
            stop_reason: Why it ended; `error` with a text if the provider ended it properly but in failure.
            error_message: What the user reads.
        """
        if not self.has_started:
            self.start()
        if stop_reason == "toolUse" and not self.has_calls:
            stop_reason, error_message = "error", errors.NO_ANNOUNCED_CALL
        elif stop_reason == "stop" and not self.has_content:
            stop_reason, error_message = "error", errors.EMPTY_ANSWER
        self._settle(stop_reason, error_message)
        self._close_all()
        self._seal()

    def fail(self, error_message: str) -> None:
        """End the message because the stream broke; blocks that are open stay without an end."""
        self._settle("error", error_message)
        self._seal()

    def refuse(self, kind: FailureCode, error_message: str) -> None:
        """End the message for which nothing was sent, for a reason of this kind."""
        self.signs = FailureSigns(kind=kind)
        self.fail(error_message)

    def abort(self, error_message: str = errors.REQUEST_ABORTED) -> None:
        """End the message because the user aborted it; open blocks are closed first.

        Safe before `start`: the message is empty then, and nothing is reported.
        """
        self._settle("aborted", error_message)
        self._close_all()
        self._seal()

    def replace(self, message: AssistantMessage) -> None:
        """Replace the message that has ended; reported updates are not changed."""
        assert self.is_finished
        self._message = message

    def _open(self, block: GrowingBlock, kind: str, more: Mapping[str, object]) -> None:
        assert self.has_started
        assert not self.is_finished
        self._blocks.append(block)
        if len(self._blocks) == MAX_CONTENT_BLOCKS + 1:
            self._exceed(errors.too_many_blocks(MAX_CONTENT_BLOCKS))
        self._sink.update({"type": kind, "contentIndex": block.index, **more}, self)

    def _exceed(self, excess: str) -> None:
        self.excess = self.excess or excess
        self.on_excess()

    def _complete(self, block: GrowingBlock, final: str) -> None:
        reported = block.pieces.text()
        if final.startswith(reported):
            if said := block.pieces.add(final[len(reported) :]):
                self._sink.update({"type": f"{block.kind}_delta", "contentIndex": block.index, "delta": said}, self)
        elif isinstance(block, ToolCallBlock):
            block.pieces.replace(combine_surrogates(final))

    def _close(self, block: GrowingBlock) -> None:
        if rest := block.pieces.finish():
            kind = f"{block.kind}_delta"
            self._sink.update({"type": kind, "contentIndex": block.index, "delta": rest}, self)
        # A statement of its own: the update's snapshot must show the block closed.
        event = block.end_event()
        self._sink.update(event, self)

    def _close_all(self) -> None:
        for block in self._blocks:
            if block.is_open:
                self._close(block)

    def _settle(self, stop_reason: StopReason, error_message: str | None) -> None:
        assert not self.is_finished
        self._stop_reason = stop_reason
        self._error_message = None if error_message is None else combine_surrogates(error_message)

    def _seal(self) -> None:
        for block in self._blocks:
            block.pieces.finish()
        self._message = self.snapshot()
        self.is_finished = True
