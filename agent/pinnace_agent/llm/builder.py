"""The assistant message while it grows.

Decides the order of updates and what the message says at any moment; the cost of a delta does not depend on
how long the message is. Must not know any API, nor what becomes of an update. `start`, `done` and `error` are
no updates: the message's start and end are told by `UpdateSink.started` and by the builder itself.
Source: R-FRM-09, C-15.
"""

from collections.abc import Callable, Hashable, Mapping

from pinnace_agent.llm.base import UpdateSink
from pinnace_agent.llm.blocks import Block, TextBlock, ThinkingBlock, ToolCallBlock
from pinnace_agent.llm.failures import FailureSigns
from pinnace_agent.llm.pieces import join_halves
from pinnace_spec import errors
from pinnace_spec.limits import MAX_CONTENT_BLOCKS
from pinnace_spec.messages import AssistantMessage, Model, StopReason, Usage, zero_usage


def _nothing() -> None:
    pass


class MessageBuilder:
    """Owns one growing assistant message and tells its sink of every step.

    A block is named by a key of the provider's choice: any hashable, unique within the message. The first
    delta for a key opens the block; blocks stay in the order in which they were opened, may grow in turns,
    and are closed by `end_block` or, all that are left and in content order, by the end of the message. What is
    told and what the message holds has no unpaired surrogates, whatever the provider sends.
    """

    def __init__(self, model: Model, sink: UpdateSink, timestamp_ms: int) -> None:
        self.model = model
        self.has_started = False
        self.is_finished = False
        self.usage: Usage = zero_usage()
        """Replaced as a whole, never changed, so that updates may hold it."""
        self.response_id: str | None = None
        self.response_model: str | None = None
        """What answered, where the provider says that it is another model than the one asked for."""
        self.raw_stop_reason: str | None = None
        """The provider's own word for why it stopped. Not part of the message."""
        self.on_excess: Callable[[], object] = _nothing
        """Called when the message gets more blocks than one may have: to end what writes it (R-LIM-04)."""
        self.signs = FailureSigns()
        """What a failure says beside `errorMessage`. Not part of the message."""
        self._sink = sink
        self._timestamp_ms = timestamp_ms
        self._blocks: list[Block] = []
        self._texts: dict[Hashable, TextBlock] = {}
        self._thoughts: dict[Hashable, ThinkingBlock] = {}
        self._ended_thoughts: dict[Hashable, ThinkingBlock] = {}  # the last of each key
        self._calls: dict[Hashable, ToolCallBlock] = {}
        self._stop_reason: StopReason = "stop"  # what an unfinished message says
        self._error_message: str | None = None
        self._message: AssistantMessage | None = None

    @property
    def message(self) -> AssistantMessage:
        """The final message. Only once `is_finished`."""
        assert self._message is not None, "the message has not ended"
        return self._message

    def start(self) -> None:
        """Say that the provider has begun to answer. Once; before it, nothing can be added."""
        assert not self.has_started
        self.has_started = True
        self._sink.started(self.snapshot())

    async def room(self) -> None:
        """Wait until the sink can take more. A checkpoint; providers await it after each piece they read."""
        await self._sink.room()

    def text_delta(self, key: Hashable, delta: str) -> None:
        """Append to the text block `key`, opening it if need be. An empty delta opens it and is not told."""
        block = self._texts.get(key)
        if block is None:
            block = self._texts[key] = TextBlock(len(self._blocks))
            self._open(block, "text_start", {})
        if delta := block.pieces.add(delta):
            self._sink.update({"type": "text_delta", "contentIndex": block.index, "delta": delta}, self)

    def has_block(self, key: Hashable) -> bool:
        """Tell whether a block of this key is open."""
        return key in self._texts or key in self._thoughts or key in self._calls

    def thinking_delta(self, key: Hashable, delta: str, signature: str | None = None) -> None:
        """Append to the thinking block `key`, opening it if need be. An empty delta opens it and is not told.

        Args:
            key: Names the block.
            delta: What was thought.
            signature: Replaces the block's signature if given.
        """
        block = self._thoughts.get(key)
        if block is None:
            block = self._thoughts[key] = ThinkingBlock(len(self._blocks))
            block.signature = None if signature is None else join_halves(signature)
            self._open(block, "thinking_start", {})
        elif signature is not None:
            block.signature = join_halves(signature)
        if delta := block.pieces.add(delta):
            self._sink.update({"type": "thinking_delta", "contentIndex": block.index, "delta": delta}, self)

    def toolcall_start(self, key: Hashable, call_id: str, name: str) -> None:
        """Open the tool call `key`; its id and name are final."""
        block = ToolCallBlock(len(self._blocks), join_halves(call_id), join_halves(name))
        self._calls[key] = block
        self._open(block, "toolcall_start", {"id": block.call_id, "toolName": block.name})

    def toolcall_delta(self, key: Hashable, delta: str) -> None:
        """Append to the JSON text of the arguments of the call `key`. An empty delta is told too."""
        block = self._calls[key]
        said = block.pieces.add(delta)
        if said or not delta:
            self._sink.update({"type": "toolcall_delta", "contentIndex": block.index, "delta": said}, self)

    def toolcall_text(self, key: Hashable) -> str:
        """Return the JSON text of the arguments of the call `key` so far."""
        return self._calls[key].pieces.text()

    def sign_call(self, key: Hashable, signature: str) -> None:
        """Keep the provider's signature of the call `key`, to be sent back with it."""
        self._calls[key].signature = join_halves(signature)

    def sign_text(self, key: Hashable, signature: str) -> None:
        """Keep what the provider wants back with the text block `key`."""
        self._texts[key].signature = join_halves(signature)

    def sign_thinking(self, key: Hashable, signature: str) -> None:
        """Keep the provider's signature of the thinking block `key`, in the place of an earlier one.

        Also of one that is closed: some providers sign only in the end.
        """
        block = self._thoughts.get(key) or self._ended_thoughts[key]
        block.signature = join_halves(signature)

    def redact_thinking(self, key: Hashable, signature: str) -> None:
        """Mark the thinking block `key` as one whose thoughts only the provider can read, from its signature."""
        block = self._thoughts[key]
        block.is_redacted = True
        block.signature = join_halves(signature)

    def end_block(self, key: Hashable, final: str | None = None) -> None:
        """Close the block `key`, for providers that say so themselves. A key may then be used again.

        Args:
            key: Names the block; one that is not open is left alone.
            final: What the provider says that the block holds as a whole. What its deltas left out is told as one more.
                A text that contradicts them is passed over, since it has been shown; the JSON text of a call's
                arguments counts, since it is carried out.
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
        """Return the message so far, safe to keep: nothing that happens later changes it."""
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
            message["responseId"] = join_halves(self.response_id)
        if self.response_model is not None:
            message["responseModel"] = join_halves(self.response_model)
        if self._error_message is not None:
            message["errorMessage"] = self._error_message
        return message

    def finish(self, stop_reason: StopReason, error_message: str | None = None) -> None:
        """End the message as the provider ended it: every open block is closed, in content order.

        Args:
            stop_reason: Why it ended; `error` with a text if the provider ended it properly but in failure.
            error_message: What the user reads.
        """
        if not self.has_started:
            self.start()
        self._settle(stop_reason, error_message)
        self._close_all()
        self._seal()

    def fail(self, error_message: str) -> None:
        """End the message because the stream broke; blocks that are open stay without an end."""
        self._settle("error", error_message)
        self._seal()

    def abort(self, error_message: str = errors.REQUEST_ABORTED) -> None:
        """End the message because the user wants no more of it; open blocks are closed first.

        Safe before `start`: the message is empty then, and nothing is told.
        """
        self._settle("aborted", error_message)
        self._close_all()
        self._seal()

    def replace(self, message: AssistantMessage) -> None:
        """Let another message stand for the one that has ended; what was told of it stays told."""
        assert self.is_finished
        self._message = message

    def _open(self, block: Block, kind: str, more: Mapping[str, object]) -> None:
        assert self.has_started
        assert not self.is_finished
        self._blocks.append(block)
        if len(self._blocks) == MAX_CONTENT_BLOCKS + 1:
            self.on_excess()
        self._sink.update({"type": kind, "contentIndex": block.index, **more}, self)

    def _complete(self, block: Block, final: str) -> None:
        told = block.pieces.text()
        if final.startswith(told):
            if said := block.pieces.add(final[len(told) :]):
                self._sink.update({"type": f"{block.kind}_delta", "contentIndex": block.index, "delta": said}, self)
        elif isinstance(block, ToolCallBlock):
            block.pieces.replace(join_halves(final))

    def _close(self, block: Block) -> None:
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
        self._error_message = None if error_message is None else join_halves(error_message)

    def _seal(self) -> None:
        for block in self._blocks:
            block.pieces.finish()
        self._message = self.snapshot()
        self.is_finished = True
