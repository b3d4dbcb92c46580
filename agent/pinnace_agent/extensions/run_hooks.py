"""What extensions have a say in while a run works: its job asks here, and waits.

Decides what becomes of an answer: what replaces a message is made whole, what a handler makes of a call is what is
executed. Everything that happened before is told before anyone is asked (R18). Must not know the chart, nor how a
request is sent. E23, E26, E31, E32, E40, E41.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio

from pinnace_agent.emitter import Emitter
from pinnace_agent.extensions.drafts import commit, preview
from pinnace_agent.extensions.error_records import failure_record
from pinnace_agent.extensions.gates import CallResult
from pinnace_agent.extensions.growing_events import MessageGrowth
from pinnace_agent.extensions.json_values import own_copy
from pinnace_agent.extensions.request_hooks import ProviderHooks
from pinnace_agent.extensions.result_shapes import is_object
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.json_edge import as_array, as_object, as_text
from pinnace_agent.session import Session
from pinnace_agent.session.message_repair import whole_message
from pinnace_agent.tools.base import Tool, ToolResult
from pinnace_spec import errors
from pinnace_spec.messages import AssistantMessage, Message, Model, ToolResultMessage

if TYPE_CHECKING:
    from pinnace_agent.extensions.heard_log import HeardLog

# Of the time that a stream takes, for telling what it brings; but what was brought is held for an instant at most.
_SHARE: Final = 0.04
_LONGEST_HELD_S: Final = 0.01
# What a handler leaves out of a message that it replaces is as it was, but for what is there only sometimes.
_KEPT: Final = (
    "content",
    "api",
    "provider",
    "model",
    "usage",
    "stopReason",
    "timestamp",
    "isError",
    "customType",
    "display",
)
# To which call a result belongs is not a handler's to change.
_FIXED: Final = ("toolCallId", "toolName")


class Shown(NamedTuple):
    """What a model is shown."""

    messages: Sequence[Message]
    system_prompt: str


class RunHooks:
    """The extensions of one run, as its job asks them."""

    def __init__(self, log: "HeardLog", session: Session, emitter: Emitter) -> None:
        """Ask about the run of `log`."""
        self._log = log
        self._runner = log.runner
        self._lane = log.lane
        self._session = session
        self._emitter = emitter
        self._next_s = 0.0
        self.goes_on = False
        """Whether a handler of the last `turn_end` wants another turn."""

    async def drain(self) -> None:
        """Tell everything that has happened."""
        await self._lane.drain()

    async def finish(self) -> None:
        """Tell what is left of this run."""
        await self._lane.drain(self._log.end_mark)

    def telling(self) -> AbstractAsyncContextManager[None]:
        """Tell events as they come while calls run; all of them are told at the end."""
        return self._lane.telling()

    # The request.

    async def before_request(self) -> None:
        """Tell what has happened, and let handlers of `message_end` see the users' texts that are delivered."""
        log = self._log
        while (message := log.begin_waiting()) is not None:
            await self._lane.drain()
            log.end_waiting(await self._ended(message))
        await self._lane.drain()

    async def shown(self, messages: Sequence[Message], system_prompt: str) -> Shown:
        """Let handlers change what the model is shown (E31, E32)."""
        chains = self._runner.chains
        changed = await chains.context(messages)
        if changed is not None:
            messages = _whole_messages(changed)
        if not self._runner.has_handlers("context_with_system"):
            return Shown(messages, system_prompt)
        system = {"role": "system", "content": system_prompt, "timestamp": self._session.now_ms()}
        # cast: a role that only these handlers see; nothing else keeps such a message
        with_system = cast("Sequence[Message]", [system, *messages])
        changed = await chains.context(with_system, "context_with_system") or []
        roles: list[str] = [each["role"] for each in changed]
        if roles[:1] != ["system"]:
            lost = ValueError("context_with_system: the messages no longer begin with the system message")
            self._runner.tell_error(failure_record("<context>", "context_with_system", lost))
        prompt = "\n\n".join(_text_of(each) for each, role in zip(changed, roles, strict=True) if role == "system")
        return Shown(_whole_messages(changed), prompt)

    def of_request(self, model: Model) -> ProviderHooks:
        """Return what a provider has to ask (E33 to E36)."""
        return ProviderHooks(self._runner, model)

    # The answer.

    @property
    def hears_growth(self) -> bool:
        """Whether anyone handles `message_update`."""
        return self._runner.has_handlers("message_update")

    def growth(self, builder: MessageBuilder) -> MessageGrowth:
        """Return where events of the stream are kept until they are told."""
        growth = MessageGrowth(builder)
        self._lane.put_growing(growth)
        return growth

    async def pause(self) -> None:
        """Tell what there is to tell, unless that would take more than its share of the stream's time.

        What is told less often is told in fewer events, and so takes less.
        """
        now_s = time.perf_counter()
        if now_s < self._next_s or not len(self._lane):
            return
        await self._lane.drain()
        done_s = time.perf_counter()
        self._next_s = done_s + min((done_s - now_s) / _SHARE, _LONGEST_HELD_S)

    async def answer_ends(self, builder: MessageBuilder) -> None:
        """Let handlers see an answer that is complete, and put another one in its place (E26)."""
        if not builder.has_started:
            self._log.begin_message(builder.message)
            builder.has_started = True
        await self._lane.drain()
        message = await self._ended(builder.message)
        builder.replace(cast("AssistantMessage", message))  # cast: the same role

    async def turn_ends(self, *, is_cut: bool = False, can_go_on: bool = False) -> None:
        """Let handlers see a turn that is complete, and add to the session (E23).

        The answer and its results are appended here, so that they are in the session: the effects that do so later
        find it done.

        Args:
            is_cut: The answer's calls are not carried out.
            can_go_on: Whether a wish to go on counts.
        """
        log, runner = self._log, self._runner
        self.goes_on = False
        if not runner.has_handlers("turn_end"):
            return
        # What came before may have ended without having noticed that the run was cancelled, and is over.
        await trio.lowlevel.checkpoint_if_cancelled()
        if log.message is None:
            log.write_message()
        if is_cut:
            log.fail_cut_calls()
        elif log.calls:
            log.append_results()
        await self._lane.drain()
        log.is_turn_told = True
        proposal = await runner.boundary("turn_end", log.turn_event, lambda drafts: preview(self._session, drafts))
        await trio.lowlevel.checkpoint_if_cancelled()
        commit(self._session, self._emitter, proposal.entries)
        self.goes_on = can_go_on and proposal.goes_on

    async def _ended(self, message: Message) -> Message:
        """Return what handlers of `message_end` put in the place of a message: of its role, and whole."""
        self._log.heard(message)
        if not self._runner.has_handlers("message_end"):
            return message
        changed = await self._runner.chains.message_end(message)
        if changed is message:
            return message
        former = cast("Mapping[str, object]", message)  # cast: a message is one
        kept = {name: former[name] for name in _KEPT if name in former}
        fixed = {name: former[name] for name in _FIXED if name in former}
        whole = whole_message({**kept, **changed, **fixed}, None) or message
        self._log.heard(whole)
        return whole

    # The calls.

    async def may_call(
        self, index: int, tool: Tool, arguments: dict[str, object], bind: Callable[[str], None]
    ) -> ToolResult | None:
        """Ask whether a call may be carried out; handlers may change its arguments, and `bind` it to a file (E40).

        Returns:
            None if it may, else its result.
        """
        await self._lane.drain()
        if not self._runner.gates.guards("tool_call"):
            return None
        before = repr(arguments)
        call_id = self._log.calls[index]["id"]
        block = await self._runner.gates.tool_call(tool.name, call_id, arguments, bind=bind)
        if block is not None:
            text = block.reason or errors.TOOL_BLOCKED
            return ToolResult([{"type": "text", "text": text}], {}, is_error=True, terminate=block.terminate)
        if repr(arguments) != before:
            self._log.take_arguments(index, own_copy(arguments))
        return None

    async def result_of(self, index: int, tool: Tool, arguments: dict[str, object], result: ToolResult) -> ToolResult:
        """Let handlers change the result of a call that was carried out (E41)."""
        if not self._runner.has_handlers("tool_result"):
            return result
        given = CallResult(result.content, result.details, result.is_error, result.structured, result.usage)
        call_id = self._log.calls[index]["id"]
        changed = await self._runner.gates.tool_result(tool.name, call_id, arguments, given)
        if changed is given:
            return result
        details = changed.details
        return ToolResult(
            changed.content,
            details if details is None or is_object(details) else {"value": details},
            changed.is_error,
            changed.structured,
            changed.usage,
            terminate=result.terminate,
        )

    async def results_end(self) -> None:
        """Let handlers see the results of a turn, in call order, and put others in their place (E26)."""
        log = self._log
        await self._lane.drain()
        if not self._runner.has_handlers("message_end"):
            return
        for index, result in enumerate(log.results):
            log.tell_start(result)
            await self._lane.drain()
            message = await self._ended(result)
            log.replace_result(index, cast("ToolResultMessage", message))  # cast: the same role


def _whole_messages(messages: Sequence[Message]) -> list[Message]:
    """Return messages as providers expect them; what is none is left out."""
    whole = (whole_message(message, None) for message in messages)
    return [message for message in whole if message is not None]


def _text_of(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = filter(None, map(as_object, as_array(content)))
    return "".join(as_text(block.get("text")) or "" for block in blocks)
