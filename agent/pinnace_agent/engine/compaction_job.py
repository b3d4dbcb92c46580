"""The job that has a compaction's summary written.

Decides whether a compaction is due; the statechart decides whether it is done, and the room `compaction` what it
removes. An entry is appended when the statechart takes the job's report for a success, so what is cancelled before
leaves nothing behind (C-13). Rules R-CMP-01 to R-CMP-04.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.core.jobs import Work
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.session.conversation import Session
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import AssistantMessage, Message, Model
from pinnace_spec.rules import errors
from pinnace_statechart import effects as fx
from pinnace_statechart.state import RetryPolicy
from pinnace_statechart.triggers import InternalEvent

if TYPE_CHECKING:  # loaded with the first prompt, or ahead of it (`load`)
    from pinnace_agent.compaction.compaction import CompactionResult
    from pinnace_agent.compaction.summarize import Writer
    from pinnace_agent.core.ports.extensions import ExtensionInstance


class Compactor:
    """Has the current session compacted."""

    def __init__(
        self,
        profile: AgentProfile,
        emitter: Emitter,
        report: Callable[[InternalEvent], None],
        start: Callable[[int, Work, str], None],
        extensions: "Callable[[], ExtensionInstance | None]",
    ) -> None:
        """Prepare.

        Args:
            profile: The configuration of the process.
            emitter: Takes the records of compactions.
            report: Takes what the job reports.
            start: Starts the job of a busy state.
            extensions: Returns those of the current session.
        """
        self.result: CompactionResult | None = None  # of the job that has ended last
        self._is_vetoed = False  # an extension has cancelled it
        self._is_extensions_own = False  # the result is an extension's
        self._entry_id = ""  # of the newest one, reserved when it began
        self._job = 0  # the newest one: what an abandoned one still makes is discarded
        self._extensions = extensions
        self._profile = profile
        self._emitter = emitter
        self._report = report
        self._start = start

    def made(self) -> "CompactionResult":
        """Return the result of the job that has ended last, with success."""
        if self.result is None:
            raise errors.InternalError("there is no result of a compaction")
        return self.result

    def begin(self, effect: fx.CompactionStart, session: Session) -> None:
        """Write `compaction_start`, with the id of the entry that it may become."""
        self._entry_id = session.reserve_entry_id()
        self._emitter.emit({"type": "compaction_start", "reason": effect.reason, "entryId": self._entry_id})

    def start(self, effect: fx.StartJob, session: Session, retry: RetryPolicy, instructions: str | None) -> None:
        """Start to have a summary written."""
        self.result = None
        self._is_vetoed = self._is_extensions_own = False
        self._job = effect.job
        work = partial(self._work, effect.job, session, retry, instructions, effect.reason or "manual")
        self._start(effect.job, work, "compaction_failed")

    async def _work(
        self,
        job: int,
        session: Session,
        retry: RetryPolicy,
        instructions: str | None,
        reason: fx.CompactionReason,
    ) -> None:
        await session.wait_until_left()
        if (owned := session.claim()) is not None:
            code = errors.ErrorCode.SESSION_NOT_SAVED
            self._report(InternalEvent("compaction_failed", job, text=owned, code=code))
            return
        model = session.model
        if model is None:
            self._report(InternalEvent("compaction_failed", job, text=errors.NO_MODEL, code=errors.ErrorCode.NO_MODEL))
            return
        from pinnace_agent.compaction.compaction import compact
        from pinnace_agent.compaction.summarize import CompactionFailed

        try:
            if await self._ask_extensions(job, model, session, instructions, reason):
                return self._report(InternalEvent("compaction_ok", job))
            writer = await writer_of(self._profile, session, model, retry)
            result = await compact(
                session.tree.branch(),
                tuple(session.messages),
                writer,
                self._profile.compaction.for_model(model),
                instructions=instructions,
                has_overflowed=reason == "overflow",
            )
            if job == self._job:
                self.result = result
        except CompactionFailed as error:
            self._report(InternalEvent("compaction_failed", job, text=error.text, code=error.code))
        else:
            self._report(InternalEvent("compaction_ok", job))

    async def _ask_extensions(
        self, job: int, model: Model, session: Session, instructions: str | None, reason: fx.CompactionReason
    ) -> bool:
        """Return whether an extension has made the compaction, so that no model has to.

        Raises:
            CompactionFailed: An extension has cancelled it, or there is nothing to compact.
        """
        instance = self._extensions()
        if instance is None or not instance.decides_compactions:
            return False
        from pinnace_agent.compaction.compaction import plan_compaction
        from pinnace_agent.compaction.summarize import CompactionFailed

        path, settings = session.tree.branch(), self._profile.compaction.for_model(model)
        plan = plan_compaction(path, tuple(session.messages), model, settings, has_overflowed=reason == "overflow")
        made = await instance.decide_compaction(plan, path, settings, instructions, reason)
        if job != self._job:
            return True
        if made == "cancelled":
            self._is_vetoed = True
            raise CompactionFailed(errors.COMPACTION_CANCELLED, errors.ErrorCode.COMPACTION_CANCELLED)
        self.result, self._is_extensions_own = made, made is not None
        return made is not None

    def end(self, effect: fx.CompactionEnd, session: Session) -> None:
        """Append what the job has made, if it was a success, and write `compaction_end`."""
        record: dict[str, object] = {"type": "compaction_end", "reason": effect.reason, "result": None}
        if effect.outcome == "ok":
            made = self.made()
            entry = {key: value for key, value in made.items() if key != "estimatedTokensAfter"}
            if self._is_extensions_own:
                entry["fromHook"] = True
            session.compact(entry, entry_id=self._entry_id)
            record["result"] = made
        else:
            session.release_entry_id(self._entry_id)
        is_aborted = effect.outcome == "aborted" or (effect.outcome == "failed" and self._is_vetoed)
        record |= {"aborted": is_aborted, "willRetry": effect.will_retry, "entryId": self._entry_id}
        if effect.outcome == "failed" and not is_aborted:
            record["errorMessage"] = effect.text
        self._emitter.emit(record)
        self._report_to_extensions(effect, session, is_aborted=is_aborted)

    def _report_to_extensions(self, effect: fx.CompactionEnd, session: Session, *, is_aborted: bool) -> None:
        if (instance := self._extensions()) is None:
            return
        is_own = self._is_extensions_own
        if effect.outcome == "ok":
            assert session.tree.leaf is not None
            entry = session.tree.entries[session.tree.leaf]
            instance.compaction_ended(entry, effect.reason, from_extension=is_own, will_retry=effect.will_retry)
        else:
            text = None if is_aborted else effect.text
            instance.compaction_failed(effect.reason, text, aborted=is_aborted, from_extension=is_own)

    def is_due_before(self, session: Session, *, is_enabled: bool) -> bool:
        """Return whether the context is to be compacted before a prompt is sent."""
        from pinnace_agent.compaction.threshold import is_due

        settings = replace(self._profile.compaction.for_model(session.model), is_enabled=is_enabled)
        return _is_over(session, settings) and is_due(session.tree.branch(), session.messages, session.model, settings)

    def is_due_after(self, session: Session, message: AssistantMessage) -> bool:
        """Return whether it is due, with an answer that is about to end, before anything else is done.

        The statechart decides whether compaction is enabled.
        """
        from pinnace_agent.compaction.threshold import is_due

        settings = replace(self._profile.compaction.for_model(session.model), is_enabled=True)
        if not _is_over(session, settings, message):
            return False
        messages = [*session.messages, message]
        entry: Entry = {"type": "message", "id": "", "message": message}
        return is_due([*session.tree.branch(), entry], messages, session.model, settings, passes_aborted=True)


async def writer_of(profile: AgentProfile, session: Session, model: Model, retry: RetryPolicy) -> "Writer":
    """Return the model of a session as the writer of summaries."""
    from pinnace_agent.compaction.summarize import Writer

    return Writer(
        model,
        await profile.registry.credentials(model),
        session.thinking_level,
        session.id,
        retry,
        profile.idle_timeout_s,
        profile.thinking_budgets,
        profile.registry.provider_for(model),
    )


def _is_over(session: Session, settings: CompactionSettings, *more: Message) -> bool:
    """Return whether a look at the branch is worth its time: it is as long as the session."""
    from pinnace_agent.compaction.threshold import is_over

    return session.model is not None and is_over(session.meter.tokens(*more), session.model["contextWindow"], settings)


def load() -> None:
    """Load what a first prompt needs of this, or a first fork: a process that only answers questions does without."""
    for name in ("compaction.threshold", "llm.outcomes", "session.context_meter", "session.branch_copy"):
        import_module(f"pinnace_agent.{name}")
