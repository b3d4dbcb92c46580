"""Events of model requests, and of the selected model and thinking level."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pinnace_agent.extensions.events.base import Event
from pinnace_agent.extensions.events.uncompiled import mutable
from pinnace_spec.records.messages import Message, Model, ThinkingLevel


@mutable
class Context(Event):
    """The messages of a request. Takes `Messages`; handlers may also change `messages`, a copy, in place."""

    type: ClassVar[str] = "context"
    messages: list[Message]


@mutable
class ContextWithSystem(Event):
    """The same messages with system messages, after the handlers of `context`. Takes `Messages`."""

    type: ClassVar[str] = "context_with_system"
    messages: list[Message]


@mutable
class BeforeProviderHeaders(Event):
    """The headers of a request. Handlers change them in place; None removes one."""

    type: ClassVar[str] = "before_provider_headers"
    headers: dict[str, str | None]


@mutable
class BeforeProviderRequest(Event):
    """The body of a request. Every result except None replaces it."""

    type: ClassVar[str] = "before_provider_request"
    payload: object


@mutable
class AfterProviderResponse(Event):
    """The head of a provider's response arrived; its stream follows."""

    type: ClassVar[str] = "after_provider_response"
    status: int
    headers: Mapping[str, str]


@mutable
class ProviderStreamEvent(Event):
    """One event of a provider's stream, read-only."""

    type: ClassVar[str] = "provider_stream_event"
    provider: str
    api: str
    model: str
    data: object


@mutable
class CacheWarmingDecision(Event):
    """The provider's cache of the conversation is about to be forgotten. Takes `CacheDecision`."""

    type: ClassVar[str] = "cache_warming_decision"
    warm_cost: float
    """Of a request that keeps it, in dollars."""
    miss_cost: float
    """What the next request costs more without it, in dollars."""
    continuation_probability: float
    """That there is a next request in time."""
    action: Literal["warm", "stop"]


@mutable
class ModelSelect(Event):
    """Another model was selected."""

    type: ClassVar[str] = "model_select"
    model: Model
    previous_model: Model | None = None
    source: Literal["set", "cycle", "restore"]


@mutable
class ThinkingLevelSelect(Event):
    """The thinking level changed. Its handlers are not awaited."""

    type: ClassVar[str] = "thinking_level_select"
    level: ThinkingLevel
    previous_level: ThinkingLevel
