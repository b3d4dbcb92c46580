"""The base of all models of output: closed, exact, and built on first use.

Output is judged, not consumed: an unknown key, null for an absent field, or text for a number is a fault of the
writer. The plain dicts of `messages` are closed as well, since pydantic applies a model's configuration to the
TypedDicts in its fields. Must not be imported by the agent: it writes plain dicts, and starts without these
models. Source: R-PRO-01, R-MSG-01.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pinnace_spec.records.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)


class OutputModel(BaseModel):
    """A record, or an object in one. A field whose default is None may be absent, but never null."""

    model_config = ConfigDict(defer_build=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _absent_is_not_null(cls, value: object) -> object:
        if isinstance(value, Mapping):
            given = cast("Mapping[object, object]", value)
            for name, field in cls.model_fields.items():
                if field.default is None and given.get(name, _ABSENT) is None:
                    raise ValueError(f"{name} must be absent, not null")
            return given
        return value


_ABSENT: Final = object()

Count: TypeAlias = Annotated[int, Field(ge=0)]
Positive: TypeAlias = Annotated[int, Field(ge=1)]
NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]
AnyMessage: TypeAlias = Annotated[Message, Field(discriminator="role")]
SeedMessage: TypeAlias = Annotated[
    UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage, Field(discriminator="role")
]
"""The roles that the published protocol lists (R-PRO-02)."""
