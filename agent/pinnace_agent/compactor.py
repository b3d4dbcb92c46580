"""Compactions as the chart asks for them: the job that has a summary written, the entry, the records around it.

Knows whether one is due; does not decide whether it is done. What a compaction takes away and what stands for it is
`compaction`'s to know. The entry is appended when the chart takes the job's end for a success, so a cancelled one has
left nothing behind (C-13). Rules R-CMP-01 to R-CMP-04.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from pinnace_agent.emitter import Emitter
from pinnace_agent.jobs import Work
from pinnace_agent.profile import AgentProfile
from pinnace_agent.resources.settings import CompactionSettings
from pinnace_agent.session import Session
from pinnace_spec import errors
from pinnace_spec.entries import Entry
from pinnace_spec.messages import AssistantMessage, Message, Model
from pinnace_statechart import effects as fx
from pinnace_statechart.state import RetryPolicy
from pinnace_statechart.triggers import Happening

if TYPE_CHECKING:  # loaded with the first prompt, or ahead of it (`load`)
    from pinnace_agent.compaction.compaction import CompactionResult
    from pinnace_agent.extensions.runner import Runner


def no_extensions() -> None:
    """Return what there is where nobody has loaded any."""


class Compactor:
    """Has the session in force compacted."""

    def __init__(
        self,
        profile: AgentProfile,
        emitter: Emitter,
        report: Callable[[Happening], None],
        start: Callable[[int, Work, str], None],
        extensions: "Callable[[], Runner | None]" = no_extensions,
    ) -> None:
        """Prepare; `start` and `report` as of the host, `extensions` are those of the session in force."""
        self.result: CompactionResult | None = None  # of the job that has ended last
        self._is_vetoed = False  # an extension would not have it
        self._is_extensions_own = False  # the result is an extension's
        self._job = 0  # the newest one: what an abandoned one still makes is discarded
        self._extensions = extensions
        self._profile = profile
        self._emitter = emitter
        self._report = report
        self._start = start

    def begin(self, effect: fx.CompactionStart) -> None:
        """Write `compaction_start`."""
        self._emitter.emit({"type": "compaction_start", "reason": effect.reason})

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
        model = session.model
        if model is None:
            self._report(Happening("compaction_failed", job, text=errors.NO_MODEL, code=errors.ErrorCode.NO_MODEL))
            return
        from pinnace_agent.compaction.compaction import compact
        from pinnace_agent.compaction.summarize import CompactionFailed, Writer

        try:
            if await self._ask_extensions(job, model, session, instructions, reason):
                return self._report(Happening("compaction_ok", job))
            credentials = await self._profile.registry.credentials(model)
            writer = Writer(
                model,
                credentials,
                session.thinking_level,
                session.id,
                retry,
                self._profile.idle_timeout_s,
                self._profile.thinking_budgets,
                self._profile.registry.provider_for(model),
            )
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
            self._report(Happening("compaction_failed", job, text=error.text, code=error.code))
        else:
            self._report(Happening("compaction_ok", job))

    async def _ask_extensions(
        self, job: int, model: Model, session: Session, instructions: str | None, reason: fx.CompactionReason
    ) -> bool:
        """Return whether an extension has made the compaction, so that nobody else has to.

        Raises:
            CompactionFailed: One would not have it, or there is nothing to compact.
        """
        runner = self._extensions()
        if runner is None or not runner.has_handlers("session_before_compact"):
            return False
        from pinnace_agent.compaction.compaction import plan_compaction
        from pinnace_agent.compaction.summarize import CompactionFailed
        from pinnace_agent.extensions.compaction_hooks import decided

        path, settings = session.tree.branch(), self._profile.compaction.for_model(model)
        plan = plan_compaction(path, tuple(session.messages), model, settings, has_overflowed=reason == "overflow")
        await runner.lane.drain()
        made = await decided(runner, plan, path, settings, instructions, reason)
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
            assert self.result is not None
            entry = {key: value for key, value in self.result.items() if key != "estimatedTokensAfter"}
            if self._is_extensions_own:
                entry["fromHook"] = True
            session.compact(entry)
            record["result"] = self.result
        is_aborted = effect.outcome == "aborted" or (effect.outcome == "failed" and self._is_vetoed)
        record |= {"aborted": is_aborted, "willRetry": effect.will_retry}
        if effect.outcome == "failed" and not is_aborted:
            record["errorMessage"] = effect.text
        self._emitter.emit(record)
        self._tell(effect, session, is_aborted=is_aborted)

    def _tell(self, effect: fx.CompactionEnd, session: Session, *, is_aborted: bool) -> None:
        if (runner := self._extensions()) is None:
            return
        from pinnace_agent.extensions.compaction_hooks import compacted, failed

        is_own = self._is_extensions_own
        if effect.outcome == "ok":
            assert session.tree.leaf is not None
            entry = session.tree.entries[session.tree.leaf]
            compacted(runner, entry, effect.reason, from_extension=is_own, will_retry=effect.will_retry)
        else:
            failed(
                runner, effect.reason, None if is_aborted else effect.text, aborted=is_aborted, from_extension=is_own
            )

    def is_due_before(self, session: Session, *, is_enabled: bool) -> bool:
        """Tell whether the context is to be compacted before a prompt is sent."""
        from pinnace_agent.compaction.threshold import is_due

        settings = replace(self._profile.compaction.for_model(session.model), is_enabled=is_enabled)
        return _is_over(session, settings) and is_due(session.tree.branch(), session.messages, session.model, settings)

    def is_due_after(self, session: Session, message: AssistantMessage) -> bool:
        """Tell whether it is, with an answer that is about to end, before anything else is done.

        Whether compaction is on is the chart's to look at.
        """
        from pinnace_agent.compaction.threshold import is_due

        settings = replace(self._profile.compaction.for_model(session.model), is_enabled=True)
        if not _is_over(session, settings, message):
            return False
        messages = [*session.messages, message]
        entry: Entry = {"type": "message", "id": "", "message": message}
        return is_due([*session.tree.branch(), entry], messages, session.model, settings, passes_aborted=True)


def _is_over(session: Session, settings: CompactionSettings, *more: Message) -> bool:
    """Tell whether a look at the branch is worth its time: it is as long as the session."""
    from pinnace_agent.compaction.threshold import is_over

    return session.model is not None and is_over(session.meter.tokens(*more), session.model["contextWindow"], settings)


def load() -> None:
    """Load what a first prompt needs of this: a process that only answers questions does without."""
    for name in ("compaction.threshold", "llm.verdicts", "session.context_meter"):
        import_module(f"pinnace_agent.{name}")
