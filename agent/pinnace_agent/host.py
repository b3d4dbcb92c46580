"""The host: performs what the chart asks for, in order, with no checkpoint in between.

A trigger goes in, the chart answers with effects, and all of them are done before the next trigger is looked at. So the
order of records is the order of triggers: what a client sees is what the chart decided. A trigger that an effect causes
at once waits until the effects of its cause are done.

Owns the log of the open run and the jobs; the session in force is the keeper's. Must not know lines, command ids or
stdout: it emits records and answers commands by number. Rule R-ORD-01.
"""

import logging
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never, cast

import trio

from pinnace_agent.choices import Choices
from pinnace_agent.compactor import Compactor
from pinnace_agent.emitter import CommandBook, Emitter, Responder
from pinnace_agent.idleness import Idleness
from pinnace_agent.inner_requests import InnerRequests
from pinnace_agent.jobs import ABORT_GRACE_S, Jobs, Work
from pinnace_agent.limits import LimitWatch
from pinnace_agent.notices import agent_settled, extension_error, retry_end, retry_start
from pinnace_agent.preflight import preflight
from pinnace_agent.profile import AgentProfile
from pinnace_agent.run import RunJob
from pinnace_agent.run_records import RUN_EFFECTS, RunRecords
from pinnace_agent.session import Session
from pinnace_agent.session.library import Library
from pinnace_agent.session_keeper import SessionKeeper
from pinnace_agent.shells import Shells
from pinnace_agent.toolbox import Toolbox, all_active
from pinnace_spec import errors
from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import Happening, Trigger

if TYPE_CHECKING:  # loaded with the first extension
    from pinnace_agent.extension_host.seat import ExtensionSeat
    from pinnace_agent.extensions.runner import Runner
    from pinnace_spec.messages import AssistantMessage

_log = logging.getLogger("pinnace.host")

_NEW_INSTANCE = frozenset({"instance_ready", "switch_ok"})


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
        self.toolbox = profile.tools if isinstance(profile.tools, Toolbox) else Toolbox(profile.tools, all_active)
        profile = self.profile = replace(profile, tools=self.toolbox)
        self.jobs = jobs
        self.extensions: Runner | None = None
        """Those of the session in force; None: none is loaded."""
        self.seat: ExtensionSeat | None = None
        """Where they sit; None: there can be none."""
        self.requests = InnerRequests()
        self.idleness = Idleness(chart, jobs)
        self.emitter = emitter
        self.shells = Shells(jobs, profile, emitter, lambda: self.extensions, lambda: self.toolbox.refusal)
        self.book: CommandBook | None = None
        self.sessions = SessionKeeper(session, library, profile.registry, emitter, jobs, self.submit, self._start)
        self.sessions.on_conversation = self._read_folder
        self.choices = Choices(self.sessions, emitter, lambda: self.extensions, profile.registry.price_refusal)
        self._responder = responder
        self._inbox: deque[Trigger] = deque()
        self._busy = False
        self.compactor = Compactor(profile, emitter, self.submit, self._start, lambda: self.extensions)
        self._limits = LimitWatch(profile.limits, chart, jobs, self.submit)
        self._records = RunRecords(self, self._limits)

    @property
    def session(self) -> Session:
        """The session in force."""
        return self.sessions.session

    @property
    def is_closing(self) -> bool:
        """Whether the process is ending, so that no new work may begin."""
        return self.chart.configuration["io"] in {"closing", "closed"}

    @property
    def is_starting(self) -> bool:
        """Whether the extensions of the session in force have not begun yet, so that nobody knows what a text means."""
        return self.seat is not None and self.chart.run == "switching"

    @property
    def run_scope(self) -> trio.CancelScope | None:
        """Where the open run works; None when there is none."""
        return self.jobs.scope(_job_name(self.chart.state.job)) if self.chart.state.run_open else None

    @property
    def has_failed(self) -> bool:
        """Whether the last answer is an error."""
        message = self._records.log.message
        return message is not None and message["stopReason"] == "error"

    def system_prompt(self) -> str:
        """Return the prompt of the next request."""
        changed = None if self.seat is None else self.seat.desk.system_prompt
        return self.profile.system_prompt(self.session.cwd) if changed is None else changed

    def expand(self, text: str) -> str:
        """Return what a user's text stands for, and tell if a file that it names can't be read."""
        expansion = self.profile.resources.expand(text, self.session.cwd)
        if (problem := expansion.problem) is not None:
            self.emitter.emit(extension_error(problem.path, problem.event, problem.text))
        return expansion.text

    def _read_folder(self, cwd: str) -> None:
        for notice in self.profile.resources.renew(cwd):
            _log.warning("%s", notice)

    def submit(self, trigger: Trigger) -> None:
        """Let the chart take a trigger and perform what it asks for. Never waits.

        From within an effect the trigger is taken next, after the remaining effects.
        """
        if trigger.name in _NEW_INSTANCE:
            trigger = self._with_texts(trigger)
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
        self.idleness.look()

    def _with_texts(self, trigger: Trigger) -> Trigger:
        """Read the texts again that wait: only now it is known what calls a command, and which templates there are."""
        line = self.chart.state.line
        if self.book is None or not line or not isinstance(trigger, Happening):
            return trigger
        return trigger._replace(texts=tuple(self.book.read_again(command) for command in line if command.ref > 0))

    def _try(self, effect: fx.Effect) -> None:
        try:
            self._perform(effect)
        except Exception as error:  # the boundary: the chart has moved on, so what follows must still be done
            _log.exception("effect %s failed", effect)
            if isinstance(effect, RUN_EFFECTS):
                self._records.fail(f"{type(effect).__name__}: {error}")

    def record_failed(self, problem: str) -> None:
        """Report that a record could not be written as it was, and end the run that it belongs to, if one is open."""
        self.emitter.emit(extension_error("<runtime>", "record", problem))
        self._records.fail(problem)

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Accept() | fx.Refuse() | fx.Answer() | fx.Perform() | fx.ResolveDialog() | fx.AnswerShell():
                self._respond(effect)
            case fx.StartJob() | fx.CancelJob() | fx.CancelAsk() | fx.StartTimer() | fx.CancelTimer():
                self._work(effect)
            case fx.StartShell() | fx.KillShells() | fx.RecordShell() | fx.KeepShell():
                self._shell(effect)
            case fx.RetryStart():
                self.session.retry_begins()
                self.emitter.emit(retry_start(effect, self._records.log.failure))
            case fx.RetryEnd():
                if effect.cancelled:
                    self.session.run_ends()
                self.emitter.emit(retry_end(effect, self._records.log.error, self._records.log.failure))
            case fx.CompactionStart() | fx.CompactionEnd() | fx.AcceptCompact():
                self._compact(effect)
            case fx.QueueUpdate():
                self.emitter.emit({"type": "queue_update", "steering": effect.steering, "followUp": effect.follow_up})
            case fx.AgentSettled():
                self._settle(effect)
            case fx.AppendOwn() | fx.DropOwn() | fx.ReturnQueue() | fx.LeaveFailed():
                self._keep(effect)
            case fx.DefaultDialogs() | fx.StartCommand() | fx.CancelCommands() | fx.CutStart():
                self._extend(effect)
            case fx.Close():
                self._responder.close()
            case _:
                self._records.perform(effect)

    def _settle(self, effect: fx.AgentSettled) -> None:
        self.emitter.emit(agent_settled(effect))
        self._limits.settled()
        if self.seat is not None:
            self.seat.settled(aborted=effect.aborted)

    def _extend(self, effect: fx.DefaultDialogs | fx.StartCommand | fx.CancelCommands | fx.CutStart) -> None:
        if self.seat is None:
            return
        match effect:
            case fx.DefaultDialogs():
                self.seat.default_dialogs(for_good=effect.for_good)
            case fx.StartCommand():
                assert self.book is not None
                text = self.requests[effect.ref].text if effect.ref < 0 else self.book.command_text(effect.ref)
                self.seat.desk.start_command(effect.ref, text)
            case fx.CancelCommands():
                self.seat.desk.cancel_commands(self.chart.state.commands)
            case fx.CutStart():
                self.seat.cut_start()
            case _:
                assert_never(effect)

    def _compact(self, effect: fx.CompactionStart | fx.CompactionEnd | fx.AcceptCompact) -> None:
        match effect:
            case fx.CompactionStart():
                self.compactor.begin(effect)
            case fx.CompactionEnd():
                self.compactor.end(effect, self.session)
                if effect.reason == "overflow" and effect.outcome != "ok":
                    self.session.run_ends()  # the answer that failed is hidden already
                if effect.outcome == "ok" and self.compactor.result and "usage" in self.compactor.result:
                    self._limits.spend(self.compactor.result["usage"])
            case fx.AcceptCompact():
                assert self.compactor.result is not None
                if effect.ref < 0:
                    self.requests.accept_compact(effect.ref, self.compactor.result)
                else:
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

    def _respond(
        self, effect: fx.Accept | fx.Refuse | fx.Answer | fx.Perform | fx.ResolveDialog | fx.AnswerShell
    ) -> None:
        match effect:
            case fx.Accept():
                (self.requests if effect.ref < 0 else self._responder).accept(effect)
                self.sessions.answered(effect.ref)
            case fx.Refuse():
                (self.requests if effect.ref < 0 else self._responder).refuse(effect)
                self.sessions.answered(effect.ref)
            case fx.Answer():
                self._responder.answer(effect)
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
                self.jobs.cancel_in_time(_job_name(effect.job), partial(self._abandon, effect.job))
            case _:
                assert_never(effect)

    def _start_job(self, effect: fx.StartJob) -> None:
        match effect.kind:
            case "preflight":
                self._start(effect.job, partial(preflight, self, effect), "preflight_refused")
            case "run":
                run = self._records.run = RunJob(
                    effect.job,
                    self.session,
                    self.profile,
                    self._records.log,
                    self.emitter,
                    self._report_run,
                    self.compactor,
                    self.profile.max_retry_after_s or self.chart.state.retry.max_delay_s,
                )
                run.system_prompt = lambda _cwd: self.system_prompt()
                run.attempts = self._records.attempts
                run.tool_refusal = lambda: self.toolbox.refusal
                run.on_smaller_window = self._records.warn_of_window
                run.on_answer = self._records.compare_window
                self._start(effect.job, run.work, "job_failed")
            case "sync":
                self.sessions.sync(effect.job)
            case "ask":
                assert self.book is not None
                request = self.requests[effect.ref].session if effect.ref < 0 else self.book.session_request(effect.ref)
                assert request is not None
                self.sessions.ask(effect, request)
            case "switch":
                self.sessions.switch(effect)
            case "compaction":
                assert self.book is not None
                instructions = self.book.compact_instructions(effect.ref) if effect.ref > 0 else None
                if effect.ref < 0:
                    instructions = self.requests[effect.ref].instructions
                self.compactor.start(effect, self.session, self.chart.state.retry, instructions)
            case "read" | "boundary" | "instance":
                assert self.seat is not None
                work, failed = {
                    "read": (self.seat.desk.read, "text_failed"),
                    "boundary": (self.seat.desk.boundary, "job_failed"),
                    "instance": (self.seat.start, "instance_ready"),
                }[effect.kind]
                self._start(effect.job, partial(work, effect.job), failed)
            case _:
                assert_never(effect.kind)

    def _abandon(self, job: int, task: trio.lowlevel.Task | None) -> None:
        """Go on without a job that did not end when it was cancelled."""
        run = self._records.run
        calls = run.abandon() if run is not None and run.number == job else ()
        working = [f"tool {name}" for name in calls]
        if not working and task is not None and self.seat is not None:
            from pinnace_agent.extensions.watchdog import owners_at_work

            working = [f"{path} on {event}" for path, event in owners_at_work(task)]
        what = ", ".join(working) or _job_name(job)
        _log.warning("still working %g s after the abort, and no longer waited for: %s", ABORT_GRACE_S, what)

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
        if happening.name != "tools_done" and self._records.log.builder is not None:
            self._limits.spend(self._records.log.builder.message["usage"])
        self._limits.before(happening)
        self.submit(happening)

    async def _delay(self, effect: fx.StartTimer) -> None:
        await trio.sleep(effect.delay_s)
        self.submit(Happening("delay_over", effect.job))

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

    def save_at_once(self) -> None:
        """Save what only the process holds: texts that are queued, and an answer as far as it has come.

        For the end of a process whose event loop is held up, from another thread: nothing is told, no task is started.
        """
        session, state = self.session, self.chart.state
        session.on_appended = None
        log = self._records.log
        builder = log.builder
        if state.run_open and builder is not None and builder.has_started and log.message is None:
            cut = {**builder.snapshot(), "stopReason": "aborted", "errorMessage": errors.REQUEST_ABORTED}
            session.keep(builder.message if builder.is_finished else cast("AssistantMessage", cut))
        steering, follow_up = state.steering.texts(), state.follow_up.texts()
        if steering or follow_up:
            self.sessions.return_queue(fx.ReturnQueue(steering, follow_up))
        if session.file is not None:
            session.file.flush()


def _job_name(job: int) -> str:
    return f"job:{job}"
