"""The session in force: what is appended to it, when it is safe on the disk, and how it is replaced.

Carries out what the chart asks of a session and reports what became of it. Each file has at most one task that brings
it to the disk; what must be safe before something else happens waits for it, everything else goes on. Sessions that are
no longer in force live until the shells that were admitted in them have ended. Must not know records other than the
problem that it tells, nor command ids. Rules R-SES-05 to R-SES-08, C-10.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, Protocol

from pinnace_agent.emitter import Emitter
from pinnace_agent.jobs import Jobs, Work
from pinnace_agent.resources.models import ModelRegistry, clamp_level
from pinnace_agent.run_log import user_message
from pinnace_agent.session import Session
from pinnace_agent.session.conversation import RETURNED_QUEUE
from pinnace_agent.session.file import SaveError
from pinnace_agent.session.lease import LeaseHeld
from pinnace_agent.session.library import Library
from pinnace_agent.session.replacement import NewSession, Replacement, SessionRequest
from pinnace_spec import errors
from pinnace_spec.messages import THINKING_LEVELS, ThinkingLevel, UserMessage
from pinnace_statechart import effects as fx
from pinnace_statechart.queues import Item
from pinnace_statechart.triggers import Happening

_log = logging.getLogger("pinnace.session")

Start = Callable[[int, Work, str], None]
"""Start the job of a busy state: its number, its work, and the trigger that its defect becomes."""


Reason = Literal["new", "resume", "fork"]


class SessionExtensions(Protocol):
    """What extensions have to do with a session that is replaced."""

    def asks(self, request: SessionRequest) -> bool:
        """Tell whether they are to be asked."""
        ...

    async def allows(self, request: SessionRequest, leaf_id: str | None) -> bool:
        """Ask them."""
        ...

    def reason_of(self, request: SessionRequest) -> Reason:
        """Return why a session ends and the next one begins."""
        ...

    async def end(self, reason: Reason, target_file: str | None = None) -> None:
        """End those of the session that is in force."""
        ...

    async def fill(self, ref: int, session: Session) -> None:
        """Fill a new session, if it was asked for in that way; those of the session before are still there.

        Raises:
            ClientError: That has failed.
        """
        ...

    async def begin(
        self, reason: Reason, previous_file: str | None = None, choose: Callable[[], None] | None = None
    ) -> None:
        """Load those of the session that is in force now; `choose` is called when their models are there.

        What fails is reported, not raised: the session is replaced.
        """
        ...


class SessionKeeper:
    """Holds the session in force, and those that are still written to."""

    def __init__(
        self,
        session: Session,
        library: Library,
        registry: ModelRegistry,
        emitter: Emitter,
        jobs: Jobs,
        report: Callable[[Happening], None],
        start: Start,
    ) -> None:
        """Take the session of the start."""
        self.preferred_level: ThinkingLevel = session.thinking_level  # what was asked for, whatever the model can do
        self._library = library
        self._registry = registry
        self._emitter = emitter
        self._jobs = jobs
        self._report = report
        self._start = start
        self._own: tuple[int, UserMessage] | None = None  # the text in preflight: its place, unless not appended
        self._own_problem: str | None = None
        self._plans: dict[int, Replacement] = {}
        self._former: set[Session] = set()  # no longer in force, not yet closed
        self._closing: set[Session] = set()
        self.on_conversation: Callable[[str], None] = _nothing_to_read
        """Called with the working folder of another conversation before it is in force."""
        self.on_folder: Callable[[str], None] = _nothing_to_read
        """Called with the working folder of a session that is about to begin, where there are no extensions yet."""
        self.extensions: SessionExtensions | None = None
        self._saving: dict[int, bool] = {}  # by session: whether more was appended since its task began
        self.session = session
        self._adopt(session)

    # The prompt in preflight.

    # DEVIATION D-23: every text is saved before its prompt is answered.
    def append_own(self, item: Item) -> None:
        """Append the text of a prompt; that it could not be saved is told by `sync`."""
        message = user_message(item.text, item.images, self.session.now_ms())
        self._own, self._own_problem = None, None
        try:
            self._own = self.session.accept(message), message
        except SaveError as error:
            self._own_problem = error.text

    def drop_own(self) -> None:
        """Take the text out of the branch, if it is there."""
        if self._own is not None:
            place, _ = self._own
            self._own = None
            self.session.drop(place)

    def take_own(self) -> UserMessage:
        """Return the text's message: its prompt was accepted."""
        assert self._own is not None
        (_, message), self._own = self._own, None
        return message

    def sync(self, job: int) -> None:
        """Report when what was appended is safe. At once if there is no disk to wait for."""
        if self._own_problem is not None:
            self._not_synced(job, self._own_problem)
        elif self.session.file is None:
            self._report(Happening("synced", job))
        else:
            self._start(job, partial(self._sync, job), "sync_failed")

    async def _sync(self, job: int) -> None:
        try:
            await self.session.sync()
        except SaveError as error:
            self._not_synced(job, error.text)
        else:
            self._report(Happening("synced", job))

    def _not_synced(self, job: int, text: str) -> None:
        self._report(Happening("sync_failed", job, text=text, code=errors.ErrorCode.SESSION_NOT_SAVED))

    def return_queue(self, effect: fx.ReturnQueue) -> None:
        """Keep the texts that nobody will deliver any more."""
        self.session.keep_custom(RETURNED_QUEUE, {"steering": effect.steering, "followUp": effect.follow_up})

    # Replacement.

    def ask(self, effect: fx.StartJob, request: SessionRequest) -> None:
        """Validate a session command and get ready for it; RUN goes on meanwhile."""
        plan = self._plans[effect.ref] = Replacement(request, self._library, self.session)
        try:
            plan.check()
        except errors.ClientError as error:
            self._invalid(effect.job, error)
            return
        if plan.must_wait or (self.extensions is not None and self.extensions.asks(request)):
            self._start(effect.job, partial(self._prepare, effect.job, plan), "ask_invalid")
        else:
            self._report(Happening("ask_yes", effect.job))

    async def _prepare(self, job: int, plan: Replacement) -> None:
        extensions = self.extensions
        if extensions is not None and extensions.asks(plan.request):
            leaf = self.session.tree.leaf
            leaf_id = None if leaf is None else str(self.session.tree.entries[leaf]["id"])
            if not await extensions.allows(plan.request, leaf_id):
                self._report(Happening("ask_no", job))
                return
        try:
            await plan.prepare()
        except errors.ClientError as error:
            self._invalid(job, error)
        else:
            self._report(Happening("ask_yes", job))

    def _invalid(self, job: int, error: errors.ClientError) -> None:
        self._report(Happening("ask_invalid", job, text=error.text, code=error.code))

    def switch(self, effect: fx.StartJob) -> None:
        """Replace the session in force."""
        self._start(effect.job, partial(self._switch, effect), "switch_failed")

    async def _switch(self, effect: fx.StartJob) -> None:
        plan = self._plans[effect.ref]
        extensions, previous = self.extensions, self.session.path
        try:
            session = await plan.commit()
            if extensions is not None and isinstance(plan.request, NewSession):
                await self._fill(extensions, effect.ref, session)
        except errors.ClientError as error:
            self._report(Happening("switch_failed", effect.job, text=error.text, code=error.code))
            return
        for notice in plan.notices:
            _warn(notice)
        if extensions is None:
            self.on_folder(session.cwd)
            extensions = self.extensions
        if extensions is not None:
            await extensions.end(extensions.reason_of(plan.request), session.path)
        if plan.is_other_conversation:
            self.on_conversation(session.cwd)
        former, self.session = self.session, session
        choose = partial(self._restore_choices if plan.restores_choices else self._keep_choices, former)
        choose()
        self._adopt(session)
        former.users -= 1
        self._former.add(former)
        self.close_unused()
        if extensions is not None:
            # Again: the models of extensions are there only then.
            await extensions.begin(extensions.reason_of(plan.request), previous, choose)
        self._report(Happening("switch_ok", effect.job))

    # DEVIATION D-74: the extensions of the session before are there until the new one is whole.
    async def _fill(self, extensions: SessionExtensions, ref: int, session: Session) -> None:
        """Let the extension that asked for a new session fill it; if that fails, nothing of it is left."""
        try:
            await extensions.fill(ref, session)
        except BaseException:
            self._library.drop(session)
            raise

    def text_of(self, ref: int) -> str | None:
        """Return the text that a fork starts before."""
        plan = self._plans.get(ref)
        return None if plan is None else plan.text

    def answered(self, ref: int) -> None:
        """A session command was answered: what was prepared for it and not used is let go."""
        plan = self._plans.pop(ref, None)
        if plan is not None:
            self._jobs.start(f"discard:{ref}", plan.discard, _nothing)

    def _keep_choices(self, former: Session) -> None:
        """Go on with the model and the level of the session before."""
        self.session.model, self.session.thinking_level = former.model, former.thinking_level

    def _restore_choices(self, former: Session) -> None:
        """Take the model and the level that the session was left with, if they can be had."""
        session = self.session
        told = session.recorded_model
        model = None if told is None else self._registry.find(*told)
        if model is None or not self._registry.is_usable(model) or self._registry.price_refusal(model):
            model = former.model
        session.model = model
        for level in THINKING_LEVELS:
            if level == session.recorded_level:
                self.preferred_level = level
        session.thinking_level = self.preferred_level if model is None else clamp_level(model, self.preferred_level)

    def _adopt(self, session: Session) -> None:
        self._former.discard(session)
        session.users += 1
        session.on_problem = partial(self._tell_problem, session)
        session.on_appended = partial(self._save, session)
        if session.file is not None:
            session.file.on_notice = _warn

    def close_unused(self) -> None:
        """Close sessions that nobody will append to any more, once everything of them is saved.

        What is not is kept: it is tried again here, when the session is returned to, and when the process ends.
        """
        for session in tuple(self._former):
            if session.users == 0 and _is_written(session):
                self._former.discard(session)
                self._library.forget(session)
                self._closing.add(session)
                self._jobs.start(f"close:{id(session)}", session.close, partial(self._closed, session))

    def _closed(self, session: Session, is_cancelled: bool, _failure: BaseException | None) -> None:
        # One that was cancelled before its first step has done nothing: the end of the process sees to that session.
        if not is_cancelled:
            self._closing.discard(session)

    async def close_all(self) -> None:
        """Bring everything to the disk: the process ends. What can't be saved in its file goes to another one."""
        for session in (*self._closing, *self._library.all_open()):
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
        assert copied.file is not None
        copied.file.abandon()
        _log.error("%s could not be saved; the whole conversation is in %s", session.path, copied.path)

    # Saving.

    def _save(self, session: Session) -> None:
        """Bring what was appended to the disk, beside everything else."""
        if id(session) in self._saving:
            self._saving[id(session)] = True
            return
        self._saving[id(session)] = False

        async def work() -> None:
            while True:
                self._saving[id(session)] = False
                try:
                    await session.sync()
                except SaveError as error:
                    self._tell_problem(session, error.text)
                    return
                if not self._saving[id(session)]:
                    return

        def ended(_cancelled: bool, _failure: BaseException | None) -> None:
            del self._saving[id(session)]

        self._jobs.start(f"save:{id(session)}", work, ended)

    def _tell_problem(self, session: Session, text: str) -> None:
        """Tell the client in the words that every generation has for a failure beside its commands."""
        _log.error("%s", text)
        self._emitter.emit(
            {"type": "extension_error", "extensionPath": str(session.path), "event": "session_save", "error": text}
        )


def _is_written(session: Session) -> bool:
    """Try again what could not be written; say whether all of it is."""
    if session.file is None:
        return True
    if session.file.unsaved:
        with suppress(SaveError):
            session.file.flush()
    return not session.file.unsaved


def _warn(notice: str) -> None:
    _log.warning("%s", notice)


def _nothing_to_read(_cwd: str) -> None:
    """No folder adds anything."""


def _nothing(_cancelled: bool, _failure: BaseException | None) -> None:
    """Nobody waits for this job."""
