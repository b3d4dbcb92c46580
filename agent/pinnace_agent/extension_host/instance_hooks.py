"""The extensions of one session instance, as the engine's jobs ask them: an `ExtensionInstance` over a runner."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.extensions.events.events import CacheWarmingDecision, SessionInfoChanged, ThinkingLevelSelect
from pinnace_agent.extensions.events.results import CacheDecision
from pinnace_agent.extensions.ports.host_view import CommandInfo
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import ThinkingLevel

if TYPE_CHECKING:
    from pinnace_agent.compaction.compaction import CompactionResult, Plan
    from pinnace_agent.compaction.tree_moves import LeafMove, MoveDecision
    from pinnace_agent.core.ports.extensions import CompactionReason
    from pinnace_agent.core.ports.runs import RecordedRun
    from pinnace_agent.extensions.hooks.run_hooks import RunHooks
    from pinnace_agent.extensions.hooks.shell_hooks import GuardedCommands

_BUILTIN: Final = "builtin"
"""Where an extension comes from whose tasks only wait, and are no work."""


class ObservedRun:
    """The extensions of one run."""

    def __init__(self, runner: Runner, session: Session, emitter: Emitter) -> None:
        """Begin a run; nothing is published yet."""
        from pinnace_agent.extensions.hooks.run_event_publisher import RunEventPublisher  # with the first run

        self.observer = RunEventPublisher(runner, session)
        self._session = session
        self._emitter = emitter

    def hooks(self, run: "RecordedRun") -> "RunHooks":
        """Return what the run's job asks."""
        from pinnace_agent.extensions.hooks.run_hooks import RunHooks

        return RunHooks(run, self.observer, self._session, self._emitter)


class InstanceHooks:
    """The extensions of one session instance."""

    def __init__(self, runner: Runner) -> None:
        """Ask the extensions of a runner."""
        self._runner = runner

    def new_run(self, session: Session, emitter: Emitter) -> ObservedRun:
        """Return the extensions of a run that begins."""
        return ObservedRun(self._runner, session, emitter)

    def guard_command(self) -> "GuardedCommands | None":
        """Return the handlers of shell commands that start now; None: there are none."""
        if not self._runner.gates.guards("user_bash"):
            return None
        from pinnace_agent.extensions.hooks.shell_hooks import GuardedCommands

        return GuardedCommands(self._runner)

    # Messages of the client.

    def has_command(self, text: str) -> bool:
        """Return whether a message calls a command of an extension."""
        return self._runner.commands.find(text) is not None

    @property
    def reads_input(self) -> bool:
        """Whether there are handlers of `input`."""
        return self._runner.has_handlers("input")

    def command_infos(self) -> Sequence[CommandInfo]:
        """Describe the commands of the extensions."""
        return self._runner.commands.infos()

    def shortcuts(self) -> Sequence[Mapping[str, object]]:
        """Describe the keys of the extensions, as on the wire."""
        return [
            {"key": each.key, "path": extension.path}
            | ({} if each.description is None else {"description": each.description})
            for extension in self._runner.extensions
            for each in extension.shortcuts.values()
        ]

    def item_renderers(self) -> Sequence[Mapping[str, object]]:
        """Describe what extensions draw of the conversation, as on the wire."""
        found = self._runner.renderers()
        return [{"kind": each.kind, "name": each.name, "framed": each.is_framed} for each in found]

    def run_shortcut(self, key: str) -> bool:
        """Start what an extension does at a key; return whether one has it."""
        return self._runner.run_shortcut(key)

    def completes(self, name: str) -> bool:
        """Return whether an extension completes the arguments of a command."""
        return self._runner.commands.completes(name)

    async def complete(self, name: str, prefix: str) -> Sequence[Mapping[str, object]]:
        """Return what an extension offers for the arguments of a command, as on the wire."""
        return await self._runner.commands.complete(name, prefix)

    @property
    def completes_text(self) -> bool:
        """Whether an extension completes the text of the editor."""
        return self._runner.text_providers is not None

    async def complete_text(self, before: str, after: str, *, is_forced: bool) -> Mapping[str, object]:
        """Return the answer of what extensions offer for the text at the cursor."""
        providers = self._runner.text_providers
        assert providers is not None
        return await providers.complete(before, after, is_forced=is_forced)

    def at_work(self) -> Sequence[str]:
        """Return the paths of the extensions with a background task that runs."""
        return [
            extension.path
            for extension, tasks in self._runner.instances.items()
            if tasks.is_at_work and extension.source["source"] != _BUILTIN
        ]

    async def decide_warming(
        self, warm_cost: float, miss_cost: float, probability: float, *, is_wanted: bool
    ) -> bool | None:
        """Return whether the provider's cache is kept; None: no handler says so."""
        if not self._runner.has_handlers("cache_warming_decision"):
            return None

        def event() -> CacheWarmingDecision:
            return CacheWarmingDecision(
                warm_cost=warm_cost,
                miss_cost=miss_cost,
                continuation_probability=probability,
                action="warm" if is_wanted else "stop",
            )

        await self._runner.lane.drain()
        made = await self._runner.chains.decide("cache_warming_decision", event)
        return made.action == "warm" if isinstance(made, CacheDecision) else None

    # Compactions.

    @property
    def decides_compactions(self) -> bool:
        """Whether there are handlers of `session_before_compact`."""
        return self._runner.has_handlers("session_before_compact")

    async def decide_compaction(
        self,
        plan: "Plan",
        path: Sequence[Entry],
        settings: CompactionSettings,
        instructions: str | None,
        reason: "CompactionReason",
    ) -> "CompactionResult | Literal['cancelled'] | None":
        """Deliver earlier events, and return the compaction of an extension; None: a model is to write the summary."""
        from pinnace_agent.extensions.hooks import compaction_hooks

        await self._runner.lane.drain()
        return await compaction_hooks.decided(self._runner, plan, path, settings, instructions, reason)

    def compaction_ended(
        self, entry: Entry, reason: "CompactionReason", *, from_extension: bool, will_retry: bool
    ) -> None:
        """Publish `session_compact`."""
        from pinnace_agent.extensions.hooks import compaction_hooks

        compaction_hooks.compacted(self._runner, entry, reason, from_extension=from_extension, will_retry=will_retry)

    def compaction_failed(
        self, reason: "CompactionReason", text: str | None, *, aborted: bool, from_extension: bool
    ) -> None:
        """Publish `session_compact_failed`."""
        from pinnace_agent.extensions.hooks import compaction_hooks

        compaction_hooks.failed(self._runner, reason, text, aborted=aborted, from_extension=from_extension)

    # Moves to another entry.

    @property
    def decides_moves(self) -> bool:
        """Whether there are handlers of `session_before_tree`."""
        return self._runner.has_handlers("session_before_tree")

    async def decide_move(self, tree: EntryTree, move: "LeafMove") -> "MoveDecision | Literal['cancelled']":
        """Deliver earlier events, and return what handlers want of a move."""
        from pinnace_agent.extensions.hooks import tree_hooks

        await self._runner.lane.drain()
        return await tree_hooks.decided(self._runner, tree, move)

    async def moved(
        self, new_leaf_id: str | None, old_leaf_id: str | None, summary: Entry | None, then: Callable[[], None]
    ) -> None:
        """Publish `session_tree`, and then call `then`."""
        from pinnace_agent.extensions.hooks import tree_hooks

        await tree_hooks.moved(self._runner, new_leaf_id, old_leaf_id, summary, then)

    # Settings.

    def level_selected(self, level: ThinkingLevel, former: ThinkingLevel) -> None:
        """Publish `thinking_level_select`."""
        self._runner.notify_later(
            "thinking_level_select", lambda: ThinkingLevelSelect(level=level, previous_level=former)
        )

    def session_renamed(self, name: str | None) -> None:
        """Publish `session_info_changed`."""
        self._runner.notify_later("session_info_changed", lambda: SessionInfoChanged(name=name))
