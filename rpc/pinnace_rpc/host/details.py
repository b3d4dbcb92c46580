"""What is kept of an agent while it has no process: how it is listed, and where another process continues.

Three files in its folder. What names its session is flushed before it takes commands; what its last process was doing
is only written. The third one is written by the process itself, when it replaces its session.
"""

import errno
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, Unpack

import trio

from pinnace_rpc.host.locations import FILE_MODE, flush_names
from pinnace_spec.wire.json_text import JsonValue

if TYPE_CHECKING:  # for annotations alone: the host loads nothing of the agent before it needs it
    from pinnace_agent.core.ports.system import System

_log = logging.getLogger("pinnace.host")

_DETAILS_NAME: Final = "agent.json"
"""Brought to the disk before the agent takes commands: without it the next host would begin another session."""
_RUN_NAME: Final = "run.json"
"""What changes with each process and each run; it is not flushed."""
_NAMING_NAME: Final = "session.json"
"""Written by the process of the agent: the session that has replaced another one, before anything is accepted in it."""


class AgentDetails(NamedTuple):
    """What is kept about an agent while it has no process."""

    cwd: str
    profile: str
    session_id: str | None = None
    session_file: str | None = None
    is_named: bool = True
    has_process: bool = False
    """Whether records of the last process may be missing: it has not ended in order, as far as a host has seen."""
    has_run: bool = False
    """Whether it was in a run, as far as its records have shown, and no later epoch has reported that."""
    ended_epoch: int | None = None
    """The epoch whose process has ended in order, with its records on the disk; None: none, or of a former release."""


class _OfRun(TypedDict):
    has_process: bool
    has_run: bool
    ended_epoch: int | None


class _Changed(TypedDict, total=False):
    session_id: str | None
    session_file: str | None
    has_process: bool
    has_run: bool
    ended_epoch: int | None


class DetailsStore:
    """Keeps the details of one agent in its folder."""

    def __init__(
        self,
        folder: str,
        system: "System",
        nursery: trio.Nursery,
        details: AgentDetails | None,
        flushes_changes: Callable[[], bool],
    ) -> None:
        """Read what is there. Blocking.

        Args:
            folder: The agent's.
            system: Keeps the files.
            nursery: Gets the tasks that flush.
            details: Those of a new agent, which are not on the disk; None: the folder has them.
            flushes_changes: Returns whether a change of what is flushed is flushed by a task now; else `flush` is
                called later.
        """
        self._folder = folder
        self._system = system
        self._nursery = nursery
        self._flushes_changes = flushes_changes
        self.current = details or _read_details(folder)
        self.naming_path = os.path.join(folder, _NAMING_NAME)
        """The file in which the process names a session that replaces its own."""
        is_new = details is not None or not os.path.exists(os.path.join(folder, _DETAILS_NAME))
        self._unsaved = {_DETAILS_NAME, _RUN_NAME} if is_new else set[str]()
        """The files that are missing or older, and not on their way to the disk."""
        self.is_kept = not is_new
        """Whether there are details on the disk."""
        self.problem = ""
        """Why there are none, or older ones."""
        self._flushing = trio.Lock()

    def change(self, **changed: Unpack[_Changed]) -> None:
        """Change what is needed to list the agent, to start it when a client brings its environment, and to report it.

        Every process, new session, and beginning and end of a run changes it, but no other record. What the run has
        changed is written at once, the rest by a task that flushes it.
        """
        former, self.current = self.current, self.current._replace(**changed)
        if _RUN_NAME in self._unsaved or _of_run(former) != _of_run(self.current):
            self._unsaved.add(_RUN_NAME)
            if self._write(_RUN_NAME, _of_run(self.current), is_flushed=False) is None:
                self._unsaved.discard(_RUN_NAME)
        if former._replace(**_of_run(self.current)) != self.current or self.is_unsaved:
            self._unsaved.add(_DETAILS_NAME)
            if self._flushes_changes():
                self._nursery.start_soon(self.flush)

    def take_session(self, named: Mapping[str, JsonValue]) -> None:
        """Take the session that a record of the agent names."""
        identity, file = named.get("sessionId"), named.get("sessionFile")
        self.change(
            session_id=identity if isinstance(identity, str) else None,
            session_file=file if isinstance(file, str) and file else None,
        )

    def take_named(self) -> None:
        """Take the session that the process, which has ended, may have named since it was asked."""
        named = _with_named(self._folder, self.current)
        self.change(session_id=named.session_id, session_file=named.session_file)

    @property
    def is_unsaved(self) -> bool:
        """Whether `flush` has something to bring to the disk."""
        return _DETAILS_NAME in self._unsaved

    async def flush(self) -> bool:
        """Bring to the disk what is known of the agent, if it has changed; return whether it is there.

        A disk that fails is tried again later.
        """
        async with self._flushing:
            while self.is_unsaved:
                self._unsaved.discard(_DETAILS_NAME)
                content = self.current._asdict()
                problem: str | None = "its process has ended"  # where this is cancelled
                try:
                    problem = await trio.to_thread.run_sync(self._write, _DETAILS_NAME, content)
                finally:
                    if problem is not None:
                        self._unsaved.add(_DETAILS_NAME)
                        self.problem = f"the host can't keep which session the agent has: {problem}"
                if problem is not None:
                    return False
                self.is_kept = True
        return True

    def _write(self, name: str, content: Mapping[str, object], *, is_flushed: bool = True) -> str | None:
        """Replace a file of the agent; return why the disk does not take it, or None. Blocking."""
        path, system = os.path.join(self._folder, name), self._system
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            descriptor = system.open(f"{path}.new", flags, FILE_MODE)
            try:
                data = json.dumps(content).encode("ascii")
                if system.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)  # a full disk takes a part
                if is_flushed:
                    system.fsync(descriptor)
            finally:
                system.close(descriptor)
            system.rename(f"{path}.new", path)
            if is_flushed:
                flush_names(self._folder, system)
        except OSError as error:
            with suppress(OSError):
                system.unlink(f"{path}.new")
            problem = f"{path}: {error.strerror}"
            _log.warning("%s", problem)
            return problem
        return None


def session_of(folder: str) -> str | None:
    """Return the id of the session of the agent that has a folder; None: it had no process, or a file is damaged."""
    return _read_details(folder).session_id


def remove_agent(folder: str, system: "System") -> None:
    """Remove what is kept about an agent that no host has open, as far as that is possible. Blocking.

    What names its session goes last: a removal that is cut by a loss of power leaves an agent that is listed, and can
    be removed again, not one of which nothing is known.
    """
    with suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: (entry.name == _DETAILS_NAME, entry.name)):
            if entry.is_dir(follow_symlinks=False):
                remove_agent(entry.path, system)
            else:
                with suppress(OSError):
                    system.unlink(entry.path)
        system.rmdir(folder)


def _of_run(details: AgentDetails) -> _OfRun:
    return {"has_process": details.has_process, "has_run": details.has_run, "ended_epoch": details.ended_epoch}


def _read_details(folder: str) -> AgentDetails:
    try:
        value = json.loads(Path(folder, _DETAILS_NAME).read_bytes())
        details = AgentDetails(**value)
    except (OSError, ValueError, TypeError):
        details = AgentDetails(cwd="/", profile="pi")
    return _with_named(folder, _with_run(folder, details))


def _with_run(folder: str, details: AgentDetails) -> AgentDetails:
    """Return what is known of an agent with what its last process was doing; if that is lost, records may be, too."""
    try:
        match json.loads(Path(folder, _RUN_NAME).read_bytes()):
            case {"has_process": bool(has_process), "has_run": bool(has_run), **others}:
                ended = others.get("ended_epoch")
                epoch = ended if isinstance(ended, int) else None
                return details._replace(has_process=has_process, has_run=has_run, ended_epoch=epoch)
            case _:
                pass
    except FileNotFoundError:  # of a former release, or nothing has been written
        return details
    except (OSError, ValueError):
        pass
    return details._replace(has_process=True)


def _with_named(folder: str, details: AgentDetails) -> AgentDetails:
    """Return what is known of an agent with the session that its process has named."""
    try:
        value = json.loads(Path(folder, _NAMING_NAME).read_bytes())
    except (OSError, ValueError):
        return details
    match value:
        case {"sessionId": str(session_id), "sessionFile": str(file)}:
            return details._replace(session_id=session_id, session_file=file)
        case _:
            return details
