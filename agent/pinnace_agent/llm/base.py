"""What a run and a provider say to each other.

Decides the shape of a request, of its updates, and who may wait where. Must not know any API, nor what
becomes of an update.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pinnace_spec.messages import AssistantMessage, Message, Model, ThinkingLevel

if TYPE_CHECKING:
    from pinnace_agent.llm.builder import MessageBuilder


# Silence, not duration: a model may think for minutes before its first byte, a local one may stream for hours.
IDLE_TIMEOUT_S: Final = 300.0
# More than the highest is not asked for: answers need room too.
THINKING_BUDGETS: Final[Mapping[ThinkingLevel, int]] = MappingProxyType(
    {
        "off": 0,
        "minimal": 1024,
        "low": 2048,
        "medium": 8192,
        "high": 16_384,
        "xhigh": 16_384,
        "max": 16_384,
    }
)
# What of the output stays for the answer itself, whatever is thought.
ANSWER_TOKENS: Final = 1024


class ToolSpec(NamedTuple):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON schema of an object."""


class RequestHooks(Protocol):
    """Who has a say in one request while it is sent, and hears of its answer. Raises nothing but `trio.Cancelled`."""

    @property
    def wants_payload(self) -> bool:
        """Whether `payload` is to be asked: else the body is not read again for it."""
        ...

    @property
    def hears_stream(self) -> bool:
        """Whether `streamed` is to be told."""
        ...

    async def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers to send. Once a request, however often it is sent."""
        ...

    async def payload(self, payload: object) -> object:
        """Return the body to send, as the value of its JSON. Likewise."""
        ...

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head of the response."""
        ...

    async def streamed(self, data: object) -> None:
        """Take one event of the stream, as the value of its JSON, before it is read into the message."""
        ...


class LlmRequest(NamedTuple):
    """Everything that one answer of a model depends on."""

    model: Model
    system_prompt: str
    """Empty: none is sent."""
    messages: Sequence[Message]
    """The session's messages as they are; the provider converts them (`context`)."""
    tools: Sequence[ToolSpec]
    thinking_level: ThinkingLevel
    api_key: str | None
    headers: Mapping[str, str]
    """Of the endpoint, on top of what the provider sends itself; may hold credentials."""
    session_id: str
    """Lets a provider recognise requests of one conversation, for its cache."""
    max_tokens: int | None = None
    """Output at most; None: what the model allows."""
    idle_timeout_s: float | None = IDLE_TIMEOUT_S
    """How long the server may be silent, before its answer or within it; None: for ever."""
    thinking_budgets: Mapping[ThinkingLevel, int] = THINKING_BUDGETS
    """Tokens that a level may think for, where a provider counts them."""
    hooks: RequestHooks | None = None
    """None: nobody has a say."""
    input_tokens: int | None = None
    """The most tokens that it comes to, where the caller has fitted it to the window; None: they are estimated."""


class UpdateSink(Protocol):
    """Takes what a message builder has to say, in order."""

    def started(self, message: AssistantMessage) -> None:
        """The provider has begun to answer. At most once, before any update."""

    def update(self, event: Mapping[str, object], builder: "MessageBuilder") -> None:
        """Take one `assistantMessageEvent`, without `partial`: `builder.snapshot()` is that."""

    async def room(self) -> None:
        """Wait until more may be produced. A checkpoint; awaited after each piece of the network's."""


class Provider(Protocol):
    """Speaks one API."""

    async def stream(self, request: LlmRequest, builder: "MessageBuilder") -> None:
        """Ask for one answer and build it; `builder.is_finished` on return.

        Raises nothing but `trio.Cancelled`: every failure becomes `builder.fail(text)`. When Cancelled
        leaves, the connection is closed and the builder is as it was; whoever cancelled decides how the
        message ends.
        """
