"""Finds the extensions in a folder: files, and folders with an entry file.

Searches one level deep, in the order of names; follows links; skips names that start with `.`, and with `_` unless they
are scripts, as pi does. Reads names, `pyproject.toml` and `package.json`, no sources.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.core.json_values import is_list, is_object
from pinnace_agent.search.resource_files import ENTRY_NAMES, FOUND_SCRIPTS, INDEX_NAMES

if TYPE_CHECKING:
    from pinnace_agent.packages.contents import Kind

SCRIPTS: Final = (".ts", ".js", ".mts", ".mjs", ".cts", ".cjs")
"""Suffixes of extensions in TypeScript and JavaScript; some of these are found by their place (`FOUND_SCRIPTS`)."""
# A folder of extensions has a few dozen names; a larger one is a home folder by mistake.
MAX_NAMES: Final = 2_000


class LoadFailure(NamedTuple):
    """An extension that is not loaded."""

    path: str
    error: str
    traceback: str = ""
    """The place in the extension, for the log."""


class ExtensionPlace(NamedTuple):
    """The file that an extension is loaded from, and where its relative imports lead."""

    entry: str
    folder: str | None = None
    """The folder of its relative imports; None: it is a single file."""


class Folders:
    """Searches folders, and collects problems."""

    def __init__(self) -> None:
        """Start without problems."""
        self.failures: list[LoadFailure] = []

    def fail(self, path: str, error: str) -> None:
        """Record, once, that an extension is not loaded."""
        failure = LoadFailure(path, error)
        if failure not in self.failures:
            self.failures.append(failure)

    def inside(self, root: str) -> Iterator[ExtensionPlace]:
        """Find what is directly in a folder, in the order of names."""
        try:
            names = sorted(os.listdir(root))
        except OSError as error:
            self.fail(root, f"can't be read: {error.strerror or error}")
            return
        if len(names) > MAX_NAMES:
            self.fail(root, f"holds more than {MAX_NAMES} names, so it is not a folder of extensions")
            return
        for name in names:
            path = os.path.join(root, name)
            if name.startswith(".") or name == "node_modules":
                continue
            if name.endswith(FOUND_SCRIPTS) and not name.endswith(".d.ts") and os.path.isfile(path):
                yield ExtensionPlace(path)
            elif name.startswith("_"):
                continue
            elif os.path.isdir(path):
                yield from self.of(path)
            elif name.endswith(".py") and os.path.isfile(path):
                yield ExtensionPlace(path)

    def of(self, folder: str, *, is_package: bool = False) -> Iterator[ExtensionPlace]:
        """Find the entry files of an extension's folder: listed in its pyproject.toml or package.json, or by name.

        Args:
            folder: Where.
            is_package: The folder is named as a package may be: folders and patterns in its package.json count, too.
        """
        declared = self._declared(folder)
        if declared is not None:
            for relative in declared:
                path = os.path.normpath(os.path.join(folder, relative))
                if os.path.isdir(path):
                    path = next((each for each in _entries(path) if os.path.isfile(each)), path)
                if os.path.isfile(path) and path.endswith(".py"):
                    yield ExtensionPlace(path, os.path.dirname(path))
                else:
                    self.fail(path, f"is named by {folder}/pyproject.toml and is not a Python file")
            return
        for path in _entries(folder):
            if os.path.isfile(path):
                yield ExtensionPlace(path, folder)
                return
        packaged = self._package(folder) or self._main(folder) if is_package else ()
        yield from packaged or self._scripts(folder)

    def has_other_resources(self, folder: str) -> bool:
        """Return whether a folder is a package with skills, templates or themes, which needs no extension."""
        return any(files for kind, files in self._resources(folder).items() if kind != "extensions")

    def _resources(self, folder: str) -> "Mapping[Kind, Mapping[str, bool]]":
        if not os.path.isfile(os.path.join(folder, "package.json")):
            return {}
        from pinnace_agent.packages.contents import PackageFolder  # with the first

        return PackageFolder(folder, lambda problem: self.fail(folder, problem)).resources(None) or {}

    def _package(self, folder: str) -> Sequence[ExtensionPlace]:
        """Find the extensions of a package; none, if its package.json declares none."""
        return [ExtensionPlace(path, folder) for path in self._resources(folder).get("extensions", ())]

    def _main(self, folder: str) -> Sequence[ExtensionPlace]:
        """Find the module of a package that declares nothing: node imports it for the folder, and so does pi."""
        manifest = os.path.join(folder, "package.json")
        if not os.path.isfile(manifest) or self._resources(folder):
            return ()
        from pinnace_agent.extensions.loading.manifests import ManifestError, main_file  # with the first

        try:
            main = main_file(manifest)
        except ManifestError:  # reported by what reads its list
            return ()
        return [ExtensionPlace(main, folder)] if main is not None and main.endswith(SCRIPTS) else ()

    def _scripts(self, folder: str) -> Iterator[ExtensionPlace]:
        """Find the entries in TypeScript or JavaScript: listed by `pi.extensions` of its package.json, or by name."""
        manifest = os.path.join(folder, "package.json")
        if os.path.isfile(manifest):
            from pinnace_agent.extensions.loading.manifests import ManifestError, listed_extensions  # with the first

            try:
                listed = listed_extensions(manifest)
            except ManifestError as error:
                self.fail(manifest, str(error))
                return
            for path in listed:
                if os.path.isdir(path):
                    yield from self._scripts(path)
                else:
                    yield ExtensionPlace(path, folder)
            if listed:
                return
        for name in INDEX_NAMES:
            if os.path.isfile(path := os.path.join(folder, name)):
                yield ExtensionPlace(path, folder)
                return

    def _declared(self, folder: str) -> Sequence[str] | None:
        """Return the entries that a pyproject.toml lists under [tool.pinnace], if it does."""
        path = Path(folder) / "pyproject.toml"
        if not path.is_file():
            return None
        from pinnace_agent.extensions.loading.dependencies import DependencyError, read_toml

        try:
            tool = read_toml(path).get("tool")
        except (DependencyError, OSError) as error:
            self.fail(str(path), f"can't be read: {error}")
            return ()
        table = tool.get("pinnace") if is_object(tool) else None
        listed = table.get("extensions") if is_object(table) else None
        if listed is None:
            return None
        if is_list(listed) and all(isinstance(each, str) for each in listed):
            return [each for each in listed if isinstance(each, str)]
        self.fail(str(path), "tool.pinnace.extensions must be a list of files")
        return ()


def _entries(folder: str) -> Iterator[str]:
    for name in ENTRY_NAMES:
        yield os.path.join(folder, name)
