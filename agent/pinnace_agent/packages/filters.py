"""The entries of a package's manifest, and of a filter in settings: which of its files they choose.

A plain entry chooses the files that match it; `!glob` leaves out, `+path` takes back in, `-path` leaves out for good.
A glob may match the path in the package, a file's name, its absolute path, and of a `SKILL.md` all these of its folder.
The order of the rules is pi's. Pure.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pinnace_agent.search.glob_match import BadGlob, Glob
from pinnace_agent.search.resource_files import SKILL_FILE

SIGNS: Final = ("!", "+", "-")
_WILD: Final = frozenset("*?")
Report = Callable[[str], None]
"""Takes the text of an entry that makes no sense."""


def is_wild(entry: str) -> bool:
    """Return whether an entry is a glob."""
    return not _WILD.isdisjoint(entry)


def is_signed(entry: str) -> bool:
    """Return whether an entry changes what others choose."""
    return entry.startswith(SIGNS)


def chosen(files: Sequence[str], entries: Iterable[str], root: str, report: Report) -> list[str]:
    """Return the files that entries choose; without a plain one, all that are not left out.

    Args:
        files: Absolute paths.
        entries: As they are written.
        root: The folder of the package.
        report: Takes entries that make no sense, which choose nothing, or leave out everything.
    """
    by_sign: dict[str, list[str]] = {"": [], "!": [], "+": [], "-": []}
    for entry in entries:
        sign = entry[:1] if is_signed(entry) else ""
        by_sign[sign].append(entry[len(sign) :])
    fits = [_glob(each, root, report) for each in by_sign[""]]
    kept = [file for file in files if not fits or any(each(file) for each in fits)]
    unwanted = [_glob(each, root, report, leaves_out=True) for each in by_sign["!"]]
    kept = [file for file in kept if not any(each(file) for each in unwanted)]
    kept += [file for file in files if file not in kept and _is_named(file, by_sign["+"], root)]
    return [file for file in kept if not _is_named(file, by_sign["-"], root)]


def changed(files: Sequence[str], entries: Iterable[str], root: str, report: Report) -> Mapping[str, bool]:
    """Return the files that a filter without `autoload` mentions, and whether each is loaded; its last entry counts."""
    found: dict[str, bool] = {}
    for entry in entries:
        sign = entry[:1] if is_signed(entry) else ""
        word = entry[len(sign) :]
        is_exact = sign in ("+", "-")
        fits = _glob(word, root, report, leaves_out=sign == "!") if not is_exact else None
        for file in files:
            if fits(file) if fits is not None else _is_named(file, [word], root):
                found[file] = sign not in ("!", "-")
    return found


def _glob(pattern: str, root: str, report: Report, *, leaves_out: bool = False) -> Callable[[str], bool]:
    """Return whether a glob matches a file; one that is damaged matches all if it leaves out, else none."""
    # pi's globs are compared with whole paths, in which there is no `./` and no slash at the end.
    if pattern.startswith(("./", "#")) or pattern.endswith("/") or not pattern:
        return lambda _file: False
    try:
        glob = Glob(f"/{pattern.lstrip('/')}", is_case_exact=True)
    except BadGlob:
        report(f"!{pattern}" if leaves_out else pattern)
        return lambda _file: leaves_out
    is_absolute = pattern.startswith("/")

    def fits(file: str) -> bool:
        names = (file, os.path.dirname(file)) if os.path.basename(file) == SKILL_FILE else (file,)
        for name in names:
            if glob.matches(name) if is_absolute else any(glob.matches(f"/{each}") for each in _relative(name, root)):
                return True
        return False

    return fits


def _relative(path: str, root: str) -> tuple[str, str]:
    return os.path.relpath(path, root), os.path.basename(path)


def _is_named(file: str, words: Sequence[str], root: str) -> bool:
    """Return whether a word is exactly the path of a file, or of a skill's folder."""
    names = {file, os.path.relpath(file, root)}
    if os.path.basename(file) == SKILL_FILE:
        folder = os.path.dirname(file)
        names |= {folder, os.path.relpath(folder, root)}
    return any(word.removeprefix("./") in names for word in words)
