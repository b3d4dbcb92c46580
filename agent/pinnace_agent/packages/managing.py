"""Installs, removes, lists and updates packages, and writes them into the settings of the user or of a project.

The settings are written under pi's lock, and nothing else in them changes. A package is on the disk before settings
name it, and is removed after they do not, so that a process that is killed leaves no entry without a package.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.json_file import FileForm, edit_object, pretty
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_list, is_object, read_object
from pinnace_agent.packages.contents import KINDS, PackageFolder
from pinnace_agent.packages.programs import PackageError, Programs
from pinnace_agent.packages.sources import (
    FolderSource,
    GitSource,
    NpmSource,
    Places,
    Source,
    SourceError,
    parse_source,
    places_of,
)
from pinnace_agent.packages.stores import GitStore, NpmStore
from pinnace_agent.packages.words import PYTHON_PREFIX


class ConfiguredPackage(NamedTuple):
    """A package that settings name."""

    text: str
    places: Places
    source: Source | None
    """None: the source is invalid, or of another kind."""
    is_filtered: bool
    path: str | None
    """Where it is installed; None: it is not."""
    version: str | None = None
    """The version of an npm package."""


class Change(NamedTuple):
    """What an update has changed."""

    package: ConfiguredPackage
    before: str | None
    after: str | None


class PackageManager:
    """The packages of the user and of the project in a folder."""

    def __init__(self, env: Mapping[str, str], cwd: Path, programs: Programs) -> None:
        """Read nothing yet."""
        self._env = env
        self._cwd = cwd
        self._programs = programs

    def places(self, *, is_local: bool) -> Places:
        """Return the places of the project's packages, or the user's."""
        return places_of("project" if is_local else "user", self._env, self._cwd)

    def configured(self, *, is_local: bool) -> Iterator[ConfiguredPackage]:
        """Yield the packages that the settings of a scope name.

        Raises:
            ConfigurationFileError: The settings can't be read.
        """
        places = self.places(is_local=is_local)
        content = read_object(places.settings, is_relaxed=False) or {}
        for item in _items(content):
            if (text := _text(item)) is not None:
                yield self._package(text, places, is_filtered=not isinstance(item, str))

    async def install(self, text: str, *, is_local: bool) -> ConfiguredPackage:
        """Install a package and add it to settings, in place of another version of it.

        Raises:
            SourceError: The source is invalid.
            PackageError: It can't be installed; nothing was changed.
            ConfigurationFileError: The settings can't be read, so they can't be changed.
            LockHeld: Another process is changing the packages or the settings.
            OSError: A folder or file can't be written.
        """
        source = parse_source(text)
        places = self.places(is_local=is_local)
        if isinstance(source, FolderSource):
            text = self._entry_of_folder(text, places)
            source = FolderSource(text)
        else:
            read_object(places.settings, is_relaxed=False)  # what can't be changed afterwards is refused before
            await self.store(source, places)
        identity = places.identity(source, self._env)

        def change(content: JsonObject) -> JsonObject:
            return _with_items(content, _replaced(_items(content), text, lambda item: self._is(item, places, identity)))

        edit_object(places.settings, change, FileForm(pretty))
        return self._package(text, places, is_filtered=False)

    async def store(self, source: NpmSource | GitSource, places: Places) -> None:
        """Install a package without adding it to settings. Raises as `install`."""
        if isinstance(source, NpmSource):
            await NpmStore(places, self._programs).install(source)
        else:
            await GitStore(places, self._programs).install(source)

    async def remove(self, text: str, *, is_local: bool) -> str | None:
        """Remove a package from settings, and then its files; return why files have stayed, if they have.

        Raises:
            SourceError: The source is invalid.
            PackageError: Settings do not name it.
            ConfigurationFileError: The settings can't be read, so they can't be changed.
            LockHeld: Another process is changing the settings.
            OSError: They can't be written.
        """
        places = self.places(is_local=is_local)
        source = self._given(text, places)
        identity = places.identity(source, self._env)
        removed: list[object] = []

        def change(content: JsonObject) -> JsonObject:
            items = _items(content)
            kept = [item for item in items if not (self._is(item, places, identity) or _text(item) == text)]
            removed[:] = [item for item in items if item not in kept]
            return _with_items(content, kept) if removed else content

        edit_object(places.settings, change, FileForm(pretty))
        if not removed:
            raise self._unknown(text, [*self.configured(is_local=is_local)])
        try:
            match source:
                case NpmSource():
                    await NpmStore(places, self._programs).uninstall(source)
                case GitSource():
                    GitStore(places, self._programs).remove(source)
                case FolderSource():
                    pass
        except (PackageError, LockHeld, OSError) as error:
            return str(error)
        return None

    async def update(
        self, text: str | None, scopes: Sequence[bool], begin: Callable[[ConfiguredPackage], None]
    ) -> tuple[list[Change], list[str]]:
        """Bring packages to what settings ask for: the newest version, or the one that is named.

        Returns the changes, and why others failed.

        Args:
            text: The package; None: all.
            scopes: Whether each scope is the project's.
            begin: Called before each package.

        Raises:
            SourceError: The source is invalid.
            PackageError: Settings do not name it.
            ConfigurationFileError: The settings can't be read.
        """
        every = [each for is_local in scopes for each in self.configured(is_local=is_local)]
        chosen = every
        if text is not None:
            chosen = [each for each in every if self._is_same(each, text)]
            if not chosen:
                raise self._unknown(text, every)
        changes: list[Change] = []
        problems: list[str] = []
        for package in chosen:
            if not isinstance(package.source, NpmSource | GitSource):
                continue
            begin(package)
            try:
                before, after = await self._updated(package.source, package.places)
            except (PackageError, LockHeld, OSError) as error:
                problems.append(f"{package.text}: {error}")
                continue
            if before != after:
                changes.append(Change(package, before, after))
        return changes, problems

    async def _updated(self, source: NpmSource | GitSource, places: Places) -> tuple[str | None, str | None]:
        if isinstance(source, NpmSource):
            npm = NpmStore(places, self._programs)
            before = npm.version(source)
            await npm.update(source)
            return before, npm.version(source)
        git = GitStore(places, self._programs)
        head = await git.head(source)
        await git.install(source)
        return head, await git.head(source)

    def _package(self, text: str, places: Places, *, is_filtered: bool) -> ConfiguredPackage:
        try:
            source = None if text.startswith(PYTHON_PREFIX) else parse_source(text)
        except SourceError:
            source = None
        if source is None:
            return ConfiguredPackage(text, places, None, is_filtered, None)
        path = str(places.installed(source, self._env))
        is_there = os.path.exists(path)
        version = NpmStore(places, self._programs).version(source) if isinstance(source, NpmSource) else None
        return ConfiguredPackage(text, places, source, is_filtered, path if is_there else None, version)

    def _entry_of_folder(self, text: str, places: Places) -> str:
        """Return a folder as settings name it: relative to their own."""
        if text.startswith(PYTHON_PREFIX):
            raise PackageError(f"{text}: install Python packages with pip, and add {text} to packages of settings.json")
        folder = places._replace(base=self._cwd).installed(FolderSource(text), self._env)
        if not folder.exists():
            raise PackageError(f"{folder}: there is no such folder or file")
        return os.path.relpath(folder, places.base)

    def _given(self, text: str, places: Places) -> Source:
        """Return the source that a command line names: paths are relative to the working folder."""
        source = parse_source(text)
        if isinstance(source, FolderSource):
            return FolderSource(str(places._replace(base=self._cwd).installed(source, self._env)))
        return source

    def _is(self, item: object, places: Places, identity: str) -> bool:
        """Return whether an item of settings is a package."""
        text = _text(item)
        if text is None:
            return False
        package = self._package(text, places, is_filtered=False)
        return package.source is not None and places.identity(package.source, self._env) == identity

    def _is_same(self, package: ConfiguredPackage, text: str) -> bool:
        if package.source is None:
            return False
        same = package.places.identity(self._given(text, package.places), self._env)
        return package.places.identity(package.source, self._env) == same

    def _unknown(self, text: str, configured: Sequence[ConfiguredPackage]) -> PackageError:
        """Return the error about a package that settings do not name."""
        names = {each.text: each.source for each in configured}
        near = [name for name, source in names.items() if source is not None and _is_meant(source, text)]
        hint = f"; did you mean {near[0]}?" if near else f" (there are: {', '.join(names)})" if names else ""
        return PackageError(f"no package {text} in settings{hint}")


def counts_of(package: ConfiguredPackage, report: Callable[[str], None]) -> Mapping[str, int]:
    """Return how many resources of each kind a package brings, without a filter."""
    if package.path is None:
        return {}
    if os.path.isfile(package.path):
        return {"extensions": 1}
    found = PackageFolder(package.path, report).resources(None) or {}
    return {kind: len(found[kind]) for kind in KINDS if found.get(kind)}


def npm_command(settings: Path) -> Sequence[str]:
    """Return the program of the user's settings in place of npm (`npmCommand`); empty: npm.

    Raises:
        PackageError: It is no list of words.
    """
    try:
        value = (read_object(settings, is_relaxed=False) or {}).get("npmCommand")
    except ConfigurationFileError:
        return ()
    if value is None:
        return ()
    words = [word for word in value if isinstance(word, str) and word] if is_list(value) else []
    if not words or not is_list(value) or len(words) < len(value):
        raise PackageError(f'{settings}: npmCommand: expected a list of words, such as ["mise", "exec", "--", "npm"]')
    return words


def _is_meant(source: Source, text: str) -> bool:
    """Return whether a text names a package without its prefix."""
    match source:
        case NpmSource(name):
            return text in (name, source.spec)
        case GitSource(_, host, path):
            return text.partition("@")[0] == f"{host}/{path}"
        case FolderSource():
            return False


def _text(item: object) -> str | None:
    """Return the source that an item of settings names."""
    text = item if isinstance(item, str) else item.get("source") if is_object(item) else None
    return text if isinstance(text, str) else None


def _items(content: JsonObject) -> list[object]:
    """Return the packages in settings.

    Raises:
        ConfigurationFileError: They are no list.
    """
    items = content.get("packages")
    if items is None:
        return []
    if not is_list(items):
        raise ConfigurationFileError("packages must be a list")
    return items


def _with_items(content: JsonObject, items: Sequence[object]) -> JsonObject:
    return {**content, "packages": list(items)}


def _replaced(items: Sequence[object], text: str, fits: Callable[[object], bool]) -> list[object]:
    """Return the items with a package in the place of the first that fits, or at the end; a filter stays."""
    place = next((place for place, item in enumerate(items) if fits(item)), None)
    if place is None:
        return [*items, text]
    former = items[place]
    new = {**former, "source": text} if is_object(former) else text
    return [*items[:place], new, *items[place + 1 :]]
