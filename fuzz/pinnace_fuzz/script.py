"""What the fake LLM will answer, fully spelled out: one `Response` for each request, made of pieces.

Rows only: no sockets, no clock, no wire format. `short_form` reads what tests write into these.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Farewell: TypeAlias = Literal["rst", "fin"]
"""How a connection ends: aborted at once, or closed in order but too early."""


class ScriptError(ValueError):
    """A response is not written as this module's docstring says."""


class Text(NamedTuple):
    """One delta of visible text."""

    delta: str


class Reasoning(NamedTuple):
    """One delta of thinking."""

    delta: str


class ToolStart(NamedTuple):
    """The first chunk of a tool call: its name and id, no arguments yet."""

    position: int
    call_id: str
    name: str


class ToolArguments(NamedTuple):
    """A part of a tool call's arguments, cut anywhere."""

    position: int
    part: str


class Finish(NamedTuple):
    """The finish reason in the words of OpenAI chat completions; other formats translate it."""

    reason: str


class TokenUsage(NamedTuple):
    """Token counts; `input_tokens` excludes what was read from or written to the cache."""

    input_tokens: int = 10
    output_tokens: int = 5
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class SseEvent(NamedTuple):
    """Any JSON value as one event of the stream."""

    value: object


class Raw(NamedTuple):
    """Bytes of the body as they are."""

    data: bytes


class SocketBytes(NamedTuple):
    """Bytes written past HTTP's own framing."""

    data: bytes


class Generated(NamedTuple):
    """Many equal deltas at full speed."""

    deltas: int
    size: int
    kind: Literal["text", "reasoning"] = "text"


class Gate(NamedTuple):
    """The stream stops here until the gate is released."""

    name: str


class Sleep(NamedTuple):
    """The stream stops here for a time."""

    delay_ms: float


class Disconnect(NamedTuple):
    """The connection ends here, in the middle of the answer."""

    how: Farewell


class Hang(NamedTuple):
    """The stream stops here until the client goes away."""


Content: TypeAlias = Text | Reasoning | ToolStart | ToolArguments | Finish | TokenUsage | SseEvent | Raw
"""Pieces that are bytes of the body."""
Piece: TypeAlias = Content | SocketBytes | Generated | Gate | Sleep | Disconnect | Hang


class Refusal(NamedTuple):
    """Why a request is refused; the wire format makes a body of it, after the status."""

    message: str
    code: str | None = None
    """Which some formats have; None: what is usual for the status."""


class HttpError(NamedTuple):
    """An answer with a status instead of a stream. A body that is neither bytes nor a `Refusal` is sent as JSON."""

    status: int
    headers: Mapping[str, str]
    body: object


@dataclass(slots=True, frozen=True, kw_only=True)
class Response:
    """One answer of the fake LLM, fully spelled out."""

    pieces: tuple[Piece, ...] = ()
    done: bool = True
    error: HttpError | None = None
    refuse: Farewell | None = None
    hold: str | None = None
    delay_ms: float = 0
    chunk_delay_ms: float = 0
    gzip: bool = False
    cut_bytes: int | None = None
    headers: Mapping[str, str] | None = None
    match: re.Pattern[str] | None = None
    repeat: int = 1


Scripted: TypeAlias = Response | Mapping[str, object]
"""What tests write."""
