"""Imports the modules of extensions under names of their own, and takes them out again (R2).

`sys.path` is left alone, and nothing compiled is kept: a file that was changed within the granularity of its time is
seen as it is. The table of modules is the interpreter's, so this is the one thing about extensions that is global.
Must not know what an extension is.
"""

import importlib
import importlib.util
import itertools
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Final

PREFIX: Final = "_ext_"
_numbers: Final[Iterator[int]] = itertools.count(1)


class _FreshLoader(SourceFileLoader):
    """Compiles a source each time."""

    def path_stats(self, path: str) -> dict[str, float]:
        """Refuse to tell how old a source is: without that nothing compiled is read or written."""
        raise OSError("not kept")


class _SubmoduleFinder(MetaPathFinder):
    """Finds what modules of extensions import relatively."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a submodule of one of ours; everything else is somebody else's."""
        if not fullname.startswith(PREFIX) or path is None:
            return None
        for folder in path:
            # A new one each time: they remember what a folder holds.
            finder = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FreshLoader, [".py"]))
            if (spec := finder.find_spec(fullname)) is not None:
                return spec
        return None


_FINDER: Final = _SubmoduleFinder()


def module_name(slug: str) -> str:
    """Return a name that no module has had in this process."""
    return f"{PREFIX}{slug}_{next(_numbers)}"


def import_file(name: str, entry: str, folder: str | None) -> ModuleType:
    """Run a file as a module, and return it. What it raises is raised; `forget` takes out what was there by then.

    Args:
        name: From `module_name`. With a folder, it is a package of that name, and the file is in it.
        entry: The file.
        folder: What its relative imports are relative to.
    """
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    importlib.invalidate_caches()
    if folder is None:
        return _run(name, entry, None)
    init = os.path.join(folder, "__init__.py")
    if os.path.realpath(entry) == os.path.realpath(init):
        return _run(name, entry, folder)
    if os.path.isfile(init):
        _run(name, init, folder)
    else:
        _add_package(name, folder)
    return _run(f"{name}.{Path(entry).stem}", entry, None)


def import_installed(name: str) -> ModuleType:
    """Import a module of an installed package, by its own name."""
    importlib.invalidate_caches()
    return importlib.import_module(name)


def forget(name: str) -> None:
    """Take a module and everything below it out of the table of modules."""
    for each in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
        module = sys.modules.pop(each)
        if file := getattr(module, "__file__", None):
            linecache.cache.pop(str(file), None)


def _run(name: str, entry: str, folder: str | None) -> ModuleType:
    loader = _FreshLoader(name, entry)
    spec = importlib.util.spec_from_file_location(
        name, entry, loader=loader, submodule_search_locations=None if folder is None else [folder]
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    loader.exec_module(module)
    if parent:
        setattr(sys.modules[parent], child, module)
    # A module may have put something else in its place.
    return sys.modules.get(name, module)


def _add_package(name: str, folder: str) -> None:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [folder]
    sys.modules[name] = importlib.util.module_from_spec(spec)
