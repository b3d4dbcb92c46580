"""An abort from inside, on the pure chart: answered to nobody, told when the run has settled."""

from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import NO_REPLY, Command, InternalEvent, Trigger


class Run:
    """A chart with a run in `llm`, and what it asks for."""

    def __init__(self) -> None:
        self.chart = Chart()
        self.effects: list[fx.Effect] = []
        self.take(Command("prompt", 1))
        for name in ("preflight_ok", "synced"):
            self.report(name)

    def take(self, *triggers: Trigger) -> None:
        for trigger in triggers:
            self.effects += self.chart.step(trigger)
            if self.chart.state.saving is not None:  # a disk that takes no time
                self.effects += self.chart.step(InternalEvent("save_ok", self.chart.state.saving_job))

    def report(self, name: str) -> None:
        self.take(InternalEvent(name, self.chart.state.job))

    def settled(self) -> list[fx.AgentSettled]:
        return [effect for effect in self.effects if isinstance(effect, fx.AgentSettled)]

    def accepted(self) -> list[int]:
        return [effect.ref for effect in self.effects if isinstance(effect, fx.Accept)]


LIMIT = Command("abort", NO_REPLY, limit="maxTurns")


def test_it_is_reported_once_and_answered_to_no_one() -> None:
    """R-LIM-01."""
    run = Run()
    run.take(LIMIT)
    run.report("job_ended")

    assert [fx.AgentSettled(aborted=True, limit="maxTurns")] == run.settled()
    assert [1] == run.accepted()


def test_what_is_queued_is_held() -> None:
    """R-LIM-01, C-1."""
    run = Run()
    run.take(Command("steer", 2, "later"), LIMIT)
    run.report("job_ended")

    assert ("idle", True, ("later",)) == (run.chart.run, run.chart.state.queue_paused, run.chart.state.steering.texts())


def test_an_abort_that_joins_it_is_answered_and_changes_no_reason() -> None:
    """C-7."""
    run = Run()
    run.take(LIMIT, Command("abort", 2))
    run.report("job_ended")

    assert [fx.AgentSettled(aborted=True, limit="maxTurns")] == run.settled()
    assert [1, 2] == run.accepted()


def test_a_run_that_follows_in_the_same_period_has_its_own_end() -> None:
    """C-7, C-8: a text that was accepted after the limit is new work."""
    run = Run()
    run.take(LIMIT, Command("steer", 2, "new"))
    run.report("job_ended")
    run.report("llm_stop")

    assert [fx.AgentSettled(aborted=False)] == run.settled()
