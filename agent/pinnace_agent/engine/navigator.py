"""The job of a move to another entry of the session, with a summary of the branch that is left if one is requested.

The room `compaction` decides where a move lands. The session is moved, and its tools are those of the new branch, when
the statechart takes the job's report for a success, so what is cancelled before leaves nothing behind (C-13). Loaded
with the first move. Rules R-SES-13, R-SES-16, R-SET-09.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from pinnace_agent.compaction.summarize import CompactionFailed
from pinnace_agent.compaction.tree_moves import LeafMove, MoveDecision, id_at, plan_move, summarize_left
from pinnace_agent.core.jobs import Work
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.engine.compaction_job import writer_of
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.engine.session_choices import continue_tools
from pinnace_agent.engine.status_records import origin_of, session_changed
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.replacement import MoveRequest
from pinnace_spec.records.entries import Entry
from pinnace_spec.rules import errors
from pinnace_statechart import effects as fx
from pinnace_statechart.state import RetryPolicy
from pinnace_statechart.triggers import InternalEvent

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.extensions import ExtensionInstance


class _Attempt:
    """One move, from its request to what has become of it."""

    def __init__(self, job: int, ref: int) -> None:
        """Nothing is known yet: what ends it now is an abort."""
        self.job = job
        self.ref = ref
        """The number of its command."""
        self.move: LeafMove | None = None
        self.label: str | None = None
        self.fields: Mapping[str, object] | None = None
        """Of the summary's entry; None: there is none."""
        self.summary: Entry | None = None
        """The summary's entry, once the session has moved."""
        self.has_moved = False
        self.result: Mapping[str, object] = {"cancelled": True, "aborted": True}


class Navigator:
    """Has the current session moved to another of its entries."""

    def __init__(
        self,
        profile: AgentProfile,
        emitter: Emitter,
        report: Callable[[InternalEvent], None],
        start: Callable[[int, Work, str], None],
        extensions: Callable[[], "ExtensionInstance | None"],
    ) -> None:
        """Prepare; the arguments are those of `Compactor`."""
        self._profile = profile
        self._emitter = emitter
        self._report = report
        self._start = start
        self._extensions = extensions
        self._attempt = _Attempt(0, 0)  # the newest one: what an abandoned one still reports is dropped

    def start(self, effect: fx.StartJob, session: Session, retry: RetryPolicy, request: MoveRequest) -> None:
        """Start to prepare a move."""
        attempt = self._attempt = _Attempt(effect.job, effect.ref)
        self._start(effect.job, partial(self._work, attempt, session, retry, request), "navigation_failed")

    def result(self) -> Mapping[str, object]:
        """Return what has become of the newest move, as on the wire."""
        return self._attempt.result

    async def _work(self, attempt: _Attempt, session: Session, retry: RetryPolicy, request: MoveRequest) -> None:
        await session.wait_until_left()
        owned = session.claim()
        tree = session.tree
        target = None if request.target_id is None else tree.find(request.target_id)
        try:
            if target is None and request.target_id is not None:
                text, code = errors.entry_not_found(request.target_id), errors.ErrorCode.ENTRY_NOT_FOUND
                raise CompactionFailed(text, code)
            if request.summarize and session.model is None:
                raise CompactionFailed(errors.NO_MODEL, errors.ErrorCode.NO_MODEL)
            if target == tree.leaf:
                attempt.result = {"cancelled": False, **({} if target is None else {"leafId": request.target_id})}
            elif owned is not None:
                raise CompactionFailed(owned, errors.ErrorCode.SESSION_NOT_SAVED)
            elif not await self._prepare(attempt, session, retry, request, target):
                attempt.result = {"cancelled": True}
            else:
                self._report(InternalEvent("navigation_ready", attempt.job))
                await self._publish(attempt, session)
                return
        except CompactionFailed as error:
            self._report(InternalEvent("navigation_failed", attempt.job, text=error.text, code=error.code))
        else:
            self._report(InternalEvent("navigation_ok", attempt.job))

    async def _prepare(
        self, attempt: _Attempt, session: Session, retry: RetryPolicy, request: MoveRequest, target: int | None
    ) -> bool:
        """Have everything made that the move needs; return whether no extension refuses it.

        Raises:
            CompactionFailed: No summary was written.
        """
        move = attempt.move = plan_move(session.tree, request, target)
        decision = MoveDecision()
        instance = self._extensions()
        if instance is not None and instance.decides_moves:
            decided = await instance.decide_move(session.tree, move)
            if decided == "cancelled":
                return False
            decision = decided
        attempt.label, attempt.fields = decision.label or request.label, decision.summary
        if attempt.fields is None and request.summarize and move.left:
            assert session.model is not None  # asked before
            writer = await writer_of(self._profile, session, session.model, retry)
            attempt.fields = await summarize_left(writer, move, session, decision.instructions or request.instructions)
        return True

    def move(self, session: Session) -> None:
        """Move the session as the newest job has prepared it, and announce that."""
        attempt = self._attempt
        move = attempt.move
        if move is None:
            raise errors.InternalError("no move was prepared")
        entry = session.move(move.landing, attempt.fields)
        continue_tools(self._profile, session)
        attempt.summary = None if attempt.fields is None else entry
        if attempt.label:
            labelled = attempt.summary["id"] if attempt.summary is not None else move.request.target_id
            if labelled is not None:
                session.keep_label(str(labelled), attempt.label)
        attempt.has_moved = True
        self._emitter.emit(session_changed(session, "navigate", origin_of(attempt.ref)))
        result: dict[str, object] = {"cancelled": False, "leafId": id_at(session.tree, session.tree.leaf)}
        if move.text is not None:
            result["editorText"] = move.text
        if attempt.summary is not None:
            result["summaryEntry"] = attempt.summary
        attempt.result = result

    async def _publish(self, attempt: _Attempt, session: Session) -> None:
        """Let extensions know of the move, if it was made and not aborted just before, and report its end."""
        ended = partial(self._report, InternalEvent("navigation_ok", attempt.job))
        instance = self._extensions()
        if instance is None or attempt.move is None or not attempt.has_moved:
            ended()
            return
        await instance.moved(id_at(session.tree, session.tree.leaf), attempt.move.old_leaf_id, attempt.summary, ended)
