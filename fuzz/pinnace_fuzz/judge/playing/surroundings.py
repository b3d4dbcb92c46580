"""The surroundings of an agent: checks of its files and processes, and another program that changes its files.

What damages an agent's files is done by the judge itself, never by a command of the agent: an agent whose commands are
confined rightly keeps them off its own files.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from pinnace_fuzz.judge.adapter import place
from pinnace_fuzz.judge.playing.asking import StepFailed
from pinnace_fuzz.judge.scenarios.scenario import Children, FileCheck
from pinnace_fuzz.process_tree import words_of


class OtherProgram:
    """A program that works on the files of a home beside its agent. `close` must be called.

    Paths begin with a folder of the home, or are absolute and in one. A change that the disk refuses, for instance of a
    file that the agent was to have written, raises `StepFailed`.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._locks: dict[Path, int] = {}

    def append(self, files: Mapping[str, str]) -> None:
        """Append texts to files that are there."""
        for name, text in files.items():
            with _required(name):
                handle = os.open(place(self._folders, name), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                with os.fdopen(handle, "wb") as file:
                    file.write(text.encode("utf-8", "surrogatepass"))

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and folders with everything in them."""
        for name in names:
            path = place(self._folders, name)
            with _required(name):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def move(self, names: Mapping[str, str]) -> None:
        """Rename files."""
        for name, target in names.items():
            with _required(name):
                place(self._folders, name).rename(place(self._folders, target))

    def lock(self, name: str, is_held: bool, limit_s: float) -> None:
        """Hold an exclusive `flock` on a file, which is made if it is not there, or hold it no longer.

        A lock that another program still has is waited for, so long; it may remove the file when it lets go.
        """
        path = place(self._folders, name)
        if (handle := self._locks.pop(path, None)) is not None:
            os.close(handle)
        if not is_held:
            return
        with _required(name):
            deadline_s = time.monotonic() + limit_s
            while (handle := _locked(path, is_last_try=time.monotonic() > deadline_s)) is None:
                time.sleep(0.01)  # the end of another's lock is not reported
            self._locks[path] = handle

    def close(self) -> None:
        """Hold no lock any more."""
        while self._locks:
            os.close(self._locks.popitem()[1])


def _locked(path: Path, *, is_last_try: bool) -> int | None:
    """Return a descriptor with the lock of the file that is at a path; None: it is another's, or was removed."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    os.close(handle)
    if is_last_try:
        raise BlockingIOError(errno.EAGAIN, "another program has it locked")
    return None


@contextlib.contextmanager
def _required(name: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StepFailed(f"{name} can't be changed: {error.strerror}") from None


def file_faults(path: Path, check: FileCheck, limit_s: float = 0) -> list[str]:
    """Return which expectation of a file is not met in time."""
    deadline_s = time.monotonic() + limit_s
    while (faults := _file_faults(path, check)) and time.monotonic() < deadline_s:
        time.sleep(0.02)  # files do not report when they change
    return faults


def _file_faults(path: Path, check: FileCheck) -> list[str]:
    if path.exists() is not check.exists:
        return [f"{check.path} {'is not there' if check.exists else 'is there'}"]
    if not (check.exists and path.is_file()):
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    faults = [f"{check.path} has nothing like /{each}/" for each in check.has if not re.search(each, text)]
    return faults + [f"{check.path} has /{each}/" for each in check.lacks if re.search(each, text)]


def children_faults(descendants: Callable[[], Sequence[int]], wanted: Children, limit_s: float) -> list[str]:
    """Wait until an agent has so many descendants; return an error if it does not happen."""
    deadline_s = time.monotonic() + limit_s
    while not (is_met := _is_met(wanted, found := descendants())) and time.monotonic() < deadline_s:
        time.sleep(0.01)  # the end of another process's child is not reported
    if is_met:
        return []
    number = f"at least {wanted.number}" if wanted.is_least else wanted.number
    return [f"the agent has {len(found)} descendants, not {number}: {', '.join(_names(found))}"]


def _is_met(wanted: Children, found: Sequence[int]) -> bool:
    return len(found) >= wanted.number if wanted.is_least else len(found) == wanted.number


def _names(process_ids: Sequence[int]) -> list[str]:
    return [b" ".join(words).decode("utf-8", "replace")[:80] for each in process_ids if (words := words_of(each))]
