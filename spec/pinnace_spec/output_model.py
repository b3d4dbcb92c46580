"""What all models of output have in common: closed, exact, and built on first use.

Output is judged, not taken in: an unknown key, null for an absent field, or text for a number is a fault of whoever
wrote it. The closedness reaches into the plain dicts of `messages`, since pydantic hands a model's configuration down to
the TypedDicts in its fields. Must not be imported by the agent: it writes plain dicts, and starts without these models.
Source: R-PRO-01, R-MSG-01.
"""

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from pinnace_spec.messages import AssistantMessage, BashExecutionMessage, Message, ToolResultMessage, UserMessage


class OutputModel(BaseModel):
    """A record, or an object in one. A field with a default may be absent; its default is never read."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, strict=True)


ABSENT: Final = ""
"""Default of a text that may be absent but not null."""

Count: TypeAlias = Annotated[int, Field(ge=0)]
NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]
AnyMessage: TypeAlias = Annotated[Message, Field(discriminator="role")]
SeedMessage: TypeAlias = Annotated[
    UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage, Field(discriminator="role")
]
"""The roles that the published protocol lists (R-PRO-02)."""
