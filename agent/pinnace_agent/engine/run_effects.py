"""Performs the effects that write a run: its brackets, the messages that are delivered, the job's next step.

Holds the recorder of the open run and its job. Extensions add messages where a run begins, between its turns and after
it. The statechart decides when.
"""

import logging
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.core.ports.emitter import extension_error
from pinnace_agent.core.user_warnings import Notice
from pinnace_agent.engine.limits import LimitWatch
from pinnace_agent.engine.run_job import Next, RunJob
from pinnace_agent.engine.run_recorder import RunRecorder
from pinnace_agent.engine.status_records import unknown_stop_reason_warning, window_warning
from pinnace_spec.records.messages import CustomMessage, Message, Model
from pinnace_statechart import effects as fx
from pinnace_statechart.queues import Item
from pinnace_statechart.triggers import InternalEvent

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.approval.gate import ToolApproval
    from pinnace_agent.config.credentials.credentials import Credentials
    from pinnace_agent.core.ports.emitter import Emitter
    from pinnace_agent.core.ports.runs import RunHooks
    from pinnace_agent.engine.cache_warmer import CacheWarmer
    from pinnace_agent.engine.compaction_job import Compactor
    from pinnace_agent.engine.ports import RunOwner
    from pinnace_agent.engine.profile import AgentProfile
    from pinnace_agent.llm.request import LlmRequest
    from pinnace_agent.session.conversation import Session
    from pinnace_agent.tools.operations import ClientFiles

_log = logging.getLogger("pinnace.run")


# The servers of other APIs have no list of models at a known place.
_LISTING_APIS: Final = frozenset({"openai-completions", "openai-responses"})


RUN_EFFECTS: Final = (
    fx.AgentStart,
    fx.TurnStart,
    fx.Deliver,
    fx.CallModel,
    fx.CallTools,
    fx.EndMessage,
    fx.FailCalls,
    fx.EndTools,
    fx.TurnEnd,
)
"""The effects within a run: when one fails, the run ends with an error."""


class RunEffects:
    """The records of the open run, or of the last one."""

    def __init__(self, agent: "RunOwner", limits: LimitWatch) -> None:
        """Begin without a run."""
        self.log = RunRecorder(agent.session, agent.emitter)
        self.hooks: RunHooks | None = None
        """Of the open run, or of the last one; None: no extension is loaded."""
        self._agent = agent
        self._limits = limits
        self._warnings: set[str] = set()  # that were reported
        self._warmer: CacheWarmer | None = None  # not loaded before a request whose cache is to be kept
        self._compared: set[str] = set()  # models whose servers were asked for their windows
        self.run = RunJob(0, self.log, None, self)
        """The job of the open run, or of the last one; number 0: none has begun."""

    # A `RunAgent`.

    @property
    def session(self) -> "Session":
        """The current session."""
        return self._agent.session

    @property
    def profile(self) -> "AgentProfile":
        """The configuration of the process."""
        return self._agent.profile

    @property
    def emitter(self) -> "Emitter":
        """Where records are written."""
        return self._agent.emitter

    @property
    def compactor(self) -> "Compactor":
        """Decides whether a compaction is due."""
        return self._agent.compactor

    @property
    def max_retry_after_s(self) -> float:
        """The longest wait that a server may ask for."""
        return self._agent.profile.max_retry_after_s or self._agent.chart.state.retry.max_delay_s

    @property
    def approval(self) -> "ToolApproval":
        """Which calls need the user's approval."""
        return self._agent.approval

    @property
    def tool_refusal(self) -> str | None:
        """Why no tool may run now; None: tools run."""
        return self._agent.toolbox.refusal

    def files_of_call(self, call_id: str) -> "ClientFiles | None":
        """Return the files that the client serves to a call; None: it has never offered any."""
        return self._agent.files_of_call(call_id)

    def report(self, event: InternalEvent) -> None:
        """Take what the run's job reports: an answer, a failure, the end of its calls."""
        if event.name != "tools_done" and self.log.builder is not None:
            self._limits.spend(self.log.builder.message["usage"])
        self._limits.before(event)
        self._agent.submit(event)

    def system_prompt(self) -> str:
        """Return the system prompt of the next request."""
        return self._agent.system_prompt()

    # The effects.

    def new_job(self, number: int) -> RunJob:
        """Return the job of the run that has begun."""
        self.run = RunJob(number, self.log, self.hooks, self)
        return self.run

    def fail(self, problem: str) -> None:
        """End the open run with an error: a record could not be written."""
        if not self._agent.chart.has_open_run:
            return
        self.log.defect = self.log.defect or problem
        if self.run.log is self.log:
            self.run.stop()

    def end_after_defect(self, problem: str) -> None:
        """Close the open run with an error; whatever its job still does is discarded."""
        if not self.log.is_open:
            return
        self.log.defect = self.log.defect or problem
        self.log.close(self.log.builder or self.run.new_builder(), problem)
        self.run.abandon()

    def begin(self) -> None:
        """Write `agent_start`, with a recorder of its own."""
        self._agent.session.run_begins()
        session, emitter, extensions = self._agent.session, self._agent.emitter, self._agent.extensions
        instance = None if extensions is None else extensions.instance
        if instance is None:
            self.log, self.hooks = RunRecorder(session, emitter), None
        else:
            run = instance.new_run(session, emitter)
            self.log = RunRecorder(session, emitter, run.observer)
            self.hooks = run.hooks(self.log)
        self.log.start()
        self._limits.run_begins()

    def begin_turn(self) -> None:
        """Write `turn_start`, and the messages of extensions between turns."""
        self.log.start_turn()
        self._append_rest(self.log)

    def continue_with(self, step: Next) -> None:
        """Let the run's job do this next."""
        self.run.next = step

    def end(self, *, will_retry: bool) -> None:
        """Write `agent_end`, and the messages of extensions after a run."""
        self.log.end(will_retry=will_retry)
        self._append_rest(None)

    def close(self, error: str | None) -> None:
        """Close every open bracket: the run was cancelled, or a defect has ended it."""
        self.log.close(self.run.new_builder(), error)
        self._append_rest(None)

    def attempts(self) -> tuple[int, int]:
        """Return which attempt of its request a run makes, and how many there may be."""
        state = self._agent.chart.state
        return state.attempt + 1, 1 + (state.retry.max_attempts if state.retry.enabled else 0)

    def warn_of_window(self, model: Model, tokens: int) -> None:
        """Report once that a model's window is set larger than its server says."""
        if (warning := window_warning(model, tokens)) not in self._warnings:
            self._warnings.add(warning)
            self._agent.profile.warnings.keep(Notice("models", warning, source="models.json"))
            self._agent.emitter.emit(extension_error("models.json", "context_window", warning))

    def warn_of_stop_reason(self, model: Model, reason: str) -> None:
        """Report once a model that an answer counts as a success although its stop reason is not known."""
        name = f"{model['provider']}/{model['id']}"
        if name not in self._warnings:
            self._warnings.add(name)
            self._agent.profile.warnings.add(Notice("models", unknown_stop_reason_warning(name, reason), source=name))

    def request_sent(self, request: "LlmRequest", messages: "tuple[Message, ...]") -> None:
        """Keep the provider's cache of a request alive, if the user's settings want it. Never waits."""
        if self._agent.profile.cache_warming == "off":
            return
        if self._warmer is None:
            from pinnace_agent.engine.cache_warmer import CacheWarmer

            self._warmer = CacheWarmer(self._agent, self._limits.spend)
        self._warmer.sent(request, self._agent.session, messages)

    def settled(self) -> None:
        """The agent rests."""
        if self._warmer is not None:
            self._warmer.settled()

    def session_replaced(self) -> None:
        """The conversation, or what extensions make of it, may be another one."""
        if self._warmer is not None:
            self._warmer.stop()

    def compare_window(self, model: Model, credentials: "Credentials") -> None:
        """Ask the model's server in the background how large its context window is, once a model. Never waits."""
        name = f"{model['provider']}/{model['id']}"
        profile = self._agent.profile
        if name in self._compared or not profile.asks_servers:
            return
        self._compared.add(name)
        if not profile.registry.has_own_server(model):
            return

        async def work() -> None:
            from pinnace_agent.llm.transport.reported_window import reported_window

            base_url, model_id = model["baseUrl"], model["id"]
            window = await reported_window(base_url, model_id, credentials.api_key, credentials.headers)
            if window is not None and window < model["contextWindow"]:
                self.warn_of_window(model, window)

        if model["api"] in _LISTING_APIS:
            self._agent.jobs.start(f"window:{name}", work, lambda _cancelled, _failure: None)

    def deliver(self, item: Item, *, is_appended: bool) -> None:
        """Write a message that enters the conversation, and after a prompt the messages that extensions add."""
        if item.custom is not None:
            self.log.add(cast("CustomMessage", item.custom))  # made where it was put into the queue
        elif not is_appended:
            self.log.add_user(item.text, item.blocks, item.message_id)
        else:
            prompt, entry_id = self._agent.sessions.take_prompt()
            self.log.record_user(prompt, entry_id, item.message_id)
            if (extensions := self._agent.extensions) is not None:
                for message in extensions.prompt_hooks.take_opening():
                    self.log.add(message)

    def _append_rest(self, log: RunRecorder | None) -> None:
        if (extensions := self._agent.extensions) is not None:
            extensions.messages.append_rest(log)
