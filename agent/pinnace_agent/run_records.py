"""Performs the effects that write a run: its brackets, the texts that are delivered, what is called next.

Holds the log of the open run and its job. Extensions add messages where a run begins, between its turns and behind it.
Must not know when any of it happens: that is the chart's.
"""

import logging
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.limits import LimitWatch
from pinnace_agent.notices import extension_error, window_warning
from pinnace_agent.run import RunJob
from pinnace_agent.run_log import RunLog, new_log
from pinnace_spec import errors
from pinnace_spec.messages import CustomMessage, Model
from pinnace_statechart import effects as fx
from pinnace_statechart.queues import Item

if TYPE_CHECKING:  # it owns this
    from pinnace_agent.host import Host
    from pinnace_agent.resources.credentials import Credentials

_log = logging.getLogger("pinnace.run")


# The servers of others have no list of models at a place that is known.
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
"""Those within a run: when one fails, the run must not go on as if nothing had been."""


class RunRecords:
    """The records of the open run, or of the last one."""

    def __init__(self, host: "Host", limits: LimitWatch) -> None:
        """Begin without a run."""
        self.log = RunLog(host.session, host.emitter)
        self.run: RunJob | None = None
        self._host = host
        self._limits = limits
        self._warnings: set[str] = set()  # that have been reported
        self._compared: set[str] = set()  # models whose servers were asked for their windows

    def fail(self, problem: str) -> None:
        """End the open run with an error: a defect has spoilt what it was about to write."""
        if not self._host.chart.state.run_open:
            return
        self.log.defect = self.log.defect or problem
        if self.run is not None and self.run.log is self.log:
            self.run.stop()

    def perform(self, effect: fx.Effect) -> None:
        """Perform an effect that is about the run.

        Raises:
            InternalError: It is not.
        """
        log = self.log
        match effect:
            case fx.AgentStart():
                self._host.session.run_begins()
                self.log = new_log(self._host.session, self._host.emitter, self._host.extensions)
                self.log.start()
                self._limits.run_begins()
            case fx.TurnStart():
                log.start_turn()
                self._say_rest(log)
            case fx.Deliver():
                self._deliver(effect.item, is_appended=effect.is_appended)
            case fx.CallModel() | fx.CallTools():
                assert self.run is not None
                self.run.next = "model" if isinstance(effect, fx.CallModel) else "tools"
            case fx.EndMessage():
                log.end_message()
            case fx.FailCalls():
                log.fail_cut_calls()
            case fx.EndTools():
                log.append_results()
            case fx.TurnEnd():
                log.end_turn()
            case fx.AgentEnd():
                log.end(will_retry=effect.will_retry)
                self._say_rest(None)
            case fx.CloseRun():
                assert self.run is not None
                log.close(self.run.new_builder(), effect.error)
                self._say_rest(None)
            case _:
                raise errors.InternalError(f"no body for {effect}")

    def attempts(self) -> tuple[int, int]:
        """Return which attempt of its request a run makes, and how many there may be."""
        state = self._host.chart.state
        return state.attempt + 1, 1 + (state.retry.max_attempts if state.retry.enabled else 0)

    def warn_of_window(self, model: Model, tokens: int) -> None:
        """Report once that a model's window is set larger than its server says."""
        if (warning := window_warning(model, tokens)) not in self._warnings:
            self._warnings.add(warning)
            _log.warning("%s", warning)
            self._host.emitter.emit(extension_error("models.json", "context_window", warning))

    def compare_window(self, model: Model, credentials: "Credentials") -> None:
        """Ask the model's server in the background how large its context window is, once a model. Never waits."""
        name = f"{model['provider']}/{model['id']}"
        profile = self._host.profile
        if name in self._compared or not profile.asks_servers:
            return
        self._compared.add(name)
        if not profile.registry.has_own_server(model):
            return

        async def work() -> None:
            from pinnace_agent.llm.reported_window import reported_window

            base_url, model_id = model["baseUrl"], model["id"]
            window = await reported_window(base_url, model_id, credentials.api_key, credentials.headers)
            if window is not None and window < model["contextWindow"]:
                self.warn_of_window(model, window)

        if model["api"] in _LISTING_APIS:
            self._host.jobs.start(f"window:{name}", work, lambda _cancelled, _failure: None)

    def _deliver(self, item: Item, *, is_appended: bool) -> None:
        if item.custom is not None:
            self.log.add(cast("CustomMessage", item.custom))  # made by whoever has put it into the queue
        elif not is_appended:
            self.log.add_user(item.text, item.images)
        else:
            self.log.tell_user(self._host.sessions.take_own())
            if (seat := self._host.seat) is not None:
                for message in seat.desk.take_opening():
                    self.log.add(message)

    def _say_rest(self, log: RunLog | None) -> None:
        if self._host.seat is not None:
            self._host.seat.speech.say_rest(log)
