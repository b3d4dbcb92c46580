"""The folder of a batch: `results.jsonl`, `sessions/`, and the locks that one coordinator at a time holds.

A line of `results.jsonl` is on the disk before its task counts as done; a line that a crash has cut is removed. Of
several lines of one task the last one counts. Blocks on the file system.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple


class BatchFolderError(Exception):
    """The folder can't be used. The text is for the user."""


class FinishedTask(NamedTuple):
    """What is known of a task that has a result."""

    attempt: int
    is_retryable: bool
    has_passed: bool


class BatchFolder:
    """The results of one batch."""

    def __init__(self, path: Path, *, work: Path | None = None) -> None:
        """Make or open the folder.

        Args:
            path: The folder.
            work: Where workspaces are, on the workers; None: in the folder.

        Raises:
            BatchFolderError: It can't be written, or another coordinator uses one of the two.
        """
        self.path = path
        self.work = path / "work" if work is None else work
        try:
            make_private(path / "sessions")
            self._lock = _locked(path)
            self._work_lock = None
            if work is not None:
                with suppress(OSError):  # it need not be on this machine
                    make_private(work)
                    self._work_lock = _locked(work)
            self._file = open(path / "results.jsonl", "a+b", opener=open_private)  # noqa: SIM115  # as long as this
            self.done = self._read()
        except OSError as error:
            raise BatchFolderError(f"{path} can't be used: {error.strerror or error}") from None

    def add(self, outcome: Mapping[str, Any], attempt: int) -> Mapping[str, Any]:
        """Keep an outcome; it is on the disk when this returns. Return the line.

        Raises:
            BatchFolderError: It can't be written. The attempt's own folder still has the outcome.
        """
        try:
            return self._add(outcome, attempt)
        except OSError as error:
            text = f"{self.path}: the result of {outcome['id']} can't be written: {error.strerror or error}"
            raise BatchFolderError(text) from None

    def _add(self, outcome: Mapping[str, Any], attempt: int) -> Mapping[str, Any]:
        session = f"sessions/{outcome['id']}.jsonl" if outcome["session"] else None
        if session is not None:
            self._write_session(self.path / session, outcome["session"])
        head = outcome["result"]["session"]
        session_id: str = outcome["id"] if head is None else head["id"]
        line: dict[str, Any] = {
            "id": outcome["id"],
            "attempt": attempt,
            **outcome["result"],
            "session": None if session is None else {"id": session_id, "file": session},
            "verify": outcome["verify"],
            "stderr": outcome["stderr"],
        }
        self._file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[outcome["id"]] = _done(line)
        return line

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the line of each task that counts, in the order in which tasks first ended."""
        last: dict[str, int] = {}
        place = 0
        self._file.seek(0)
        for line in self._file:
            last[json.loads(line)["id"]] = place
            place += len(line)
        for place in last.values():
            self._file.seek(place)
            yield json.loads(self._file.readline())

    def _read(self) -> dict[str, FinishedTask]:
        done: dict[str, FinishedTask] = {}
        place = 0
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):  # the last one
                self._file.truncate(place)
                break
            try:
                read = json.loads(line)
                done[read["id"]] = _done(read)
            except (ValueError, KeyError, TypeError):
                text = f"{self.path / 'results.jsonl'} is damaged at byte {place}: it has to be repaired by hand"
                raise BatchFolderError(text) from None
            place += len(line)
        return done

    def _write_session(self, path: Path, text: str) -> None:
        beside = path.with_suffix(".new")
        with open(beside, "w", encoding="utf-8", opener=open_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


def open_private(path: str, flags: int) -> int:
    """Open a file for its owner alone, whatever the umask is: conversations, and variables of a task, may hold keys."""
    file = os.open(path, flags, 0o600)
    with suppress(OSError):  # another user's
        os.fchmod(file, 0o600)
    return file


def make_private(folder: Path) -> None:
    """Create a folder for its owner alone, and those above it that are missing; one that exists stays as it is."""
    if not folder.parent.exists():
        make_private(folder.parent)
    folder.mkdir(exist_ok=True, mode=0o700)


def _locked(folder: Path) -> int:
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BatchFolderError(f"{folder}: another `pinnace batch` uses this folder") from None
    return lock


def has_passed(line: Mapping[str, Any]) -> bool:
    """Return whether a task is completed and verified."""
    verify = line["verify"]
    return line["reason"] == "completed" and (verify is None or verify["passed"])


def _done(line: Mapping[str, Any]) -> FinishedTask:
    return FinishedTask(line["attempt"], line["retryable"], has_passed(line))
