"""Makes, opens and copies the sessions of this process.

Decides which file a session has and whether it may be written, and reports what is wrong with a file in words for
people. Blocks on the file system, so a running agent calls it from a thread; only `new` and `find_open` touch nothing.
A file that this process has open is never opened a second time.
Rules R-SES-03, R-SES-06, R-SES-07.
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import trio

from pinnace_agent.core.surroundings import system, wall_time_ns
from pinnace_agent.files.folders import make_folder
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.session.conversation import Session, SessionReport
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.identity import file_name, iso_time, new_entry_id, new_session_id
from pinnace_agent.session.opening import (
    check_is_session,
    damage_notices,
    in_current,
    is_begun_header,
    mode_notices,
    quarantine_damage,
    read_text,
    to_current,
    unreadable,
    why_unwritable,
    working_folder,
)
from pinnace_agent.session.store.append_file import TooLarge, read_whole
from pinnace_agent.session.store.file import SessionFile
from pinnace_agent.session.store.lease import Lease, LeaseHeld
from pinnace_agent.session.store.reading import SessionText, read_session
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import CURRENT_VERSION, Entry
from pinnace_spec.rules import errors
from pinnace_spec.wire.json_text import encode_record

# How long an opener waits for the predecessor that may be dying: clients kill after one to five seconds.
LEASE_WAIT_S: Final = 6.0
# Entries that a session makes anew with its first message: alone they are not worth a file.
_CHOICES: Final = frozenset({"model_change", "thinking_level_change"})


class OpenedSession(NamedTuple):
    """A session from a file."""

    session: Session
    notices: tuple[str, ...]
    """For people: what is wrong with the file, and where the tools will work if that is another folder."""


class Library:
    """The sessions of one process, and the folder of new ones."""

    def __init__(self, folder: SessionFolder | None, *, naming_file: Path | None = None) -> None:
        """Keep sessions in `folder`, or all of them in memory.

        Args:
            folder: None: in memory.
            naming_file: Names the current session for the next process of the agent; None: there is no such process.
        """
        self.folder = folder
        self._naming_file = naming_file
        self._open: dict[Path, Session] = {}  # by the path without links: a file has one, whatever it is called
        self._closing: dict[Path, tuple[Session, trio.Event]] = {}

    def new(
        self, cwd: str, *, beside: Session | None = None, parent: str | None = None, session_id: str | None = None
    ) -> Session:
        """Make a session that is on the disk once there is something in it.

        Args:
            cwd: Where its tools work.
            beside: A session whose folder it shares.
            parent: Path of the session that it comes from.
            session_id: None makes one.
        """
        session_id = session_id or new_session_id()
        if self.folder is None:
            return Session(cwd, session_id=session_id, parent_session=parent)
        now_ms = _now_ms()
        path = self._folder(beside) / file_name(session_id, now_ms)
        file = SessionFile.fresh(path, header_line(session_id, cwd, now_ms, parent))
        return self._register(Session(cwd, session_id=session_id, parent_session=parent, file=file), file)

    def make_at(self, path: Path, cwd: str, session_id: str | None = None, begun: SessionText | None = None) -> Session:
        """Make a session in a file that is not there yet, is empty, or has the beginning of a header (`begun`).

        Raises:
            ClientError: Another process has it, or it can't be there.
        """
        session_id = session_id or new_session_id()
        header = header_line(session_id, cwd, _now_ms(), None)
        try:
            make_folder(path.parent)
            lease = Lease.take(path)
            if path.exists():
                file = SessionFile.opened(
                    path,
                    size=0 if begun is None else begun.size,
                    has_torn_tail=begun is not None,
                    damaged=() if begun is None else [line.data for line in begun.damaged],
                    lease=lease,
                    header=header,
                )
            else:
                file = SessionFile.fresh(path, header, lease=lease)
        except OSError as error:
            raise unreadable(path, error) from None
        return self._register(Session(cwd, session_id=session_id, file=file), file)

    def find_open(self, path: Path) -> Session | None:
        """Return the session of this process that has the file; the path is one without links."""
        return self._open.get(path)

    def open(self, path: Path, cwd: str, lease: Lease | LeaseHeld | None) -> OpenedSession:
        """Open a file for reading and, if that is possible, for writing.

        Args:
            path: Resolved; a regular file (`check_path`).
            cwd: Where tools work if the header's folder is not there.
            lease: Taken by the caller, and released if this raises. None: there can be none, so the session can only be
                read. `LeaseHeld`: another process has it; the session takes it before its first append.

        Raises:
            ClientError: It can't be read, or it is no session.
        """
        try:
            return self._opened(path, cwd, lease)
        except BaseException:
            if isinstance(lease, Lease):
                lease.release()
            raise

    def _opened(self, path: Path, cwd: str, lease: Lease | LeaseHeld | None) -> OpenedSession:
        text = read_text(path)
        if isinstance(lease, LeaseHeld) and (text.size == 0 or is_begun_header(text)):
            raise errors.ClientError(lease.text, errors.ErrorCode.SESSION_UNAVAILABLE)  # its holder has just made it
        if text.size == 0:
            if isinstance(lease, Lease):
                lease.release()
            return OpenedSession(self.make_at(path, cwd), ())
        if is_begun_header(text):
            if isinstance(lease, Lease):
                lease.release()
            session = self.make_at(path, cwd, begun=text)
            session.report = SessionReport(len(text.damaged), 0, text.has_torn_tail, quarantine_damage(path, text))
            return OpenedSession(session, damage_notices(path, session.report, session.file))
        check_is_session(path, text)
        notices = mode_notices(path)
        read_only = why_unwritable(text)
        if read_only is None and lease is None:
            read_only = "its folder can't be written"
        held = lease if isinstance(lease, LeaseHeld) and read_only is None else None
        is_ours = read_only is None and held is None
        text, problem = to_current(path, text) if is_ours else (in_current(text), None)
        notices += (problem,) if problem else ()
        read_only = read_only or problem
        copied = quarantine_damage(path, text) if is_ours and problem is None else None
        reason = None if read_only is None else errors.session_read_only(str(path), read_only)
        file = SessionFile.opened(
            path,
            size=text.size,
            has_torn_tail=text.has_torn_tail,
            damaged=[line.data for line in text.damaged],
            lease=lease if isinstance(lease, Lease) else None,
            read_only=reason if held is None else held.append_text,
        )
        tree = EntryTree(text.entries, text.heads)
        report = SessionReport(len(text.damaged), tree.orphans, text.has_torn_tail, copied)
        notices += damage_notices(path, report, file)
        folder, notice = working_folder(text, cwd)
        header = text.header or {}
        parent = header.get("parentSession")
        session = Session(
            folder,
            session_id=str(header.get("id") or path.stem.rpartition("_")[2]),  # the name is all that is left of it
            parent_session=parent if isinstance(parent, str) else None,
            tree=tree,
            file=file,
            report=report,
            is_continued=True,
            take_over=None if held is None else partial(self._take_over, path, cwd),
        )
        if file.read_only is None and "custom" in tree.kinds:
            from pinnace_agent.session.child_agents import end_cut_children  # not at start
            from pinnace_agent.session.pending import take_pending

            take_pending(session)
            end_cut_children(session, path)
        return OpenedSession(self._register(session, file), notices + ((notice,) if notice else ()))

    def _take_over(self, path: Path, cwd: str, session: Session) -> OpenedSession:
        """Open the file of a session anew that was opened beside the process which had its lease.

        Waits for no process: nothing else of this one runs meanwhile.

        Raises:
            LeaseHeld: That process still has it.
            ClientError: It can't be read, or it is no session any more.
            OSError: There can be no lease.
        """
        opened = self.open(path, cwd, Lease.take(path, waits_for_name=False))
        notice = f"{path}: the process that had the session has ended; it was read anew, to append to it"
        if opened.session.file is not None:
            self._register(session, opened.session.file)
        return opened._replace(notices=(*opened.notices, notice))

    def branch(self, source: Session, leaf: int | None) -> list[Entry]:
        """Return what a copy of the branch of `source` that ends at `leaf` consists of. Touches nothing."""
        from pinnace_agent.session.branch_copy import copy_path  # not at start

        ids = set(source.tree.ids)

        def new_entry() -> str:
            ids.add(made := new_entry_id(ids))
            return made

        return copy_path(source.tree, leaf, new_entry, iso_time(_now_ms()))

    def copy(self, source: Session, entries: Sequence[Entry]) -> Session:
        """Make a session of a branch of `source`; entries keep their ids and their bytes.

        Does not read what `source` holds by now: it may grow while a thread does this.

        Raises:
            OSError: It can't be written; nothing is left of it.
        """
        new_id = new_session_id()
        now_ms = _now_ms()
        parent = source.path if source.file is not None and source.file.exists else source.parent_session
        if all(entry.get("type") in _CHOICES for entry in entries):
            return self.new(source.cwd, beside=source, parent=parent, session_id=new_id)
        if self.folder is None:
            tree = EntryTree(entries)
            return Session(source.cwd, session_id=new_id, parent_session=parent, tree=tree)
        raw = _raw_lines(source, entries)
        return self._write(source.cwd, new_id, parent, entries, raw, self._folder(source), now_ms)

    def fork_file(self, path: Path, cwd: str, session_id: str | None = None) -> OpenedSession:
        """Make a session for `cwd` with everything that can be read of a file, which is not changed.

        Raises:
            ClientError: It can't be read, or it is no session.
            OSError: The new one can't be written; nothing is left of it.
        """
        folder = self._folder(None)
        text = in_current(read_text(path, keep_raw=True))
        check_is_session(path, text)
        raw = {id(entry): line for entry, line in zip(text.entries, text.raw, strict=False)}
        new_id = session_id or new_session_id()
        make_folder(folder)
        session = self._write(cwd, new_id, str(path), text.entries, raw, folder, _now_ms())
        report = SessionReport(len(text.damaged), session.tree.orphans, text.has_torn_tail)
        return OpenedSession(session, damage_notices(path, report, None))

    def names(self, session: Session) -> bool:
        """Return whether the next process learns by a file which session is the current one."""
        return self._naming_file is not None and session.path is not None

    def name_current(self, session: Session) -> None:
        """Bring to the disk that a session becomes the current one, before anything is accepted in it (R-HST-06).

        Raises:
            OSError: The next process would continue with the former session.
        """
        if self._naming_file is not None and session.path is not None:
            from pinnace_agent.files.atomic_file import replace_file  # not at start: no session is replaced

            replace_file(self._naming_file, [encode_record({"sessionId": session.id, "sessionFile": session.path})])

    def named(self) -> tuple[str, Path] | None:
        """Return the id and the file of the session that a former process has named; None: there is none."""
        if self._naming_file is None:
            return None
        try:
            fields: object = json.loads(self._naming_file.read_bytes())
        except (OSError, ValueError):
            return None
        match fields:
            case {"sessionId": str(session_id), "sessionFile": str(file)}:
                return session_id, Path(file)
            case _:
                return None

    def begin_close(self, session: Session) -> Callable[[], Awaitable[None]]:
        """Return what closes a session that is not used any more; from now on it is not found."""
        closed = trio.Event()
        begun = {path: (session, closed) for path, each in self._open.items() if each is session}
        self._closing |= begun
        self._forget(session)

        async def close() -> None:
            try:
                await session.close()
            finally:
                closed.set()
                for path in begun:
                    self._closing.pop(path, None)

        return close

    def close_now(self, session: Session) -> None:
        """Close a session that is not used any more and has nothing that is not on the disk."""
        self._forget(session)
        if session.file is not None:
            session.file.abandon()

    async def closed(self, path: Path) -> None:
        """Wait until a file that this process has begun to close is closed; the path is one without links."""
        if (closing := self._closing.get(path)) is not None:
            _, closed = closing
            await closed.wait()

    def _forget(self, session: Session) -> None:
        self._open = {path: each for path, each in self._open.items() if each is not session}

    def drop(self, session: Session) -> None:
        """Take back a session that `new` has made and that was never current: it leaves no file behind.

        Nothing of it can be saved afterwards.
        """
        self._forget(session)
        if session.file is not None:
            session.file.abandon()
            with suppress(OSError):
                system().unlink(session.file.path)

    def all_open(self) -> Sequence[Session]:
        """Return all sessions with a file that are not closed."""
        return (*(session for session, _ in self._closing.values()), *self._open.values())

    def _write(
        self,
        cwd: str,
        session_id: str,
        parent: str | None,
        entries: Sequence[Entry],
        raw: dict[int, bytes],
        folder: Path,
        now_ms: int,
    ) -> Session:
        path = folder / file_name(session_id, now_ms)
        lease = Lease.take(path)
        try:
            from pinnace_agent.files.atomic_file import create_file  # not at start: for copies

            lines = [REDACTOR.line(header_line(session_id, cwd, now_ms, parent)), *_lines(entries, raw)]
            create_file(path, lines)
            file = SessionFile.opened(path, size=sum(map(len, lines)), has_torn_tail=False, damaged=(), lease=lease)
        except BaseException:
            lease.release()
            raise
        tree = EntryTree(entries)
        return self._register(Session(cwd, session_id=session_id, parent_session=parent, tree=tree, file=file), file)

    def _register(self, session: Session, file: SessionFile) -> Session:
        self._open[Path(os.path.realpath(file.path))] = session
        return session

    def _folder(self, beside: Session | None) -> Path:
        """Return where a new file lies: beside that of a session, else in the folder of the process."""
        if beside is not None and beside.file is not None:
            return beside.file.path.parent
        if self.folder is None:
            raise ValueError("the sessions of this process are kept in memory alone")
        return self.folder.path


def create_session_file(path: Path, session_id: str, cwd: str, parent: str | None) -> None:
    """Write the file of a session without entries, for another process; it is on the disk when this returns.

    Raises:
        OSError: It exists, or could not be written.
    """
    from pinnace_agent.files.atomic_file import create_file  # not at start

    make_folder(path.parent)
    create_file(path, [REDACTOR.line(header_line(session_id, cwd, _now_ms(), parent))])


def header_line(session_id: str, cwd: str, now_ms: int, parent: str | None) -> bytes:
    """Return the first line of a session's file."""
    header: dict[str, object] = {
        "type": "session",
        "version": CURRENT_VERSION,
        "id": session_id,
        "timestamp": iso_time(now_ms),
        "cwd": cwd,
    }
    if parent is not None:
        header["parentSession"] = parent
    return encode_record(header)


def _raw_lines(source: Session, entries: Sequence[Entry]) -> dict[int, bytes]:
    """Find the bytes of the entries that are the same in the file and in memory."""
    if source.file is None or not source.file.exists:
        return {}
    try:
        text = read_session(read_whole(source.file.path), keep_raw=True)
    except (OSError, TooLarge):
        return {}
    on_disk = {entry["id"]: (entry, line) for entry, line in zip(text.entries, text.raw, strict=False) if "id" in entry}
    lines: dict[int, bytes] = {}
    for entry in entries:
        found = on_disk.get(entry["id"])
        if found is not None and found[0] == entry:
            lines[id(entry)] = found[1]
    return lines


def _lines(entries: Sequence[Entry], raw: dict[int, bytes]) -> Iterator[bytes]:
    """Yield the lines of entries: those of the former file, and new ones of entries that are new or changed."""
    for entry in entries:
        line = raw.get(id(entry))
        yield REDACTOR.line(encode_record(entry) if line is None else line + b"\n")


def _now_ms() -> int:
    return wall_time_ns() // 1_000_000
