"""The twenty interleavings that broke an earlier draft of the rules, each with what must happen instead.

Here on the pure chart, where every outcome can be had; those that this release can reach are played over real pipes as
well.
"""

from collections.abc import Iterable

from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import Command, InternalEvent


class Play:
    """A chart with its records as short words, and numbers handed out as commands come."""

    def __init__(self) -> None:
        self.chart = Chart()
        self.words: list[str] = []
        self.refs: dict[int, str] = {}

    def send(self, name: str, text: str = "", **fields: object) -> None:
        """Send a command; `text` names it in the trace as well."""
        ref = len(self.refs) + 1
        self.refs[ref] = text or name
        self._note(self.chart.step(Command(name, ref, text, **fields)))  # type: ignore[arg-type]
        self._save()

    def report(self, *names: str, **fields: object) -> None:
        """Let the living job report, several times if it goes on."""
        for name in names:
            job = self.chart.state.confirming_job if name.startswith("ask_") else self.chart.state.job
            self._note(self.chart.step(InternalEvent(name, job, **fields)))  # type: ignore[arg-type]
            self._save()

    def happen(self, name: str, **fields: object) -> None:
        """Let something happen that is no job's report."""
        self._note(self.chart.step(InternalEvent(name, **fields)))  # type: ignore[arg-type]

    def _save(self) -> None:
        """Save what is to be queued: a disk that takes no time."""
        while self.chart.state.saving is not None:
            self._note(self.chart.step(InternalEvent("save_ok", self.chart.state.saving_job)))

    def take(self) -> list[str]:
        """Return and forget the trace so far."""
        words, self.words = self.words, []
        return words

    def _note(self, effects: Iterable[fx.Effect]) -> None:
        for effect in effects:
            match effect:
                case fx.Accept():
                    cancelled = " cancelled" if effect.cancelled else ""
                    self.words.append(f"ok {self.refs[effect.ref]}{cancelled}")
                case fx.Answer() | fx.Perform() | fx.AcceptCompact() | fx.AnswerNavigation() | fx.AnswerShell():
                    self.words.append(f"ok {self.refs[effect.ref]}")
                case fx.Refuse():
                    self.words.append(f"error {self.refs[effect.ref]} {effect.reason}")
                case fx.Deliver():
                    self.words.append(f"user {effect.item.text}")
                case fx.AgentStart():
                    self.words.append("agent_start")
                case fx.AgentEnd() | fx.CloseRun():
                    self.words.append("agent_end")
                case fx.AgentSettled():
                    self.words.append("settled")
                case fx.CompactionStart():
                    self.words.append("compaction_start")
                case fx.CompactionEnd():
                    self.words.append(f"compaction_end {effect.outcome}")
                case fx.RetryStart():
                    self.words.append("retry_start")
                case fx.RetryEnd():
                    self.words.append("retry_end")
                case fx.Close():
                    self.words.append("close")
                case _:
                    pass


def streaming() -> Play:
    """Return a play in the middle of an answer to P."""
    play = Play()
    play.send("prompt", "P")
    play.report("preflight_ok", "synced")
    play.take()
    return play


def test_01_a_steer_after_an_abort_is_new_work() -> None:
    """C-1, C-7: what is accepted after the abort runs after its response; it is not parked by it."""
    play = streaming()
    play.send("abort")
    play.send("steer", "S")
    play.report("job_ended")

    assert ["ok S", "agent_end", "ok abort", "agent_start", "user S"] == play.take()


def test_02_a_compaction_does_not_release_what_an_abort_holds() -> None:
    """C-1, C-2: the end of a compaction starts no run that nobody asked for."""
    play = streaming()
    play.send("steer", "S")
    play.send("abort")
    play.report("job_ended")
    play.send("compact")
    play.take()
    play.report("compaction_ok")

    assert ["compaction_end ok", "ok compact"] == play.take()
    assert play.chart.state.steering.texts() == ("S",)


def test_03_a_refused_prompt_releases_nothing() -> None:
    """C-1: acceptance releases, not arrival."""
    play = streaming()
    play.send("steer", "S")
    play.send("abort")
    play.report("job_ended")
    play.take()
    play.send("prompt", "Q")
    play.report("preflight_refused")

    assert ["error Q job", "settled"] == play.take()
    assert play.chart.run == "idle"


def test_04_abort_continue_answers_before_the_run_and_settles_after_it() -> None:
    """C-8: no settled between an abort's response and the run that it lets start."""
    play = streaming()
    play.send("steer", "S")
    play.send("abort", queue="continue")
    play.report("job_ended")
    play.report("llm_stop")

    assert [
        "ok S",
        "agent_end",
        "ok abort",
        "agent_start",
        "user S",
        "agent_end",
        "settled",
    ] == play.take()


def test_05_a_compact_during_a_run_settles_only_if_nothing_is_owed() -> None:
    """C-8: with something queued the period goes on through the compaction and settles once."""
    play = streaming()
    play.send("steer", "S")
    play.send("compact")
    play.report("job_ended", "compaction_ok", "llm_stop")

    assert [
        "ok S",
        "agent_end",
        "compaction_start",
        "compaction_end ok",
        "ok compact",
        "agent_start",
        "user S",
        "agent_end",
        "settled",
    ] == play.take()


def test_06_a_prompt_that_waits_behind_a_session_command_does_not_run_after_an_abort() -> None:
    """C-9: an abort answers everything that waits and would work on RUN."""
    play = Play()
    play.send("new_session")
    play.send("prompt", "P")
    play.send("abort")

    assert ["ok new_session cancelled", "error P aborted", "ok abort"] == play.take()
    assert play.chart.run == "idle"


def test_07_texts_sent_behind_a_session_command_belong_to_the_new_session() -> None:
    """C-10, C-9: while extensions are asked the run goes on, and what comes later waits."""
    play = streaming()
    play.send("new_session")
    play.send("steer", "S")
    play.send("get_state")
    play.report("ask_yes", "job_ended", "switch_ok")

    assert [
        "ok get_state",
        "agent_end",
        "settled",
        "ok new_session",
        "ok S",
        "agent_start",
        "user S",
    ] == play.take()


def test_08_what_follows_a_waiting_compact_waits_too() -> None:
    """C-9: the prompt behind a pending compact sees the compaction, not the abort before it."""
    play = streaming()
    play.send("abort")
    play.send("compact")
    play.send("prompt", "Q")
    play.report("job_ended")

    assert ["agent_end", "settled", "ok abort", "compaction_start", "error Q compacting"] == play.take()


def test_09_reads_are_answered_while_a_session_command_is_asked_about() -> None:
    """C-11: a dialog that is open for minutes blinds nobody."""
    play = Play()
    play.send("new_session")
    play.send("get_state")

    assert ["ok get_state"] == play.take()


def test_10_abort_clear_then_steer_then_abort_hold_parks_the_steer() -> None:
    """C-6, C-7: each abort acts at its admission, and the last one's option counts."""
    play = streaming()
    play.send("abort", "A1", queue="clear")
    play.send("steer", "S")
    play.send("abort", "A2")
    play.report("job_ended")

    assert ["ok S", "agent_end", "settled", "ok A1", "ok A2"] == play.take()
    assert play.chart.state.steering.texts() == ("S",)


def test_11_a_compaction_that_finished_before_its_cancellation_is_reported_as_done() -> None:
    """C-13: what was committed is told as it is."""
    play = Play()
    play.send("compact")
    play.send("abort")
    play.report("compaction_ok")

    assert ["compaction_start", "compaction_end ok", "ok compact", "ok abort"] == play.take()


def test_11_a_preflight_that_passed_before_its_cancellation_is_refused() -> None:
    """C-13: the prompt's text was not delivered, so it is handed back."""
    play = Play()
    play.send("prompt", "P")
    play.send("abort")
    play.report("preflight_ok", "synced")

    assert ["error P aborted", "settled", "ok abort"] == play.take()


def test_12_a_compact_right_behind_a_prompt_ends_the_preflight_first() -> None:
    """C-12: the answer does not depend on how far a preflight has come."""
    play = Play()
    play.send("prompt", "P")
    play.send("compact")
    play.report("job_ended")

    assert ["error P aborted", "settled", "compaction_start"] == play.take()


def test_13_a_preflight_compacts_once() -> None:
    """C-14: still over the threshold after compacting, the prompt is sent."""
    play = Play()
    play.send("prompt", "P")
    play.report("threshold_due", "compaction_ok", "threshold_due", "preflight_ok", "synced")

    assert ["compaction_start", "compaction_end ok", "ok P", "agent_start", "user P"] == play.take()


def test_14_an_overflow_during_a_retry_closes_the_retry_and_is_tried_once() -> None:
    """C-14: auto_retry_end comes before compaction_start; a second overflow ends the run, and says so."""
    play = streaming()
    play.report("llm_transient", "delay_over", "llm_overflow", "compaction_ok", "llm_overflow")

    assert [
        "agent_end",
        "retry_start",
        "agent_start",
        "agent_end",
        "retry_end",
        "compaction_start",
        "compaction_end ok",
        "agent_start",
        "agent_end",
        "compaction_start",
        "compaction_end failed",
        "settled",
    ] == play.take()


def test_15_a_steer_accepted_during_a_refused_preflight_still_runs() -> None:
    """C-3: its run has no preflight that could refuse it for ever."""
    play = Play()
    play.send("prompt", "P")
    play.send("steer", "S")
    play.report("preflight_refused")

    assert ["ok S", "error P job", "agent_start", "user S"] == play.take()


def test_16_a_steer_while_idle_does_not_overtake_a_held_one() -> None:
    """C-4: first in, first out within a queue."""
    play = streaming()
    play.send("steer", "H")
    play.send("abort")
    play.report("job_ended")
    play.take()
    play.send("steer", "S")
    play.report("llm_stop")

    assert ["ok S", "agent_start", "user H", "user S"] == play.take()


def test_17_a_switch_that_fails_keeps_the_queue() -> None:
    """C-10: all or nothing, and the continuation starts as if nothing had been asked."""
    play = streaming()
    play.send("steer", "S")
    play.send("new_session")
    play.report("ask_yes", "job_ended", "switch_failed")

    assert ["ok S", "agent_end", "error new_session job", "agent_start", "user S"] == play.take()


def test_18_abort_bash_withdraws_a_bash_that_waits() -> None:
    """C-9: nothing starts after the response that said it was ended."""
    play = Play()
    play.send("new_session")
    play.send("bash")
    play.send("abort_bash")
    play.report("ask_no")

    assert ["ok bash", "ok abort_bash", "ok new_session cancelled"] == play.take()
    assert play.chart.configuration["shell"] == "quiet"


def test_19_a_delay_that_elapsed_as_it_was_cancelled_starts_nothing() -> None:
    """The timer's number is gone with it; its late report is dropped."""
    play = streaming()
    play.report("llm_transient")
    late = InternalEvent("delay_over", play.chart.state.job)
    play.send("abort_retry")
    play.take()

    assert play.chart.step(late) == ()
    assert play.chart.run == "idle"


def test_20_a_drain_leaves_what_is_held_and_closes() -> None:
    """C-17: held texts stay held, and the process still ends."""
    play = streaming()
    play.send("steer", "S")
    play.send("abort")
    play.report("job_ended")
    play.take()
    play.happen("stop_drain")

    assert ["close"] == play.take()


def test_20_a_drain_finishes_what_is_queued() -> None:
    """C-17: nothing is cancelled; what is owed runs first."""
    play = streaming()
    play.send("follow_up", "F")
    play.happen("stop_drain")
    play.report("llm_stop", "llm_stop")

    assert ["ok F", "user F", "agent_end", "settled", "close"] == play.take()


def test_a_text_behind_held_ones_is_answered_as_queued() -> None:
    """R-QUE-07, C-4: only the text that is delivered at once has started a run."""
    play = streaming()
    play.send("steer", "A")
    play.send("abort")
    play.report("job_ended")
    play.take()
    answers: list[fx.Accept] = []
    for number, text in ((90, "B"), (91, "C")):
        step = play.chart.step(Command("steer", number, text, saved=True))
        answers += [effect for effect in step if isinstance(effect, fx.Accept)]

    assert [answer.disposition for answer in answers] == ["queued", "queued"]
    alone = Chart().step(Command("follow_up", 1, "D", saved=True))
    assert [effect.disposition for effect in alone if isinstance(effect, fx.Accept)] == ["started"]
