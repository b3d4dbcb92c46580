"""What a command line and the user's files say about extensions, for who loads them.

Decides what of the configuration is read again when they are reloaded: resources, models, keys, and which extensions
there are; what else the settings say counts from the next start. Reads files when it is asked to.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pinnace_agent.extension_host.seat_plan import GivenFlag, SeatPlan
from pinnace_agent.extensions.discovery import resolve_named
from pinnace_agent.extensions.host_view import Mode
from pinnace_agent.llm.json_edge import as_object
from pinnace_agent.resources.configuration import Configuration, load_configuration
from pinnace_agent.resources.file_lock import LockHeld
from pinnace_agent.resources.folder_resources import FolderReader
from pinnace_agent.resources.paths import agent_dir, project_dir
from pinnace_agent.resources.relaxed_json import ConfigurationFileError, read_object
from pinnace_agent.resources.selection import Selection
from pinnace_agent.resources.trust import trust_file
from pinnace_agent.resources.trust_digest import keep_decision
from pinnace_rpc.options import Options

_MODES: Mapping[str, Mode] = {"rpc": "rpc", "json": "json", "text": "print"}


class _Files:
    """The user's files, as extensions need them."""

    def __init__(self, options: Options, configuration: Configuration, reader: FolderReader, cwd: Path) -> None:
        self._options = options
        self._configuration = configuration
        self._registry = configuration.registry  # the agent's own, whatever is read later
        self._reader = reader
        self._cwd = cwd

    def decide(self, folder: Path, is_trusted: bool, is_remembered: bool) -> None:
        self._reader.decide(folder, is_trusted)
        if is_trusted and folder == self._cwd:
            self._configuration = load_configuration(os.environ, self._cwd, approved=True)
            self._reader.use_settings(self._configuration.settings)
        if not is_remembered:
            return
        try:
            keep_decision(trust_file(agent_dir(os.environ)), folder, os.environ, decision=is_trusted)
        except (ConfigurationFileError, LockHeld, OSError):
            # It holds for this process; the next one asks again.
            return

    def reread(self) -> Sequence[str]:
        self._configuration = load_configuration(os.environ, self._cwd, approved=self._options.approved)
        self._reader.use_settings(self._configuration.settings)
        self._registry.take(self._configuration.registry)
        return self._configuration.notices

    def raw_settings(self) -> dict[str, object]:
        """Merge what the files say: the project's over the user's, objects member by member."""
        merged: dict[str, object] = {}
        files = [agent_dir(os.environ) / "settings.json"]
        if self._reader.trusts(self._cwd):
            files.append(project_dir(self._cwd) / "settings.json")
        for file in files:
            try:
                merged = _merged(merged, read_object(file, is_relaxed=True) or {})
            except ConfigurationFileError:
                continue
        return merged


def _merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    merged = dict(below)
    for name, value in above.items():
        former, own = as_object(merged.get(name)), as_object(value)
        merged[name] = value if former is None or own is None else _merged(former, own)
    return merged


def _given(options: Options) -> Sequence[GivenFlag]:
    taken = {option for option, _ in options.taken_words}
    return [GivenFlag(name, value, place in taken) for place, (name, value) in enumerate(options.extension_flags)]


def seat_plan(
    options: Options,
    configuration: Configuration,
    reader: FolderReader,
    cwd: Path,
    select: Callable[[], Selection],
) -> SeatPlan:
    """Return what is known about extensions before any is loaded; `select` selects the model of the start."""
    files = _Files(options, configuration, reader, cwd)
    return SeatPlan(
        env=os.environ,
        mode=_MODES[options.mode],
        settings=reader.resource_settings,
        raw_settings=files.raw_settings,
        trusts=reader.trusts,
        decide=files.decide,
        reread=files.reread,
        select=select,
        model_patterns=options.models or configuration.settings.enabled_models,
        named=resolve_named(options.extensions, str(cwd), os.environ),
        is_discovering=not options.no_extensions,
        approved=options.approved,
        approval=options.tool_approval,
        given=_given(options),
        keeps_going=options.keeps_going,
    )
