"""What clients of a host must get: every event once, in order, and the same whether live or replayed.

An event is known by the cursor behind it, `JOURNAL.EPOCH:SEQ`. Two events with one cursor must be equal, for all
clients and at all times: else two histories would be joined. Behind a cursor follows the next event of its epoch, or
the record that begins another epoch, or a record of a gap; a gap, and a cursor that is not known any more, need a
crash of the machine. Rules R-HST.
"""

from collections.abc import Callable
from typing import NamedTuple

from pinnace_fuzz.records import Record, parse_record


class Cursor(NamedTuple):
    """A place in the journal."""

    journal: str
    epoch: int
    seq: int

    def __str__(self) -> str:
        """Return what an attach takes."""
        return f"{self.journal}.{self.epoch}:{self.seq}"


class EventLog:
    """The events of a history, as all clients have got them."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        """Begin empty; `report` takes the source and the text of a finding."""
        self.crashes = 0
        """How many processes have crashed until now."""
        self.disturbed_s = 0.0
        """When one has crashed, or was stopped, in simulated seconds of the history."""
        self.may_have_gaps = False
        """Whether the machine has crashed, or a disk has failed."""
        self.journals: list[str] = []
        """Their ids, in the order of their discovery."""
        self.believed: set[Cursor] = set()
        """Cursors of former epochs that were given since the last loss of power, and behind which the host has said
        that nothing is missing."""
        self._report = report
        self._events: dict[Cursor, bytes] = {}
        self._records: dict[bytes, Record] = {}
        self._last: dict[tuple[str, int], int] = {}
        """The number of the newest event of each epoch."""

    def parse(self, line: bytes) -> Record:
        """Read a line as a record, not to be changed: most lines come to several clients.

        Raises:
            NotARecord: It is none.
        """
        record = self._records.get(line)
        if record is None:
            record = self._records[line] = parse_record(line)
        return record

    def report(self, text: str) -> None:
        """Report a finding."""
        self._report("events", text)

    def take(self, cursor: Cursor, line: bytes) -> None:
        """Compare an event with that of the same cursor."""
        if cursor.journal not in self.journals:
            self.journals.append(cursor.journal)
        epoch = cursor.journal, cursor.epoch
        self._last[epoch] = max(cursor.seq, self._last.get(epoch, 0))
        former = self._events.setdefault(cursor, line)
        if former != line:
            self.report(f"two events have the cursor {cursor}: {former[:200]!r} and {line[:200]!r}")

    def check_end(self, end: Cursor) -> None:
        """Compare the end of an epoch, as the journal has it, with the cursors of which it was said to be one."""
        for cursor in sorted(self.believed):
            if cursor[:2] == end[:2] and cursor > end:
                self.report(f"{cursor} is beyond {end}, where its epoch ends, and its client does not know that")

    def leave(self, cursor: Cursor) -> None:
        """The epoch of a cursor is over, and complete, for a reader who is there: it must have all events of it."""
        last = self._last.get((cursor.journal, cursor.epoch), 0)
        if last > cursor.seq:
            self.report(f"behind {cursor} follows another epoch, and others have got the events up to {last}")


class EventReader:
    """The events of one connection."""

    def __init__(self, log: EventLog, since: Cursor | None, *, has_all: bool = False) -> None:
        """Begin with the cursor that the client has given; `has_all`: it reads everything that the journal has."""
        self._has_all = has_all
        self.cursor = since
        """Behind the newest event."""
        self.newest: Cursor | None = None
        """That of the journal when the connection began; None: it is not known yet."""
        self._is_running = False
        """Whether a run has begun on this connection, and not ended."""
        self._log = log

    def take(self, record: Record, line: bytes) -> None:
        """Take a record that is no response."""
        match record.get("type"):
            case "attached":
                self._begin(record)
            case "agent_restarted" if self.cursor is not None:
                if self._has_all and record["epoch"] > self.cursor.epoch:
                    self._log.check_end(self.cursor)
                # A client that attaches before the first record of an epoch is at its beginning already.
                if (record["epoch"], 0) < self.cursor[1:]:
                    self._log.report(f"epoch {record['epoch']} begins behind {self.cursor}")
                if record["complete"] and self.cursor.seq and record["epoch"] == self.cursor.epoch + 1:
                    self._log.leave(self.cursor)
                if record["interrupted"] and not self._log.crashes:
                    self._log.report(f"nothing has crashed, and a run was cut behind {self.cursor}: {record}")
                # The records of a run's end may be gone with a host, and it was not cut.
                may_have_ended = record["reason"] == "host" and not record["complete"]
                may_have_ended = may_have_ended or self._log.may_have_gaps
                if self._is_running and not record["interrupted"] and not may_have_ended:
                    self._log.report(
                        f"a run was cut behind {self.cursor}, and the next epoch does not say so: {record}"
                    )
                self._is_running = False
                self.cursor = Cursor(self.cursor.journal, record["epoch"], 0)
            case "truncated":
                if not self._log.may_have_gaps:
                    self._log.report(f"events are gone, and nothing has taken them: {line!r}")
                journal, _, place = record["to"].rpartition(".")
                epoch, _, seq = place.partition(":")
                self.cursor = Cursor(journal, int(epoch), int(seq))
                self._is_running = False
            case _ if self.cursor is not None and "seq" in record:
                if record["seq"] != self.cursor.seq + 1:
                    self._log.report(f"behind {self.cursor} follows the event {record['seq']}: {line[:200]!r}")
                self.cursor = Cursor(self.cursor.journal, self.cursor.epoch, record["seq"])
                self._log.take(self.cursor, line)
                if record["type"] in ("agent_start", "agent_settled"):
                    self._is_running = record["type"] == "agent_start"
            case _:
                pass

    def _begin(self, attached: Record) -> None:
        self.newest = Cursor(attached["journal"], attached["epoch"], attached["seq"])
        replay = attached["replay"]
        if self.cursor is None or replay == "none":
            if self.cursor is not None and not self._log.may_have_gaps:
                self._log.report(f"the cursor {self.cursor} is not known any more: {attached}")
            self.cursor = self.newest
        elif replay == "complete" and self.cursor.epoch < self.newest.epoch:
            self._log.believed.add(self.cursor)
        elif replay == "truncated" and not self._log.may_have_gaps:
            self._log.report(f"records behind {self.cursor} are gone, and nothing has taken them")

    @property
    def is_current(self) -> bool:
        """Whether everything that was there when the connection began has come."""
        return self.newest is not None and self.cursor is not None and self.cursor >= self.newest
