"""The journal of one agent: every record it has written, in files, at places that readers can return to.

A journal is one stream of lines. Events begin with `{"seq":N,`, N counted from 1 in an epoch; the L bytes behind a line
`{"to":C,"length":L}` are for connection C alone, or for several, `[C,C]`: a response, or an event that not all clients
get; other lines are records of the host itself. A place is an offset in the stream; a cursor names the place behind an
event for clients. Lines are in segment files, the newest also in memory; they become visible when they are written, and
whole. Old segments are removed by size, and readers behind them get a gap. The journal is never fsynced, since the
session file is the truth; the number of an epoch is, before the epoch's first record. Where the disk fails, the newest
records are served from memory. Must not know clients or what records mean.
"""

import errno
import json
import logging
import mmap
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pinnace_rpc.host.locations import FILE_MODE, flush_names, make_folder
from pinnace_rpc.host.protocol import Cursor
from pinnace_rpc.host.surroundings import OF_PROCESS, HostSurroundings

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.system import System

_log = logging.getLogger("pinnace.host.journal")

RETAINED_BYTES: Final = 64 * 1024 * 1024
"""Of one agent, where nothing else is asked for."""
SEGMENT_BYTES: Final = 4 * 1024 * 1024
_SEGMENTS: Final = 16
"""At least so many, so that a journal that is full loses a small part at once."""
TAIL_BYTES: Final = 1024 * 1024
"""The newest lines, in memory for clients that keep up."""
SHARED_BYTES: Final = 512 * 1024
"""The newest lines, of which is kept what readers get of them."""
DISKLESS_BYTES: Final = 4 * 1024 * 1024
"""What is kept in memory while the disk takes nothing."""
READ_BYTES: Final = 256 * 1024
"""The most that one read returns; more than a line before a response has."""
_RETRY_S: Final = 1.0
"""How long the disk is left alone after it has failed."""

_STATE_NAME: Final = "journal.json"
_SEGMENT: Final = re.compile(r"(\d{10})-(\d{15})-(\d{20})\.jsonl")
_EVENT: Final = b'{"seq":'
_EVENT_LINE: Final = re.compile(rb'^\{"seq":(\d+),', re.MULTILINE)
_ADDRESSED: Final = re.compile(rb'\{"to":(\d+|\[[\d,]+\]),"length":(\d+) *\}\n')
_NUMBER: Final = re.compile(rb"\d+")
_NEXT_ADDRESSED: Final = b'\n{"to":'
# The records of the host that only clients with cursors get.
_HOST_RECORD: Final = re.compile(
    rb'^\{(?:"seq":\d+,)?"type":"(?:agent_restarted|truncated|extension_ui_resolved)"[^\n]*\n', re.MULTILINE
)
_FEWER_HOST_RECORDS: Final = re.compile(rb'^\{"type":"(?:agent_restarted|truncated)"[^\n]*\n', re.MULTILINE)
_HOST_TYPES: Final = (b'"agent_restarted"', b'"truncated"', b'"extension_ui_resolved"')
_RESTARTED: Final = b'{"type":"agent_restarted","epoch":'
_EPOCH: Final = re.compile(rb"(\d+)")
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Gap(NamedTuple):
    """The lines at a place are gone; reading continues elsewhere."""

    place: int
    cursor: Cursor
    """Names that place: the event before it."""


class Start(NamedTuple):
    """Where a client with a cursor begins to read."""

    place: int
    is_known: bool
    """Whether the cursor is of this journal; else reading begins at the present."""
    gap: Cursor | None
    """Behind which record reading continues, if records behind the client's cursor are gone."""


class _Selection(NamedTuple):
    """What all readers of a kind get of a block but those to whom a line in it is addressed."""

    data: bytes
    cursor: Cursor
    """Behind its last event, for readers with cursors."""
    addressees: frozenset[int]
    """The connections that lines in it are addressed to."""


class _Block:
    """Lines that have become visible together; what readers get of them is found once."""

    __slots__ = ("end", "plain", "with_cursors")

    def __init__(self, end: int) -> None:
        self.end = end
        self.plain: _Selection | None = None
        self.with_cursors: _Selection | None = None


class _Segment:
    """A file with a part of the stream."""

    __slots__ = ("epoch", "first_seq", "is_checked", "is_flushed", "is_lost", "path", "size", "start")

    def __init__(self, folder: str, epoch: int, first_seq: int, start: int, size: int = 0) -> None:
        self.path = os.path.join(folder, f"{epoch:010d}-{first_seq:015d}-{start:020d}.jsonl")
        self.epoch = epoch
        self.first_seq = first_seq
        self.start = start
        self.size = size
        self.is_checked = size == 0
        """Whether it is known to have whole lines alone; of a file that a former host has written, when it is read."""
        self.is_flushed = False
        """Whether it is known to be on the disk."""
        self.is_lost = False
        """Whether a flush of it has failed: a later one proves nothing, since the system takes it for written."""

    @property
    def end(self) -> int:
        return self.start + self.size


class Journal:
    """The records of one agent. One writer; any number of readers."""

    def __init__(
        self,
        folder: str,
        *,
        retained_bytes: int = RETAINED_BYTES,
        published: Callable[[int, int, Collection[int] | None], None] = lambda _start, _end, _to: None,
        shows_resolved: bool = False,
        surroundings: HostSurroundings = OF_PROCESS,
    ) -> None:
        """Open the journal in a folder, or create it. Blocking.

        Args:
            folder: The agent's.
            retained_bytes: The most that its files have, and the length of the longest line.
            published: Called with the places before and behind lines that have become visible, and the connections
                that they are for; None: all.
            shows_resolved: Whether `extension_ui_resolved` is a record of the agent's profile, which all clients get.
            surroundings: Keep its files, and measure how long the disk has been left alone.

        Raises:
            LocationError: The folder is not the user's alone.
            OSError: It can't be read or written.
        """
        self._system = surroundings.system
        self._elapsed_s = surroundings.elapsed_s
        make_folder(folder, self._system)
        self.host_types = _HOST_TYPES[:-1] if shows_resolved else _HOST_TYPES
        """Of the records of the host that only clients with cursors get."""
        self.host_record = _FEWER_HOST_RECORDS if shows_resolved else _HOST_RECORD
        """Finds their lines."""
        self._folder = folder
        self._retained_bytes = retained_bytes
        self._segment_bytes = min(SEGMENT_BYTES, retained_bytes // _SEGMENTS)
        self._segments = _read_segments(folder, self._system)
        self.size = sum(segment.size for segment in self._segments)
        """How many bytes its files have."""
        self.end = self._segments[-1].end if self._segments else 0
        """The place behind the last visible line."""
        self.id, self.epoch = _read_state(folder) or (self._new_id(), 0)
        if self._segments and self._segments[-1].epoch > self.epoch:
            # An epoch that the disk did not take, whose records it took later: its id is gone with its host, and under
            # the one on the disk its number would be used twice.
            self.id, self.epoch = self._new_id(), self._segments[-1].epoch
        self.seq = 0
        """Of the last event in this epoch."""
        self._tail = bytearray()
        self._tail_start = self.end
        self._descriptor: int | None = None
        self._failed_at: float | None = None
        self._spooled: int | None = None
        self._first_spooled_seq = 0
        self._published = published
        self._blocks: dict[int, _Block] = {}
        """The newest lines as they became visible, by the place before them: readers that keep up are at these."""
        self._retain()

    @property
    def cursor(self) -> Cursor:
        """The place behind the last event."""
        return Cursor(self.id, self.epoch, self.seq)

    async def begin_epoch(self) -> bool:
        """Begin the next epoch; return whether cursors of the former one lead to it.

        Its number is on the disk on return, or the disk has failed and is not relied on. A number must not be used
        twice: two histories would be joined. If the disk does not take it, the journal gets a new id instead, and who
        knows the former one must not count on with it.
        """
        former = self.id
        epoch = self.epoch + 1
        try:
            await trio.to_thread.run_sync(_write_state, self._folder, self.id, epoch, self._system)
        except OSError as error:
            self._fail(error)
            self.id = self._new_id()
        self._close_segment()  # now: what was written meanwhile is of the former epoch
        self.epoch = epoch
        self.seq = 0
        self._tail.clear()
        self._tail_start = self.end
        self._blocks.clear()
        return self.id == former

    # The writer.

    def next_event(self) -> bytes:
        """Count one more event and return how its line begins, in the place of its brace."""
        self.seq += 1
        return b'{"seq":%d,' % self.seq

    def append(self, lines: bytes, events: int = 0, to: Collection[int] | None = None) -> None:
        """Make whole lines visible; `events` of them have been counted.

        Args:
            lines: The lines.
            events: How many are events.
            to: The connections that they are for; None: all.
        """
        self._write(lines, self.seq - events + 1)
        self._publish(lines, len(lines), to)

    def begin_spool(self, head: bytes, events: int) -> None:
        """Begin a line that is too long for the memory, in a segment of its own; it is visible at its end."""
        self._close_segment()
        self._spooled = 0
        self._first_spooled_seq = self.seq - events + 1
        self.spool(head)

    def spool(self, piece: bytes) -> bool:
        """Continue the line; return whether the disk has taken it all so far."""
        if self._spooled is None:
            return False
        if self._spooled + len(piece) > self._retained_bytes:
            self.drop_spool()
            return False
        if not self._write(piece, self._first_spooled_seq, at=self.end + self._spooled):
            self.drop_spool()
            return False
        self._spooled += len(piece)
        return True

    @property
    def spooled_bytes(self) -> int | None:
        """How long the line is so far; None: there is none, or the disk has failed."""
        return self._spooled

    def end_spool(self, head: bytes = b"", to: Collection[int] | None = None) -> None:
        """Make the line visible, which has ended with its LF; `head` replaces its beginning. `to` as of `append`."""
        assert self._spooled is not None
        length, self._spooled = self._spooled, None
        if head and self._descriptor is not None:
            self._system.pwrite(self._descriptor, head, self.end - self._segments[-1].start)
        self._tail.clear()
        self._publish(b"", length, to)
        self._close_segment()

    def drop_spool(self) -> None:
        """Remove a line that will not be ended."""
        self._spooled = None
        self._cut_segment()

    def flush(self) -> bool:
        """Bring its files to the disk; return whether everything that was appended is there. Blocking."""
        if self._failed_at is not None or any(segment.is_lost for segment in self._segments):
            return False
        for segment in [each for each in self._segments if not each.is_flushed]:
            segment.is_flushed = True  # until more is written
            try:
                descriptor = self._system.open(segment.path, _READ)
                try:
                    self._system.fsync(descriptor)
                except OSError:
                    segment.is_lost = True
                    raise
                finally:
                    self._system.close(descriptor)
            except OSError as error:
                segment.is_flushed = False
                _log.warning("%s: %s", segment.path, error.strerror)
                return False
        try:
            flush_names(self._folder, self._system)
        except OSError as error:
            _log.warning("%s: %s", self._folder, error.strerror)
            return False
        return True

    def close(self) -> None:
        """Close its file."""
        self._close_segment()

    # Readers.

    def block(self, place: int) -> "_Block | None":
        """Return the lines that became visible together behind a place, if they are among the newest."""
        return self._blocks.get(place)

    def read(self, place: int, most: int | None = None) -> bytes | Gap | None:
        """Return bytes at a place, at most `READ_BYTES` or fewer; None at the end."""
        most = min(READ_BYTES, most or READ_BYTES)
        if place >= self.end:
            return None
        if place >= self._tail_start:
            start = place - self._tail_start
            return bytes(memoryview(self._tail)[start : start + most])
        index = bisect_right(self._segments, place, key=lambda segment: segment.start) - 1
        if index >= 0 and place < self._segments[index].end:
            segment = self._segments[index]
            try:
                self._check(segment)
                size = min(most, segment.end - place, self.end - place)
                if size > 0 and (data := _read_file(segment.path, size, place - segment.start)):
                    return data
            except OSError as error:
                _log.warning("%s: %s", segment.path, error.strerror)
        return self._gap(index + 1)

    def find(self, cursor: Cursor) -> Start:
        """Return where the records behind a cursor begin. Blocking: searches a segment."""
        is_open = cursor.epoch == self.epoch
        if cursor.journal != self.id or cursor.epoch > self.epoch or (is_open and cursor.seq > self.seq):
            return Start(self.end, False, None)
        if is_open and cursor.seq == self.seq:
            return Start(self.end, True, None)
        line = b"%b%d," % (_EVENT, cursor.seq + 1)
        if is_open and (found := _find_line(self._tail, line)) is not None:
            return Start(self._tail_start + found, True, None)
        index = bisect_right(
            self._segments, (cursor.epoch, cursor.seq + 1), key=lambda segment: (segment.epoch, segment.first_seq)
        )
        if not index or self._segments[index - 1].epoch != cursor.epoch:
            return self._find_behind(cursor, index)
        segment = self._segments[index - 1]
        found, is_beyond = None, False
        with suppress(OSError, ValueError):  # gone, or cut
            self._check(segment)
            found, is_beyond = _find_event(segment, cursor.seq)
        if found is not None:
            return Start(segment.start + found, True, None)
        return Start(segment.end, True, self._next_epoch(index) if is_beyond else None)

    def _next_epoch(self, index: int) -> Cursor:
        """Return the cursor before the events of a later epoch, for one beyond the end of a former epoch.

        A loss of power has taken the end of that epoch, and the number of its events is unknown, or the end of a
        segment of that epoch, which others follow.
        """
        following = self._segments[index] if index < len(self._segments) else None
        return (
            Cursor(self.id, self.epoch, 0)
            if following is None
            else Cursor(self.id, following.epoch, following.first_seq - 1)
        )

    def _find_behind(self, cursor: Cursor, index: int) -> Start:
        """Return the begin of the segment with this index, whose predecessors are of epochs before the cursor's.

        The epoch of the cursor may have no segment because nothing was written in it: then there is no gap.
        """
        former = self._segments[index - 1].end if index else 0
        following = self._segments[index] if index < len(self._segments) else None
        is_other = following is None or following.epoch != cursor.epoch
        if is_other and former == (self._tail_start if following is None else following.start):
            return Start(former, True, None if cursor.seq == 0 else self._next_epoch(index))
        gap = self._gap(index)
        return Start(gap.place, True, gap.cursor)

    def _gap(self, index: int) -> Gap:
        """Return the place of the first lines from a segment on that can be read."""
        if index < len(self._segments) and self._segments[index].start < self._tail_start:
            segment = self._segments[index]
            return Gap(segment.start, Cursor(self.id, segment.epoch, segment.first_seq - 1))
        match = _EVENT_LINE.search(self._tail)  # behind what is no event
        seq = int(match[1]) - 1 if match else self.seq
        return Gap(self._tail_start, Cursor(self.id, self.epoch, seq))

    # Files.

    def _publish(self, lines: bytes, length: int, to: Collection[int] | None = None) -> None:
        self.end += length
        if lines:
            if not self._tail:
                self._tail_start = self.end - length
            self._tail += lines
            self._trim()
        else:
            self._tail_start = self.end
        start = self.end - length
        if lines and length <= READ_BYTES:
            self._blocks[start] = _Block(self.end)
        oldest = max(self._tail_start, self.end - SHARED_BYTES)
        while self._blocks and (first := next(iter(self._blocks))) < oldest:
            del self._blocks[first]
        self._published(start, self.end, to)

    def _trim(self) -> None:
        limit = TAIL_BYTES if self._failed_at is None else DISKLESS_BYTES
        if len(self._tail) > 2 * limit or (self._failed_at is not None and len(self._tail) > limit):
            # An addressed line must stay behind the one that says whose it is: an event is a safe place.
            cut = self._tail.find(b"\n" + _EVENT, len(self._tail) - limit // 2) + 1 or len(self._tail)
            del self._tail[:cut]
            self._tail_start += cut

    def _write(self, data: bytes, first_seq: int, at: int | None = None) -> bool:
        """Write bytes whose first event has this number into the current file; return whether it took them."""
        if self._failed_at is not None and self._elapsed_s() - self._failed_at < _RETRY_S:
            return False
        try:
            descriptor = self._descriptor
            if descriptor is None:
                descriptor = self._open_segment(first_seq, self.end if at is None else at)
            view = memoryview(data)
            while view:
                written = self._system.write(descriptor, view)
                self._segments[-1].size += written
                self._segments[-1].is_flushed = False
                self.size += written
                view = view[written:]
        except OSError as error:
            self._fail(error)
            return False
        if self._failed_at is not None:
            _log.warning("%s: records are written again", self._folder)
            self._failed_at = None
        self._retain()
        if self._segments[-1].size >= self._segment_bytes and self._spooled is None:
            self._close_segment()
        return True

    def _open_segment(self, first_seq: int, start: int) -> int:
        segment = _Segment(self._folder, self.epoch, first_seq, start)
        descriptor = self._descriptor = self._system.open(segment.path, _CREATE, FILE_MODE)
        self._segments.append(segment)
        return descriptor

    def _new_id(self) -> str:
        return self._system.urandom(8).hex()

    def _retain(self) -> None:
        """Remove the oldest segments until the others may stay; the newest one always may."""
        while self.size > self._retained_bytes and len(self._segments) > 1:
            oldest = self._segments.pop(0)
            self.size -= oldest.size
            with suppress(OSError):
                self._system.unlink(oldest.path)

    def _check(self, segment: _Segment) -> None:
        """Leave out what a loss of power has left of other than whole lines, in a segment that a former host wrote."""
        if not segment.is_checked:
            segment.is_checked = True
            whole = _whole_bytes(Path(segment.path))
            self.size -= segment.size - whole
            segment.size = whole

    def _close_segment(self) -> None:
        if self._descriptor is not None:
            self._system.close(self._descriptor)
            self._descriptor = None

    def _fail(self, error: OSError) -> None:
        """Serve from memory: what the file has of unfinished lines is removed."""
        if self._failed_at is None:
            _log.warning("%s: %s; records are kept in memory", self._folder, error.strerror)
        self._failed_at = self._elapsed_s()
        self._cut_segment()

    def _cut_segment(self) -> None:
        """End the current file behind the last visible line; without one the file is removed, its name free again."""
        if self._descriptor is None:
            return
        segment = self._segments[-1]
        self.size -= segment.size
        segment.size = max(0, self.end - segment.start)
        self.size += segment.size
        with suppress(OSError):
            self._system.ftruncate(self._descriptor, segment.size)
            if not segment.size:
                self._system.unlink(segment.path)
        if not segment.size:
            del self._segments[-1]
        self._close_segment()


class JournalReader:
    """One client's way through a journal: what of it the client gets."""

    def __init__(self, journal: Journal, place: int, connection: int, cursor: Cursor, *, has_cursors: bool) -> None:
        """Begin at a place; what is for other connections is left out, and without cursors what the host adds."""
        self.place = place
        self.cursor = cursor
        """Behind the last event that was read."""
        self._journal = journal
        self._connection = connection
        self._has_cursors = has_cursors
        self.is_broken = False
        """Whether a gap has begun in the middle of a line, of which the client has the beginning."""
        self._is_at_line_start = True
        self._own_bytes = 0
        """Of a line to this connection that is being read."""
        self._addressees: set[int] = set()
        """Of what was read last."""

    def skip(self, place: int) -> None:
        """Continue at a place, before which nothing is for this client that it has not got."""
        self.place = max(self.place, place)

    def read(self) -> bytes | Gap | None:
        """Return the next bytes, possibly none; a gap, over which it has gone; or None at the end."""
        if self._is_at_line_start and not self._own_bytes and (block := self._journal.block(self.place)) is not None:
            return self._read_blocks(block)
        data = self._journal.read(self.place)
        if data is None:
            return None
        if isinstance(data, Gap):
            self.is_broken = bool(self._own_bytes) or not self._is_at_line_start
            self.place = data.place
            self.cursor = data.cursor
            self._own_bytes = 0
            self._is_at_line_start = True
            return data
        pieces: list[bytes] = []
        self.place += self._select(data, pieces)
        return b"".join(pieces)

    def _read_blocks(self, block: _Block | None) -> bytes:
        """Return what is for this client in successive blocks; whole ones."""
        pieces: list[bytes] = []
        size = 0
        while block is not None and size < READ_BYTES:
            found = block.with_cursors if self._has_cursors else block.plain
            if found is None or self._connection in found.addressees:
                found = self._select_block(block)
            pieces.append(found.data)
            size += len(found.data)
            self.place = block.end
            if self._has_cursors:
                self.cursor = found.cursor
            block = self._journal.block(self.place)
        return b"".join(pieces)

    def _select_block(self, block: _Block) -> _Selection:
        data = self._journal.read(self.place, block.end - self.place)
        assert isinstance(data, bytes)  # it is among the newest, which are in memory
        pieces: list[bytes] = []
        self._addressees.clear()
        self._select(data, pieces)
        found = _Selection(b"".join(pieces), self.cursor, frozenset(self._addressees))
        if self._connection in found.addressees:
            return found
        if self._has_cursors:
            block.with_cursors = found
        else:
            block.plain = found
        return found

    def _select(self, data: bytes, pieces: list[bytes]) -> int:
        """Choose what the client gets and return how many bytes are done with, also behind those that were read."""
        at = min(self._own_bytes, len(data))
        self._own_bytes -= at
        pieces.append(data[:at])
        while at < len(data):
            if self._is_at_line_start and data.startswith(_NEXT_ADDRESSED[1:], at):
                match = _ADDRESSED.match(data, at)
                if match is None:
                    break  # it is read completely the next time
                at = match.end()
                length = int(match[2])
                self._addressees.update(addressees := {int(each[0]) for each in _NUMBER.finditer(match[1])})
                if self._connection in addressees:
                    pieces.append(data[at : at + length])
                    self._own_bytes = max(0, at + length - len(data))
                    at = min(at + length, len(data))
                else:
                    at += length
                continue
            found = data.find(_NEXT_ADDRESSED, at)
            end = found + 1 if found >= 0 else data.rfind(b"\n", at) + 1
            if not end:
                if at:
                    break  # likewise
                end = len(data)
            pieces.append(self._events(data[at:end]))
            at = end
        return at

    def _events(self, lines: bytes) -> bytes:
        # Of a line that is longer than a read, the beginning alone is at the beginning of a line.
        head = b"" if self._is_at_line_start else lines[: lines.find(b"\n") + 1 or len(lines)]
        rest = lines[len(head) :]
        self._is_at_line_start = lines.endswith(b"\n")
        if self._has_cursors:
            self._follow(rest)
            return lines
        if any(name in rest for name in self._journal.host_types):
            rest = self._journal.host_record.sub(b"", rest)
        return head + _EVENT_LINE.sub(b"{", rest)

    def _follow(self, lines: bytes) -> None:
        """Keep the cursor behind the last event of lines that begin with a whole one."""
        restarted = lines.rfind(_RESTARTED)
        if restarted >= 0 and (match := _EPOCH.match(lines, restarted + len(_RESTARTED))):
            self.cursor = Cursor(self._journal.id, int(match[1]), 0)
        last = lines.rfind(b"\n" + _EVENT) + 1
        if last > restarted and (match := _EVENT_LINE.match(lines, last)):
            self.cursor = self.cursor._replace(seq=int(match[1]))


def addressed(connections: Collection[int], length: int = 0) -> bytes:
    """Return the line before one of `length` bytes, its LF included, for some connections, at least one.

    It has the same size for every length.
    """
    numbers = ",".join(map(str, connections))
    to = numbers if len(connections) == 1 else f"[{numbers}]"
    return b'{"to":%b,"length":%-12d}\n' % (to.encode("ascii"), length)


def truncated(begin: Cursor, end: Cursor) -> bytes:
    """Return the record that reports that the events between two cursors are gone."""
    record = {"type": "truncated", "from": str(begin), "to": str(end)}
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def _find_event(segment: _Segment, seq: int) -> tuple[int | None, bool]:
    """Return where the event behind another one begins, and whether that one is of this segment and gone."""
    may_have_it = seq >= segment.first_seq
    if not segment.size:  # a map of no bytes would be one of all that a loss of power has left
        return None, may_have_it
    descriptor = os.open(segment.path, _READ)
    try:
        with mmap.mmap(descriptor, segment.size, access=mmap.ACCESS_READ) as content:
            found = _find_line(content, b"%b%d," % (_EVENT, seq + 1))
            return found, may_have_it and _find_line(content, b"%b%d," % (_EVENT, seq)) is None
    finally:
        os.close(descriptor)


def _find_line(content: "bytearray | mmap.mmap", line: bytes) -> int | None:
    if content[: len(line)] == line:
        return 0
    found = content.find(b"\n" + line)
    return None if found < 0 else found + 1


def _read_file(path: str, size: int, offset: int) -> bytes:
    descriptor = os.open(path, _READ)
    try:
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def _read_segments(folder: str, system: "System") -> list[_Segment]:
    """Return the segments of a folder in order; what a crash has left incomplete is removed."""
    segments: list[_Segment] = []
    for name in sorted(os.listdir(folder)):
        if match := _SEGMENT.fullmatch(name):
            size = os.lstat(os.path.join(folder, name)).st_size
            segments.append(_Segment(folder, int(match[1]), int(match[2]), int(match[3]), size))
    segments.sort(key=lambda segment: segment.start)
    if segments:
        last = segments[-1]
        last.size = _whole_bytes(Path(last.path))
        descriptor = system.open(last.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            system.ftruncate(descriptor, last.size)
        finally:
            system.close(descriptor)
    return segments


def _whole_bytes(path: Path) -> int:
    """Return how many bytes of a file are whole lines: not behind bytes that the disk never got, nor half a line."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return 0
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
            end = content.find(b"\0")
            whole = content.rfind(b"\n", 0, size if end < 0 else end) + 1
            # One that was cut behind the line that announces it.
            head = content.rfind(_NEXT_ADDRESSED, 0, whole) + 1
            match = _ADDRESSED.match(content, head)
            return head if match is not None and match.end() + int(match[2]) > whole else whole


def _read_state(folder: str) -> tuple[str, int] | None:
    try:
        match json.loads(Path(folder, _STATE_NAME).read_bytes()):
            case {"journal": str(journal), "epoch": int(epoch)}:
                return journal, epoch
            case _:
                return None
    except (OSError, ValueError):
        return None


def _write_state(folder: str, journal: str, epoch: int, system: "System") -> None:
    """Bring the number of an epoch to the disk. Blocking."""
    path = os.path.join(folder, _STATE_NAME)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = system.open(f"{path}.new", flags, FILE_MODE)
    try:
        try:
            content = json.dumps({"journal": journal, "epoch": epoch}).encode("ascii")
            if system.write(descriptor, content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)  # a full disk takes a part
            system.fsync(descriptor)
        finally:
            system.close(descriptor)
        system.rename(f"{path}.new", path)
    except OSError:
        with suppress(OSError):
            system.unlink(f"{path}.new")
        raise
    flush_names(folder, system)
