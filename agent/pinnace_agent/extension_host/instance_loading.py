"""Loading the extensions of one session instance: find them, ask whether the project is trusted, load, sort out.

The user's own extensions are loaded first, and may decide about the project (E1); then the rest, and what was loaded
stays (R6). What a failure means is decided elsewhere. Must not know sessions beyond their folder.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace_agent.extension_host.seat_plan import SeatPlan
from pinnace_agent.extensions.builtin.tool_approval import tool_approval
from pinnace_agent.extensions.contexts import TrustContext
from pinnace_agent.extensions.dialogs import DialogTable
from pinnace_agent.extensions.discovery import Candidate, Wanted, discover
from pinnace_agent.extensions.extension_folders import LoadFailure
from pinnace_agent.extensions.flags import MatchedFlags, flags_of, match_flags
from pinnace_agent.extensions.loading import Inline, Loaded, Loader, LoadReport
from pinnace_agent.extensions.precedence import conflicts, keep_needed
from pinnace_agent.extensions.registrations import ErrorSink, Generation
from pinnace_agent.extensions.trust_question import ask_for_trust
from pinnace_agent.extensions.user_interface import RpcUserInterface, UserInterface
from pinnace_agent.resources.paths import gated_project_files, protected_places

if TYPE_CHECKING:
    from pinnace_agent.host import Host

_log = logging.getLogger("pinnace.extensions")

TOOL_APPROVAL: Final = "builtin:tool-approval"
"""The path of the extension that applies `--tool-approval`."""


@dataclass(slots=True, frozen=True)
class LoadedInstance:
    """The extensions of a session instance, before they begin."""

    loader: Loader
    all: Sequence[Loaded]
    """Also those that give way to others."""
    kept: Sequence[Loaded]
    failures: Sequence[LoadFailure]
    flag_errors: Sequence[str]
    given_back: Sequence[int]
    """The options of extensions that take no value and are followed by a word of the command line."""
    notices: Sequence[str]


class InstanceLoading:
    """Loads the extensions of one process, as often as it needs to."""

    def __init__(self, plan: SeatPlan, host: "Host", tell: ErrorSink) -> None:
        """Load nothing yet."""
        self.dialogs: DialogTable | None = None
        """Where handlers of `project_trust` ask; None: none does."""
        self._plan = plan
        self._host = host
        self._tell = tell
        self._closed: str | None = None

    async def load(self, generation: Generation) -> LoadedInstance:
        """Load what there is for the session in force. Cancelling stops at the one that is loading."""
        plan = self._plan
        host = self._host
        loader = Loader(generation, cwd=host.session.cwd, environment=host.profile.environment, log=_log.info)
        cwd = Path(self._host.session.cwd)
        wanted = Wanted(
            env=plan.env,
            cwd=str(cwd),
            settings=plan.settings(cwd),
            named=plan.named,
            is_discovering=plan.is_discovering,
        )
        is_trusted = plan.trusts(cwd)
        if plan.approved is None and gated_project_files(cwd, plan.env):
            report = await loader.load(discover(wanted).candidates)
            decided = await self._ask_for_trust(cwd, report, generation)
            is_trusted = is_trusted if decided is None else decided
        found = discover(wanted._replace(is_trusted=is_trusted, settings=plan.settings(cwd)))
        report = await loader.load(found.candidates, self._inline(found.candidates))
        kept = keep_needed(report.extensions)
        flags = match_flags(plan.given, flags_of(kept.extensions))
        loader.flags.given = flags.values
        return LoadedInstance(
            loader,
            report.loaded,
            [each for each in report.loaded if each.extension in kept.extensions],
            [*found.failures, *report.failures, *conflicts(kept.extensions)],
            [*flags.errors, *self._refused_words(flags)],
            flags.given_back,
            [*found.notices, *report.notices, *kept.warnings],
        )

    def _refused_words(self, flags: MatchedFlags) -> Iterable[str]:
        """Refuse messages on the command line where prompts come from a client."""
        for place in flags.given_back if self._plan.mode == "rpc" else ():
            name = self._plan.given[place].name
            yield f"Option --{name} takes no value, and messages on the command line are not supported in mode rpc"

    def _inline(self, candidates: Sequence[Candidate]) -> Sequence[Inline]:
        plan = self._plan
        if plan.approval == "never":
            return plan.inline
        # Of an installed package the entry is a module: one that was loaded, or among what is installed.
        files = [each.folder or each.entry for each in candidates if each.attribute is None]
        places = partial(protected_places, plan.env, files)
        # Last, so that it sees what will be executed.
        return [*plan.inline, Inline(TOOL_APPROVAL, tool_approval(plan.approval, places=places))]

    async def _ask_for_trust(self, cwd: Path, report: LoadReport, generation: Generation) -> bool | None:
        """Ask the user's extensions about the project; None: nobody decides."""
        send = self._host.emitter.emit if self._plan.mode == "rpc" else None
        table = self.dialogs = DialogTable(send or _nobody)
        self.default_dialogs(for_good=self._closed)
        ui = UserInterface(generation) if send is None else RpcUserInterface(generation, table, send)
        context = TrustContext(str(cwd), self._plan.mode, ui)
        try:
            answer = await ask_for_trust(report.extensions, generation, context, self._tell)
        finally:
            self.dialogs = None
        if answer is None:
            return None
        is_trusted = answer.trusted == "yes"
        self._plan.decide(cwd, is_trusted, answer.remember)
        self._host.profile.resources.take_decision(str(cwd), is_trusted)
        return is_trusted

    def default_dialogs(self, *, for_good: str | None) -> None:
        """Give open dialogs their defaults; with a reason, later ones too."""
        self._closed = for_good
        if self.dialogs is not None:
            self.dialogs.close_all(for_good=for_good)


def _nobody(_record: Mapping[str, object]) -> None:
    """There is nobody to ask."""
