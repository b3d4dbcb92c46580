"""A request to a model, as every provider takes it: everything that one answer depends on.

Has no access to any API. The answer is built by `builder`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import Message, Model, ThinkingLevel

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
# The part of the output that is reserved for the answer itself.
ANSWER_TOKENS: Final = 1024


class ToolSpec(NamedTuple):
    """The description of a tool for a model."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON schema of an object."""
    prefers_strict: bool = False
    """Whether servers should hold calls to it."""


class RefusedRequest(Exception):
    """A hook returned something unusable, so the request is not sent; the text says why."""


class RequestHooks(Protocol):
    """Hooks that change one request before it is sent, and observe its answer.

    They raise nothing but `trio.Cancelled` and, before the request is sent, `RefusedRequest`.
    """

    @property
    def changes_payload(self) -> bool:
        """Whether `payload` is called: else the body is not decoded for it."""
        ...

    @property
    def observes_stream(self) -> bool:
        """Whether `streamed` is called."""
        ...

    async def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers to send. Called once a request, also if it is sent again."""
        ...

    async def payload(self, payload: object) -> object:
        """Return the body to send, as the value of its JSON. Once a request, too."""
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
    """Empty: no system prompt is sent."""
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
    """How long the server may be silent, before its answer or within it; None: without limit."""
    thinking_budgets: Mapping[ThinkingLevel, int] = THINKING_BUDGETS
    """Tokens that a level may think for, where a provider counts them."""
    hooks: RequestHooks | None = None
    """None: the request goes out as it is, and nothing observes the answer."""
    input_tokens: int | None = None
    """The most tokens that it comes to, where the caller has fitted it to the window; None: they are estimated."""
    variables: Mapping[str, str] = MappingProxyType({})
    """`env` of the provider's entry in auth.json: before those of the environment."""
    deployment: str | None = None
    """The server's name for the model; None: its id."""


def secrets_of(request: LlmRequest) -> Secrets:
    """Return the secrets of this request, which no text may contain; they are added to the redactor of the process."""
    REDACTOR.learn(request.api_key)
    REDACTOR.learn_values(request.headers)
    REDACTOR.learn_address(request.model["baseUrl"])
    return Secrets(request.api_key, request.headers, request.model["baseUrl"])
