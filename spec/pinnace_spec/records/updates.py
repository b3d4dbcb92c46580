"""The `message_update` record in its three forms, and the steps of a growing message in it.

`1.5` has the step alone; `pi` adds the whole message, twice; `seed` does, without what later generations added. Types
only; `events` says which profile writes which. Source: R-PRO-01 to R-PRO-03, R-FRM-09.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from pinnace_spec.records.messages import AssistantMessage, ToolCall, Usage
from pinnace_spec.records.output_model import Count, NonEmpty, OutputModel


class _Step(OutputModel):
    contentIndex: Count


class _Whole(OutputModel):
    partial: AssistantMessage


class BlockStart(_Step):
    """A text or a thought begins."""

    type: Literal["text_start", "thinking_start"]


class BlockDelta(_Step):
    """A block grows."""

    type: Literal["text_delta", "thinking_delta", "toolcall_delta"]
    delta: str


class BlockEnd(_Step):
    """A text or a thought is complete."""

    type: Literal["text_end", "thinking_end"]
    content: str


class SeedCallStart(_Step):
    """A tool call begins; the message names it."""

    type: Literal["toolcall_start"]


class CallStart(SeedCallStart):
    """A tool call begins."""

    id: str
    toolName: NonEmpty


class CallEnd(_Step):
    """A tool call is complete."""

    type: Literal["toolcall_end"]
    toolCall: ToolCall


class WholeBlockStart(BlockStart, _Whole):
    """With the message so far."""


class WholeBlockDelta(BlockDelta, _Whole):
    """With the message so far."""


class WholeBlockEnd(BlockEnd, _Whole):
    """With the message so far."""


class WholeSeedCallStart(SeedCallStart, _Whole):
    """With the message so far."""


class WholeCallStart(CallStart, _Whole):
    """With the message so far."""


class WholeCallEnd(CallEnd, _Whole):
    """With the message so far."""


Step: TypeAlias = Annotated[BlockStart | BlockDelta | BlockEnd | CallStart | CallEnd, Field(discriminator="type")]
WholeStep: TypeAlias = Annotated[
    WholeBlockStart | WholeBlockDelta | WholeBlockEnd | WholeCallStart | WholeCallEnd, Field(discriminator="type")
]
SeedStep: TypeAlias = Annotated[
    WholeBlockStart | WholeBlockDelta | WholeBlockEnd | WholeSeedCallStart | WholeCallEnd, Field(discriminator="type")
]


class DeltaUpdate(OutputModel):
    """One step, and what the request has cost so far."""

    type: Literal["message_update"]
    entryId: NonEmpty | None = None
    """The entry of the session that the message will be."""
    usage: Usage
    assistantMessageEvent: Step


class WholeUpdate(OutputModel):
    """One step, and the message as it is after it."""

    type: Literal["message_update"]
    entryId: NonEmpty | None = None
    """The entry of the session that the message will be."""
    message: AssistantMessage
    usage: Usage
    assistantMessageEvent: WholeStep


class SeedUpdate(OutputModel):
    """One step, and the message as it is after it, as published."""

    type: Literal["message_update"]
    message: AssistantMessage
    assistantMessageEvent: SeedStep
