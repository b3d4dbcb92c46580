"""Changes a configuration file so that nothing in it is lost, also if others change it or this process is killed.

Under pi's lock: read anew, change, replace (`atomic_file`). What another program keeps in it stays: unknown keys, their
order, numbers as they are written. A file that can't be read is never written. Its mode and owner are kept; a link
stays, and what it points to is replaced.
"""

import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.files.atomic_file import replace_file
from pinnace_agent.files.file_lock import WAIT_S, FileLock, file_lock, lock_of, take_lock, wait_on
from pinnace_agent.files.folders import make_folder
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_object, parse_object, read_text

NEW_FILE_MODE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# A process that was killed leaves its file behind; no writing of a few kilobytes takes this long.
_LEFT_BEHIND_S: Final = 600.0
# Each failure means that this process was stopped for ten seconds in the midst of it.
_MAX_TRIES: Final = 5


class FileForm(NamedTuple):
    """How a certain file is written."""

    encode: Callable[[JsonObject], str]
    has_backup: bool = False
    """Whether `<file>.bak` gets the same content, before the file itself is changed."""
    is_private: bool = False
    """Whether others lose the right to read it if they had it."""


class JsonEdit(NamedTuple):
    """What a change has done."""

    is_changed: bool
    is_tightened: bool = False
    """Whether others could read the file before."""


def pretty(content: JsonObject) -> str:
    """Write JSON as pi does: two spaces, no newline at the end."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which only an escape can hold
        text = json.dumps(content, indent=2)
    return text


class LockedFile:
    """A file of JSON whose lock is held, for changes that need what was read before them. Used by one thread a call."""

    def __init__(self, path: Path, wait_s: float = WAIT_S, descriptors: Sequence[int] = ()) -> None:
        """Take the lock. `release` gives it back.

        Args:
            path: The file.
            wait_s: How long to wait for another program.
            descriptors: Those that another process, which leaves the lock to this one, has passed on.

        Raises:
            LockHeld: Another program does not release it.
            OSError: The folder can't be written.
            ValueError: The descriptors are those of another file's lock.
        """
        make_folder(path.parent)
        self._target = Path(os.path.realpath(path))
        make_folder(self._target.parent)
        places = _lock_places(path, self._target)
        if descriptors and len(descriptors) != len(places):
            raise ValueError("another lock")
        self._locks = [FileLock(lock_of(place), each) for place, each in zip(places, descriptors, strict=False)]
        try:
            for place in places[len(self._locks) :]:
                self._locks.append(take_lock(place, wait_s))
        except BaseException:
            self.release()
            raise

    @property
    def descriptors(self) -> list[int]:
        """What another process needs to hold the lock when this one leaves it."""
        return [lock.descriptor for lock in self._locks]

    def read(self) -> JsonObject:
        """Return what is in the file; empty if there is none.

        Raises:
            ConfigurationFileError: It can't be read.
        """
        text = read_text(self._target)
        return {} if text is None else _exact(text)

    def edit(self, change: Callable[[JsonObject], JsonObject], form: FileForm) -> JsonEdit | None:
        """Change the file as `edit_object` does; None: the lock was lost, and nothing was changed."""
        return _edit(self._target, change, form, self._locks) if self._locks else None

    def release(self) -> None:
        """Give the lock back. Idempotent; without effect once it was left to another process."""
        while self._locks:
            self._locks.pop().release()

    def leave(self) -> None:
        """Leave the lock to a process that has its descriptors. The file can still be read."""
        while self._locks:
            self._locks.pop().leave()


def edit_object(
    path: Path,
    change: Callable[[JsonObject], JsonObject],
    form: FileForm,
    check: Callable[[], None] = wait_on,
) -> JsonEdit:
    """Change the JSON object in a file. `change` gets it, or an empty one if there is no file, and may be asked again.

    What `check` raises while another program is waited for ends that, and nothing is changed.

    When this returns, what is new is on the disk. If it raises the file is as it was; if the process
    dies it is the old or the new one.

    Raises:
        ConfigurationFileError: The file can't be read, so it can't be changed either. It is left as it is.
        LockHeld: Another program does not release it.
        OSError: It can't be written.
    """
    make_folder(path.parent)
    target = Path(os.path.realpath(path))
    make_folder(target.parent)
    places = _lock_places(path, target)
    for _ in range(_MAX_TRIES):
        with ExitStack() as stack:
            locks = [stack.enter_context(file_lock(place, check=check)) for place in places]
            edited = _edit(target, change, form, locks)
        if edited is not None:
            return edited
    raise OSError(f"{path}: its lock was lost again and again")


def _lock_places(path: Path, target: Path) -> list[Path]:
    """Return what is locked: pi locks some files beside the link to them, and some beside what it points to."""
    return list(dict.fromkeys((Path(os.path.realpath(path.parent)) / path.name, target)))


def _edit(
    target: Path, change: Callable[[JsonObject], JsonObject], form: FileForm, locks: list[FileLock]
) -> JsonEdit | None:
    """Change the file, or return None if another has taken a lock over meanwhile."""
    text = read_text(target)
    old = _exact(text) if text is not None else {}
    new = change(deepcopy(old))
    state = target.stat() if text is not None else None
    mode = stat.S_IMODE(state.st_mode) if state is not None else NEW_FILE_MODE
    is_tightened = form.is_private and bool(mode & _OTHERS)
    if form.is_private:
        mode &= ~_OTHERS
    # As text, since 1, 1.0 and true are equal in Python.
    if pretty(new) == pretty(old):
        if is_tightened:
            target.chmod(mode)
        return JsonEdit(is_changed=False, is_tightened=is_tightened)
    encoded = form.encode(new).encode()
    _remove_left_behind(target)

    def check_locks() -> None:
        if not all(lock.is_held() for lock in locks):
            raise _LockLost

    # The file is in its place even if its new name can't be brought to the disk.
    write = partial(replace_file, mode=mode, owner=state, folder_flush="best effort")
    # First, so that a removed key is nowhere once the file is without it.
    if form.has_backup:
        write(target.with_name(f"{target.name}.bak"), [encoded])
    try:
        write(target, [encoded], before_rename=check_locks)
    except _LockLost:
        return None
    return JsonEdit(is_changed=True, is_tightened=is_tightened)


def _exact(text: str) -> JsonObject:
    """Parse so that what is not changed is written as it was."""
    parse_object(text)  # what this refuses, readers refuse; it knows line and column, and allows no NaN
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ConfigurationFileError("is nested too deeply") from None
    return value if is_object(value) else {}


class _LockLost(Exception):
    """Another process may be changing the file."""


def _remove_left_behind(target: Path) -> None:
    """Remove what processes that were killed have left: it may hold keys."""
    for path in target.parent.glob(f".{target.name}*.tmp"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFT_BEHIND_S:
                path.unlink()
