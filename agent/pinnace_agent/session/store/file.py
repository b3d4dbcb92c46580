"""The file of one session: lines are appended in order, and what can't be written now is kept for later.

Decides what happens between a line and the disk: the file is made when it is first needed, a line
that was cut is finished or written again, a deleted file is written back, one that was replaced is not touched. Every
failure is reported in words for the client, and no line is forgotten before it is written or withdrawn. No key of the
process gets into a file: a line is redacted before it is queued. Rules R-SES-06, R-SES-07, R-SES-08.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.surroundings import system
from pinnace_agent.files.folders import folders_to_flush, make_folder
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.session.store import save_error as texts
from pinnace_agent.session.store.append_file import AppendFile, FileReplaced, create, open_for_appending
from pinnace_agent.session.store.durability import Durability, Flush
from pinnace_agent.session.store.lease import Lease, LeaseHeld
from pinnace_agent.session.store.save_error import SaveError
from pinnace_agent.session.store.unwritten import UnwrittenLines

__all__ = ["SaveError", "SessionFile"]


class SessionFile:
    """The one writer of a session file in this process. Not for several threads; made by `fresh` or `opened`."""

    def __init__(
        self, path: Path, *, header: bytes | None, lease: Lease | None, flush_call: Callable[[int], None] | None
    ) -> None:
        """Begin with nothing open. For `fresh` and `opened`."""
        self.path: Final = path
        header = None if header is None else REDACTOR.line(header)
        self.header: Final = header
        """What its first line is to be, if it had none when it was opened."""
        self.exists = False
        """Something is on the disk."""
        self.read_only: str | None = None
        """Why nothing may ever be appended; a sentence."""
        self.foreign_lines = 0
        """Lines that another program appended while this was open."""
        self.on_foreign: Callable[[bytes], None] | None = None
        """Takes complete lines of another program, each once."""
        self.on_notice: Callable[[str], None] | None = None
        """Takes a sentence for people."""
        self._file: AppendFile | None = None
        self._lease = lease
        self._unwritten = UnwrittenLines(header)
        self._damaged: Sequence[bytes] = ()  # to be quarantined before anything is written
        self._problem: str | None = None
        self._newest = 0, 0  # where the line that `append` has written last ends, and its bytes
        self._is_replaced = False
        self._is_closed = False
        self._has_reported_others = False
        self._durability = Durability(
            flush_call or system().fdatasync,
            note_lost=partial(self._mark_content, is_lost=True),
            is_content_lost=lease is not None and lease.is_content_lost,
        )

    @classmethod
    def fresh(
        cls,
        path: Path,
        header: bytes,
        *,
        lease: Lease | None = None,
        flush_call: Callable[[int], None] | None = None,
    ) -> "SessionFile":
        """Prepare a file that is made, with its folder, by the first durable `append`. Touches nothing.

        Args:
            path: Nothing must be there.
            header: The first line, with its line feed.
            lease: Taken when the file is made unless it is given. Released by `close` in each case.
            flush_call: Brings a descriptor's content to the disk; None: the system's `fdatasync`.
        """
        return cls(path, header=header, lease=lease, flush_call=flush_call)

    @classmethod
    def opened(
        cls,
        path: Path,
        *,
        size: int,
        has_torn_tail: bool,
        damaged: Sequence[bytes],
        lease: Lease | None,
        header: bytes | None = None,
        read_only: str | None = None,
        flush_call: Callable[[int], None] | None = None,
    ) -> "SessionFile":
        """Open a file that was read. Never raises: what can't be appended to can still be read.

        Args:
            path: It is not followed if it is a link.
            size: Bytes that were read.
            has_torn_tail: Whether these end without a line feed.
            damaged: Lines, without line feeds, that are quarantined before anything is appended.
            lease: Released by `close`.
            header: Written first, into a file of 0 bytes.
            read_only: A reason why nothing may be appended.
            flush_call: Brings a descriptor's content to the disk; None: the system's `fdatasync`.
        """
        file = cls(path, header=header, lease=lease, flush_call=flush_call)
        file.exists = True
        file.read_only = read_only
        file._damaged = tuple(damaged)
        if read_only is None:
            file._open(size, has_torn_tail)
        return file

    def _open(self, size: int, has_torn_tail: bool) -> None:
        try:
            number = open_for_appending(self.path)
        except OSError as error:
            self.read_only = texts.not_written(self.path, error)
            return
        try:
            self._file = AppendFile(self.path, number, size=size, is_torn=has_torn_tail)
        except OSError as error:
            system().close(number)
            self.read_only = texts.not_written(self.path, error)
            return
        except FileReplaced as error:
            system().close(number)
            self.read_only = texts.replaced(self.path, str(error))
            return
        # A process that was killed may only have written what is read here, and the names of the file and its folders.
        self._durability.add_folders(folders_to_flush(self.path.parent))
        with suppress(_QuarantineFailed):  # tried again, and reported, before anything is appended
            self._quarantine_damage()

    def announce_end(self) -> None:
        """Let those that want the session know that this process is about to end."""
        if self._lease is not None:
            self._lease.announce_end()

    @property
    def problem(self) -> str | None:
        """Why what was appended is not all on the disk, or why nothing may be; None when all is well."""
        if self.read_only is not None or self._problem is not None:
            return self.read_only or self._problem
        error = self._durability.error
        return None if error is None else texts.not_written(self.path, error)

    @property
    def unsaved(self) -> int:
        """Lines that are kept in memory for the next try. Setup lines that wait for a first entry are none."""
        return self._unwritten.count if self.exists or self._unwritten.is_wanted else 0

    @property
    def is_durable(self) -> bool:
        """Whether everything in it is known to be on the disk; of a file that was opened, only after a `sync`."""
        return not self.unsaved and self.has_on_disk(self.writes)

    @property
    def writes(self) -> int:
        """How often something was written: behind an `append`, the number of its line for `has_on_disk`."""
        return self._durability.written

    def has_on_disk(self, number: int) -> bool:
        """Whether all writes up to a number are known to be on the disk."""
        return self._durability.durable >= number

    def append(self, line: bytes, *, is_durable: bool = True) -> None:
        """Write a line, after those that could not be written before.

        Args:
            line: Ends with a line feed.
            is_durable: False if it alone is not worth a file: one that does not exist yet is not made for it.

        Raises:
            SaveError: It is not, or not whole, in the file. It is kept for the next `append` or `flush`, unless the
                file is closed.
        """
        if self._is_closed:
            raise SaveError(texts.closed(self.path))
        line = REDACTOR.line(line)
        self._unwritten.add(line, is_durable=is_durable)
        if is_durable or self.exists:
            self._save()
            assert self._file is not None
            self._newest = self._file.size, len(line)

    def withdraw_last(self) -> bool:
        """Take back the newest line, also one that was cut; return whether that was possible.

        A line that was cut must not be completed and be refused by a later one: a crash between the two would leave it.
        """
        if not self._unwritten.withdraw_last():
            begun, file = self._unwritten.begun_alone, self._file
            if not begun or file is None or not file.take_back(begun):
                return False
            self._unwritten.withdraw_begun()
            self._durability.shortened(file.size)
        if not self.unsaved and not self._is_replaced:
            self._problem = None
        return True

    def take_back(self) -> bool:
        """Take the newest line out of the file; return whether that was possible: not if others have written since."""
        file, (end, count) = self._file, self._newest
        if file is None or self.unsaved or end != file.size or not file.take_back(count):
            return False
        self._newest = 0, 0
        self._durability.shortened(file.size)
        return True

    def flush(self) -> None:
        """Write again what could not be written, and check again what prevented that.

        Raises:
            SaveError: It still can't be, or nothing may be.
        """
        if self.read_only is not None or (self.exists and self._problem is not None):
            self._save()
        else:
            self._retry()

    def _retry(self) -> None:
        if self.unsaved or self._unwritten.is_begun:
            self._save()

    async def sync(self) -> None:
        """Return when everything that was appended before is on the disk, and the file's name too.

        Several callers share the waiting. Cancelling it changes nothing, and the flush continues.

        Raises:
            SaveError: Not everything is there.
        """
        failure: SaveError | None = None
        try:
            self._retry()
        except SaveError as error:
            failure = error  # what is in the file can still be made safe
        target = self._durability.written
        if self._durability.durable >= target:
            await trio.lowlevel.checkpoint()
        while self._durability.durable < target:
            flush = self._durability.running or self._start_flush()
            await flush.done.wait()
            if flush.error is not None and flush.target >= target:
                raise SaveError(texts.not_written(self.path, flush.error))
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Save what can be saved, then let others write. Does nothing the second time.

        Cancelled, it does not wait for the disk; what could be written is in the file in any case.
        """
        try:
            if not self._is_closed:
                with suppress(SaveError):
                    await self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let others write, at once, without saving anything more."""
        self._is_closed = True
        file, self._file = self._file, None
        if file is not None:
            file.descriptor.release()
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    # Writing.

    def _save(self) -> None:
        """Write what is not written, and remember why not if that fails."""
        if self._is_closed or self.read_only is not None:
            raise SaveError(self.read_only or texts.closed(self.path))
        with self._recording_failures():
            file = self._file
            if file is None:
                self._create()
                return
            try:
                appended = file.check_for_changes()
            except (FileNotFoundError, NotADirectoryError):
                self._write_back(file)
                appended = file.check_for_changes()
            if appended:
                self._unwritten.was_broken_off(appended)
                self._report_foreign_lines(file.complete_lines(appended))
            self._quarantine_damage()
            self._write(file)

    @contextmanager
    def _recording_failures(self) -> Generator[None, None, None]:
        """Make a sentence of what goes wrong, and keep it until it no longer does."""
        is_replaced = False
        try:
            yield
        except FileReplaced as error:
            is_replaced = True
            text = texts.replaced(self.path, str(error))
        except LeaseHeld as error:
            text = texts.in_use(self.path, error.text)
        except _QuarantineFailed as error:
            text = texts.damage_not_quarantined(self.path, error.error)
        except OSError as error:
            text = texts.not_written(self.path, error)
        else:
            if not self.unsaved:
                self._problem, self._is_replaced = None, False
            return
        self._problem, self._is_replaced = text, is_replaced
        raise SaveError(text)

    def _create(self) -> None:
        folder = self.path.parent
        make_folder(folder)
        if self._lease is None:
            self._lease = Lease.take(self.path)
        file = create(self.path)
        try:
            self._write(file)
        finally:
            if file.size == 0:
                file.remove_empty()
            else:
                self._file = file
                self.exists = True
                self._durability.add_folders(folders_to_flush(folder))
                self._mark_content(is_lost=False)  # a mark in a lease that was left is about a file that is gone

    def _write(self, file: AppendFile) -> None:
        """Write all lines, in one write if the system takes them at once."""
        unwritten = self._unwritten
        while unwritten:
            # A line of ours that was begun is continued; a line that another program left unfinished is ended.
            lead = b"\n" if file.is_torn and not unwritten.is_begun else b""
            try:
                written = file.write(unwritten.rest(lead))
            except FileReplaced:
                unwritten.mark_interleaved()  # it was shortened at the same moment: our lines are in what is left
                raise
            self._durability.wrote()
            between = written.between
            if not between or lead or (not unwritten.is_begun and between.endswith(b"\n")):
                unwritten.was_written(written.size - (lead != b""))
            else:
                unwritten.was_broken_off(between)
                unwritten.mark_interleaved()
            if between:
                self._report_foreign_lines(file.complete_lines(between))
            file.line_ended()
            file.forget_kept(self._durability.durable_end)

    def _report_foreign_lines(self, lines: bytes) -> None:
        self.foreign_lines += sum(1 for line in lines.split(b"\n") if line.strip())
        if lines and self.on_foreign is not None:
            self.on_foreign(lines)
        if not self._has_reported_others:
            self._has_reported_others = True
            self._notice(texts.shared(self.path))

    def _write_back(self, file: AppendFile) -> None:
        """Write a deleted file back, without overwriting what may have come to its place."""
        make_folder(self.path.parent)
        if self._lease is not None and not self._lease.is_in_place():
            # The sidecar was deleted too: another process may have taken a lease since.
            lease = Lease.take(self.path)
            self._lease.release()
            self._lease = lease
        try:
            file.write_anew(is_replacing=False)
        except FileExistsError:
            raise FileReplaced("another file is in its place") from None
        self._content_restored(folders_to_flush(self.path.parent))
        self._notice(texts.recreated(self.path))

    def _start_flush(self) -> Flush:
        file = self._file
        if file is None:
            raise SaveError(texts.closed(self.path))
        with self._recording_failures():
            try:
                file.check_path()
            except (FileNotFoundError, NotADirectoryError):
                self._write_back(file)
            if self._durability.is_content_lost:
                file.write_anew(is_replacing=True)
                self._content_restored([self.path.parent])
        return self._durability.start(file.descriptor, file.size)

    def _content_restored(self, folders: list[Path]) -> None:
        """Take notice that everything is in another file, which was flushed; its name is not."""
        self._durability.content_restored(folders)
        self._mark_content(is_lost=False)

    def _mark_content(self, *, is_lost: bool) -> None:
        """Leave word for the next process. In any thread."""
        lease = self._lease
        if lease is not None:
            lease.mark_content(is_lost=is_lost)

    def _quarantine_damage(self) -> None:
        if self._damaged:
            from pinnace_agent.session.store.quarantine import quarantine  # not at start: for damaged files

            try:
                quarantine(self.path, self._damaged)
            except OSError as error:
                raise _QuarantineFailed(error) from None
            self._damaged = ()

    def _notice(self, text: str) -> None:
        if self.on_notice is not None:
            self.on_notice(text)


class _QuarantineFailed(Exception):
    """Damaged lines could not be quarantined."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error
