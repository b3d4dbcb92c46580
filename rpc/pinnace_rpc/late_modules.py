"""Modules that trio imports and a process may never use: loaded when somebody first looks into them.

`ssl` alone is a tenth of an idle process' memory, and with `hmac` and `idna` a twentieth of its start; plain HTTP to a
server on this machine needs none of them. Decides how a module waits; who names one knows that nobody looks into it at
import. Must be called before trio is imported.

The standard library's LazyLoader does the same, but until Python 3.11.9 two threads that look at once can find half a
module.
"""

import sys
import threading
from importlib.util import find_spec, module_from_spec
from types import ModuleType

# Held while a module is loaded: who looks into it meanwhile waits, but for the module itself.
_lock = threading.RLock()
_loading: set[str] = set()


class _LateModule(ModuleType):
    """A module without its contents. It stays the same object when it gets them."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # what the import system and debuggers ask every module for
            raise AttributeError(name)
        with _lock:
            is_late = type(self) is _LateModule  # else another thread was faster
            if is_late and self.__name__ in _loading:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} yet")
            if is_late:
                _load(self)
        return getattr(self, name)


def _load(module: ModuleType) -> None:
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    _loading.add(module.__name__)
    try:
        spec.loader.exec_module(module)
        module.__class__ = ModuleType
    finally:  # after a failure it may be tried again, as an import may
        _loading.discard(module.__name__)


def defer(*names: str) -> None:
    """Let modules wait. One that is loaded already, or is not there, is left alone."""
    for name in names:
        if name not in sys.modules and (spec := find_spec(name)) is not None and spec.loader is not None:
            module = module_from_spec(spec)
            module.__class__ = _LateModule
            sys.modules[name] = module
