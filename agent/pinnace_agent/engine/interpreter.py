"""Performs the effects of the statechart, in order, with no checkpoint in between.

A trigger goes in, the statechart answers with effects, and all of them are performed before the next trigger is taken.
So the order of records is the order of triggers: a client sees what the statechart has decided. A trigger that an
effect causes waits until the remaining effects are performed.

Has no access to lines, command ids or stdout: it emits records and answers commands by number. Rule R-ORD-01.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never, cast

import trio

from pinnace_agent.core.jobs import ABORT_GRACE_S, Jobs, Work
from pinnace_agent.core.ports.emitter import Emitter, extension_error
from pinnace_agent.engine.client_bash import ShellJob, Shells
from pinnace_agent.engine.compaction_job import Compactor
from pinnace_agent.engine.idle import IdleTracker
from pinnace_agent.engine.internal_commands import InternalCommands
from pinnace_agent.engine.limits import LimitWatch
from pinnace_agent.engine.profile import AgentProfile, UseFiles
from pinnace_agent.engine.run_effects import RUN_EFFECTS, RunEffects
from pinnace_agent.engine.run_job import preflight
from pinnace_agent.engine.session_manager import SessionManager
from pinnace_agent.engine.session_settings import SessionSettings
from pinnace_agent.engine.status_records import agent_settled, retry_end, retry_start
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import Library
from pinnace_agent.session.queue.durable_queue import MessageFate
from pinnace_agent.tools.registry import ToolRegistry, all_active
from pinnace_spec.rules import errors
from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import NO_REPLY, Command, InternalEvent, Trigger

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.approval.gate import ToolApproval
    from pinnace_agent.client_files.requests import ClientRequests
    from pinnace_agent.core.ports.children import ChildAgents
    from pinnace_agent.core.ports.commands import Client
    from pinnace_agent.core.ports.extensions import ExtensionInstance, Extensions
    from pinnace_agent.engine.navigator import Navigator
    from pinnace_agent.session.queue.durable_queue import NotReturned
    from pinnace_agent.tools.operations import ClientFiles
    from pinnace_spec.records.messages import ApprovalMode, AssistantMessage, FileMethod, Usage

_log = logging.getLogger("pinnace.host")

_NEW_INSTANCE = frozenset({"instance_ready", "switch_ok", "reload_ok", "reload_failed"})


def no_extensions(_agent: "EffectInterpreter", _folder: str | None) -> None:
    """Load no extensions: there are none in any folder."""


def _nothing() -> None:
    """Change nothing."""


class EffectInterpreter:
    """One agent: the statechart, its sessions and the jobs behind busy states."""

    def __init__(
        self,
        chart: Chart,
        session: Session,
        library: Library,
        profile: AgentProfile,
        emitter: Emitter,
        client: "Client",
        jobs: Jobs,
        extend: "Callable[[EffectInterpreter, str | None], Extensions | None]" = no_extensions,
    ) -> None:
        """Start nothing.

        Args:
            chart: The statechart, which has taken no trigger.
            session: The session of the start.
            library: Where other sessions are.
            profile: The configuration of the process.
            emitter: Takes the records of the conversation.
            client: The open commands, and their answers.
            jobs: Where work runs.
            extend: Returns the extensions of an agent, or None; called once at the start, with None for the folder, and
                while there are none again with the folder of each session that is opened.
        """
        self.chart = chart
        self.toolbox = (
            profile.tools if isinstance(profile.tools, ToolRegistry) else ToolRegistry(profile.tools, all_active)
        )
        profile = self.profile = replace(profile, tools=self.toolbox)
        self.jobs = jobs
        self.emitter = emitter
        self.internal_commands = InternalCommands()
        self.idle = IdleTracker(chart)
        self.shells = Shells(jobs, profile, emitter, self._extension_instance, lambda: self.toolbox.refusal)
        self.sessions = SessionManager(session, library, profile, emitter, self, lambda: self.extensions)
        registry = profile.registry
        self.settings = SessionSettings(
            self.sessions, emitter, lambda: self.extensions, registry.price_refusal, profile.scope
        )
        self.compactor = Compactor(profile, emitter, self.submit, self.start_job, self._extension_instance)
        self._approval: ToolApproval | None = None  # not loaded before the first call of a tool
        self._client_requests: ClientRequests | None = None  # likewise, before the client offers to serve files
        self._navigator: Navigator | None = None  # likewise, before the first move
        self.queue = self.sessions.queue
        self._has_answered = False
        self._is_queue_unannounced = False  # queued messages of the session's file: clients await an answer first
        self.defect: str | None = None
        """With what every command is answered, since the statechart has failed and the process ends; None: it works."""
        self._client = client
        self._inbox: deque[Trigger] = deque()
        self._busy = False
        # What is open on the wire.
        self._retry = 0  # the attempt that `auto_retry_start` has announced
        self._compaction: fx.CompactionReason | None = None
        self._limits = LimitWatch(lambda: profile.limits, chart, jobs, self.submit)
        self._runs = RunEffects(self, self._limits)
        self.draws_surfaces = profile.draws_surfaces
        """Whether the client draws surfaces of extensions now."""
        self.editor_text = ""
        """The text of the client's editor, as far as it is known."""
        self.themes: Sequence[str] | None = None
        """The names of the client's themes; None: it has not named any."""
        self.theme: str | None = None
        """The name of the theme that the client shows; None: it is unknown."""
        self.tools_expanded = False
        """Whether the client unfolds outputs of tools."""
        self._shows_children = False
        self._extend = extend
        self.extensions: Extensions | None = extend(self, None)
        """The extensions of the process; None: there are none."""

    @property
    def session(self) -> Session:
        """The current session."""
        return self.sessions.session

    @property
    def is_closing(self) -> bool:
        """Whether the process is ending, so that no new work may begin."""
        return self.defect is not None or self.chart.configuration["io"] in {"closing", "closed"}

    @property
    def is_starting(self) -> bool:
        """Whether the extensions of the session have not begun, so that the meaning of a message is unknown."""
        return self.extensions is not None and self.chart.run == "switching"

    @property
    def run_scope(self) -> trio.CancelScope | None:
        """The cancel scope of the open run; None: there is none."""
        return self.jobs.scope(_job_name(self.chart.state.job)) if self.chart.has_open_run else None

    @property
    def has_failed(self) -> bool:
        """Whether the last answer is an error."""
        message = self._runs.log.message
        return message is not None and message["stopReason"] == "error"

    def system_prompt(self) -> str:
        """Return the system prompt of the next request."""
        changed = None if self.extensions is None else self.extensions.prompt_hooks.system_prompt
        return self.profile.system_prompt(self.session.cwd) if changed is None else changed

    def expand(self, text: str) -> str:
        """Return what a message of the user stands for, and report a file that it names and that can't be read."""
        expansion = self.profile.resources.expand(text, self.session.cwd)
        if (problem := expansion.problem) is not None:
            self.emitter.emit(extension_error(problem.path, problem.event, problem.text))
        return expansion.text

    def open_folder(self, folder: str) -> None:
        """Load extensions that the project of a session brings, if there are none yet."""
        if self.extensions is None:
            self.extensions = self._extend(self, folder)

    def _extension_instance(self) -> "ExtensionInstance | None":
        return None if self.extensions is None else self.extensions.instance

    def submit(self, trigger: Trigger) -> None:
        """Step the statechart with a trigger and perform its effects. Never waits.

        From within an effect the trigger is taken next, after the remaining effects. After a defect of the statechart
        nothing happens any more, and internal commands are refused.
        """
        if self.defect is not None:
            self._refuse_after_defect(trigger, self.defect)
            return
        if trigger.name in _NEW_INSTANCE:
            self._runs.session_replaced()
            trigger = self._with_deferred(trigger)
        elif trigger.name == "queue_restored":
            self._is_queue_unannounced = True
        self._inbox.append(trigger)
        self._announce_queue()
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                trigger = self._inbox.popleft()
                try:
                    effects = self.chart.step(trigger)
                except Exception as error:  # a defect of the statechart: its next state is unknown
                    _log.exception("the statechart failed at %s: the process ends", trigger.name)
                    self._end_after_defect(f"Internal error: {error}")
                    return
                for effect in effects:
                    self._try(effect)
                self._limits.check()
        finally:
            self._busy = False
        self.idle.check()
        if self.extensions is not None and self.idle.is_idle:
            self.extensions.idle_reached()

    def first_answered(self) -> None:
        """The first command was answered, by an effect or beside the statechart: the restored queue is reported."""
        self._has_answered = True
        if self._is_queue_unannounced:
            self._is_queue_unannounced = False
            self.submit(InternalEvent("queue_announced"))

    def _announce_queue(self) -> None:
        """Report what the session's file has left queued, if a command was answered before."""
        if self._is_queue_unannounced and self._has_answered:
            self._is_queue_unannounced = False
            self._inbox.append(InternalEvent("queue_announced"))

    def fate_of(self, message_id: str) -> MessageFate | None:
        """Return what became of a message that this or a former process has accepted; None: unknown."""
        self.session.claim()
        state = self.chart.state
        if any(each.message_id == message_id for each in (*state.steering, *state.follow_up)):
            return MessageFate("queued")
        return self.queue.fate_of(message_id)

    # The end after a defect of the statechart.

    def _refuse_after_defect(self, trigger: Trigger, text: str) -> None:
        if isinstance(trigger, Command) and trigger.ref < 0:
            self.internal_commands.refuse(fx.Refuse(trigger.ref, "job", text, errors.ErrorCode.INTERNAL_ERROR))

    def _end_after_defect(self, text: str) -> None:
        """Close what is open on the wire, answer every command with an error, and end.

        The step that failed has had no effect. So what is open is known from the effects that were performed, never
        from the state of the statechart, which may be half of the next one.
        """
        self.defect = text
        has_worked = self.chart.state.streaming or self._runs.log.is_open or bool(self._retry or self._compaction)
        self._inbox.clear()
        for close in (
            partial(self._runs.end_after_defect, text),
            partial(self._close_retry, text),
            partial(self._close_compaction, text),
            partial(self.sessions.drop_prompt, NO_REPLY),
            self._stop_work,
            partial(self.internal_commands.refuse_all, text),
            partial(self._client.refuse_all, text),
        ):
            try:
                close()
            except Exception:  # the next one is performed all the same
                _log.exception("after the defect, %s failed", close)
        if has_worked:
            self.emitter.emit(agent_settled(fx.AgentSettled(aborted=False)))
        self._client.close()

    def _close_retry(self, text: str) -> None:
        if self._retry:
            self.session.run_ends()
            self.emitter.emit(retry_end(fx.RetryEnd(success=False, attempt=self._retry), text, None))

    def _close_compaction(self, text: str) -> None:
        if self._compaction is not None:
            self.compactor.end(fx.CompactionEnd(self._compaction, "failed", text=text), self.session)

    def _stop_work(self) -> None:
        """Cancel all jobs and shells, and give dialogs their defaults; their ends are not reported."""
        for job in range(1, self.chart.state.last_job + 1):
            self.jobs.cancel(_job_name(job))
        self.shells.kill_all()
        self._default_dialogs(for_good=True)

    def _default_dialogs(self, *, for_good: bool) -> None:
        if self.extensions is not None:
            self.extensions.default_dialogs(for_good=for_good)
        if self._approval is not None:
            self._approval.default_dialogs(for_good=for_good)
        if for_good and self._client_requests is not None:
            self._client_requests.close()

    def offer_files(self, methods: Collection["FileMethod"]) -> None:
        """Let the client serve files to the calls of tools from now on, in the place of what it has offered before."""
        if self._client_requests is None and methods:
            from pinnace_agent.client_files.requests import ClientRequests

            self._client_requests = ClientRequests(self.emitter)
        if self._client_requests is not None:
            self._client_requests.offer(methods)

    def offer_surfaces(self, *, is_offered: bool) -> None:
        """Let extensions draw in the client's terminal from now on, or not."""
        self.draws_surfaces = is_offered
        self.editor_text = ""
        self.themes = self.theme = None
        self.tools_expanded = False
        if self.extensions is not None:
            self.extensions.offer_surfaces(is_offered=is_offered)

    def take_editor_text(self, text: str) -> None:
        """Take the text that the client's editor has now, or will have."""
        if self.draws_surfaces:
            self.editor_text = text

    def take_look(self, names: Sequence[str] | None, current: str | None, *, unfolds: bool | None) -> None:
        """Take the client's themes, the one that it shows, and whether it unfolds outputs; None: as before."""
        if self.draws_surfaces:
            self.themes = self.themes if names is None else tuple(names)
            self.theme = self.theme if current is None else current
            self.tools_expanded = self.tools_expanded if unfolds is None else unfolds

    def abort_call(self, entry: str) -> bool:
        """End the call whose result will be an entry; return False if it is not being carried out."""
        return self._runs.log.abort_call(entry)

    def spend(self, usage: "Usage") -> None:
        """Count what was used for the run beside its requests towards its limits."""
        self._limits.spend(usage)

    @property
    def cost_left(self) -> float | None:
        """What the run may cost yet; None: there is no limit."""
        return self._limits.cost_left

    def show_children(self, *, is_wanted: bool) -> None:
        """Have the client be sent what each agent does that this one starts, or no more."""
        self._shows_children = is_wanted
        if self.profile.children is not None:
            self.profile.children.show(is_wanted=is_wanted)

    def made_children(self) -> "ChildAgents | None":
        """Return the agents that this one starts, made now if there are none yet; None: it starts none."""
        profile = self.profile
        if profile.children is None and profile.make_children is not None:
            profile.children = profile.make_children()
            profile.children.follow(self)
            profile.children.show(is_wanted=self._shows_children)
        return profile.children

    def files_of_call(self, call_id: str) -> "ClientFiles | None":
        """Return the files that the client serves to a call; None: it has never offered any."""
        if self._client_requests is None:
            return None
        from pinnace_agent.client_files.call_files import CallFiles

        cwd = self.session.cwd
        return CallFiles(self._client_requests, (cwd, *self.profile.resources.of(cwd).directories), call_id)

    @property
    def approval(self) -> "ToolApproval":
        """Which calls need the user's approval."""
        if self._approval is None:
            from pinnace_agent.approval.gate import ToolApproval

            profile = self.profile
            self._approval = ToolApproval(profile.approval, self, has_user=profile.has_user, sandbox=profile.sandbox)
            if self.is_closing:
                self._approval.default_dialogs(for_good=True)
        return self._approval

    def _moves(self) -> "Navigator":
        if self._navigator is None:
            from pinnace_agent.engine.navigator import Navigator

            self._navigator = Navigator(
                self.profile, self.emitter, self.submit, self.start_job, self._extension_instance
            )
        return self._navigator

    @property
    def approval_mode(self) -> "ApprovalMode":
        """The mode that decides the next call."""
        return self.profile.approval if self._approval is None else self._approval.mode

    def _with_deferred(self, trigger: Trigger) -> Trigger:
        """Read deferred messages again: only now it is known which commands and which templates there are."""
        line = self.chart.state.deferred_commands
        if not line or not isinstance(trigger, InternalEvent):
            return trigger
        texts = tuple(self._client.read_again(command, self) for command in line if command.ref > 0)
        return trigger._replace(texts=texts)

    def _try(self, effect: fx.Effect) -> None:
        try:
            self.perform(effect)
        except Exception as error:  # the boundary: the statechart has moved on, so later effects are performed
            _log.exception("effect %s failed", effect)
            if isinstance(effect, RUN_EFFECTS):
                self._runs.fail(f"{type(effect).__name__}: {error}")

    def record_failed(self, problem: str) -> None:
        """Report that a record could not be written, and end the run that it belongs to, if one is open."""
        self.emitter.emit(extension_error("<runtime>", "record", problem))
        self._runs.fail(problem)

    def perform(self, effect: fx.Effect) -> None:  # noqa: PLR0912, PLR0915 - a line or two for each effect there is
        """Perform one effect. Effects are distinguished here alone: a new one without a case fails the type-check."""
        log = self._runs.log
        match effect:
            # Answers.
            case fx.Answer():
                self._client.answer(effect, self)
            case fx.Accept():
                self._answer(effect)
            case fx.Refuse():
                self.queue.answer(effect.ref, lambda _: self._refuse(effect))
            case fx.AcceptCompact():
                self._owner(effect.ref).accept_result(effect.ref, self.compactor.made())
            case fx.AnswerNavigation():
                self._owner(effect.ref).accept_result(effect.ref, self._moves().result())
            case fx.Perform():
                self._client.perform(effect.ref, self)
            case fx.AnswerShell():
                self._client.answer_shell(effect.ref, self.shells.get(effect.ref))
            case fx.ResolveDialog():
                response = self._client.dialog_response(effect.ref)
                if self.extensions is not None:
                    self.extensions.answer(response)
                if self._approval is not None:
                    self._approval.answer(response)
            case fx.ResolveRequest():
                answer = self._client.file_response(effect.ref)
                if self._client_requests is not None:
                    self._client_requests.answer(answer)
            # The records of a run, and what its job does next.
            case fx.AgentStart():
                self._runs.begin()
            case fx.TurnStart():
                self._runs.begin_turn()
            case fx.Deliver():
                self._runs.deliver(effect.item, is_appended=effect.is_appended)
            case fx.CallModel():
                self._runs.continue_with("model")
            case fx.CallTools():
                self._runs.continue_with("tools")
            case fx.EndMessage():
                log.end_message()
            case fx.FailCalls():
                log.fail_cut_calls()
            case fx.EndTools():
                log.append_results()
            case fx.TurnEnd():
                log.end_turn()
            case fx.AgentEnd():
                self._runs.end(will_retry=effect.will_retry)
            case fx.CloseRun():
                self._runs.close(effect.error)
            case fx.AgentSettled():
                self._settle(effect)
            # Jobs.
            case fx.StartJob():
                self._start_job(effect)
            case fx.StartTimer():
                self.start_job(effect.job, partial(self._delay, effect), "job_ended")
            case fx.CancelJob() | fx.CancelAsk() | fx.CancelTimer():
                self.jobs.cancel_in_time(_job_name(effect.job), partial(self._abandon, effect.job))
            # Queues and the session.
            case fx.QueueUpdate():
                self.emitter.emit({"type": "queue_update", "steering": effect.steering, "followUp": effect.follow_up})
            case fx.ReturnQueued():
                identity = self._client.identity_of(effect.ref) if effect.ref > 0 else None
                self.queue.mark_returned(effect, identity)
            case fx.AppendPrompt():
                self.sessions.append_prompt(effect.item)
            case fx.DropPrompt():
                self.sessions.drop_prompt(effect.ref)
            case fx.MoveLeaf():
                self._moves().move(self.session)
            case fx.LeaveFailed():
                self.session.leave_failed()
            # Retries and compactions.
            case fx.RetryStart():
                self._retry = effect.attempt
                self.session.retry_begins()
                self.emitter.emit(retry_start(effect, log.failure))
            case fx.RetryEnd():
                self._end_retry(effect)
            case fx.CompactionStart():
                self._compaction = effect.reason
                self.compactor.begin(effect, self.session)
            case fx.CompactionEnd():
                self._end_compaction(effect)
            # Shells.
            case fx.StartShell():
                self._start_shell(effect.ref)
            case fx.KillShells():
                self.shells.kill_all()
            case fx.KeepShell():
                self.shells.keep_aside(effect.ref)
            case fx.RecordShell():
                self.shells.record(effect.ref)
                self.sessions.close_unused()
            case fx.DefaultDialogs():
                self._default_dialogs(for_good=effect.for_good)
            # Extensions; without any there is nothing to do.
            case fx.StartCommand():
                if self.extensions is not None:
                    owner = self._owner(effect.ref)
                    once = partial(self.queue.once, owner.message_name(effect.ref))
                    self.extensions.prompt_hooks.start_command(effect.ref, owner.command_text(effect.ref), once)
            case fx.CancelCommands():
                if self.extensions is not None:
                    self.extensions.prompt_hooks.cancel_commands(self.chart.state.running_extension_commands)
            case fx.CutStart():
                if self.extensions is not None:
                    self.extensions.cut_start()
            case fx.Close():
                self.queue.when_answered(self._client.close)
            case _:
                assert_never(effect)

    def _owner(self, ref: int) -> "InternalCommands | Client":
        """Return what has a command and takes its answer."""
        return self.internal_commands if ref < 0 else self._client

    def returns_again(self, ref: int) -> bool:
        """Answer a `clear_queue` that was executed before with the same messages; return whether it was."""
        self.session.claim()
        return self._return_again(fx.Accept(ref), is_empty=False)

    def _return_again(self, effect: fx.Accept, *, is_empty: bool) -> bool:
        identity = self._client.identity_of(effect.ref)
        texts = identity and self.queue.returned_again(effect.ref, identity, is_empty=is_empty)
        if not texts:
            return False
        self.queue.answer(effect.ref, partial(self._accept, effect._replace(cleared=texts)))
        return True

    def _answer(self, effect: fx.Accept) -> None:
        is_empty = effect.cleared == ((), ()) and effect.ref > 0 and self._client.is_withdrawal(effect.ref)
        if is_empty and self._return_again(effect, is_empty=True):
            return
        self.queue.answer(effect.ref, partial(self._accept, effect))

    def _refuse(self, effect: fx.Refuse) -> None:
        self._owner(effect.ref).refuse(effect)
        self.sessions.answered(effect.ref)

    def _accept(self, effect: fx.Accept, kept: "NotReturned | None") -> None:
        """Answer with success, but for a `clear_queue` whose messages stay queued since that can't be saved."""
        if kept is not None and kept.reason == "clear_queue":
            code = errors.ErrorCode.SESSION_NOT_SAVED
            self._owner(effect.ref).refuse(fx.Refuse(effect.ref, "job", kept.error.text, code))
            return
        if kept is not None and effect.cleared is not None:
            effect = effect._replace(cleared=kept.rest(effect.cleared))
        if effect.disposition == "handled":
            self.queue.handled(self._owner(effect.ref).message_name(effect.ref))
        self._owner(effect.ref).accept(effect, self.sessions.text_of(effect.ref))
        self.sessions.answered(effect.ref)

    def _settle(self, effect: fx.AgentSettled) -> None:
        self.emitter.emit(agent_settled(effect))
        self._limits.settled()
        self._runs.settled()
        if self.extensions is not None:
            self.extensions.settled(aborted=effect.aborted)

    def _start_shell(self, ref: int) -> None:
        request = self._client.shell_request(ref)
        shell = ShellJob(ref, request.command, request.exclude_from_context, self.session, request.request_id)
        self.shells.start(
            shell, lambda ended: self.submit(InternalEvent("shell_ended", ref=ended)), self.queue.behind_answers
        )

    def _end_retry(self, effect: fx.RetryEnd) -> None:
        self._retry = 0
        if effect.cancelled:
            self.session.run_ends()
        self.emitter.emit(retry_end(effect, self._runs.log.error, self._runs.log.failure))

    def _end_compaction(self, effect: fx.CompactionEnd) -> None:
        self._compaction = None
        self.compactor.end(effect, self.session)
        if effect.reason == "overflow" and effect.outcome != "ok":
            self.session.run_ends()  # the answer that failed is hidden already
        if effect.outcome == "ok" and self.compactor.result and "usage" in self.compactor.result:
            self._limits.spend(self.compactor.result["usage"])

    def _start_job(self, effect: fx.StartJob) -> None:
        match effect.kind:
            case "preflight":
                self.start_job(effect.job, partial(preflight, self, effect), "preflight_refused")
            case "run":
                self.start_job(effect.job, self._runs.new_job(effect.job).work, "job_failed")
            case "sync":
                self.sessions.sync(effect.job)
            case "save":
                assert self.chart.state.saving is not None
                self.queue.save(effect.job, self.chart.state.saving)
            case "ask":
                self.sessions.ask(effect, self._owner(effect.ref).session_request(effect.ref))
            case "switch":
                self.sessions.switch(effect)
            case "compaction":
                ref = effect.ref  # 0: no command has requested it
                instructions = self._owner(ref).compact_instructions(ref) if ref else None
                self.compactor.start(effect, self.session, self.chart.state.retry, instructions)
            case "navigation":
                request = self._owner(effect.ref).move_request(effect.ref)
                self._moves().start(effect, self.session, self.chart.state.retry, request)
            case "reload":
                self.start_job(effect.job, partial(self._reload, effect.job), "reload_failed")
            case "read" | "settle_hook" | "instance":
                if (extensions := self.extensions) is None:
                    raise errors.InternalError(f"there are no extensions for a job of kind {effect.kind}")
                work, failed = {
                    "read": (extensions.prompt_hooks.read, "text_failed"),
                    "settle_hook": (extensions.prompt_hooks.settle, "job_failed"),
                    "instance": (extensions.start, "instance_ready"),
                }[effect.kind]
                self.start_job(effect.job, partial(work, effect.job), failed)
            case _:
                assert_never(effect.kind)

    async def _reload(self, job: int) -> None:
        """Read the user's files again; without a mistake make them current, and replace the extensions."""
        try:
            use = self.profile.read_again()
        except errors.ClientError as error:
            self.submit(InternalEvent("reload_failed", job, text=error.text, code=error.code))
            return
        if self._approval is not None:
            self._approval.forget()
        make_current: Callable[[], None] = partial(self._use_files, use)
        if self.extensions is None:
            make_current()
            self.open_folder(self.session.cwd)  # there may be extensions now
            make_current = _nothing
        if self.extensions is not None:
            await self.extensions.reload(make_current)
        self.submit(InternalEvent("reload_ok", job, retry=self.profile.retry.delays))

    def _use_files(self, use: UseFiles) -> None:
        profile = self.profile
        profile.warnings.renew(("settings", "models", "credentials", "project_trust"), use(profile))
        profile.resources.renew(self.session.cwd)
        self.settings.models_changed(self.profile.registry, self.profile.model_patterns)

    def _abandon(self, job: int, task: trio.lowlevel.Task | None) -> None:
        """Continue without a job that did not end when it was cancelled."""
        run = self._runs.run
        calls = run.abandon() if run.number == job else ()
        working = [f"tool {name}" for name in calls]
        if not working and task is not None and self.extensions is not None:
            working = self.extensions.handlers_at_work(task)
        what = ", ".join(working) or _job_name(job)
        _log.warning("still working %g s after the abort, and no longer waited for: %s", ABORT_GRACE_S, what)

    def start_job(self, job: int, work: Work, failed: str) -> None:
        """Start the job of a busy state; `failed` is the trigger that a defect of it becomes."""

        def ended(cancelled: bool, failure: BaseException | None) -> None:
            # The statechart drops this for a job that has reported its own end.
            if failure is not None:
                self.submit(
                    InternalEvent(failed, job, text=f"Internal error: {failure}", code=errors.ErrorCode.INTERNAL_ERROR)
                )
            elif cancelled:
                self.submit(InternalEvent("job_ended", job))

        self.jobs.start(_job_name(job), self.queue.behind_answers(work), ended)

    async def _delay(self, effect: fx.StartTimer) -> None:
        await trio.sleep(effect.delay_s)
        self.submit(InternalEvent("delay_over", effect.job))

    def save_at_once(self) -> None:
        """Save the state that only the process holds: an answer as far as it has come.

        For the end of a process whose event loop is held up, from another thread: emits nothing and starts no task.
        """
        session = self.session
        session.on_appended = None
        log = self._runs.log
        builder = log.builder
        if self.chart.has_open_run and builder is not None and builder.has_started and log.message is None:
            cut = {**builder.snapshot(), "stopReason": "aborted", "errorMessage": errors.REQUEST_ABORTED}
            answer = builder.message if builder.is_finished else cast("AssistantMessage", cut)
            session.keep(answer, entry_id=builder.entry_id)
        if session.file is not None:
            session.file.flush()


def _job_name(job: int) -> str:
    return f"job:{job}"
