"""What a run publishes, and what its job asks before it continues.

The run recorder calls a `RunObserver` after each record; nothing there waits. The run's job awaits the methods of
`RunHooks`, whose answers decide what is sent, executed and kept. Extensions implement both.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.llm.builder import MessageBuilder
    from pinnace_agent.llm.request import RequestHooks
    from pinnace_agent.tools.base import Tool, ToolResult
    from pinnace_spec.records.messages import AssistantMessage, Message, Model, ToolCall, ToolResultMessage


class RunObserver(Protocol):
    """Takes what one run has recorded, in the order of the records. Never waits."""

    @property
    def defers_messages(self) -> bool:
        """Whether a message that enters the run waits until the run's job has asked about it."""
        ...

    def run_started(self) -> None:
        """Take `agent_start`."""

    def turn_started(self) -> None:
        """Take `turn_start`."""

    def message_started(self, message: "Message") -> None:
        """Take the beginning of a message that is not complete, or whose end is reported later."""

    def message_ended(self, message: "Message") -> None:
        """Take the end of a message whose beginning was reported."""

    def message_added(self, message: "Message") -> None:
        """Take a message that is complete at its beginning."""

    def call_started(self, call: "ToolCall") -> None:
        """Take `tool_execution_start`."""

    def call_updated(
        self, index: int, call: "ToolCall", args: Mapping[str, object], result: Mapping[str, object]
    ) -> None:
        """Take what the turn's call number `index` has produced so far."""

    def call_ended(
        self,
        call: "ToolCall",
        args: Mapping[str, object],
        result: Mapping[str, object],
        *,
        is_error: bool,
        duration_ms: int | None,
    ) -> None:
        """Take `tool_execution_end`."""

    def turn_ended(self, message: "AssistantMessage | None", results: "Sequence[ToolResultMessage]") -> None:
        """Take `turn_end`."""

    def run_ended(self, messages: "Sequence[Message]") -> None:
        """Take `agent_end`, with everything that the run has created."""

    def run_closed(self) -> None:
        """The run was cancelled or has failed: its job asks about nothing more."""


class RecordedRun(Protocol):
    """The run recorder, as hooks see and change it."""

    message: "AssistantMessage | None"
    """The turn's answer, once it has ended."""
    calls: "list[ToolCall]"

    @property
    def turn_results(self) -> "Sequence[ToolResultMessage]":
        """The results of the turn that are appended."""
        ...

    @property
    def results(self) -> "Sequence[ToolResultMessage]":
        """The results of the turn's calls, in call order, before they are appended."""
        ...

    def add(self, message: "Message") -> None:
        """Append a message that is neither an answer nor a result."""

    def begin_deferred(self) -> "Message | None":
        """Write the beginning of the first message that waits, and return the message; None: none waits."""
        ...

    def end_deferred(self, message: "Message") -> None:
        """Append the first message that waits, as `message`, and write its end."""

    def begin_message(self, message: "AssistantMessage") -> None:
        """Write the assistant's `message_start`."""

    def write_message(self) -> None:
        """Append the answer."""

    def fail_cut_calls(self) -> None:
        """Answer the calls of a message that was cut at the output limit."""

    def append_results(self) -> None:
        """Append the results that are not appended yet, in call order."""

    def replace_result(self, index: int, message: "ToolResultMessage") -> None:
        """Put another message in the place of a result that is not appended yet."""

    def take_arguments(self, index: int, arguments: Mapping[str, object]) -> None:
        """Take the arguments with which a call is executed, where they differ from the model's."""


class GrowingUpdates(Protocol):
    """Updates of one message that no handler has begun to take."""

    is_taken: bool
    """Whether handlers have begun to take them: later updates belong to another object."""

    def add(self, event: Mapping[str, object]) -> None:
        """Take one event of the stream."""


class RunHooks(Protocol):
    """What a run's job asks. Each method may wait, and may be cancelled."""

    continues: bool
    """Whether a handler of the last `turn_end` has asked for another turn."""

    @property
    def observes_updates(self) -> bool:
        """Whether updates of a message are of interest."""
        ...

    def updates(self, builder: "MessageBuilder") -> GrowingUpdates:
        """Return where the updates of a message are put."""
        ...

    async def pause(self) -> None:
        """Give handlers their share of the stream's time."""

    async def before_request(self) -> None:
        """Ask about the messages that wait."""

    async def shown(self, messages: "Sequence[Message]", system_prompt: str) -> "tuple[Sequence[Message], str]":
        """Return the messages and the system prompt that the model gets.

        Raises:
            ClientError: The answer of a handler is invalid.
        """
        ...

    def of_request(self, model: "Model") -> "RequestHooks":
        """Return what the provider asks during a request."""
        ...

    def withdraws_tool(self, builder: "MessageBuilder", names: "Collection[str]") -> bool:
        """Withdraw the tool because of which a request was refused; return whether there is one.

        Args:
            builder: The answer, which has ended.
            names: Of the tools of the request, in its order.
        """
        ...

    async def answer_ends(self, builder: "MessageBuilder") -> None:
        """Ask about a complete answer, which may be replaced."""

    async def turn_ends(self, *, is_cut: bool = False, can_continue: bool = False) -> None:
        """Ask about a complete turn, after its answer and its results were appended.

        Args:
            is_cut: The answer's calls are not executed.
            can_continue: Whether a request for another turn counts.
        """

    def publishing(self) -> AbstractAsyncContextManager[None]:
        """Deliver events as they come while calls run."""
        ...

    @property
    def guards_calls(self) -> bool:
        """Whether a handler decides about calls, so that `may_call` may refuse one."""
        ...

    async def may_call(
        self, index: int, tool: "Tool", arguments: dict[str, object], bind: Callable[[str], None]
    ) -> "ToolResult | None":
        """Ask whether a call may be executed; None if it may, else its result.

        Handlers may change the arguments, which then are validated again, and bind the call to the file at a path.
        """
        ...

    async def result_of(
        self, index: int, tool: "Tool", arguments: dict[str, object], result: "ToolResult"
    ) -> "ToolResult":
        """Return the result of a call that was executed, as handlers leave it."""
        ...

    async def results_end(self) -> None:
        """Ask about the results of a turn, which may be replaced."""

    async def finish(self) -> None:
        """Deliver what is left of this run."""
