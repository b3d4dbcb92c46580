"""The contract between the agent and its tools: what a tool is, what a call receives, and what it returns.

For built-in tools and those of extensions. Knows no tool. Rules R-TOL-01 to R-TOL-05.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from pinnace_spec.records.messages import ImageContent, TextContent, Usage

if TYPE_CHECKING:  # loaded with the first tool
    from pinnace_agent.tools.operations import ClientFiles

_context_numbers: Final = itertools.count()


class ToolError(Exception):
    """A call failed; the text is the whole result that the model reads."""


class ApprovalOutdated(Exception):
    """A call would change another file than the one that it was approved for; nothing was changed."""


class ToolResult(NamedTuple):
    """The result of a call, partial (progress) or complete."""

    content: list[TextContent | ImageContent]
    details: Mapping[str, object] | None = None
    """For clients and extensions, never sent to a model; None leaves the field out."""
    is_error: bool = False
    structured: object = None
    """The result as a value for programs; None leaves it out."""
    usage: Usage | None = None
    """The usage of models by the call itself."""
    terminate: bool = False
    """Whether the run may end here; it does if all calls of the turn return true."""


def text_result(text: str, details: Mapping[str, object] | None = None, *, is_error: bool = False) -> ToolResult:
    """Return a result of one text block."""
    return ToolResult([{"type": "text", "text": text}], details, is_error)


@dataclass(slots=True)
class ToolContext:
    """The context of one call, created by its caller.

    Contexts of concurrent calls must be created in call order: it determines `order`, and so which call changes a
    shared file first.
    """

    cwd: str
    call_id: str
    on_update: Callable[[ToolResult], None]
    """Receives progress as a result, and ignores calls after the end."""
    env: Mapping[str, str]
    """The environment of a command."""
    shell_path: str | None = None
    command_prefix: str | None = None
    supports_images: bool = True
    """Whether the model that will read the result can see images."""
    resizes_images: bool = True
    """Whether images are resized to the limits of providers."""
    aborted_result: ToolResult | None = None
    """Set by a tool before `Cancelled` leaves it, if its result is more than that it was aborted."""
    timeout_s: float | None = None
    """The timeout of a call whose arguments have none; None: unlimited (R-LIM-03)."""
    time_limit: trio.CancelScope = field(default_factory=trio.CancelScope)
    """The scope of the call, with the deadline of `timeout_s`, which a tool with a timeout of its own removes."""
    bound_path: str | None = None
    """The real path of the only file that the call may change, without following links, or of the folder that a command
    may run in; None: the one that the arguments and `cwd` name. Set by the approval hook that approved it."""
    may_leave_sandbox: bool = False
    """Whether the user has approved that exactly this command runs outside the sandbox."""
    client_files: "ClientFiles | None" = None
    """Files that the client serves in the place of the disk; None: it serves none."""
    order: int = field(default_factory=lambda: next(_context_numbers))
    """Greater than any earlier one's."""


class Tool(Protocol):
    """A tool as the agent uses it. One object serves any number of concurrent calls."""

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
        """One line for the system prompt, which lists no tool without one."""
        ...

    @property
    def guidelines(self) -> tuple[str, ...]:
        """Rules for the system prompt while it is active."""
        ...

    @property
    def parameters(self) -> Mapping[str, object]:
        """The JSON schema of the arguments, as sent to models."""
        ...

    @property
    def is_sequential(self) -> bool:
        """Whether a turn that calls it runs all its calls one after another."""
        ...

    @property
    def checks_itself(self) -> bool:
        """Whether rare keywords of its schema are left to it."""
        ...

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Repair known mistakes of models, before validation; `raw` is not changed."""
        ...

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Run the call with validated arguments.

        Cancelling ends the call as soon as no change would be left incomplete.

        Raises:
            ToolError: The call failed; the text is its result.
        """
        ...


def text_argument(args: Mapping[str, object], name: str) -> str:
    """Return a string that the schema requires."""
    value = args[name]
    assert isinstance(value, str), name
    return value


def number_argument(args: Mapping[str, object], name: str) -> int | float | None:
    """Return a number that the schema allows; None: it is not given."""
    value = args.get(name)
    assert value is None or isinstance(value, int | float), name
    return value
