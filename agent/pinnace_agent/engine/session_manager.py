"""The current session: appends to it, its durability, and its replacement.

Performs the effects of a session and reports their outcomes. Each file has at most one task that brings it to the disk;
only effects whose order demands it wait for that task. Former sessions live until the shells and the agents that were
started in them have ended. Rules R-SES-05 to R-SES-08, R-SES-16, R-SES-17, C-10.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from pinnace_agent.core.jobs import ABORT_GRACE_S
from pinnace_agent.core.ports.emitter import Emitter, extension_error
from pinnace_agent.core.user_warnings import Notice
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.engine.run_recorder import user_message
from pinnace_agent.engine.status_records import origin_of, session_changed
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.queue.durable_queue import DurableQueue
from pinnace_agent.session.replacement import EmptySession, SessionReplacement, SessionRequest, SwitchSession
from pinnace_agent.session.store.file import SaveError
from pinnace_agent.session.store.lease import LeaseHeld
from pinnace_spec.records.messages import SessionChange, ThinkingLevel, UserMessage
from pinnace_spec.rules import errors
from pinnace_statechart import effects as fx
from pinnace_statechart.queues import Item
from pinnace_statechart.triggers import NO_REPLY, InternalEvent

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.confinement import PreparedFolder
    from pinnace_agent.core.ports.extensions import SessionExtensions
    from pinnace_agent.core.ports.sessions import SessionOwner

_log = logging.getLogger("pinnace.session")


class SessionManager:
    """Holds the current session, and the former ones that are still written to."""

    def __init__(
        self,
        session: Session,
        library: Library,
        profile: AgentProfile,
        emitter: Emitter,
        agent: "SessionOwner",
        extensions: "Callable[[], SessionExtensions | None]",
    ) -> None:
        """Take the session of the start."""
        self.preferred_level: ThinkingLevel = session.thinking_level
        """The level that was requested last, whatever the model supports."""
        self.session = session
        self._library = library
        self._profile = profile
        self._registry = profile.registry
        self._emitter = emitter
        self._agent = agent
        self._jobs = agent.jobs
        self._extensions = extensions
        self._own: tuple[int, UserMessage] | None = None  # the message in preflight: its place, unless not appended
        self._own_problem: str | None = None
        self._plans: dict[int, SessionReplacement] = {}
        # Not current any more, not yet closed; in the order in which they were left, in which they are closed.
        self._former: dict[Session, None] = {}
        self._saving: dict[int, bool] = {}  # by session: whether more was appended since its task began
        self.queue = DurableQueue(session, agent, self.close_unused, self._warn)
        self._adopt(session)

    # The prompt in preflight.

    # DEVIATION D-23: every text is saved before its prompt is answered.
    @property
    def folder(self) -> SessionFolder | None:
        """The folder of new sessions; None: none are kept."""
        return self._library.folder

    def append_prompt(self, item: Item) -> None:
        """Append the message of a prompt; `sync` reports that it could not be saved."""
        message = user_message(item.text, item.blocks, self.session.now_ms())
        self._own, self._own_problem = None, None
        try:
            self._own = self.session.accept(message, item.message_id), message
        except SaveError as error:
            self._own_problem = error.text
            self.queue.prompt_dropped(item.message_id)  # a part of it may be in the file, and the rest will be

    def drop_prompt(self, ref: int) -> None:
        """Take the message of a prompt out of the branch, if it is there; it is refused when that is on the disk.

        Without a command (`NO_REPLY`) nothing waits for that.
        """
        if self._own is not None:
            place, _ = self._own
            self._own = None
            message_id = self.session.tree.entries[place].get("messageId")
            is_marked = self.session.drop(place)
            self.queue.prompt_dropped(str(message_id))
            if is_marked and ref != NO_REPLY:
                self.queue.answer_when_saved(ref)

    def take_prompt(self) -> tuple[UserMessage, str]:
        """Return the message of the prompt, which was accepted, and the id of its entry."""
        if self._own is None:
            raise errors.InternalError("no message of a prompt was appended")
        (place, message), self._own = self._own, None
        return message, str(self.session.tree.entries[place]["id"])

    def sync(self, job: int) -> None:
        """Report when all appended entries are on the disk. At once if there is no disk to wait for."""
        if self._own_problem is not None:
            self._not_synced(job, self._own_problem)
        elif self.session.file is None:
            self._agent.submit(InternalEvent("synced", job))
        else:
            self._agent.start_job(job, partial(self._sync, job), "sync_failed")

    async def _sync(self, job: int) -> None:
        try:
            await self.session.sync()
        except SaveError as error:
            self._not_synced(job, error.text)
        else:
            self._agent.submit(InternalEvent("synced", job))

    def _not_synced(self, job: int, text: str) -> None:
        self._agent.submit(InternalEvent("sync_failed", job, text=text, code=errors.ErrorCode.SESSION_NOT_SAVED))

    # Replacement.

    def ask(self, effect: fx.StartJob, request: SessionRequest) -> None:
        """Validate a session command and prepare it; RUN continues meanwhile."""
        plan = self._plans[effect.ref] = SessionReplacement(request, self._library, self.session, self._admit)
        try:
            plan.check()
        except errors.ClientError as error:
            self._invalid(effect.job, error)
            return
        extensions = self._extensions()
        if plan.must_wait or (extensions is not None and extensions.asks(request)):
            self._agent.start_job(effect.job, partial(self._prepare, effect.job, plan), "ask_invalid")
        else:
            self._agent.submit(InternalEvent("ask_yes", effect.job))

    async def _prepare(self, job: int, plan: SessionReplacement) -> None:
        extensions = self._extensions()
        if extensions is not None and extensions.asks(plan.request):
            leaf = self.session.tree.leaf
            leaf_id = None if leaf is None else str(self.session.tree.entries[leaf]["id"])
            if not await extensions.allows(plan.request, leaf_id):
                self._agent.submit(InternalEvent("ask_no", job))
                return
        try:
            await plan.prepare()
        except errors.ClientError as error:
            self._invalid(job, error)
        else:
            self._agent.submit(InternalEvent("ask_yes", job))

    async def _admit(self, session: Session) -> "PreparedFolder | None":
        """Refuse a session in whose folder the sandbox can't be enforced."""
        if (sandbox := self._profile.sandbox) is None:
            return None
        from pinnace_agent.core.ports.confinement import FolderRefused

        try:
            return await sandbox.prepare_folder(session.cwd, session.path)
        except FolderRefused as error:
            raise errors.ClientError(str(error), errors.ErrorCode.SESSION_UNAVAILABLE) from None

    def _invalid(self, job: int, error: errors.ClientError) -> None:
        self._agent.submit(InternalEvent("ask_invalid", job, text=error.text, code=error.code))

    def switch(self, effect: fx.StartJob) -> None:
        """Replace the current session."""
        self._agent.start_job(effect.job, partial(self._switch, effect), "switch_failed")

    async def _switch(self, effect: fx.StartJob) -> None:
        plan = self._plans[effect.ref]
        extensions, previous = self._extensions(), self.session.path
        try:
            session = await plan.commit()
            if extensions is not None and isinstance(plan.request, EmptySession):
                await self._fill(extensions, effect.ref, session)
            await self._name(session, is_made=not isinstance(plan.request, SwitchSession))
        except errors.ClientError as error:
            self._agent.submit(InternalEvent("switch_failed", effect.job, text=error.text, code=error.code))
            return
        self._profile.warnings.renew(("session",), (Notice("session", notice) for notice in plan.notices))
        if extensions is None:
            self._agent.open_folder(session.cwd)
            extensions = self._extensions()
        if extensions is not None:
            await extensions.end(extensions.reason_of(plan.request), session.path)
        if (children := self._profile.children) is not None:
            children.cancel_started()
            with trio.move_on_after(ABORT_GRACE_S):  # each ends within two seconds
                await children.until_over()
        if plan.is_other_conversation:
            self._profile.resources.renew(session.cwd)
        former, self.session = self.session, session
        self._emitter.emit(session_changed(session, _reason_of(plan.request), origin_of(effect.ref)))
        if plan.folder is not None:
            plan.folder.enter()
        choose = partial(self._restore_settings if plan.restores_choices else self._keep_settings, former)
        choose()
        self._adopt(session)
        if extensions is not None:
            # `choose` again: the models of extensions are registered only then.
            await extensions.begin(extensions.reason_of(plan.request), previous, choose)
        else:
            self._continue_tools()
        # What is queued is returned by this; what was sent behind the command is accepted, in the new session.
        self.queue.replace(session, partial(self._agent.submit, InternalEvent("switch_ok", effect.job)))
        former.users -= 1
        self._former[former] = None
        self.close_unused()

    # DEVIATION D-74: the extensions of the session before are there until the new one is whole.
    async def _fill(self, extensions: "SessionExtensions", ref: int, session: Session) -> None:
        """Let the extension that requested a new session fill it; if that fails, nothing of it is left."""
        try:
            await extensions.fill(ref, session)
        except BaseException:
            self._library.drop(session)
            raise

    async def _name(self, session: Session, *, is_made: bool) -> None:
        """Name the session for the next process of the agent, before anything is accepted in it.

        Raises:
            ClientError: It can't be named; the former one stays current, and nothing is left of one that was made.
        """
        if not self._library.names(session):
            return
        try:
            await trio.to_thread.run_sync(self._library.name_current, session)
        except OSError as error:
            if is_made:
                self._library.drop(session)
            elif session.users == 0 and session not in self._former:
                await self._library.begin_close(session)()
            text = errors.session_not_named(error.strerror or str(error))
            raise errors.ClientError(text, errors.ErrorCode.IO_ERROR) from None

    def text_of(self, ref: int) -> str | None:
        """Return the message before which a fork begins."""
        plan = self._plans.get(ref)
        return None if plan is None else plan.text

    def answered(self, ref: int) -> None:
        """A session command was answered: discard preparations that were not used."""
        plan = self._plans.pop(ref, None)
        if plan is not None:
            self._jobs.start(f"discard:{ref}", plan.discard, _nothing)

    def _keep_settings(self, former: Session) -> None:
        """Take over the model and the level of the former session."""
        self.session.model, self.session.thinking_level = former.model, former.thinking_level

    def _restore_settings(self, former: Session) -> None:
        """Take the model and the level that the branch records, if they are available."""
        from pinnace_agent.engine.session_choices import restored_level

        self.preferred_level = restored_level(self.session, former, self._registry, self.preferred_level)

    def _continue_tools(self) -> None:
        from pinnace_agent.engine.session_choices import continue_tools

        continue_tools(self._profile, self.session)

    def _adopt(self, session: Session) -> None:
        self._former.pop(session, None)
        session.users += 1
        session.on_problem = partial(self._report_problem, session)
        session.on_appended = partial(self._save, session)
        session.on_taken_over = partial(self._taken_over, session)
        if session.file is not None:
            session.file.on_notice = self._warn

    def _taken_over(
        self, session: Session, is_following: bool, notices: tuple[str, ...], *, is_other_conversation: bool
    ) -> None:
        """Follow a session that another process had, and that this one has read anew to append to it."""
        if is_other_conversation and session is self.session:
            self._emitter.emit(session_changed(session, "takeover", None))
        for notice in notices:
            self._warn(notice)
        if session is self.session:
            if is_following:
                self._restore_settings(session)
                if session.tools is None:  # else they were chosen here
                    self._continue_tools()
            self.queue.restore(session)

    def announce_end(self) -> None:
        """Let other processes that want a session of this one know that it ends within seconds."""
        for session in self._library.all_open():
            if session.file is not None:
                session.file.announce_end()

    def close_unused(self) -> None:
        """Close sessions that no job will append to any more, once all their entries are saved.

        Unsaved entries are kept: saving is tried again here, when the session is current again, and when the process
        ends. One that is on the disk is closed at once, so that its lease is free when the command that has left it is
        answered: another process, to which the client turns then, may append. The lease of one that has to be flushed
        follows, and is waited for.
        """
        for session in tuple(self._former):
            if session.users == 0 and _is_written(session):
                del self._former[session]
                if session.file is None or session.file.is_durable:
                    self._library.close_now(session)
                    continue
                session.file.announce_end()
                # If its task is cancelled before its first step, the end of the process closes it.
                self._jobs.start(f"close:{id(session)}", self._library.begin_close(session), _nothing)

    async def close_all(self) -> None:
        """Bring everything to the disk: the process ends. Entries that can't be saved in their file go to a copy."""
        for session in self._library.all_open():
            await session.close()
            if session.file is not None and session.file.unsaved:
                self._rescue(session)

    def _rescue(self, session: Session) -> None:
        """Keep a branch whose file was replaced, or may not grow; a full disk takes no other file either."""
        try:
            copied = self._library.copy(session, self._library.branch(session, session.tree.leaf))
        except (OSError, LeaseHeld) as error:
            _log.error("%s: what could not be saved is lost: %s", session.path, error)
            return
        if copied.file is not None:
            copied.file.abandon()
        _log.error("%s could not be saved; the whole conversation is in %s", session.path, copied.path)

    # Saving.

    def _save(self, session: Session) -> None:
        """Bring appended entries to the disk, beside everything else."""
        if id(session) in self._saving:
            self._saving[id(session)] = True
            return
        self._saving[id(session)] = False

        async def work() -> None:
            while id(session) in self._saving:
                self._saving[id(session)] = False
                try:
                    await session.sync()
                except SaveError as error:
                    self._report_problem(session, error.text)
                    return
                # Nothing is known of it any more if the process ends and has reported this job as ended.
                if not self._saving.get(id(session)):
                    return

        def ended(_cancelled: bool, _failure: BaseException | None) -> None:
            del self._saving[id(session)]

        self._jobs.start(f"save:{id(session)}", work, ended)

    def _warn(self, text: str) -> None:
        self._profile.warnings.add(Notice("session", text))

    def _report_problem(self, session: Session, text: str) -> None:
        """Report to the client, with the record that every generation has for failures beside its commands."""
        _log.error("%s", text)
        self._emitter.emit(extension_error(str(session.path), "session_save", text))


def _reason_of(request: SessionRequest) -> SessionChange:
    match request:
        case EmptySession():
            return "new"
        case SwitchSession():
            return "resume"
        case _:
            return "fork"


def _is_written(session: Session) -> bool:
    """Write unsaved entries again; return whether all are written."""
    if session.file is None:
        return True
    if session.file.unsaved:
        with suppress(SaveError):
            session.file.flush()
    return not session.file.unsaved


def _nothing(_cancelled: bool, _failure: BaseException | None) -> None:
    """Nothing waits for this job."""
