"""Loads the extensions of one session instance: find them, ask whether the project is trusted, load, resolve conflicts.

The user's own extensions are loaded first, and may decide about the project; then the others, beside those that
are loaded. The caller decides what a failure means.
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace_agent.extension_host.plan import ExtensionPlan
from pinnace_agent.extensions.api.contexts import TrustContext
from pinnace_agent.extensions.api.user_interface import RpcUserInterface, UserInterface
from pinnace_agent.extensions.events.uncompiled import FrozenFields, frozen
from pinnace_agent.extensions.loading.discovery import DiscoveredExtensions, ExtensionSources, discover
from pinnace_agent.extensions.loading.folders import LoadFailure
from pinnace_agent.extensions.loading.loading import LoadedExtension, Loader, LoadReport
from pinnace_agent.extensions.loading.precedence import conflicts, keep_needed
from pinnace_agent.extensions.registration.flags import MatchedFlags, flags_of, match_flags
from pinnace_agent.extensions.registration.registrations import ErrorSink, Generation
from pinnace_agent.extensions.services.dialogs import DialogTable
from pinnace_agent.files.paths import gated_project_files

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import ExtensibleAgent
    from pinnace_agent.node_extensions.starting import Scripts

_log = logging.getLogger("pinnace.extensions")


@frozen
class LoadedInstance(FrozenFields):
    """The extensions of a session instance, before they begin."""

    loader: Loader
    all: Sequence[LoadedExtension]
    """Also those that give way to others."""
    kept: Sequence[LoadedExtension]
    failures: Sequence[LoadFailure]
    flag_errors: Sequence[str]
    given_back: Sequence[int]
    """The options of extensions that take no value and are followed by a word of the command line."""
    notices: Sequence[str]
    left_out: Sequence[LoadFailure]
    """Extensions that were found or named and are not loaded, each once."""
    named_failures: Sequence[LoadFailure]
    """Those of them that the command line names: one may be a gate that the user relies on."""
    files: Sequence[str]
    """Files and folders of the extensions, also of those that were not loaded."""


class InstanceLoading:
    """Loads the extensions of one process, as often as it needs to."""

    def __init__(self, plan: ExtensionPlan, agent: "ExtensibleAgent", report: ErrorSink) -> None:
        """Load nothing yet."""
        self.dialogs: DialogTable | None = None
        """The dialogs of handlers of `project_trust`; None: none is open."""
        self._plan = plan
        self._agent = agent
        self._report = report
        self._closed: str | None = None
        self._scripts: Scripts | None = None

    async def load(self, generation: Generation) -> LoadedInstance:
        """Load the extensions of the current session. Cancelling stops at the one that is loading."""
        plan = self._plan
        agent = self._agent
        loader = Loader(generation, cwd=agent.session.cwd, environment=agent.profile.environment, log=_log.info)
        cwd = Path(self._agent.session.cwd)
        wanted = ExtensionSources(
            env=plan.env,
            cwd=str(cwd),
            settings=plan.settings(cwd),
            named=plan.named,
            is_discovering=plan.is_discovering,
        )
        is_trusted = plan.trusts(cwd)
        if plan.approved is None and gated_project_files(cwd, plan.env):
            report = await loader.load((await self._runnable(discover(wanted), loader)).candidates)
            decided = await self._ask_for_trust(cwd, report, generation)
            is_trusted = is_trusted if decided is None else decided
        wanted = wanted._replace(is_trusted=is_trusted, settings=plan.settings(cwd))
        found = await self._runnable(discover(wanted), loader)
        if self._scripts is not None and loader.scripts is None:
            self._scripts.end()  # that of the instance before, which had some
        report = await loader.load(found.candidates, self._plan.inline)
        kept = keep_needed(report.extensions)
        flags = match_flags(plan.given, flags_of(kept.extensions))
        loader.flags.given = flags.values
        replaced = [
            LoadFailure(each.path, text.removeprefix(f"{each.path} is left out: "))
            for each, text in zip(kept.left_out, kept.warnings, strict=True)
        ]
        named = {
            *plan.named,
            *(each.source["path"] for each in found.candidates if each.source["scope"] == "temporary"),
        }
        left_out = [*found.failures, *report.failures, *found.left_out, *replaced]
        return LoadedInstance(
            loader,
            report.loaded,
            [each for each in report.loaded if each.extension in kept.extensions],
            [*found.failures, *report.failures, *conflicts(kept.extensions)],
            [*flags.errors, *self._refused_words(flags)],
            flags.given_back,
            [*found.notices, *report.notices, *kept.warnings],
            list({each.path: each for each in reversed(left_out)}.values())[::-1],
            [each for each in (*found.failures, *report.failures) if each.path in named or _is_below(each.path, named)],
            # Of an installed package the entry is a module: one that was loaded, or among what is installed.
            [each.folder or each.entry for each in found.candidates if each.attribute is None],
        )

    def _refused_words(self, flags: MatchedFlags) -> Iterable[str]:
        """Refuse messages on the command line where a client sends the prompts."""
        for place in flags.given_back if self._plan.mode == "rpc" else ():
            name = self._plan.given[place].name
            yield f"Option --{name} takes no value, and messages on the command line are not supported in mode rpc"

    async def _ask_for_trust(self, cwd: Path, report: LoadReport, generation: Generation) -> bool | None:
        """Ask the user's extensions about the project; None: none decides."""
        send = self._agent.emitter.emit if self._plan.mode == "rpc" else None
        table = self.dialogs = DialogTable(send or _discard)
        self.default_dialogs(for_good=self._closed)
        ui = UserInterface(generation) if send is None else RpcUserInterface(generation, table, send)
        from pinnace_agent.extensions.handlers.trust_question import ask_for_trust

        context = TrustContext(str(cwd), self._plan.mode, ui)
        try:
            answer = await ask_for_trust(report.extensions, generation, context, self._report)
        finally:
            self.dialogs = None
        if answer is None:
            return None
        is_trusted = answer.trusted == "yes"
        self._plan.decide(cwd, is_trusted, answer.remember)
        self._agent.profile.resources.take_decision(str(cwd), is_trusted)
        return is_trusted

    async def _runnable(self, found: DiscoveredExtensions, loader: Loader) -> DiscoveredExtensions:
        """Let the loader run scripts, if there are any; those that can't be run here are left out."""
        if loader.scripts is not None:
            return found
        if self._scripts is None and not any(each.is_script for each in found.candidates):
            return found
        if self._scripts is None:
            from pinnace_agent.node_extensions.starting import Scripts  # with the first of them

            jobs, plan = self._agent.jobs, self._plan
            self._scripts = Scripts(
                plan.env,
                lambda number: partial(jobs.start, f"node extensions:{number}"),
                self._report,
                plan.raw_settings,
                self._trusted_folder,
            )
        return await self._scripts.run(found, loader, self._agent.session.cwd, draws=self._agent.draws_surfaces)

    def _trusted_folder(self) -> str | None:
        folder = self._agent.session.cwd
        return folder if self._agent.profile.resources.is_trusted(folder) else None

    def default_dialogs(self, *, for_good: str | None) -> None:
        """Give open dialogs their defaults; with a reason, later ones too."""
        self._closed = for_good
        if self.dialogs is not None:
            self.dialogs.close_all(for_good=for_good)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{each}{os.sep}") for each in folders)


def _discard(_record: Mapping[str, object]) -> None:
    """Drop a request: no client answers it."""
