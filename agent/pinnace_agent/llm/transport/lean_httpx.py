"""Loads httpx without its command line, which is half of it where the packages that it is made of are installed.

httpx does without `click`, `rich` and `pygments`, and loads them where it finds them, for a program that nothing here
uses. So they are not found while it is loaded, by the thread that loads it.
"""

import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_OF_ITS_COMMAND_LINE: Final = frozenset({"click", "rich", "pygments"})


class _NotFound(MetaPathFinder):
    """Finds these packages nowhere for one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if threading.get_ident() == self._thread and fullname.partition(".")[0] in _OF_ITS_COMMAND_LINE:
            raise ModuleNotFoundError(f"{fullname}: not loaded with httpx", name=fullname)
        return None


def load_httpx() -> ModuleType:
    """Import httpx, and return it. Blocking, so it belongs into a thread."""
    finder = _NotFound()
    sys.meta_path.insert(0, finder)
    try:
        import httpx

        return httpx
    finally:
        sys.meta_path.remove(finder)
