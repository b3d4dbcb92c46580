"""Jobs: the check of a prompt before its run, and the turns of one run.

Sends a request or executes the calls of a message, reports how that ended, and then does the next step that the effects
of the report have set, until there is none. The statechart alone decides which turn comes next, what is delivered and
what is retried. Deltas do not pass the statechart. Cancelling ends the request and every tool; the interpreter closes
the open brackets when the job has unwound.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import trio

from pinnace_agent.core.jobs import ABORT_GRACE_S
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.engine.run_recorder import RunRecorder, error_result
from pinnace_agent.llm.builder import FailureSigns, MessageBuilder
from pinnace_agent.llm.context import without_images
from pinnace_agent.llm.providers import unsupported_api
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.store.file import SaveError
from pinnace_agent.shell.environment import tool_environment
from pinnace_agent.tools.base import ToolContext, ToolResult
from pinnace_spec.records.messages import AssistantMessage, Message, Model
from pinnace_spec.rules import errors
from pinnace_statechart.effects import StartJob
from pinnace_statechart.triggers import InternalEvent

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.runs import GrowingUpdates, RunHooks
    from pinnace_agent.engine.ports import RunAgent, RunOwner

Next = Literal["model", "tools"]

# A server that names less does not mean its window.
_LEAST_WINDOW: Final = 1024
# A handler that is added during an answer gets its updates after at most this many more pieces of the network's.
_PAUSES_A_CHECK: Final = 32

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

    def __init__(self, log: RunRecorder, emitter: Emitter, hooks: "RunHooks | None" = None) -> None:
        """Write to `emitter`, inside the brackets of `log`; `hooks` take the updates, too."""
        self._log = log
        self._emitter = emitter
        self._hooks = hooks
        self._observer: RunHooks | None = hooks if hooks is not None and hooks.observes_updates else None
        self._growth: GrowingUpdates | None = None
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
        if self._observer is not None:
            if self._growth is None or self._growth.is_taken:
                self._growth = self._observer.updates(builder)
            self._growth.add(event)

    async def room(self) -> None:
        """Wait for handlers of updates, and for the reader."""
        if self._hooks is not None:
            if self._observer is not None:
                await self._observer.pause()
            self._pauses += 1
            if self._pauses % _PAUSES_A_CHECK == 0:
                self._observer = self._hooks if self._hooks.observes_updates else None
        await self._emitter.room()


def _discard(_happening: InternalEvent) -> None:
    """Take a report that comes too late."""


def _fail_excess(builder: MessageBuilder) -> None:
    """Let an answer with too much in it fail, also where its end came with that: none of its calls is executed."""
    text = builder.excess
    builder.signs = FailureSigns(kind="provider_error")
    if builder.is_finished:
        builder.replace({**builder.message, "stopReason": "error", "errorMessage": text})
    else:
        builder.fail(text)


async def preflight(agent: "RunOwner", effect: StartJob) -> None:
    """Check the pending prompt, and report whether its run may begin. Changes nothing: a refusal leaves no trace.

    In the order of the protocol (R-PRM-02): is a model selected, is its provider supported, are there credentials.
    Extensions read the message first, and are asked about the run last. May be cancelled at any point.
    """
    extensions = agent.extensions
    if extensions is not None and not await extensions.prompt_hooks.read_pending(effect.job):
        return
    problem = await check_prompt(agent.session, agent.profile)
    is_enabled = agent.chart.state.auto_compaction and effect.check_threshold
    if problem is None and agent.compactor.is_due_before(agent.session, is_enabled=is_enabled):
        agent.submit(InternalEvent("threshold_due", effect.job))
        return
    try:
        if problem is None and extensions is not None:
            await extensions.prompt_hooks.before_run()
    except errors.ClientError as error:
        problem = error
    if problem is None:
        await agent.session.wait_until_left()  # what follows appends the message, and can't wait
        agent.submit(InternalEvent("preflight_ok", effect.job))
    else:
        agent.submit(InternalEvent("preflight_refused", effect.job, text=problem.text, code=problem.code))


async def check_prompt(session: Session, profile: AgentProfile) -> errors.ClientError | None:
    """Return why no prompt can run now, or None."""
    await trio.lowlevel.checkpoint()
    model = session.model
    if model is None:
        return errors.ClientError(errors.NO_MODEL, errors.ErrorCode.NO_MODEL)
    if (refusal := profile.registry.refusal(model)) is not None:
        return refusal
    credentials = await profile.registry.check_credentials(model)
    if credentials.problem is not None:
        is_refused = credentials.is_login_refused
        code = errors.ErrorCode.AUTHENTICATION_FAILED if is_refused else errors.ErrorCode.NO_API_KEY
        return errors.ClientError(credentials.problem, code)
    return None


class RunJob:
    """One run's task. `next` is set by the effects of the trigger that this job itself reports."""

    def __init__(self, number: int, log: RunRecorder, hooks: "RunHooks | None", agent: "RunAgent") -> None:
        """Prepare a run of the current session, which `log` records."""
        self.number = number
        self.log = log
        self.hooks = hooks
        self.next: Next | None = None
        self._agent = agent
        self._report: Callable[[InternalEvent], None] = agent.report
        self._session = agent.session
        self._profile = agent.profile
        self._emitter = agent.emitter
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
        """Do the next step until no effect has set one.

        Raises:
            InternalError: A defect has made the run's records inconsistent, so the run must end.
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
        if self.hooks is not None:
            await self.hooks.finish()

    def _called(self) -> InternalEvent:
        """Say that the calls are done, and whether all of them want the run to end with them."""
        continues = self.hooks is not None and self.hooks.continues
        return InternalEvent(
            "tools_done", self.number, requested="end" if self.log.terminates and not continues else None
        )

    def new_builder(self) -> MessageBuilder:
        """Return an empty message of the session's model."""
        model = self._session.model or NO_MODEL
        self._sink = MessageSink(self.log, self._emitter, self.hooks)
        return MessageBuilder(model, self._sink, self._session.now_ms())

    async def _call_model(self) -> InternalEvent:
        if self.hooks is not None:
            await self.hooks.before_request()
        builder = self.log.builder = self.new_builder()
        try:
            await self._stream(builder)
            if (hooks := self.hooks) and hooks.withdraws_tool(builder, self._profile.tools):
                builder = self.log.builder = self.new_builder()
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
        if hooks is None:
            return self._outcome(builder)
        await hooks.answer_ends(builder)
        event = self._outcome(builder)  # by the session without the answer, which the next step may put there
        if event.name != "llm_tool_calls":
            await hooks.turn_ends(is_cut=event.name == "llm_length", can_continue=event.name == "llm_stop")
        return event._replace(requested="go_on") if hooks.continues else event

    async def _call_tools(self) -> None:
        # Not at start: much of it is only for arguments and pictures.
        from pinnace_agent.engine.tool_calls import CallGates, run_calls

        # The work of a tool can't be undone: no tool runs while its result could not be saved (R-SES-08).
        if (problem := self._session.problem) is not None:
            for index in range(len(self.log.calls)):
                self.log.end_call(index, error_result(errors.tool_not_executed(problem)))
        else:
            gates = CallGates(self._agent.approval, self.hooks)
            profile, refusal = self._profile, lambda: self._agent.tool_refusal
            await run_calls(self.log, profile.tools, self._tool_context, refusal, gates, profile.trace_call)
        if (hooks := self.hooks) is not None:
            await hooks.results_end()
            await hooks.turn_ends(can_continue=True)

    async def _stream(self, builder: MessageBuilder) -> None:
        try:
            await self._session.sync()  # what a model answers to must not be lost when the answer is there
        except SaveError as error:
            builder.refuse("not_saved", error.text)
            return
        model = self._session.model
        if model is None:
            builder.refuse("no_model", errors.NO_MODEL)
            return
        registry = self._profile.registry
        provider = registry.provider_for(model)
        if provider is None:
            builder.refuse("unsupported_api", unsupported_api(model["api"]).text)
            return
        credentials = await registry.credentials(model)
        if credentials.problem is not None:
            builder.refuse("no_credentials", credentials.problem)
            return
        own = tuple(self._session.messages)
        messages: Sequence[Message] = own
        system_prompt = self._agent.system_prompt()
        if (hooks := self.hooks) is not None:
            try:
                messages, system_prompt = await hooks.shown(messages, system_prompt)
            except errors.ClientError as error:  # what a handler has made of the messages can't be used
                builder.fail(error.text)
                return
        from pinnace_agent.core.control_text import clean_text  # not at start

        request = LlmRequest(
            model=model,
            system_prompt=clean_text(system_prompt),
            messages=tuple(without_images(messages)) if self._profile.blocks_images else messages,
            tools=self._profile.tool_specs(),
            thinking_level=self._session.thinking_level,
            api_key=credentials.api_key,
            headers=credentials.headers,
            session_id=self._session.id,
            idle_timeout_s=self._profile.idle_timeout_s,
            thinking_budgets=self._profile.thinking_budgets,
            hooks=None if hooks is None else hooks.of_request(model),
            variables=credentials.variables,
        )
        self._agent.request_sent(request, own)
        with trio.CancelScope() as scope:
            builder.on_excess = scope.cancel
            await provider.stream(request, builder)
        if scope.cancel_called:
            _fail_excess(builder)
        if builder.unknown_stop_reason is not None:
            self._agent.warn_of_stop_reason(model, builder.unknown_stop_reason)
        if builder.message["stopReason"] not in {"error", "aborted"}:
            self._agent.compare_window(model, credentials)

    def _report_failure(self, builder: MessageBuilder) -> None:
        """Let the message that failed name what was asked, where, how often, and what to do."""
        from pinnace_agent.llm.failure_report import Attempts, report_failure, served_window
        from pinnace_agent.llm.outcomes import OutcomeKind, classify_response

        message, model = builder.message, builder.model
        attempts = Attempts(*self._agent.attempts())
        words = message.get("errorMessage", "")
        kind = classify_response(message, model, builder.signs).kind
        report = report_failure(words, model, builder.signs, kind, attempts)
        failed: AssistantMessage = {**message, "errorMessage": report.text, "errorCode": report.code}
        if report.status is not None:
            failed["status"] = report.status
        if builder.signs.address is not None:
            failed["attempts"] = attempts.made
        builder.replace(failed)
        if kind is OutcomeKind.OVERFLOW and (window := served_window(words)) and window < model["contextWindow"]:
            self._agent.warn_of_window(model, window)
            if window >= _LEAST_WINDOW and self._session.model is model:
                # The compaction of this overflow, and everything after it, is to fit the server.
                self._session.model = {**model, "contextWindow": window}

    def _outcome(self, builder: MessageBuilder) -> InternalEvent:
        # Not at start: the patterns take longer to compile than the rest of the agent to load.
        from pinnace_agent.llm.outcomes import OutcomeKind, classify_response

        message = builder.message
        model, limit_s = self._session.model or NO_MODEL, self._agent.max_retry_after_s
        outcome = classify_response(message, model, builder.signs, max_retry_after_s=limit_s)
        match outcome.kind:
            case OutcomeKind.TRANSIENT:
                due = self._agent.compactor.is_due_after(self._session, message)
                return InternalEvent(
                    "llm_transient", self.number, threshold_due=due, retry_after_s=outcome.retry_after_s
                )
            case OutcomeKind.OVERFLOW | OutcomeKind.LENGTH_OVERFLOW:
                return InternalEvent("llm_overflow", self.number)
            case OutcomeKind.FATAL:
                return InternalEvent("llm_fatal", self.number, text=message.get("errorMessage", ""))
            case OutcomeKind.NOTHING | OutcomeKind.SILENT_OVERFLOW:
                return self._answered(message, has_overflowed=outcome.kind is OutcomeKind.SILENT_OVERFLOW)

    def _answered(self, message: AssistantMessage, *, has_overflowed: bool) -> InternalEvent:
        has_calls = any(block["type"] == "toolCall" for block in message["content"])
        if has_calls:
            return InternalEvent("llm_length" if message["stopReason"] == "length" else "llm_tool_calls", self.number)
        # DEVIATION D-25: nothing was refused, so nothing is sent again.
        due = has_overflowed or self._agent.compactor.is_due_after(self._session, message)
        return InternalEvent("llm_stop", self.number, threshold_due=due)

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
            client_files=self._agent.files_of_call(call_id),
        )
