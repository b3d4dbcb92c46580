"""Imports the modules of extensions under unique names, and removes them again.

`sys.path` stays unchanged, and no bytecode is cached, so a file is compiled as it is even if it was changed within the
granularity of its timestamp. Entries in `sys.modules` are the only global state of extensions.
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
    """Compiles the source at each import."""

    def path_stats(self, path: str) -> dict[str, float]:
        """Raise OSError: without timestamps, no bytecode is read or written."""
        raise OSError("no bytecode is cached")


class _SubmoduleFinder(MetaPathFinder):
    """Finds relative imports of extensions' modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a submodule of an extension's module; other names are left to other finders."""
        if not fullname.startswith(PREFIX) or path is None:
            return None
        for folder in path:
            # A new finder each time, because finders cache the contents of folders.
            finder = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FreshLoader, [".py"]))
            if (spec := finder.find_spec(fullname)) is not None:
                return spec
        return None


_FINDER: Final = _SubmoduleFinder()


def module_name(slug: str) -> str:
    """Return a name that no module of this process has had."""
    return f"{PREFIX}{slug}_{next(_numbers)}"


def import_file(name: str, entry: str, folder: str | None) -> ModuleType:
    """Run a file as a module and return it. Its exceptions are raised; `forget` removes what was imported by then.

    Args:
        name: From `module_name`. With a folder, the package's name, and the file is a module in it.
        entry: The file.
        folder: The folder of its relative imports.
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
    """Import a module of an installed package under its own name."""
    importlib.invalidate_caches()
    return importlib.import_module(name)


def forget(name: str) -> None:
    """Remove a module and its submodules from `sys.modules`."""
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
    # A module may have replaced itself.
    return sys.modules.get(name, module)


def _add_package(name: str, folder: str) -> None:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [folder]
    sys.modules[name] = importlib.util.module_from_spec(spec)
