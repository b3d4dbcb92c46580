"""Everything that passed between a driver and an agent: records with times, flaws, and a tail to show.

Guarded by one condition; waiting is by notification. Judges no meaning, only that each line is a record and
that each command with an id got as many responses as it was sent. Rules R-FRM-01..R-FRM-05, R-RSP-01.
"""

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from pinnace_fuzz.records import LineSplitter, NotARecord, Pattern, Record, matches, parse_record
from pinnace_spec.records.command_table import CLIENT_ANSWERS

Direction: TypeAlias = Literal["sent", "got", "stderr", "note"]

# What a failure shows: enough for a whole run with tools, and each line enough to recognise a record.
TAIL_ENTRIES = 60
TAIL_CHARACTERS = 400
# The end of stderr is where a traceback is; an agent that floods it must not fill the memory.
MAX_STDERR_CHARACTERS = 1024 * 1024

# What a line takes in memory beside its bytes, about, however short it is.
LINE_COST = 1024


class ReceivedRecord(NamedTuple):
    """One record of the agent's stdout."""

    number: int
    """From 0; `since` counts in these."""
    time_s: float
    """When its last bytes were read, by the monotonic clock."""
    record: Record
    size_bytes: int
    """Of its line with the LF."""


class _Entry(NamedTuple):
    time_s: float
    direction: Direction
    text: str


class Journal:
    """May be used from any thread. Lists only grow; read them without the lock."""

    def __init__(self, *, max_line_bytes: int | None = None, max_bytes: int | None = None) -> None:
        """Begin.

        Args:
            max_line_bytes: How long a line of stdout may be; None: any length. What is longer is an excess.
            max_bytes: The same for all of stdout, where each line counts `LINE_COST` more.
        """
        self._max_line_bytes = max_line_bytes
        self._max_bytes = max_bytes
        self.kept_bytes = 0
        """How many bytes of stdout were taken, and `LINE_COST` for each line."""
        self.excess = ""
        """Why stdout is not read any more although it is open; empty: it is read. Further output is dropped."""
        self.records: list[ReceivedRecord] = []
        self.flaws: list[str] = []
        """What is not a record: the reason and the line's beginning."""
        self.has_ended = False
        """Stdout has ended, or its reader was closed."""
        self.expected: Counter[str] = Counter()
        """Keys of ids (see `id_key`) of the commands sent -> how often."""
        self.responses: dict[str, list[Record]] = {}
        """Keys of ids -> responses."""
        self._started_s = time.monotonic()
        self._condition = threading.Condition()
        self._tail: deque[_Entry] = deque(maxlen=TAIL_ENTRIES)
        self._stderr: deque[str] = deque()
        self._stderr_characters = 0
        self._received = LineSplitter()
        self._sent = LineSplitter()

    @property
    def unterminated(self) -> bytes:
        """What came after the last LF."""
        return self._received.rest

    @property
    def stderr_text(self) -> str:
        """The end of what was written to stderr."""
        with self._condition:
            return "".join(self._stderr)

    def take_stdout(self, data: bytes, time_s: float) -> None:
        """Take bytes of stdout; none means its end."""
        with self._condition:
            if self.excess:
                return
            if data:
                lines = self._received.feed(data)
                self.kept_bytes += len(data) + LINE_COST * len(lines)
                for line in lines:
                    self._take_line(line, time_s)
                self._check_excess()
            else:
                self.has_ended = True
                self._note("note", f"stdout ended, {len(self.unterminated)} bytes after the last LF")
            self._condition.notify_all()

    def _check_excess(self) -> None:
        """Stop at output that would exhaust memory. For waits, stdout has ended then."""
        if self._max_line_bytes is not None and self._received.rest_bytes > self._max_line_bytes:
            self.excess = f"a line on stdout is longer than {self._max_line_bytes} bytes and has not ended"
        elif self._max_bytes is not None and self.kept_bytes > self._max_bytes:
            self.excess = f"stdout holds more than {self._max_bytes >> 20} MiB, a line counted as 1 KiB more"
        if self.excess:
            start = self._received.rest[:TAIL_CHARACTERS]
            self._received = LineSplitter()
            self.flaws.append(f"{self.excess}: {start!r}")
            self.has_ended = True
            self._note("note", self.excess)

    def _take_line(self, line: bytes, time_s: float) -> None:
        try:
            record = parse_record(line)
        except NotARecord as error:
            self.flaws.append(f"{error}: {line[:TAIL_CHARACTERS]!r}")
            self._note("got", f"NOT A RECORD {line[:TAIL_CHARACTERS]!r}", time_s)
            return
        self._note("got", line[:TAIL_CHARACTERS].decode("utf-8", "replace"), time_s)
        self.records.append(ReceivedRecord(len(self.records), time_s, record, len(line) + 1))
        if record.get("type") == "response" and "id" in record:
            self.responses.setdefault(id_key(record["id"]), []).append(record)

    def take_stderr(self, data: bytes, time_s: float) -> None:
        """Take bytes of stderr."""
        with self._condition:
            text = data.decode("utf-8", "replace")
            self._stderr.append(text)
            self._stderr_characters += len(text)
            while self._stderr_characters > MAX_STDERR_CHARACTERS and len(self._stderr) > 1:
                self._stderr_characters -= len(self._stderr.popleft())
            for line in text.splitlines()[-TAIL_ENTRIES:]:
                self._note("stderr", line[:TAIL_CHARACTERS], time_s)

    def take_sent(self, data: bytes) -> None:
        """Take bytes that are about to be written to stdin; remember the commands among them."""
        with self._condition:
            shown = data[:TAIL_CHARACTERS].decode("utf-8", "replace").rstrip("\n")
            self._note("sent", f"{shown} ({len(data)} bytes)")
            for line in self._sent.feed(data):
                try:
                    record = parse_record(line)
                except NotARecord:
                    continue
                if "id" in record and record.get("type") not in CLIENT_ANSWERS:
                    self.expected[id_key(record["id"])] += 1

    def note(self, text: str) -> None:
        """Remember something that is neither in nor out, for the tail."""
        with self._condition:
            self._note("note", text)
            self._condition.notify_all()

    def _note(self, direction: Direction, text: str, time_s: float | None = None) -> None:
        when_s = time.monotonic() if time_s is None else time_s
        self._tail.append(_Entry(when_s - self._started_s, direction, text))

    def find(self, pattern: Pattern, since: int, timeout_s: float) -> ReceivedRecord | None:
        """Wait for the first record from number `since` on that matches.

        Returns None after `timeout_s`, or as soon as stdout has ended without one. Looks at each record once.
        """
        at = since
        deadline_s = time.monotonic() + timeout_s
        while True:
            # Patterns run outside the lock: a slow one must not hold up the reader.
            while at < len(self.records):
                if matches(self.records[at].record, pattern):
                    return self.records[at]
                at += 1
            with self._condition:
                if at < len(self.records):
                    continue
                left_s = deadline_s - time.monotonic()
                if self.has_ended or left_s <= 0:
                    return None
                self._condition.wait(left_s)

    def wait_until(self, is_true: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition over this journal holds; return whether it does."""
        with self._condition:
            return self._condition.wait_for(is_true, timeout_s)

    def unanswered(self) -> Mapping[str, tuple[int, int]]:
        """Find ids whose number of responses is not that of their commands: key -> (commands, responses)."""
        with self._condition:
            counts = {key: (sent, len(self.responses.get(key, ()))) for key, sent in self.expected.items()}
        return {key: pair for key, pair in counts.items() if pair[0] != pair[1]}

    def tail(self) -> str:
        """Write the last entries as text, with seconds since the start."""
        with self._condition:
            return "\n".join(f"{entry.time_s:9.4f} {entry.direction:6} {entry.text}" for entry in self._tail)


def id_key(record_id: object) -> str:
    """Write an id, of any JSON type, as a hashable key; 1 and "1" differ."""
    return json.dumps(record_id)
