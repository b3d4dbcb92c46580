"""Job: the turns of one run.

Sends a request or executes the calls of a message, reports how that ended, and then does what the chart asked for
meanwhile, until it asks for nothing more. Which turn comes next, what is delivered and what is retried is the chart's
alone. Deltas do not pass the chart. Cancelling ends the request and every tool; what was open is closed by the host
when the job has unwound.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import trio

from pinnace_agent.compactor import Compactor
from pinnace_agent.emitter import Emitter
from pinnace_agent.jobs import ABORT_GRACE_S
from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.context import unillustrated
from pinnace_agent.llm.failures import FailureSigns
from pinnace_agent.llm.providers import unsupported_api
from pinnace_agent.profile import AgentProfile
from pinnace_agent.run_log import RunLog, error_result
from pinnace_agent.session import Session
from pinnace_agent.session.file import SaveError
from pinnace_agent.shell_environment import tool_environment
from pinnace_agent.tools.base import ToolContext, ToolResult
from pinnace_spec import errors
from pinnace_spec.limits import MAX_CONTENT_BLOCKS
from pinnace_spec.messages import AssistantMessage, FailureCode, Message, Model
from pinnace_statechart.triggers import Happening

if TYPE_CHECKING:  # the one is loaded with the first extension, the other with the first key
    from pinnace_agent.extensions.growing_events import MessageGrowth
    from pinnace_agent.resources.credentials import Credentials

Next = Literal["model", "tools"]

# A handler that is added in the middle of an answer hears of it this many pieces of the network's later at most.
_PAUSES_A_LOOK: Final = 32

NO_MODEL: Model = {
    "id": "unknown",
    "name": "unknown",
    "api": "unknown",
    "provider": "unknown",
    "baseUrl": "",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 0,
    "maxTokens": 0,
}


class MessageSink:
    """Writes the updates of one assistant message."""

    def __init__(self, log: RunLog, emitter: Emitter) -> None:
        """Write to `emitter`, inside the brackets of `log`."""
        self._log = log
        self._emitter = emitter
        self._hooks = log.hooks
        self._is_heard = log.hooks is not None and log.hooks.hears_growth
        self._growth: MessageGrowth | None = None
        self._pauses = 0
        self._is_closed = False

    def close(self) -> None:
        """Discard everything from now on: the message has ended while its provider still works."""
        self._is_closed = True

    def started(self, message: AssistantMessage) -> None:
        """The provider has begun to answer."""
        if not self._is_closed:
            self._log.begin_message(message)

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        """One delta."""
        if self._is_closed:
            return
        self._emitter.update(event, builder)
        if self._is_heard:
            if self._growth is None or self._growth.is_taken:
                assert self._hooks is not None
                self._growth = self._hooks.growth(builder)
            self._growth.add(event)

    async def room(self) -> None:
        """Wait for extensions that listen, and for the reader."""
        if self._hooks is not None:
            if self._is_heard:
                await self._hooks.pause()
            self._pauses += 1
            if self._pauses % _PAUSES_A_LOOK == 0:
                self._is_heard = self._hooks.hears_growth
        await self._emitter.room()


def _discard(_happening: Happening) -> None:
    """Take a report that comes too late."""


def _refuse(builder: MessageBuilder, kind: FailureCode, text: str) -> None:
    """End a message for which nothing was sent."""
    builder.signs = FailureSigns(kind=kind)
    builder.fail(text)


def _fail_excess(builder: MessageBuilder) -> None:
    """Let an answer with too many blocks fail, also where its end came with them: none of its calls is executed."""
    text = errors.too_many_blocks(MAX_CONTENT_BLOCKS)
    if not builder.is_finished:
        _refuse(builder, "provider_error", text)
    else:
        builder.signs = FailureSigns(kind="provider_error")
        builder.replace({**builder.message, "stopReason": "error", "errorMessage": text})


class RunJob:
    """One run's task. `next` is set by the effects of the trigger that this job itself reports."""

    def __init__(
        self,
        number: int,
        session: Session,
        profile: AgentProfile,
        log: RunLog,
        emitter: Emitter,
        report: Callable[[Happening], None],
        compactor: Compactor,
        max_retry_after_s: float,
    ) -> None:
        """Prepare; `report` takes this job's triggers and has performed their effects when it returns."""
        self.number = number
        self.log = log
        self.next: Next | None = None
        self.system_prompt: Callable[[str], str] = profile.system_prompt
        """Returns the prompt for a folder: asked before each request."""
        self.attempts: Callable[[], tuple[int, int]] = lambda: (1, 1)
        """Returns which attempt of its request the present one is, and how many there may be."""
        self.tool_refusal: Callable[[], str | None] = lambda: None
        """Returns why no tool may run now; None: tools run. Asked before each call."""
        self.on_smaller_window: Callable[[Model, int], None] = lambda _model, _tokens: None
        """Takes a model, and the context window that its server says it has where that is smaller."""
        self.on_answer: Callable[[Model, Credentials], None] = lambda _model, _credentials: None
        """Takes a model whose server has just answered, and what the request carried to be let in."""
        self._session = session
        self._profile = profile
        self._emitter = emitter
        self._report = report
        self._compactor = compactor
        self._max_retry_after_s = max_retry_after_s
        self._scope = trio.CancelScope()
        self._sink: MessageSink | None = None  # of the message that is being streamed

    def stop(self) -> None:
        """End what is under way, since the log has a defect: `work` raises. Never waits."""
        self._scope.cancel()

    def abandon(self) -> list[str]:
        """Discard whatever the task still does: it has not ended when it was cancelled, and is no longer waited for.

        Returns:
            The names of the tools that still work. Their calls have an error result from now on.
        """
        self._report = _discard
        if self.log.builder is not None and not self.log.builder.is_finished:
            self.log.builder.abort()
        if self._sink is not None:
            self._sink.close()
        return self.log.abandon_calls(ABORT_GRACE_S)

    async def work(self) -> None:
        """Do what the chart asks for until it asks for nothing more.

        Raises:
            InternalError: A defect has spoilt the run's records, so it must end.
        """
        with self._scope:
            await self._work()
        if (defect := self.log.defect) is not None:
            raise errors.InternalError(defect)

    async def _work(self) -> None:
        while self.next is not None and self.log.defect is None:
            step, self.next = self.next, None
            if step == "model":
                self._report(await self._call_model())
            else:
                await self._call_tools()
                self._report(self._called())
        if self.log.hooks is not None:
            await self.log.hooks.finish()

    def _called(self) -> Happening:
        """Say that the calls are done, and whether all of them want the run to end with them."""
        hooks = self.log.hooks
        goes_on = hooks is not None and hooks.goes_on
        return Happening("tools_done", self.number, wish="end" if self.log.terminates and not goes_on else None)

    def new_builder(self) -> MessageBuilder:
        """Return an empty message of the session's model."""
        model = self._session.model or NO_MODEL
        self._sink = MessageSink(self.log, self._emitter)
        return MessageBuilder(model, self._sink, self._session.now_ms())

    async def _call_model(self) -> Happening:
        if self.log.hooks is not None:
            await self.log.hooks.before_request()
        builder = self.log.builder = self.new_builder()
        try:
            await self._stream(builder)
        except BaseException:
            # Cancelled: the message so far is the answer. Deltas that are still open end before the brackets do.
            if not builder.is_finished:
                if self.log.defect is None:
                    builder.abort()
                else:
                    builder.fail(self.log.defect)
            raise
        if builder.message["stopReason"] == "error":
            self._report_failure(builder)
        if (hooks := self.log.hooks) is None:
            return self._outcome(builder)
        await hooks.answer_ends(builder)
        happening = self._outcome(builder)  # by the session without the answer, which the next step may put there
        if happening.name != "llm_tool_calls":
            await hooks.turn_ends(is_cut=happening.name == "llm_length", can_go_on=happening.name == "llm_stop")
        return happening._replace(wish="go_on") if hooks.goes_on else happening

    async def _call_tools(self) -> None:
        # Not at start: much of it is only for arguments and pictures.
        from pinnace_agent.tool_calls import run_calls

        # What a tool does can't be undone: it is not done while nobody could remember it (R-SES-08).
        if (problem := self._session.problem) is not None:
            for index in range(len(self.log.calls)):
                self.log.end_call(index, error_result(errors.tool_not_executed(problem)))
        else:
            await run_calls(self.log, self._profile.tools, self._tool_context, self.tool_refusal)
        if (hooks := self.log.hooks) is not None:
            await hooks.results_end()
            await hooks.turn_ends(can_go_on=True)

    async def _stream(self, builder: MessageBuilder) -> None:
        try:
            await self._session.sync()  # what a model answers to must not be lost when the answer is there
        except SaveError as error:
            _refuse(builder, "not_saved", error.text)
            return
        model = self._session.model
        if model is None:
            _refuse(builder, "no_model", errors.NO_MODEL)
            return
        registry = self._profile.registry
        provider = registry.provider_for(model)
        if provider is None:
            _refuse(builder, "unsupported_api", unsupported_api(model["api"]).text)
            return
        credentials = await registry.credentials(model)
        if credentials.problem is not None:
            _refuse(builder, "no_credentials", credentials.problem)
            return
        messages: Sequence[Message] = tuple(self._session.messages)
        system_prompt = self.system_prompt(self._session.cwd)
        hooks = self.log.hooks
        if hooks is not None:
            try:
                messages, system_prompt = await hooks.shown(messages, system_prompt)
            except errors.ClientError as error:  # what a handler has made of the messages can't be used
                builder.fail(error.text)
                return
        request = LlmRequest(
            model=model,
            system_prompt=system_prompt,
            messages=tuple(unillustrated(messages)) if self._profile.blocks_images else messages,
            tools=self._profile.tool_specs(),
            thinking_level=self._session.thinking_level,
            api_key=credentials.api_key,
            headers=credentials.headers,
            session_id=self._session.id,
            idle_timeout_s=self._profile.idle_timeout_s,
            thinking_budgets=self._profile.thinking_budgets,
            hooks=None if hooks is None else hooks.of_request(model),
        )
        with trio.CancelScope() as scope:
            builder.on_excess = scope.cancel
            await provider.stream(request, builder)
        if scope.cancel_called:
            _fail_excess(builder)
        if builder.message["stopReason"] not in {"error", "aborted"}:
            self.on_answer(model, credentials)

    def _report_failure(self, builder: MessageBuilder) -> None:
        """Let the message that failed name what was asked, where, how often, and what to do."""
        from pinnace_agent.llm.failure_report import Attempts, report_failure, served_window
        from pinnace_agent.llm.verdicts import VerdictKind, verdict_on

        message, model = builder.message, builder.model
        attempts = Attempts(*self.attempts())
        words = message.get("errorMessage", "")
        kind = verdict_on(message, model, builder.signs).kind
        report = report_failure(words, model, builder.signs, kind, attempts)
        failed: AssistantMessage = {**message, "errorMessage": report.text, "errorCode": report.code}
        if report.status is not None:
            failed["status"] = report.status
        if builder.signs.address is not None:
            failed["attempts"] = attempts.made
        builder.replace(failed)
        if kind is VerdictKind.OVERFLOW and (window := served_window(words)) and window < model["contextWindow"]:
            self.on_smaller_window(model, window)

    def _outcome(self, builder: MessageBuilder) -> Happening:
        # Not at start: the patterns take longer to compile than the rest of the agent to load.
        from pinnace_agent.llm.verdicts import VerdictKind, verdict_on

        message = builder.message
        model, limit_s = self._session.model or NO_MODEL, self._max_retry_after_s
        verdict = verdict_on(message, model, builder.signs, max_retry_after_s=limit_s)
        match verdict.kind:
            case VerdictKind.TRANSIENT:
                due = self._compactor.is_due_after(self._session, message)
                return Happening("llm_transient", self.number, threshold_due=due, retry_after_s=verdict.retry_after_s)
            case VerdictKind.OVERFLOW | VerdictKind.LENGTH_OVERFLOW:
                return Happening("llm_overflow", self.number)
            case VerdictKind.FATAL:
                return Happening("llm_fatal", self.number, text=message.get("errorMessage", ""))
            case VerdictKind.NOTHING | VerdictKind.SILENT_OVERFLOW:
                return self._answered(message, has_overflowed=verdict.kind is VerdictKind.SILENT_OVERFLOW)

    def _answered(self, message: AssistantMessage, *, has_overflowed: bool) -> Happening:
        has_calls = any(block["type"] == "toolCall" for block in message["content"])
        if has_calls:
            return Happening("llm_length" if message["stopReason"] == "length" else "llm_tool_calls", self.number)
        # DEVIATION D-25: nothing was refused, so nothing is sent again.
        due = has_overflowed or self._compactor.is_due_after(self._session, message)
        return Happening("llm_stop", self.number, threshold_due=due)

    def _tool_context(self, call_id: str, progress: Callable[[ToolResult], None]) -> ToolContext:
        model = self._session.model
        return ToolContext(
            cwd=self._session.cwd,
            call_id=call_id,
            on_update=progress,
            env=tool_environment(self._profile.environment, self._session),
            shell_path=self._profile.shell_path,
            command_prefix=self._profile.shell_command_prefix,
            supports_images=model is not None and "image" in model["input"] and not self._profile.blocks_images,
            resizes_images=self._profile.resizes_images,
            timeout_s=self._profile.tool_timeout_s,
        )
