"""The journal: what readers get from it, after any end of the host, on any disk."""

import json
import os
import random
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import WITH_FIXTURES

from pinnace_agent.core.ports.system import System
from pinnace_fuzz.simulation.disk import Disk, DiskFaults
from pinnace_rpc.host import journal as journal_module
from pinnace_rpc.host.journal import Gap, Journal, JournalReader, addressed
from pinnace_rpc.host.protocol import Cursor
from pinnace_rpc.host.surroundings import HostSurroundings


@pytest.fixture
async def journal(tmp_path: Path) -> Journal:
    journal = Journal(str(tmp_path / "a"))
    await journal.begin_epoch()
    return journal


def add_event(journal: Journal, text: str = "x") -> bytes:
    """Add an event and return its line as a client without cursors gets it."""
    body = b'"type":"event","text":%b}\n' % json.dumps(text).encode()
    journal.append(journal.next_event() + body, 1)
    return b"{" + body


def add_response(journal: Journal, *connections: int, text: str = "r") -> bytes:
    line = b'{"id":"1","type":"response","data":%b}\n' % json.dumps(text).encode()
    journal.append(addressed(connections, len(line)) + line)
    return line


def read_all(journal: Journal, reader: JournalReader) -> bytes:
    pieces: list[bytes] = []
    while (piece := reader.read()) is not None:
        assert not isinstance(piece, Gap)
        pieces.append(piece)
    return b"".join(pieces)


def from_start(journal: Journal, connection: int = 7, *, has_cursors: bool = False) -> JournalReader:
    return JournalReader(journal, 0, connection, Cursor(journal.id, 1, 0), has_cursors=has_cursors)


def size_on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "a").glob("*.jsonl"))


SIZES = st.one_of(st.integers(0, 200), st.just(1000))


@pytest.fixture
def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "READ_BYTES", 64)


@pytest.mark.usefixtures("short_reads")
@settings(WITH_FIXTURES, max_examples=60)
@given(items=st.lists(st.tuples(st.sampled_from(["event", "own", "other", "shared"]), SIZES), max_size=12))
async def test_each_reader_gets_events_and_its_own_responses_in_order(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[str, int]]
) -> None:
    """From memory and from the file alike, however lines lie across reads."""
    folder = str(tmp_path_factory.mktemp("j") / "a")
    journal = Journal(folder)
    await journal.begin_epoch()
    expected: list[bytes] = []
    for kind, size in items:
        if kind == "event":
            expected.append(add_event(journal, "é" * size))
        else:
            to = {"own": (7,), "other": (8,), "shared": (9, 7, 8)}[kind]
            line = add_response(journal, *to, text="y" * size)
            expected += [] if kind == "other" else [line]
    assert read_all(journal, from_start(journal)) == b"".join(expected)
    journal.close()
    again = Journal(folder)
    assert read_all(again, from_start(again)) == b"".join(expected)
    numbered = [json.loads(line) for line in read_all(again, from_start(again, has_cursors=True)).splitlines()]
    assert [each["seq"] for each in numbered if "seq" in each] == list(range(1, journal.seq + 1))


async def test_readers_that_keep_up_share_what_is_found_and_get_their_own_responses(journal: Journal) -> None:
    readers = {number: from_start(journal, number, has_cursors=number == 9) for number in (7, 8, 9)}
    for turn in range(30):
        event = add_event(journal, str(turn))
        line = add_response(journal, 7, text=str(turn))
        shared = add_response(journal, 9, 7, text=f"both {turn}")
        assert read_all(journal, readers[7]) == event + line + shared
        numbered = b'{"seq":%d,' % (turn + 1) + event[1:]
        assert (read_all(journal, readers[8]), read_all(journal, readers[9])) == (event, numbered + shared)
        assert readers[9].cursor.seq == turn + 1


async def test_reading_goes_on_behind_a_cursor(journal: Journal) -> None:
    lines = [add_event(journal, str(number)) for number in range(10)]
    for seq in range(11):
        start = journal.find(Cursor(journal.id, 1, seq))
        reader = JournalReader(journal, start.place, 1, journal.cursor, has_cursors=False)
        assert start.is_known
        assert start.gap is None
        assert read_all(journal, reader) == b"".join(lines[seq:])


@pytest.mark.parametrize(("events", "seq"), [(1, 2), (1, 99), (0, 1), (3, 4)])
async def test_a_cursor_beyond_the_end_of_a_closed_epoch_has_a_gap_before_the_next(
    journal: Journal, events: int, seq: int
) -> None:
    """R-HST-03: a loss of power may have taken events behind it, too."""
    for _ in range(events):
        add_event(journal)
    end = journal.find(Cursor(journal.id, 1, events))
    await journal.begin_epoch()
    line = add_event(journal, "new")
    start = journal.find(Cursor(journal.id, 1, seq))
    assert (start.is_known, start.gap) == (True, Cursor(journal.id, 2, 0))
    assert journal.find(Cursor(journal.id, 1, events)) == end
    assert read_all(journal, JournalReader(journal, start.place, 1, journal.cursor, has_cursors=False)) == line


@pytest.mark.parametrize("before", [0, 1])
async def test_a_cursor_of_an_epoch_without_records_continues_with_the_next(journal: Journal, before: int) -> None:
    """There is no gap, and no record comes that was read before."""
    for _ in range(before):
        add_event(journal, "old")
    await journal.begin_epoch()
    await journal.begin_epoch()
    line = add_event(journal, "new")
    start = journal.find(Cursor(journal.id, 2, 0))
    assert (start.is_known, start.gap) == (True, None)
    assert read_all(journal, JournalReader(journal, start.place, 1, journal.cursor, has_cursors=False)) == line


async def test_a_gap_that_ends_at_a_record_without_a_number_names_the_event_before_the_next(tmp_path: Path) -> None:
    """Else a client takes the first event behind the gap for one that it has seen."""
    journal = Journal(str(tmp_path / "a"), retained_bytes=1000)
    await journal.begin_epoch()
    add_event(journal, "x" * 2000)
    await journal.begin_epoch()
    journal.append(b'{"type":"agent_restarted","epoch":2}\n')
    add_event(journal)
    start = journal.find(Cursor(journal.id, 1, 0))
    reader = JournalReader(journal, start.place, 1, journal.cursor, has_cursors=True)
    assert start.gap == Cursor(journal.id, 2, 0)
    assert [json.loads(line).get("seq") for line in read_all(journal, reader).splitlines()] == [None, 1]


@pytest.mark.parametrize("cursor", [("other", 1, 0), (None, 2, 0), (None, 1, 2)])
async def test_a_cursor_of_another_journal_is_not_taken_for_one_of_this(
    journal: Journal, cursor: tuple[str | None, int, int]
) -> None:
    add_event(journal)
    start = journal.find(Cursor(cursor[0] or journal.id, cursor[1], cursor[2]))
    assert (start.place, start.is_known) == (journal.end, False)


async def test_what_retention_has_removed_is_reported_with_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 10_000)
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 10_000)
    journal = Journal(str(tmp_path / "a"), retained_bytes=50_000)
    await journal.begin_epoch()
    late = from_start(journal, has_cursors=True)
    for _ in range(200):
        add_event(journal, "x" * 1000)
    assert journal.size <= 60_000
    gap = late.read()
    assert isinstance(gap, Gap)
    first = json.loads(read_all(journal, late).splitlines()[0])
    assert first["seq"] == gap.cursor.seq + 1 > 100
    start = journal.find(Cursor(journal.id, 1, 3))
    assert start.gap == gap.cursor
    assert start.place == gap.place


async def test_files_never_have_more_than_they_may(tmp_path: Path) -> None:
    """Neither by many lines nor by a long one, nor when the next host may keep less."""
    folder = str(tmp_path / "a")
    journal = Journal(folder, retained_bytes=50_000)
    await journal.begin_epoch()
    for number in range(400):
        add_event(journal, "x" * (number % 1000))
        assert size_on_disk(tmp_path) == journal.size <= 50_000
    assert journal.size > 40_000
    journal.begin_spool(journal.next_event(), 1)
    for _ in range(30):
        assert journal.spool(b"x" * 1000)
        assert size_on_disk(tmp_path) == journal.size <= 50_000
    journal.drop_spool()
    assert size_on_disk(tmp_path) == journal.size
    journal.close()
    again = Journal(folder, retained_bytes=5_000)
    assert 0 < size_on_disk(tmp_path) == again.size <= 5_000


async def test_an_epoch_is_never_used_again(tmp_path: Path) -> None:
    """Its number is on the disk before its first record."""
    folder = str(tmp_path / "a")
    journal = Journal(folder)
    await journal.begin_epoch()
    identity = journal.id
    again = Journal(folder)  # nothing was written, nothing was closed
    await again.begin_epoch()
    assert (again.id, again.epoch) == (identity, 2)


@pytest.mark.parametrize("damage", ["half a line", "zeros", "half a response"])
async def test_what_a_crash_has_left_incomplete_is_removed(journal: Journal, tmp_path: Path, damage: str) -> None:
    line = add_event(journal, "kept")
    if damage == "half a response":
        journal.append(addressed((7,), 1000) + b'{"id":"1"}\n')
    journal.close()
    (segment,) = (tmp_path / "a").glob("*.jsonl")
    with segment.open("ab") as file:
        file.write({"half a line": b'{"seq":2,"ty', "zeros": b"\0" * 100 + b"\n", "half a response": b""}[damage])
    again = Journal(str(tmp_path / "a"))
    assert read_all(again, from_start(again)) == line
    await again.begin_epoch()
    assert add_event(again, "new") == read_all(again, from_start(again))[len(line) :]


async def test_files_are_for_the_user_alone(journal: Journal, tmp_path: Path) -> None:
    add_event(journal)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()}
    assert len(modes) == 2
    assert set(modes.values()) == {0o600}


async def test_a_line_too_long_for_the_memory_is_visible_whole(journal: Journal) -> None:
    begun = journal.next_event() + b'"type":"event","text":"'
    journal.begin_spool(begun, 1)
    for _ in range(50):
        assert journal.spool(b"x" * 100_000)
        assert journal.read(journal.end) is None
    journal.spool(b'"}\n')
    journal.end_spool()
    after = add_event(journal, "after")
    data = read_all(journal, from_start(journal))
    assert len(data) == len(b'{"type":"event","text":""}\n') + 5_000_000 + len(after)
    assert data.endswith(b"x" * 10 + b'"}\n' + after)
    assert journal.find(Cursor(journal.id, 1, 1)).place == journal.end - len(after) - len(b'"seq":2,')


async def test_a_long_line_that_is_not_ended_leaves_nothing(journal: Journal) -> None:
    before = add_event(journal, "before")
    journal.begin_spool(journal.next_event() + b"x" * 1_000_000, 1)
    journal.drop_spool()
    assert read_all(journal, from_start(journal)) == before


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let files of this process have 100 kB at the most."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, former[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, former)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("full_disk")
async def test_without_space_the_newest_records_are_served_from_memory(journal: Journal) -> None:
    for _ in range(50):
        add_event(journal, "x" * 2000)
    journal.begin_spool(journal.next_event(), 1)
    assert not journal.spool(b"x" * 200_000)
    late = from_start(journal, has_cursors=True)
    for _ in range(3000):
        add_event(journal, "x" * 2000)
    seen: list[int] = []
    gaps: list[int] = []
    while (piece := late.read()) is not None:
        if isinstance(piece, Gap):
            gaps.append(piece.cursor.seq)
        else:
            seen += [json.loads(line)["seq"] for line in piece.splitlines()]
    gap = gaps[-1]
    assert 40 < seen[seen.index(gap + 1) - 1] < gap < 2000
    assert seen[-1] == 3051
    assert seen == sorted(set(seen))
    assert seen[seen.index(gap + 1) :] == list(range(gap + 1, 3052))


async def test_an_epoch_that_the_disk_does_not_take_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has another name, also for the next host, and no number of an epoch is used twice."""
    monkeypatch.setattr(journal_module, "_RETRY_S", 0)
    journal = Journal(str(tmp_path / "a"))
    await journal.begin_epoch()
    former = journal.id
    before = sorted(path.name for path in (tmp_path / "a").iterdir())
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limit[1]))
    try:
        await journal.begin_epoch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)

    assert former != journal.id
    assert before == sorted(path.name for path in (tmp_path / "a").iterdir())

    add_event(journal)  # there is space again
    again = Journal(str(tmp_path / "a"))
    assert again.id not in {former, journal.id}
    await again.begin_epoch()
    assert 3 == again.epoch


class HeldDisk:
    """The system, whose flushes wait."""

    def __init__(self) -> None:
        self.may_flush = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        assert self.may_flush.wait(60)
        os.fsync(descriptor)


async def test_what_is_written_while_an_epoch_begins_is_no_part_of_it(tmp_path: Path) -> None:
    """R-HST-03: cursors of the epoch are found by the next host, too."""
    disk = HeldDisk()
    journal = Journal(str(tmp_path / "a"), surroundings=HostSurroundings(cast("System", disk)))
    disk.may_flush.set()
    await journal.begin_epoch()
    add_event(journal)
    journal.close()
    disk.may_flush.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.begin_epoch)
        await trio.testing.wait_all_tasks_blocked()
        add_response(journal, 7)
        disk.may_flush.set()
    lines = [add_event(journal, str(number)) for number in range(3)]

    again = Journal(str(tmp_path / "a"))
    await again.begin_epoch()
    start = again.find(Cursor(again.id, 2, 1))

    assert (True, None) == (start.is_known, start.gap)
    assert read_all(again, JournalReader(again, start.place, 0, again.cursor, has_cursors=False)) == b"".join(lines[1:])


async def test_records_that_a_flush_has_failed_to_write_never_count_as_kept(tmp_path: Path) -> None:
    """A later flush of the file succeeds, and writes nothing of them."""
    disk = Disk(tmp_path, random.Random(0), DiskFaults(), lambda _: None)
    journal = Journal(str(tmp_path / "a"), surroundings=HostSurroundings(disk.begin()))
    await journal.begin_epoch()
    add_event(journal)
    before = journal.flush()
    add_event(journal)
    disk.faults = DiskFaults(flush_error=1.0)
    failed = journal.flush()
    disk.faults = DiskFaults()

    assert [True, False, False] == [before, failed, journal.flush()]


@pytest.mark.parametrize(
    ("left", "zeros"),
    [(0, 0), (100, 0), (90, 1000), (0, 30)],
    ids=["nothing", "a line and a half", "zeros behind", "zeros before"],
)
async def test_a_segment_of_which_a_power_failure_has_left_a_part_ends_in_a_gap(
    tmp_path: Path, left: int, zeros: int
) -> None:
    """R-HST-03: readers go on behind it, and get no part of a line, nor what is behind bytes that were lost."""
    folder = tmp_path / "a"
    lines: list[bytes] = []
    for _ in range(2):  # a segment each
        journal = Journal(str(folder))
        await journal.begin_epoch()
        lines = [add_event(journal, "x" * 40) for _ in range(5)]
        journal.close()
    first = min(folder.glob("*.jsonl"))
    content = first.read_bytes()
    first.write_bytes(content[:left] + (bytes(zeros) + content[left + zeros :] if zeros else b""))

    again = Journal(str(folder))
    reader = JournalReader(again, 0, 0, Cursor(again.id, 1, 0), has_cursors=True)
    pieces: list[bytes] = []
    gaps: list[Gap] = []
    for _ in range(20):
        match reader.read():
            case None:
                break
            case Gap() as gap:
                gaps.append(gap)
            case piece:
                pieces.append(piece)
    else:
        pytest.fail("the reader gets nothing, and no end")

    whole = content[:left].count(b"\n")
    assert [Cursor(again.id, 2, 0)] == [gap.cursor for gap in gaps]
    assert whole + len(lines) == b"".join(pieces).count(b"\n")
    assert b"\0" not in b"".join(pieces)
    start = Journal(str(folder)).find(Cursor(again.id, 1, 4))
    assert (True, Cursor(again.id, 2, 0)) == (start.is_known, start.gap)
