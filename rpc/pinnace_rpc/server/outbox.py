"""The one writer: records in, bytes out, in order.

`put` never waits, so that effects can write; producers of much output wait in `room`. Each record is encoded when it is
put. Records are merged only under back-pressure: successive deltas of one block become one, and a cumulative progress
record replaces its unwritten predecessor. Text is never dropped. An event that can't be encoded is a defect: it is
written with null in the place of values that JSON does not have, since a missing record would leave its bracket open,
and reported. No key of the process is written: lines are redacted when they are put, deltas when they are taken, since
a key may be split over several. Must not know what a record means beyond that.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import trio

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.messages import DIALOG_METHODS
from pinnace_spec.wire.json_text import decode_line, encode_record, without_faults

if TYPE_CHECKING:  # loaded with the first update
    from pinnace_agent.redaction.growing import GrowingMessage

_log = logging.getLogger("pinnace.outbox")

Record = Mapping[str, object]

# Producers wait above this. Four pipes' worth: enough to keep the reader busy, small beside the process.
HIGH_WATER_BYTES: Final = 256 * 1024
# Deltas are merged above this: a pipe holds 64 KiB, so with more than that waiting the reader is behind.
MERGE_BYTES: Final = 64 * 1024
# A producer with more data continues until this many bytes wait, or for this many pieces, before other tasks run. A
# turn with a write costs more than a delta; so many deltas take half a millisecond.
TURN_BYTES: Final = 16 * 1024
TURN_PIECES: Final = 32
# The reader of stdin waits above this: responses are bounded by what the client sends, but get_messages may be large.
READER_BYTES: Final = 32 * 1024 * 1024
# One write: large enough to be cheap, small enough that a slow reader's progress is seen.
WRITE_BYTES: Final = 64 * 1024
# A line of at least this size is left to the pump: writing a part of it at once is not worth a copy of the rest.
LARGE_LINE_BYTES: Final = 1024 * 1024

WriteNow: TypeAlias = Callable[[bytes], int]


class Projection(Protocol):
    """Turns records into the lines of the protocol generation that the client speaks."""

    profile: ClientProfile
    has_whole_updates: bool
    """Whether a `message_update` holds more of the message than its delta."""
    unknown_names: frozenset[str]
    """Commands, and fields of commands, that this generation does not have."""

    @property
    def event_names(self) -> tuple[str, ...]:
        """The types of the records that may be written beside responses."""
        ...

    def line(self, record: Record) -> bytes | None:
        """Encode a record, or return None if the client must not get it."""
        ...

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update`; empty if it is not written."""
        ...


class ByteSink(Protocol):
    """The destination of the bytes."""

    async def send_all(self, data: bytes) -> None:
        """Write everything or raise."""


def _ignore(_: str) -> None:
    """Do nothing."""


class _Delta:
    """A delta that is not encoded yet, since more of the same block may come before the reader takes it."""

    __slots__ = ("builder", "event", "pieces", "size")

    def __init__(self, event: Record, builder: MessageBuilder) -> None:
        self.event = event
        self.builder = builder
        self.pieces = [str(event["delta"])]
        self.size = len(self.pieces[0])

    def merge(self, event: Record, builder: MessageBuilder) -> bool:
        mine = self.event
        if (
            builder is not self.builder
            or event["type"] != mine["type"]
            or event["contentIndex"] != mine["contentIndex"]
        ):
            return False
        piece = str(event["delta"])
        self.pieces.append(piece)
        self.size += len(piece)
        return True

    @property
    def whole(self) -> Record:
        """The event with all of its text."""
        return {**self.event, "delta": "".join(self.pieces)}


class OutboxTurn:
    """A block of an outbox (`Outbox.turn`). There is one for each answer: a generator would cost as much as that."""

    __slots__ = ("_outbox",)

    def __init__(self, outbox: "Outbox") -> None:
        """Begin nothing yet."""
        self._outbox = outbox

    def __enter__(self) -> None:
        self._outbox.begin_turn()

    def __exit__(self, *_: object) -> None:
        self._outbox.end_turn()


class Outbox:
    """The records that wait to be written to stdout. Implements the agent's `Emitter`."""

    def __init__(
        self,
        projection: Projection,
        *,
        on_record: Callable[[Record], None] | None = None,
        on_defect: Callable[[str], None] = _ignore,
        on_unshown_dialog: Callable[[str], None] = _ignore,
        has_host: bool = False,
    ) -> None:
        """Start empty and open.

        Args:
            projection: Encodes the records.
            on_record: Takes every record but updates, before it is written.
            on_defect: Takes the error of an event that had to be repaired, once it is written.
            on_unshown_dialog: Takes the id of a dialog that the client does not get, and therefore cannot answer.
            has_host: Whether a durable host reads the records, which follows dialogs in every profile.
        """
        self.projection = projection
        self.written_bytes = 0
        self.begun = trio.Event()  # something has been written
        self._on_record = on_record
        self._on_defect = on_defect
        self._on_unshown_dialog = on_unshown_dialog
        self._has_host = has_host
        self._is_reporting = False  # an error of an event
        self._queue: deque[bytes] = deque()
        self._events: deque[Record | None] = deque()  # beside the queue: the event of each line that is an update
        self._growing: GrowingMessage | None = None  # made with the first update once a key is known
        self._bytes = 0
        self._delta: _Delta | None = None  # the newest entry, behind the queue
        self._progress: dict[str, Record] = {}  # newer than the queue and the delta
        self._pieces = 0  # since other tasks had their turn
        self._closed = False
        self._is_turn = False  # the pump need not know yet
        self._write_now: WriteNow | None = None  # while the pump waits
        self._filled = trio.Event()
        self._taken = trio.Event()
        self._is_awaited = False  # a task waits for `_taken`
        self._turn = OutboxTurn(self)

    def put(self, record: Record) -> None:
        """Write a record. After `close` it is dropped: nothing follows the last record (R-EOF-02).

        Raises:
            TypeError, ValueError: It is a response and can't be encoded. Nothing was written: it can be refused.
        """
        try:
            line = self.projection.line(record)
        except Exception as error:
            if record["type"] == "response":
                raise
            self._put_repaired(record, error)
        else:
            if self._on_record is not None:
                self._on_record(record)
            if line is not None:
                self._append(line)
            elif record["type"] == "extension_ui_request" and record["method"] in DIALOG_METHODS:
                self._on_unshown_dialog(str(record["id"]))
            elif record["type"] == "extension_ui_resolved" and self._has_host:
                self._append(encode_record(record))  # the host keeps it from clients whose profile lacks it

    def _put_repaired(self, record: Record, error: Exception) -> None:
        """Write an event that could not be encoded, without its invalid values."""
        _log.error("the record %s can't be encoded", record["type"], exc_info=error)
        repaired = without_faults(record)
        try:
            line = self.projection.line(repaired)
        except Exception:  # the defect is the projection's
            _log.exception("the record %s can't be projected", record["type"])
            line = encode_record(repaired)
        if self._on_record is not None:
            self._on_record(repaired)
        if line is not None:
            self._append(line)
        if self._is_reporting:  # the records of a report may have the same error
            return
        self._is_reporting = True
        try:
            self._on_defect(f"The record {record['type']} can't be encoded: {error}")
        finally:
            self._is_reporting = False

    def put_line(self, line: bytes) -> None:
        """Write a line of JSON that is not a record of the agent, such as a session's header."""
        self._append(line)

    def put_text(self, text: str) -> None:
        """Write a text that is not JSON."""
        self._append(REDACTOR.text(text).encode("utf-8", "replace"))

    def emit(self, record: Record) -> None:
        """Write an event record."""
        self.put(record)

    def update(self, event: Record, builder: MessageBuilder) -> None:
        """Write one update of a growing message."""
        if self._bytes > MERGE_BYTES and "delta" in event:
            if self._progress:
                self._seal()
            if self._delta is None or not self._delta.merge(event, builder):
                self._seal()
                self._delta = _Delta(event, builder)
            self._bytes += len(str(event["delta"]))
            return
        self._put_update(event, builder)

    def _put_update(self, event: Record, builder: MessageBuilder) -> None:
        try:
            line = self.projection.update_line(event, builder)
        except Exception as error:  # as in `put`
            update = {"type": "message_update", "entryId": builder.entry_id, "message": builder.snapshot()}
            self._put_repaired({**update, "assistantMessageEvent": event}, error)
        else:
            # The text of a delta is redacted together with its neighbours, in `_take`.
            if REDACTOR.is_active and ("delta" not in event or self.projection.has_whole_updates):
                line = REDACTOR.line(line)
            self._append(line, event)

    def progress(self, record: Record, key: str) -> None:
        """Write a cumulative record; under back-pressure it takes the place of an unwritten one with its key."""
        if self._bytes <= MERGE_BYTES:
            self.put(record)
            return
        if self._delta is not None:
            self._seal()
        self._progress.pop(key, None)
        self._progress[key] = record

    async def room(self) -> None:
        """Wait until fewer than `HIGH_WATER_BYTES` wait.

        Can be cancelled in any case. Other tasks run once `TURN_BYTES` wait, and at every `TURN_PIECES`th call; until
        then a producer is expected to wait for its source, not for its reader.
        """
        self._pieces += 1
        if self._pieces < TURN_PIECES and self._bytes < TURN_BYTES:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        self._pieces = 0
        await self._below(HIGH_WATER_BYTES)

    def turn(self) -> "OutboxTurn":
        """Write the records of this block at its end, without waking the pump, as far as the reader takes them.

        For answers to lines that were read together. The rest, and everything if the pump is writing, is left to the
        pump.
        """
        return self._turn

    def begin_turn(self) -> None:
        """Write nothing until the end of the turn, unless the pump is writing."""
        self._is_turn = True

    def end_turn(self) -> None:
        """Write what waits."""
        self._is_turn = False
        if self._write_now is not None and self._queue and len(self._queue[0]) < LARGE_LINE_BYTES:
            self._write_some(self._write_now)
        if self._queue or self._delta is not None or self._progress:
            self._filled.set()

    def _write_some(self, write_now: "WriteNow") -> None:
        data = self._take()
        try:
            written = write_now(data)
        except OSError:  # the reader has no room, or has closed: the pump detects it
            written = 0
        if written < len(data):
            self._queue.appendleft(data[written:])
            self._events.appendleft(None)
        if written:
            self._count_written(written)

    def _count_written(self, size: int) -> None:
        if not self.written_bytes:
            self.begun.set()
        self.written_bytes += size
        self._bytes -= size
        if self._is_awaited:
            self._is_awaited = False
            self._taken.set()
            self._taken = trio.Event()

    async def reader_room(self) -> None:
        """Wait until more commands may be read. Not a checkpoint when there is room."""
        if self._bytes > READER_BYTES:
            await self._below(READER_BYTES)

    async def _below(self, limit: int) -> None:
        await trio.lowlevel.checkpoint()
        while self._bytes > limit and not self._closed:
            self._is_awaited = True
            await self._taken.wait()

    def close(self) -> None:
        """Take nothing more; `pump` returns once all is written."""
        self._seal()
        self._closed = True
        self._filled.set()
        self._taken.set()

    async def pump(self, sink: ByteSink, write_now: "WriteNow | None" = None) -> None:
        """Write until closed and empty. Cancelling loses what is not written.

        Args:
            sink: Where to.
            write_now: Writes to the same destination without waiting, and returns the number of bytes written; raises
                OSError if it is 0. None: only the pump writes.

        Raises:
            trio.BrokenResourceError: The reader has closed.
        """
        while True:
            self._seal()
            if not self._queue:
                if self._closed:
                    return
                self._filled = trio.Event()
                self._write_now = write_now
                try:
                    await self._filled.wait()
                finally:
                    self._write_now = None
                continue
            data = self._take()
            await sink.send_all(data)
            self._count_written(len(data))

    def _take(self) -> bytes:
        """Remove some whole lines. They count as waiting until they are written."""
        size = 0
        lines: list[bytes] = []
        events: list[Record | None] = []
        while self._queue and (not lines or size + len(self._queue[0]) <= WRITE_BYTES):
            line, event = self._queue.popleft(), self._events.popleft()
            size += len(line)
            lines.append(line)
            events.append(event)
        if REDACTOR.is_active and (updates := [event for event in events if event is not None]):
            if self._growing is None:
                from pinnace_agent.redaction.growing import GrowingMessage

                self._growing = GrowingMessage()
            shown = self._growing.take(updates)
            if shown is not None:
                lines = list(_with_deltas(lines, events, shown))
                self._bytes += sum(map(len, lines)) - size
        return b"".join(lines)

    def _append(self, line: bytes, event: Record | None = None) -> None:
        """Add a line; one of an update, with its event, is redacted by `_put_update` and `_take`."""
        if self._closed or not line:
            return
        if event is None and REDACTOR.is_active:
            line = REDACTOR.line(line)
        if self._delta is not None or self._progress:
            self._seal()
        self._queue.append(line)
        self._events.append(event)
        self._bytes += len(line)
        if not self._is_turn:
            self._filled.set()

    def _seal(self) -> None:
        """Encode what was kept for merging, in its place."""
        delta, self._delta = self._delta, None
        records, self._progress = self._progress, {}
        if delta is not None:
            self._bytes -= delta.size
            self._put_update(delta.whole, delta.builder)
        for record in records.values():
            self.put(record)


def _with_deltas(
    lines: Iterable[bytes], events: Iterable[Record | None], shown: Iterable[str | None]
) -> Iterator[bytes]:
    """Replace the deltas in the lines of updates by the redacted ones."""
    left = iter(shown)
    for line, event in zip(lines, events, strict=True):
        delta = None if event is None else next(left)
        if event is None or delta is None or delta == event["delta"]:
            yield line
            continue
        record = cast("dict[str, dict[str, object]]", decode_line(line))  # cast: a `message_update`
        record["assistantMessageEvent"]["delta"] = delta
        yield encode_record(record)
