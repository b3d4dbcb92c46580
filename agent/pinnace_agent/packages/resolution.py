"""The packages that settings name, and the resources in them: which are loaded, from where, and which are missing.

A package in the project's settings takes the place of the same one in the user's; with `autoload: false` it changes
what is loaded of it. What is not installed is reported with the command that installs it; nothing is installed here.
One wrong entry costs itself alone. Reads folders and package.json; runs nothing.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from pinnace_agent.config.settings import ResourceSettings
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.packages.contents import KINDS, Kind, PackageFolder, extension_entries, read_choice, unclear_filter
from pinnace_agent.packages.manifest import installed_version
from pinnace_agent.packages.sources import (
    FolderSource,
    NpmSource,
    Places,
    Scope,
    Source,
    SourceError,
    parse_source,
    places_of,
)
from pinnace_agent.packages.words import PYTHON_PREFIX, source_of
from pinnace_spec.printable import printable


class PackageFile(NamedTuple):
    """One resource of a package."""

    path: str
    source: str
    """The package, as settings name it."""
    scope: Scope
    base_dir: str
    """The folder of the package."""
    owner: Scope
    """Whose settings chose that folder: a project's entry may change what is loaded of the user's package."""


class Resolved(NamedTuple):
    """The resources of packages that are loaded, by kind, in their order."""

    files: Mapping[Kind, Sequence[PackageFile]]
    notices: Sequence[str] = ()
    """What is wrong with entries of settings and with packages; of what is not installed, with the command to run."""
    missing: Sequence[str] = ()
    """The sources of the command line that are not installed."""


class _Entry(NamedTuple):
    """A package that settings name."""

    text: str
    source: Source
    places: Places
    identity: str
    filter: JsonObject | None


def resolve_settings(settings: Sequence[ResourceSettings], env: Mapping[str, str]) -> Resolved:
    """Find the resources of the packages of settings.

    Args:
        settings: The project's, if it is trusted, before the user's.
        env: The environment.
    """
    search = _Search(env)
    entries: list[_Entry] = []
    for each in settings:
        file = str(each.folder / "settings.json")
        places = places_of("project" if each.is_project else "user", env, each.folder.parent)
        for item in each.packages:
            entry = search.entry(item, places, file)
            if entry is not None:
                entries.append(entry)
    for entry in (kept := _without_repeated(entries)):
        search.take(entry, kept)
    return search.resolved()


def resolve_named(words: Sequence[str], env: Mapping[str, str], cwd: Path) -> Resolved:
    """Find the resources of the packages that the command line names (`-e`): of npm, git, and folders."""
    search = _Search(env)
    places = places_of("temporary", env, cwd)
    for word in words:
        entry = search.entry(word, places, "-e")
        if entry is not None:
            search.take(entry, ())
    return search.resolved()


def _without_repeated(entries: Sequence[_Entry]) -> list[_Entry]:
    """Return each package once, as pi chooses: the project's entry, the last of them; else the user's first."""
    kept: list[_Entry] = []
    places: dict[str, int] = {}
    for entry in entries:
        place = places.get(entry.identity)
        if place is None:
            places[entry.identity] = len(kept)
            kept.append(entry)
        elif entry.places.scope == "project":
            kept[place] = entry
        elif kept[place].places.scope == "project" and _is_delta(kept[place]):
            kept.append(entry)
    return kept


def _is_delta(entry: _Entry) -> bool:
    return entry.filter is not None and entry.filter.get("autoload") is False


class _Search:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._files: dict[Kind, dict[str, tuple[PackageFile, bool]]] = {kind: {} for kind in KINDS}
        self._notices: dict[str, None] = {}
        self._missing: dict[str, None] = {}

    def entry(self, item: str | JsonObject, places: Places, file: str) -> _Entry | None:
        text = source_of(item)
        if text.startswith(PYTHON_PREFIX):
            return None
        try:
            source = parse_source(text)
        except SourceError as error:
            self._report(f"{file}: packages: {error}; it is left out")
            return None
        identity = places.identity(source, self._env)
        return _Entry(text, source, places, identity, None if isinstance(item, str) else item)

    def take(self, entry: _Entry, entries: Sequence[_Entry]) -> None:
        """Add the resources of a package."""

        def report(problem: str) -> None:
            self._report(f"package {entry.text}: {problem}")

        if entry.filter is not None and (problem := unclear_filter(entry.filter)) is not None:
            report(f"{problem}; nothing of it is loaded")
            return
        choice = None if entry.filter is None else read_choice(entry.filter, report)
        base = entry
        if _is_delta(entry) and entry.places.scope == "project":
            same = (each for each in entries if each.identity == entry.identity and each.places.scope == "user")
            base = next(same, entry)
        folder = str(base.places.installed(base.source, self._env))
        if not self._is_there(base, folder):
            return
        info = PackageFile("", entry.text, entry.places.scope, folder, base.places.scope)
        if os.path.isfile(folder) and isinstance(base.source, FolderSource):
            self._add("extensions", {folder: True}, info._replace(base_dir=os.path.dirname(folder)))
            return
        found = PackageFolder(folder, report).resources(choice)
        if found is not None:
            for kind in KINDS:
                self._add(kind, found[kind], info)
        elif isinstance(base.source, FolderSource):  # a folder without a layout may be one extension
            self._add("extensions", dict.fromkeys(extension_entries(folder), True), info)

    def resolved(self) -> Resolved:
        """Return what was found: each file once, whatever links lead to it."""
        files: dict[Kind, list[PackageFile]] = {}
        for kind in KINDS:
            first: dict[str, tuple[PackageFile, bool]] = {}
            for file, is_loaded in self._files[kind].values():
                first.setdefault(os.path.realpath(file.path), (file, is_loaded))
            files[kind] = [file for file, is_loaded in first.values() if is_loaded]
        return Resolved(files, list(self._notices), list(self._missing))

    def _add(self, kind: Kind, files: Mapping[str, bool], info: PackageFile) -> None:
        for path, is_loaded in files.items():
            self._files[kind].setdefault(path, (info._replace(path=path), is_loaded))

    def _is_there(self, entry: _Entry, folder: str) -> bool:
        """Return whether a package is installed, in the version that is wanted; if not, report it."""
        if isinstance(entry.source, FolderSource):
            problem = None if os.path.exists(folder) else f"there is no {folder}"
        elif not os.path.isdir(folder):
            problem = f"is not installed: {self._command(entry)}"
        elif not _has_wanted(entry.source, folder):
            problem = f"has another version in {folder}, so it is not loaded: {self._command(entry)}"
        else:
            problem = None
        if problem is not None and entry.places.scope == "temporary":
            self._missing[entry.text] = None
        elif problem is not None:
            self._report(f"package {entry.text} {problem}")
        return problem is None

    def _command(self, entry: _Entry) -> str:
        local = " --local" if entry.places.scope == "project" else ""
        return f"pinnace install{local} {quote(entry.text)}"

    def _report(self, text: str) -> None:
        self._notices[printable(text)] = None


def _has_wanted(source: Source, folder: str) -> bool:
    """Return whether what is installed is the version that a source names."""
    if not isinstance(source, NpmSource):
        return True
    version = installed_version(folder)
    if version is None or source.version is None:
        return version is not None
    from pinnace_agent.packages.versions import meets  # with the first version in settings

    return meets(version, source.version)
