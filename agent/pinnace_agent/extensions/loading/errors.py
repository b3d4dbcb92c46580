"""Error texts of extensions that failed to load: what failed, where, and what to do."""

import os
import sys
import traceback
from pathlib import Path
from typing import Final

from pinnace_agent.extensions.loading.modules import PREFIX
from pinnace_agent.extensions.services.error_records import described, place_of

_SHOWN_FRAMES: Final = 5
_SUSPECTS: Final = ("setup", "register", "main", "activate", "default", "plugin", "init")


def error_text(error: BaseException, entry: str, folder: str | None) -> str:
    """Return the error text of a failure."""
    match error:
        case SyntaxError():
            where = f" ({os.path.basename(error.filename)}, line {error.lineno})" if error.filename else ""
            return f"SyntaxError: {error.msg}{where}"
        case ModuleNotFoundError() if error.name:
            return _missing_module(error.name, entry, folder)
        case ImportError() if "no known parent package" in str(error):
            stem = Path(entry).stem
            return f"a single file can't import relatively: make it a folder, {stem}/extension.py"
        case SystemExit():
            return f"tried to exit the process (SystemExit: {error.code}){place_of(error, folder or entry)}"
        case RecursionError():
            return f"RecursionError: it calls itself without end{place_of(error, folder or entry)}"
        case _:
            return described(error, folder or entry)


def no_function(names: list[str], attribute: str) -> str:
    """Return the error text of a module without the extension's function."""
    suspect = next((each for each in _SUSPECTS if each in names), None)
    hint = f"; it has {suspect}(): rename it" if suspect else ""
    return f"defines no function {attribute!r}: write `def {attribute}(pi):`{hint}"


def short_traceback(error: BaseException, entry: str, folder: str | None) -> str:
    """Return the last frames of a traceback that are in the extension's own files."""
    own = os.path.realpath(entry if folder is None else folder)
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if (real := os.path.realpath(each.filename)) == own or real.startswith(own + os.sep)
    ]
    return "".join(traceback.format_list(frames[-_SHOWN_FRAMES:])).rstrip()


def _missing_module(name: str, entry: str, folder: str | None) -> str:
    if name.startswith(PREFIX):
        missing = name.partition(".")[2]
        return f"there is no module {missing!r} in {folder or os.path.dirname(entry)}"
    top = name.partition(".")[0]
    beside = os.path.dirname(entry)
    if any(os.path.exists(os.path.join(beside, each)) for each in (f"{top}.py", top)):
        if folder is None:
            return (
                f"there is no module {name!r}; {top} lies beside it, which a single file can't import: make it a "
                f"folder, {Path(entry).stem}/extension.py, and write `from . import {top}`"
            )
        return f"there is no module {name!r}; for the one beside it write `from . import {top}`"
    return (
        f"needs the module {name!r}, which is not installed. Its package may have another name: ask the extension's "
        f"author, and install it for {sys.executable}"
    )
