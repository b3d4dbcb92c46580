"""The hooks of a run: its job awaits them before it continues.

Decides what becomes of a handler's answer: a message that replaces another is completed, the arguments that a handler
leaves are those that are executed. Every earlier event is delivered before a handler is asked.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.core.json_access import as_array, as_object, as_text
from pinnace_agent.core.json_values import is_object, own_copy
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.core.ports.runs import RecordedRun
from pinnace_agent.extensions.events.run_events import TurnEnd
from pinnace_agent.extensions.handlers.gates import CallResult
from pinnace_agent.extensions.hooks.drafts import commit, preview
from pinnace_agent.extensions.hooks.growing_events import MessageGrowth
from pinnace_agent.extensions.hooks.request_hooks import ProviderHooks
from pinnace_agent.extensions.hooks.run_event_publisher import RunEventPublisher
from pinnace_agent.extensions.services.error_records import failure_record
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.refused_tools import refused_tool
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.store.message_repair import whole_message
from pinnace_agent.tools.base import Tool, ToolResult
from pinnace_agent.tools.validation import validate_changed
from pinnace_spec.records.messages import AssistantMessage, Message, Model, ToolResultMessage
from pinnace_spec.rules import errors

# Handlers get at most this share of a stream's time; but an event is held back for an instant at most.
_SHARE: Final = 0.04
_LONGEST_HELD_S: Final = 0.01
_BAD_REQUEST: Final = 400
# Fields that a replacement leaves out keep their values, but for optional ones.
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
# A handler can't change to which call a result belongs.
_FIXED: Final = ("toolCallId", "toolName")


class ModelContext(NamedTuple):
    """The context that a model gets."""

    messages: Sequence[Message]
    system_prompt: str


class RunHooks:
    """The extensions of one run, as its job asks them."""

    def __init__(self, run: RecordedRun, publisher: RunEventPublisher, session: Session, emitter: Emitter) -> None:
        """Ask about a run, whose events `publisher` delivers."""
        self._run = run
        self._publisher = publisher
        self._runner = publisher.runner
        self._lane = publisher.lane
        self._session = session
        self._emitter = emitter
        self._next_s = 0.0
        self.continues = False
        """Whether a handler of the last `turn_end` has asked for another turn."""

    async def drain(self) -> None:
        """Deliver every event so far."""
        await self._lane.drain()

    async def finish(self) -> None:
        """Deliver what is left of this run."""
        await self._lane.drain(self._publisher.end_mark)

    def publishing(self) -> AbstractAsyncContextManager[None]:
        """Deliver events as they come while calls run; all of them are delivered at the end."""
        return self._lane.delivering()

    # The request.

    async def before_request(self) -> None:
        """Deliver earlier events, and ask handlers of `message_end` about the messages that enter the run."""
        while (message := self._run.begin_deferred()) is not None:
            await self._lane.drain()
            self._run.end_deferred(await self._ended(message))
        await self._lane.drain()

    async def shown(self, messages: Sequence[Message], system_prompt: str) -> ModelContext:
        """Let handlers change the context that the model gets."""
        chains = self._runner.chains
        changed = await chains.context(messages)
        if changed is not None:
            messages = _whole_messages(changed)
        if not self._runner.has_handlers("context_with_system"):
            return ModelContext(messages, system_prompt)
        system = {"role": "system", "content": system_prompt, "timestamp": self._session.now_ms()}
        # cast: a role that only these handlers see; nothing else keeps such a message
        with_system = cast("Sequence[Message]", [system, *messages])
        changed = await chains.context(with_system, "context_with_system") or []
        roles: list[str] = [each["role"] for each in changed]
        if roles[:1] != ["system"]:
            lost = ValueError("context_with_system: the messages no longer begin with the system message")
            self._runner.report_error(failure_record("<context>", "context_with_system", lost))
        prompt = "\n\n".join(_text_of(each) for each, role in zip(changed, roles, strict=True) if role == "system")
        return ModelContext(_whole_messages(changed), prompt)

    def of_request(self, model: Model) -> ProviderHooks:
        """Return the hooks of a request."""
        return ProviderHooks(self._runner, model)

    def withdraws_tool(self, builder: MessageBuilder, names: Collection[str]) -> bool:
        """Let an extension withdraw its tool, because of which a provider has refused a request (R-MCP-06)."""
        if builder.has_started or builder.signs.status != _BAD_REQUEST:
            return False
        text = builder.message.get("errorMessage", "")
        tool = self._runner.tools().get(refused_tool(text, tuple(names)) or "")
        return tool is not None and tool.withdraw(text)

    # The answer.

    @property
    def observes_updates(self) -> bool:
        """Whether there is a handler of `message_update`."""
        return self._runner.has_handlers("message_update")

    def updates(self, builder: MessageBuilder) -> MessageGrowth:
        """Return where events of the stream are kept until they are delivered."""
        growth = MessageGrowth(builder)
        self._lane.put_growing(growth)
        return growth

    async def pause(self) -> None:
        """Deliver events, unless handlers would take more than their share of the stream's time.

        Fewer deliveries have fewer events, and so take less time.
        """
        now_s = time.perf_counter()
        if now_s < self._next_s or not len(self._lane):
            return
        await self._lane.drain()
        done_s = time.perf_counter()
        self._next_s = done_s + min((done_s - now_s) / _SHARE, _LONGEST_HELD_S)

    async def answer_ends(self, builder: MessageBuilder) -> None:
        """Let handlers see an answer that is complete, and put another one in its place."""
        if not builder.has_started:
            self._run.begin_message(builder.message)
            builder.has_started = True
        await self._lane.drain()
        message = await self._ended(builder.message)
        builder.replace(cast("AssistantMessage", message))  # cast: the same role

    async def turn_ends(self, *, is_cut: bool = False, can_continue: bool = False) -> None:
        """Let handlers see a turn that is complete, and add to the session.

        The answer and its results are appended here, so that they are in the session: the effects that append them
        later find it done.

        Args:
            is_cut: The answer's calls are not executed.
            can_continue: Whether a request for another turn counts.
        """
        run, runner = self._run, self._runner
        self.continues = False
        if not runner.has_handlers("turn_end"):
            return
        # The step before may have ended without having noticed that the run was cancelled, and is over.
        await trio.lowlevel.checkpoint_if_cancelled()
        if run.message is None:
            run.write_message()
        if is_cut:
            run.fail_cut_calls()
        elif run.calls:
            run.append_results()
        await self._lane.drain()
        self._publisher.is_turn_published = True
        proposal = await runner.settle_hooks(
            "turn_end", self._turn_event, lambda drafts: preview(self._session, drafts)
        )
        await trio.lowlevel.checkpoint_if_cancelled()
        commit(self._session, self._emitter, proposal.entries)
        self.continues = can_continue and proposal.continues

    def _turn_event(self) -> TurnEnd:
        message = self._run.message
        assert message is not None  # `turn_ends` has written it
        return self._publisher.turn_event(message, self._run.turn_results)

    async def _ended(self, message: Message) -> Message:
        """Return what handlers of `message_end` put in the place of a message: of its role, and whole."""
        self._publisher.note_asked(message)
        if not self._runner.has_handlers("message_end"):
            return message
        changed = await self._runner.chains.message_end(message)
        if changed is message:
            return message
        former = cast("Mapping[str, object]", message)  # cast: a message is one
        kept = {name: former[name] for name in _KEPT if name in former}
        fixed = {name: former[name] for name in _FIXED if name in former}
        whole = whole_message({**kept, **changed, **fixed}, None) or message
        self._publisher.note_asked(whole)
        return whole

    # The calls.

    @property
    def guards_calls(self) -> bool:
        """Whether a handler decides about calls, so that `may_call` may refuse one."""
        return self._runner.gates.guards("tool_call")

    async def may_call(
        self, index: int, tool: Tool, arguments: dict[str, object], bind: Callable[[str], None]
    ) -> ToolResult | None:
        """Ask whether a call may be executed; handlers may change its arguments, and `bind` it to a file.

        Changed arguments are validated (R-EXT-15), unchanged ones are not validated again.

        Returns:
            None if it may, else its result.
        """
        await self._lane.drain()
        if not self.guards_calls:
            return None
        is_changed = False

        def validate(changed: dict[str, object]) -> dict[str, object]:
            nonlocal is_changed
            is_changed = True
            return validate_changed(tool, changed)

        call_id = self._run.calls[index]["id"]
        block = await self._runner.gates.tool_call(tool.name, call_id, arguments, bind=bind, validate=validate)
        if block is not None:
            text = block.reason or errors.TOOL_BLOCKED
            return ToolResult([{"type": "text", "text": text}], {}, is_error=True, terminate=block.terminate)
        if is_changed:
            self._run.take_arguments(index, own_copy(arguments))
        return None

    async def result_of(self, index: int, tool: Tool, arguments: dict[str, object], result: ToolResult) -> ToolResult:
        """Let handlers change the result of a call that was executed."""
        if not self._runner.has_handlers("tool_result"):
            return result
        given = CallResult(result.content, result.details, result.is_error, result.structured, result.usage)
        call_id = self._run.calls[index]["id"]
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
        """Let handlers see the results of a turn, in call order, and put others in their place."""
        await self._lane.drain()
        if not self._runner.has_handlers("message_end"):
            return
        for index, result in enumerate(self._run.results):
            self._publisher.message_started(result)
            await self._lane.drain()
            message = await self._ended(result)
            self._run.replace_result(index, cast("ToolResultMessage", message))  # cast: the same role


def _whole_messages(messages: Sequence[Message]) -> list[Message]:
    """Return messages as providers expect them; invalid ones are left out."""
    whole = (whole_message(message, None) for message in messages)
    return [message for message in whole if message is not None]


def _text_of(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = filter(None, map(as_object, as_array(content)))
    return "".join(as_text(block.get("text")) or "" for block in blocks)
