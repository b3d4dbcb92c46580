"""What a tool is, what it may know when it runs, and what it answers.

The contract between the agent and its tools, built in or from an extension. Must not know any tool. Rules
R-TOL-01 to R-TOL-05.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import trio

from pinnace_spec.messages import ImageContent, TextContent, Usage

_context_numbers: Final[Iterator[int]] = itertools.count()


class ToolError(Exception):
    """A call failed; the text is the whole result that the model reads."""


class ApprovalOutdated(Exception):
    """A call would change another file than the one that it was approved for; nothing was changed."""


class ToolResult(NamedTuple):
    """What a call has produced, in part (progress) or in full."""

    content: list[TextContent | ImageContent]
    details: Mapping[str, object] | None = None
    """For clients and extensions, never sent to a model; None leaves the field out."""
    is_error: bool = False
    structured: object = None
    """The same for programs; None leaves it out."""
    usage: Usage | None = None
    """What the call has cost by asking models itself."""
    terminate: bool = False
    """Whether the run may end here; it does if all calls of the turn say so."""


def text_result(text: str, details: Mapping[str, object] | None = None, *, is_error: bool = False) -> ToolResult:
    """Return a result of one text block."""
    return ToolResult([{"type": "text", "text": text}], details, is_error)


@dataclass(slots=True)
class ToolContext:
    """What one call may know and use. Made once a call, by whoever runs it.

    Contexts of calls that run at the same time must be made in call order: `order` is taken from it, and with
    it who comes first at a file that several calls change.
    """

    cwd: str
    call_id: str
    on_update: Callable[[ToolResult], None]
    """Takes progress, in the shape of a result. Calls after the end are the receiver's to ignore."""
    env: Mapping[str, str]
    """The whole environment of a command."""
    shell_path: str | None = None
    command_prefix: str | None = None
    supports_images: bool = True
    """Whether the model that will read the result can see images."""
    resizes_images: bool = True
    """Whether images are made as small as providers take them."""
    aborted_result: ToolResult | None = None
    """Set by a tool before `Cancelled` leaves it, if it has more to say than that it was aborted."""
    timeout_s: float | None = None
    """How long the call may take if its arguments don't say it; None: for ever (R-LIM-03)."""
    time_limit: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Where the call runs; it ends after `timeout_s`. A tool that sees to its time itself takes the deadline away."""
    bound_path: str | None = None
    """The real path of the only file that the call may change, through no link, or of the folder that a command may
    run in; None: what the arguments and `cwd` name. Set by a gate that has approved that place."""
    order: int = field(default_factory=lambda: next(_context_numbers))
    """Greater than that of every context made earlier."""


class Tool(Protocol):
    """A tool as the agent sees it. One object serves any number of calls at once."""

    @property
    def name(self) -> str:
        """The name that models call it by."""
        ...

    @property
    def label(self) -> str:
        """A name for people."""
        ...

    @property
    def description(self) -> str:
        """What it does, for models."""
        ...

    @property
    def snippet(self) -> str:
        """One line for the system prompt; a tool without one is not listed there."""
        ...

    @property
    def guidelines(self) -> tuple[str, ...]:
        """Rules for the system prompt while the tool is active."""
        ...

    @property
    def parameters(self) -> Mapping[str, object]:
        """The JSON schema of the arguments, as models get it."""
        ...

    @property
    def is_sequential(self) -> bool:
        """Whether a turn that calls it runs all its calls one after another."""
        ...

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Repair what models are known to get wrong, before validation; `raw` is left as it is."""
        ...

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Do it. `args` is what validation returned.

        Cancelling ends the call as soon as nothing would be left half done.

        Raises:
            ToolError: The call failed; the text is its result.
        """
        ...


def text_argument(args: Mapping[str, object], name: str) -> str:
    """Return an argument that the schema requires to be a string."""
    value = args[name]
    assert isinstance(value, str), name
    return value


def number_argument(args: Mapping[str, object], name: str) -> int | float | None:
    """Return an argument that the schema allows as a number, or None if it is not given."""
    value = args.get(name)
    assert value is None or isinstance(value, int | float), name
    return value
