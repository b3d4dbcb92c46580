"""The user's files in a running process: as they were read last, read again, and as extensions see them.

Decides which part of the configuration a reload makes current: models, keys, resources, extensions, and the settings
that `AgentProfile.use` takes; others take effect at the next start. Files are read when a method is called. Not loaded
by a start without extensions.
"""

import os
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace_agent.config.configuration import Configuration, load_configuration
from pinnace_agent.core.surroundings import CLIENT_ROUTES, CLIENT_SERVERS, environment
from pinnace_agent.core.user_warnings import Notice, Warnings
from pinnace_agent.engine.profile import AgentProfile, UseFiles
from pinnace_agent.files.paths import agent_dir, project_dir
from pinnace_agent.prompting.folder_resources import FolderReader
from pinnace_agent.shell.environment import shell_environment
from pinnace_rpc.options.options import Options
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # loaded with the first extension, and not with a reload
    from pinnace_agent.config.models.selection import Selection
    from pinnace_agent.core.ports.confinement import SandboxReport
    from pinnace_agent.extension_host.plan import ExtensionPlan, GivenFlag
    from pinnace_agent.extensions.api.api import ExtensionAPI
    from pinnace_agent.extensions.api.contexts import Context
    from pinnace_agent.extensions.loading.loading import Inline
    from pinnace_agent.extensions.ports.host_view import Mode
    from pinnace_agent.mcp.definitions import OfferedTool
    from pinnace_agent.mcp.extension import McpProcessFacts

_MODES: Final[Mapping[str, "Mode"]] = {"rpc": "rpc", "json": "json", "text": "print"}


class UserFiles:
    """The user's files, for the agent of one process."""

    def __init__(
        self,
        options: Options,
        configuration: Configuration,
        reader: FolderReader,
        cwd: Path,
        configure: Callable[[Configuration, AgentProfile], None],
        sandbox: "SandboxReport | None",
        warnings: Warnings,
    ) -> None:
        """Take what was read for the start; `configure` lets an agent use the settings of what was read."""
        self.configuration = configuration
        """As it was read last."""
        self._options = options
        self._registry = configuration.registry  # the agent's own, whatever is read later
        self._reader = reader
        self._cwd = cwd
        self._configure = configure
        self._sandbox = sandbox
        self._warnings = warnings
        self._refused_tools: dict[str, OfferedTool] = {}
        # Taken out of the environment: no child of the agent is to have them.
        self._client_servers = environment().pop(CLIENT_SERVERS, None)

    def read_again(self) -> UseFiles:
        """Read settings, models and keys; return what makes them current, and returns notices for the user.

        Raises:
            ClientError: One of the files has a mistake, which the error names. Nothing is changed.
        """
        found = load_configuration(_variables(), self._cwd, approved=self._options.approved)
        if found.mistakes:
            raise errors.ClientError("\n".join(found.mistakes), errors.ErrorCode.INVALID_CONFIGURATION)
        return partial(self._use, found)

    def _use(self, found: Configuration, profile: AgentProfile) -> Sequence[Notice]:
        self.configuration = found
        self._reader.use_settings(found.settings)
        self._registry.take(found.registry)
        self._configure(found, profile)
        return found.notices

    def decide(self, folder: Path, is_trusted: bool, is_remembered: bool) -> None:
        """Take what an extension has decided about a project, and remember it if it is to be."""
        from pinnace_agent.config.trust import trust_file
        from pinnace_agent.config.trust_digest import keep_decision
        from pinnace_agent.files.file_lock import LockHeld
        from pinnace_agent.files.relaxed_json import ConfigurationFileError

        self._reader.decide(folder, is_trusted)
        if is_trusted:
            self._warnings.forget("project_trust", str(folder))
        if is_trusted and folder == self._cwd:
            self.configuration = load_configuration(_variables(), self._cwd, approved=True)
            self._reader.use_settings(self.configuration.settings)
        if not is_remembered:
            return
        try:
            keep_decision(trust_file(agent_dir(environment())), folder, environment(), decision=is_trusted)
        except (ConfigurationFileError, LockHeld, OSError):
            # Valid for this process only; the next one asks again.
            return

    def raw_settings(self) -> dict[str, object]:
        """Merge the settings files: the project's over the user's, objects member by member."""
        from pinnace_agent.files.relaxed_json import ConfigurationFileError, read_object

        merged: dict[str, object] = {}
        files = [agent_dir(environment()) / "settings.json"]
        if self._reader.trusts(self._cwd):
            files.append(project_dir(self._cwd) / "settings.json")
        for file in files:
            try:
                merged = _merged(merged, read_object(file, is_relaxed=True) or {})
            except ConfigurationFileError:
                continue
        return merged

    def extension_plan(self, select: "Callable[[], Selection]", folder: Path | None = None) -> "ExtensionPlan":
        """Return the plan of the extensions before any is loaded, for sessions in a folder; None: in that of the start.

        `select` selects the model of the start.
        """
        from pinnace_agent.extension_host.plan import ExtensionPlan
        from pinnace_agent.extensions.loading.discovery import resolve_named

        options = self._options
        return ExtensionPlan(
            env=environment(),
            mode=_MODES[options.mode],
            settings=self._reader.resource_settings,
            raw_settings=self.raw_settings,
            trusts=self._reader.trusts,
            decide=self.decide,
            select=select,
            named=resolve_named(options.extensions, str(self._cwd), environment()),
            is_discovering=not options.no_extensions,
            approved=options.approved,
            given=_given(options),
            keeps_going=options.keeps_going,
            inline=self._inline(self._cwd if folder is None else folder),
        )

    def _inline(self, folder: Path) -> "Sequence[Inline]":
        """Return the extensions that are built in: that of MCP servers, which loads little if there may be none."""
        if self._options.no_mcp:
            return ()
        files = (agent_dir(environment()) / "mcp.json", project_dir(folder) / "mcp.json")
        if not (self._client_servers or any(map(os.path.exists, files))):
            from pinnace_agent.mcp.late import late_extension

            return (late_extension(self._connect_servers),)
        from pinnace_agent.mcp.extension import mcp_extension

        return (mcp_extension(self._given_servers()),)

    async def _connect_servers(self, pi: "ExtensionAPI", ctx: "Context") -> None:
        from pinnace_agent.mcp.extension import Servers

        await Servers(self._given_servers(), pi).begin(ctx)

    def _given_servers(self) -> "McpProcessFacts":
        from pinnace_agent.mcp.configuration import read_settings
        from pinnace_agent.mcp.extension import McpProcessFacts
        from pinnace_rpc.options.release import program_version

        return McpProcessFacts(
            environment(),
            lambda: shell_environment(environment(), self.configuration.hidden_variables),
            program_version(),
            self._client_servers,
            read_settings(self.raw_settings()),
            (*(self._options.tools or ()), *self._options.exclude_tools),
            self._registry.provider_token,
            self._sandbox,
            self._refused_tools,
            self._warnings,
        )


def _merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    from pinnace_agent.core.json_access import as_object

    merged = dict(below)
    for name, value in above.items():
        former, own = as_object(merged.get(name)), as_object(value)
        merged[name] = value if former is None or own is None else _merged(former, own)
    return merged


def _variables() -> Mapping[str, str]:
    """Return the environment, and where routes of providers were taken out of it, that there were some."""
    routes = sys.modules.get("pinnace_agent.config.models.routes")
    return environment() if routes is None else ChainMap({CLIENT_ROUTES: ""}, environment())


def _given(options: Options) -> "Sequence[GivenFlag]":
    from pinnace_agent.extension_host.plan import GivenFlag

    taken = {option for option, _ in options.taken_words}
    return [GivenFlag(name, value, place in taken) for place, (name, value) in enumerate(options.extension_flags)]
