"""The host: performs what the chart asks for, in order, with no checkpoint in between.

A trigger goes in, the chart answers with effects, and all of them are done before the next trigger is looked at. So the
order of records is the order of triggers: what a client sees is what the chart decided. A trigger that an effect causes
at once waits until the effects of its cause are done.

Owns the log of the open run and the jobs; the session in force is the keeper's. Must not know lines, command ids or
stdout: it emits records and answers commands by number. Rule R-ORD-01.
"""

import logging
from collections import deque
from functools import partial
from typing import Protocol, assert_never

import trio

from pinnace_agent.compactor import Compactor
from pinnace_agent.emitter import Emitter, Responder
from pinnace_agent.jobs import Jobs, Work
from pinnace_agent.limits import LimitWatch
from pinnace_agent.preflight import check_prompt
from pinnace_agent.profile import AgentProfile
from pinnace_agent.run import RunJob
from pinnace_agent.run_log import RunLog
from pinnace_agent.session import Session
from pinnace_agent.session.library import Library
from pinnace_agent.session.replacement import SessionRequest
from pinnace_agent.session_keeper import SessionKeeper
from pinnace_agent.shells import Shells
from pinnace_spec import errors
from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import Happening, Trigger

_log = logging.getLogger("pinnace.host")


class CommandBook(Protocol):
    """What the host may ask about a command that it knows by number."""

    def start_shell(self, ref: int) -> None:
        """Start the shell command of a `bash`."""
        ...

    def compact_instructions(self, ref: int) -> str | None:
        """Return what a `compact` asks the summary to look at."""
        ...

    def session_request(self, ref: int) -> SessionRequest:
        """Say what a session command asks for."""
        ...


class Host:
    """One agent: the chart, its sessions and the jobs behind busy states."""

    def __init__(
        self,
        chart: Chart,
        session: Session,
        library: Library,
        profile: AgentProfile,
        emitter: Emitter,
        responder: Responder,
        jobs: Jobs,
    ) -> None:
        """Start nothing; `book` is to be set before the first trigger."""
        self.chart = chart
        self.profile = profile
        self.jobs = jobs
        self.shells = Shells(jobs, profile, emitter)
        self.book: CommandBook | None = None
        self.sessions = SessionKeeper(session, library, profile.registry, emitter, jobs, self.submit, self._start)
        self.sessions.on_conversation = self._read_folder
        self._emitter = emitter
        self._responder = responder
        self._inbox: deque[Trigger] = deque()
        self._busy = False
        self.compactor = Compactor(profile, emitter, self.submit, self._start)
        self._limits = LimitWatch(profile.limits, chart, jobs, self.submit)
        self._log = RunLog(session, emitter)
        self._run: RunJob | None = None

    @property
    def session(self) -> Session:
        """The session in force."""
        return self.sessions.session

    def expand(self, text: str) -> str:
        """Return what a user's text stands for, and tell if a file that it names can't be read."""
        expansion = self.profile.resources.expand(text, self.session.cwd)
        if (problem := expansion.problem) is not None:
            record = {"extensionPath": problem.path, "event": problem.event, "error": problem.text}
            self._emitter.emit({"type": "extension_error", **record})
        return expansion.text

    def _read_folder(self, cwd: str) -> None:
        for notice in self.profile.resources.renew(cwd):
            _log.warning("%s", notice)

    def submit(self, trigger: Trigger) -> None:
        """Let the chart take a trigger and perform what it asks for. Never waits.

        From within an effect the trigger is taken next, after the remaining effects.
        """
        self._inbox.append(trigger)
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                for effect in self.chart.step(self._inbox.popleft()):
                    self._try(effect)
                self._limits.look()
        finally:
            self._busy = False

    def _try(self, effect: fx.Effect) -> None:
        try:
            self._perform(effect)
        except Exception:  # the boundary: the chart has moved on, so the effects that follow must still be done
            _log.exception("effect %s failed", effect)

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Accept() | fx.Refuse() | fx.Answer() | fx.Perform() | fx.ResolveDialog() | fx.AnswerShell():
                self._respond(effect)
            case fx.StartJob() | fx.CancelJob() | fx.CancelAsk() | fx.StartTimer() | fx.CancelTimer():
                self._work(effect)
            case fx.CallModel() | fx.CallTools():
                assert self._run is not None
                self._run.next = "model" if isinstance(effect, fx.CallModel) else "tools"
            case fx.StartShell() | fx.KillShells() | fx.RecordShell() | fx.KeepShell():
                self._shell(effect)
            case fx.RetryStart() | fx.RetryEnd():
                self._retry(effect)
            case fx.CompactionStart() | fx.CompactionEnd() | fx.AcceptCompact():
                self._compact(effect)
            case fx.QueueUpdate():
                self._emitter.emit({"type": "queue_update", "steering": effect.steering, "followUp": effect.follow_up})
            case fx.AgentSettled():
                self._settle(effect)
            case fx.AppendOwn() | fx.DropOwn() | fx.ReturnQueue() | fx.LeaveFailed():
                self._keep(effect)
            case fx.DefaultDialogs():
                pass  # no dialogs without extensions
            case fx.Close():
                self._responder.close()
            case _:
                self._log_run(effect)

    def _settle(self, effect: fx.AgentSettled) -> None:
        record: dict[str, object] = {"type": "agent_settled", "aborted": effect.aborted}
        if effect.limit is not None:
            record |= {"reason": "limit", "limit": effect.limit}
        self._emitter.emit(record)
        self._limits.settled()

    def _retry(self, effect: fx.RetryStart | fx.RetryEnd) -> None:
        match effect:
            case fx.RetryStart():
                record: dict[str, object] = {
                    "type": "auto_retry_start",
                    "attempt": effect.attempt,
                    "maxAttempts": effect.max_attempts,
                    "delayMs": round(effect.delay_s * 1000),
                    "errorMessage": self._log.error,
                }
            case fx.RetryEnd():
                record = {"type": "auto_retry_end", "success": effect.success, "attempt": effect.attempt}
                if not effect.success:
                    failure = self._log.error or errors.NO_ROOM_TO_ANSWER
                    record["finalError"] = errors.RETRY_CANCELLED if effect.cancelled else failure
            case _:
                assert_never(effect)
        self._emitter.emit(record)

    def _compact(self, effect: fx.CompactionStart | fx.CompactionEnd | fx.AcceptCompact) -> None:
        match effect:
            case fx.CompactionStart():
                self.compactor.begin(effect)
            case fx.CompactionEnd():
                self.compactor.end(effect, self.session)
                if effect.outcome == "ok" and self.compactor.result and "usage" in self.compactor.result:
                    self._limits.spend(self.compactor.result["usage"])
            case fx.AcceptCompact():
                assert self.compactor.result is not None
                self._responder.accept_compact(effect.ref, self.compactor.result)
            case _:
                assert_never(effect)

    def _keep(self, effect: fx.AppendOwn | fx.DropOwn | fx.ReturnQueue | fx.LeaveFailed) -> None:
        match effect:
            case fx.AppendOwn():
                self.sessions.append_own(effect.item)
            case fx.DropOwn():
                self.sessions.drop_own()
            case fx.ReturnQueue():
                self.sessions.return_queue(effect)
            case fx.LeaveFailed():
                self.session.leave_failed()
            case _:
                assert_never(effect)

    def _log_run(self, effect: fx.Effect) -> None:
        log = self._log
        match effect:
            case fx.AgentStart():
                self._log = RunLog(self.session, self._emitter)
                self._log.start()
                self._limits.run_begins()
            case fx.TurnStart():
                log.start_turn()
            case fx.Deliver(is_appended=True):
                log.tell_user(self.sessions.take_own())
            case fx.Deliver():
                log.add_user(effect.item.text, effect.item.images)
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
            case fx.CloseRun():
                assert self._run is not None
                log.close(self._run.new_builder(), effect.error)
            case _:
                raise errors.InternalError(f"no body for {effect}")

    def _respond(
        self, effect: fx.Accept | fx.Refuse | fx.Answer | fx.Perform | fx.ResolveDialog | fx.AnswerShell
    ) -> None:
        match effect:
            case fx.Accept():
                self._responder.accept(effect)
                self.sessions.answered(effect.ref)
            case fx.Refuse():
                self._responder.refuse(effect)
                self.sessions.answered(effect.ref)
            case fx.Answer():
                self._responder.answer(effect.ref)
            case fx.Perform():
                self._responder.perform(effect.ref)
            case fx.ResolveDialog():
                self._responder.resolve_dialog(effect.ref)
            case fx.AnswerShell():
                self._responder.answer_shell(effect.ref)
            case _:
                assert_never(effect)

    def _work(self, effect: fx.StartJob | fx.CancelJob | fx.CancelAsk | fx.StartTimer | fx.CancelTimer) -> None:
        match effect:
            case fx.StartJob():
                self._start_job(effect)
            case fx.StartTimer():
                self._start(effect.job, partial(self._delay, effect), "job_ended")
            case fx.CancelJob() | fx.CancelAsk() | fx.CancelTimer():
                self.jobs.cancel(_job_name(effect.job))
            case _:
                assert_never(effect)

    def _start_job(self, effect: fx.StartJob) -> None:
        match effect.kind:
            case "preflight":
                self._start(effect.job, partial(self._preflight, effect), "preflight_refused")
            case "run":
                self._run = RunJob(
                    effect.job,
                    self.session,
                    self.profile,
                    self._log,
                    self._emitter,
                    self._report_run,
                    self.compactor,
                    self.profile.max_retry_after_s or self.chart.state.retry.max_delay_s,
                )
                self._start(effect.job, self._run.work, "job_failed")
            case "sync":
                self.sessions.sync(effect.job)
            case "ask":
                assert self.book is not None
                self.sessions.ask(effect, self.book.session_request(effect.ref))
            case "switch":
                self.sessions.switch(effect)
            case "compaction":
                assert self.book is not None
                instructions = self.book.compact_instructions(effect.ref) if effect.ref else None
                self.compactor.start(effect, self.session, self.chart.state.retry, instructions)
            case _:
                assert_never(effect.kind)

    def _start(self, job: int, work: Work, failed: str) -> None:
        def ended(cancelled: bool, failure: BaseException | None) -> None:
            # A job that has reported its own end is not living any more, and the chart drops this.
            if failure is not None:
                self.submit(
                    Happening(failed, job, text=f"Internal error: {failure}", code=errors.ErrorCode.INTERNAL_ERROR)
                )
            elif cancelled:
                self.submit(Happening("job_ended", job))

        self.jobs.start(_job_name(job), work, ended)

    def _report_run(self, happening: Happening) -> None:
        """Take what the run's job reports: an answer, a failure, the end of its calls."""
        if happening.name != "tools_done" and self._log.builder is not None:
            self._limits.spend(self._log.builder.message["usage"])
        self._limits.before(happening)
        self.submit(happening)

    async def _delay(self, effect: fx.StartTimer) -> None:
        await trio.sleep(effect.delay_s)
        self.submit(Happening("delay_over", effect.job))

    async def _preflight(self, effect: fx.StartJob) -> None:
        problem = await check_prompt(self.session, self.profile)
        is_enabled = self.chart.state.auto_compaction and effect.check_threshold
        if problem is not None:
            self.submit(Happening("preflight_refused", effect.job, text=problem.text, code=problem.code))
        elif self.compactor.is_due_before(self.session, is_enabled=is_enabled):
            self.submit(Happening("threshold_due", effect.job))
        else:
            self.submit(Happening("preflight_ok", effect.job))

    def _shell(self, effect: fx.StartShell | fx.KillShells | fx.RecordShell | fx.KeepShell) -> None:
        match effect:
            case fx.StartShell():
                assert self.book is not None
                self.book.start_shell(effect.ref)
            case fx.KillShells():
                self.shells.kill_all()
            case fx.KeepShell():
                self.shells.keep_aside(effect.ref)
            case fx.RecordShell():
                self.shells.record(effect.ref)
                self.sessions.close_unused()
            case _:
                assert_never(effect)


def _job_name(job: int) -> str:
    return f"job:{job}"
