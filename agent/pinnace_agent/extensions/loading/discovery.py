"""Finds the extensions to load, in load order.

The order: the command line; the project's settings and folder, if the project is trusted; the user's settings and
folder; packages, those of Python first; built-in extensions. A file that is found twice is loaded once, at its first
place. Extensions of installed packages (entry points of the group `pinnace.extensions`) are loaded only if settings or
the command line name the package. Reads folders, settings and metadata; imports and runs nothing.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.config.settings import ResourceSettings
from pinnace_agent.extensions.events.uncompiled import Fields, mutable
from pinnace_agent.extensions.loading.folders import SCRIPTS, ExtensionPlace, Folders, LoadFailure
from pinnace_agent.extensions.loading.source_files import is_open_to_all
from pinnace_agent.extensions.registration.registrations import SourceInfo, SourceScope
from pinnace_agent.files.paths import agent_dir, expand_home, project_dir
from pinnace_agent.packages.words import PYTHON_PREFIX, is_remote, source_of
from pinnace_agent.search.resource_files import ENTRY_NAMES

if TYPE_CHECKING:  # loaded with the first settings that name files
    from pinnace_agent.config.path_entries import PathEntries

GROUP: Final = "pinnace.extensions"
PACKAGE_PREFIX: Final = PYTHON_PREFIX
"""The prefix of Python packages in settings and on the command line."""


def package_names(packages: Sequence[str | Mapping[str, object]]) -> tuple[list[str], list[str]]:
    """Return the names of Python packages among those of the settings, and the sources of all others."""
    names: list[str] = []
    others: list[str] = []
    for source in map(source_of, packages):
        (names if source.startswith(PACKAGE_PREFIX) else others).append(source)
    return names, others


def package_candidates(name: str) -> list[tuple[str, str]] | None:
    """Return module and function of each extension of a package, in the order of their names; None: not installed."""
    from importlib import metadata

    try:
        found = metadata.distribution(name).entry_points.select(group=GROUP)
    except (metadata.PackageNotFoundError, ValueError):
        return None
    return [(each.module, each.attr or "extension") for each in sorted(found, key=lambda each: each.name)]


FOLDER_NAME: Final = "extensions"
BUILTIN_PREFIX: Final = "builtin:"


class Candidate(NamedTuple):
    """An extension to load."""

    entry: str
    """The file that is run; of an installed package, the name of the module."""
    source: SourceInfo
    folder: str | None = None
    """The folder of its relative imports; None: it is a single file."""
    attribute: str | None = None
    """Of an installed package: the function's name."""

    @property
    def is_script(self) -> bool:
        """Whether it is in TypeScript or JavaScript."""
        return self.attribute is None and self.entry.endswith(SCRIPTS)

    @property
    def identity(self) -> str:
        """Equal for the same file, however it was found."""
        return self.entry if self.attribute is not None else os.path.realpath(self.entry)


class ExtensionSources(NamedTuple):
    """The places to search."""

    env: Mapping[str, str]
    cwd: str
    settings: Sequence[ResourceSettings] = ()
    """The project's before the user's."""
    is_trusted: bool = False
    """Whether the project's places count."""
    named: Sequence[str] = ()
    """Of the command line (`-e`), as `resolve_named` returns it."""
    is_discovering: bool = True
    """False with `-ne`: only the command line's extensions are loaded."""
    builtins: Mapping[str, bool] = {}
    """The built-in extensions, and whether each is on by default."""


@mutable
class DiscoveredExtensions(Fields):
    """The result of a search."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    builtins: list[str] = field(default_factory=list[str])
    """The built-in extensions that are on."""
    failures: list[LoadFailure] = field(default_factory=list[LoadFailure])
    """Extensions that were named but are missing, or must not be loaded."""
    left_out: list[LoadFailure] = field(default_factory=list[LoadFailure])
    """Extensions that were found and can't be loaded here, which is no error."""
    notices: list[str] = field(default_factory=list[str])


def discover(wanted: ExtensionSources) -> DiscoveredExtensions:
    """Find the extensions to load."""
    return _Search(wanted).run()


def resolve_named(words: Sequence[str], cwd: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the extensions of the command line with absolute paths; names of packages and built-in ones are kept.

    Must be called once, at the start: a later session may have another working folder.

    Args:
        words: The values of `-e`.
        cwd: The absolute working folder of the process at its start.
        env: The environment.
    """

    def resolved(word: str) -> str:
        if word.startswith((BUILTIN_PREFIX, PACKAGE_PREFIX)) or is_remote(word):
            return word
        return os.path.normpath(os.path.join(cwd, expand_home(word, env)))

    return tuple(resolved(word) for word in words)


class _Search:
    def __init__(self, wanted: ExtensionSources) -> None:
        self._wanted = wanted
        self._found = DiscoveredExtensions()
        self._seen: set[str] = set()
        self._folders = Folders()

    def run(self) -> DiscoveredExtensions:
        wanted = self._wanted
        for word in wanted.named:
            self._named(word)
        if wanted.is_discovering:
            if wanted.is_trusted:
                self._scope("project", str(project_dir(Path(wanted.cwd))))
            self._scope("user", str(agent_dir(wanted.env)))
            self._packages()
            self._found.builtins = [name for name, is_on in wanted.builtins.items() if self._is_builtin_on(name, is_on)]
        self._found.failures = self._folders.failures
        return self._found

    # Places.

    def _named(self, word: str) -> None:
        """Add an extension of the command line, which must exist."""
        if word.startswith(BUILTIN_PREFIX):
            name = word.removeprefix(BUILTIN_PREFIX)
            known = name in self._wanted.builtins
            self._found.builtins.extend([name] if known else [])
            if not known:
                self._folders.fail(word, "there is no such built-in extension")
            return
        if word.startswith(PACKAGE_PREFIX):
            self._take_package(word, "temporary")
            return
        if is_remote(word):
            self._take_named(word)
            return
        if not os.path.isabs(word):
            self._folders.fail(word, "is not an absolute path, so its file would depend on the session's folder")
            return
        self._explicit(word, _info(word, "cli", "temporary"), is_package=True)

    def _scope(self, scope: SourceScope, config_dir: str) -> None:
        """Add the extensions that settings name, then those of the default folder."""
        own = [each for each in self._wanted.settings if each.is_project == (scope == "project")]
        every = [(each, _path_entries(each, self._wanted.env)) for each in own if _paths(each)]
        for settings, patterns in every:
            for problem in patterns.problems:
                self._found.notices.append(f"{settings.folder / 'settings.json'}: extensions: {problem}")
            for path in patterns.paths:
                self._explicit(path, _info(path, "local", scope), keeps=patterns.keeps_named)
        root = os.path.join(config_dir, FOLDER_NAME)

        def keeps(path: str) -> bool:
            return all(patterns.keeps_found(path) for _, patterns in every)

        if os.path.isdir(root):
            if is_open_to_all(root):
                self._folders.fail(root, f"is writable by everyone, so nothing in it is loaded: chmod o-w {root}")
                return
            for entry, folder in self._folders.inside(root):
                if keeps(entry):
                    self._add(Candidate(entry, _info(entry, "auto", scope, config_dir), folder))

    def _packages(self) -> None:
        wanted = self._wanted
        settings = [each for each in wanted.settings if wanted.is_trusted or not each.is_project]
        has_others = False
        for each in settings:
            names, others = package_names(each.packages)
            has_others = has_others or bool(others)
            for name in names:
                self._take_package(name, "project" if each.is_project else "user")
        if has_others:
            from pinnace_agent.packages.resolution import resolve_settings  # with the first one

            # What is wrong with packages is among the notices of the folder's resources.
            for file in resolve_settings(settings, wanted.env).files["extensions"]:
                info = SourceInfo(path=file.path, source=file.source, scope=file.scope, origin="package")
                info["baseDir"] = file.base_dir
                self._add(_packaged(file.path, info))

    def _take_named(self, word: str) -> None:
        """Add the extensions of a package of npm or git, which must be installed by now."""
        from pinnace_agent.packages.resolution import resolve_named as resolve_packages

        resolved = resolve_packages([word], self._wanted.env, Path(self._wanted.cwd))
        for file in resolved.files["extensions"]:
            self._add(
                _packaged(file.path, SourceInfo(path=file.path, source="cli", scope="temporary", origin="top-level"))
            )
        for problem in resolved.notices:
            self._folders.fail(word, problem.removeprefix("-e: packages: "))
        if resolved.missing:
            self._folders.fail(word, "the package is not installed (offline, or for a listing, nothing is)")

    def _take_package(self, name: str, scope: SourceScope) -> None:
        bare = name.removeprefix(PACKAGE_PREFIX)
        entries = package_candidates(bare)
        if entries is None:
            self._folders.fail(name, f"the package {bare} is not installed")
        elif not entries:
            self._folders.fail(name, f"the package {bare} has no extension (no entry point of pinnace.extensions)")
        else:
            for module, attribute in entries:
                info = SourceInfo(path=module, source=bare, scope=scope, origin="package")
                self._add(Candidate(module, info, attribute=attribute))

    # Files and folders.

    def _explicit(
        self, path: str, info: SourceInfo, *, keeps: Callable[[str], bool] | None = None, is_package: bool = False
    ) -> None:
        """Add a file or a folder that settings or the command line name; a folder of these may be a package's."""
        if os.path.isdir(path):
            known = len(self._folders.failures)
            found = list(self._folders.of(path, is_package=is_package))
            if len(self._folders.failures) > known:
                return
            if not found and is_package and self._folders.has_other_resources(path):
                return
            found = found or list(self._folders.inside(path))
            if not found:
                self._folders.fail(
                    path, "has no extension: there is no extension.py, no index.ts and no other file of one"
                )
        elif not os.path.exists(path):
            self._folders.fail(path, "does not exist")
            return
        elif path.endswith(SCRIPTS):
            is_entry = os.path.splitext(os.path.basename(path))[0] == "index"
            found = [ExtensionPlace(path, os.path.dirname(path) if is_entry else None)]
        elif not path.endswith(".py"):
            self._folders.fail(path, "is not a file in Python, TypeScript or JavaScript")
            return
        else:
            is_entry = os.path.basename(path) in ENTRY_NAMES
            found = [ExtensionPlace(path, os.path.dirname(path) if is_entry else None)]
        for entry, folder in found:
            if keeps is None or keeps(entry):
                self._add(Candidate(entry, {**info, "path": entry}, folder))

    def _is_builtin_on(self, name: str, is_on: bool) -> bool:
        """Return whether a built-in extension is on: the project's settings take precedence over the user's."""
        for settings in self._wanted.settings:
            if settings.is_project and not self._wanted.is_trusted:
                continue
            for entry in settings.extensions:
                sign, bare = (entry[0], entry[1:]) if entry[:1] in ("!", "-", "+") else ("+", entry)
                if bare == f"{BUILTIN_PREFIX}{name}":
                    return sign == "+"
        return is_on or name in self._found.builtins

    def _add(self, candidate: Candidate) -> None:
        if candidate.identity not in self._seen:
            self._seen.add(candidate.identity)
            self._found.candidates.append(candidate)


def _packaged(path: str, info: SourceInfo) -> Candidate:
    """Return the extension in a file of a package: its relative imports lead into the folder of the file."""
    is_single = path.endswith(".py") and os.path.basename(path) not in ENTRY_NAMES
    return Candidate(path, info, None if is_single else os.path.dirname(path))


def _paths(settings: ResourceSettings) -> Sequence[str]:
    """Return the entries of settings that name files."""
    return [each for each in settings.extensions if BUILTIN_PREFIX not in each[:9]]


def _path_entries(settings: ResourceSettings, env: Mapping[str, str]) -> "PathEntries":
    from pinnace_agent.config.path_entries import PathEntries

    return PathEntries(_paths(settings), str(settings.folder), env)


def _info(path: str, source: str, scope: SourceScope, base_dir: str | None = None) -> SourceInfo:
    info = SourceInfo(path=path, source=source, scope=scope, origin="top-level")
    folder = base_dir if base_dir is not None else os.path.dirname(path)
    info["baseDir"] = folder
    return info
