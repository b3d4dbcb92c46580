"""The file of a session: when it is made, what is written to it, and when that is on the disk."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from pinnace_agent.session.store.durability import Descriptor, Durability
from pinnace_agent.session.store.file import SaveError, SessionFile
from pinnace_agent.session.store.lease import Lease, LeaseHeld
from pinnace_agent.session.store.unwritten import UnwrittenLines

HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/x"}\n'


def _line(number: int, size: int = 0) -> bytes:
    return b'{"type":"custom","id":"%08d","data":"%s"}\n' % (number, b"x" * size)


def _foreign(number: int) -> bytes:
    return b'{"type":"custom","id":"foreign%d"}\n' % number


def _opened(path: Path, **options: bytes | str | Lease | None) -> SessionFile:
    data = path.read_bytes()
    return SessionFile.opened(
        path,
        size=len(data),
        has_torn_tail=not data.endswith(b"\n") and bool(data),
        damaged=[],
        lease=None,
        **options,  # type: ignore[arg-type]  # each has its own type
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "--x--" / "s.jsonl"


@pytest.fixture
def present(tmp_path: Path) -> Path:
    """A session file with a header and a line."""
    present = tmp_path / "s.jsonl"
    present.write_bytes(HEADER + _line(0))
    return present


def test_nothing_is_made_before_something_is_worth_a_file(path: Path) -> None:
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(1), is_durable=False)
    file.flush()
    file.abandon()
    assert not path.parent.exists()
    assert not file.exists
    assert file.unsaved == 0
    assert file.problem is None


def test_l6_the_first_durable_line_makes_the_file_with_everything_before_it(path: Path) -> None:
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(1), is_durable=False)
    file.append(_line(2), is_durable=False)

    file.append(_line(3))

    assert path.read_bytes() == HEADER + _line(1) + _line(2) + _line(3)
    assert file.exists
    file.append(_line(4), is_durable=False)
    assert path.read_bytes().endswith(_line(4))
    file.abandon()


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_s1_the_file_and_its_folders_are_for_the_user_alone(path: Path, umask: int) -> None:
    if umask == 0o777:  # folders that their owner can't enter are of no use to anybody but root
        path.parent.mkdir(parents=True, mode=0o700)
        path.parent.chmod(0o700)
        path.parent.parent.chmod(0o700)
    file = SessionFile.fresh(path, HEADER)
    former = os.umask(umask)
    try:
        file.append(_line(1))
    finally:
        os.umask(former)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    file.abandon()


def test_a_loose_mode_of_a_file_that_exists_is_not_changed(present: Path) -> None:
    present.chmod(0o644)
    file = _opened(present)
    file.append(_line(1))
    assert stat.S_IMODE(present.stat().st_mode) == 0o644
    file.abandon()


def test_l9_making_the_file_takes_the_lease_and_closing_releases_it(path: Path) -> None:
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(1))
    with pytest.raises(LeaseHeld):
        Lease.take(path)

    file.abandon()

    Lease.take(path).release()


def test_l9_a_session_that_another_process_has_is_not_made(path: Path) -> None:
    path.parent.mkdir(parents=True)
    lease = Lease.take(path)
    file = SessionFile.fresh(path, HEADER)

    with pytest.raises(SaveError, match="in use") as caught:
        file.append(_line(1))
    assert str(os.getpid()) in caught.value.text
    assert not path.exists()

    lease.release()
    file.flush()
    assert path.read_bytes() == HEADER + _line(1)
    file.abandon()


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_is_at_the_path_of_a_new_session_is_never_followed_or_touched(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True)
    target = path.with_name("target")
    if kind != "dangling link":
        target.write_text("precious")
    if kind == "file":
        target.rename(path)
    else:
        path.symlink_to(target)
    file = SessionFile.fresh(path, HEADER)

    with pytest.raises(SaveError, match="File exists"):
        file.append(_line(1))

    assert (kind == "dangling link") != path.exists()
    assert kind == "dangling link" or path.read_text() == "precious"
    assert file.unsaved == 1
    path.unlink()
    file.flush()
    assert path.read_bytes() == HEADER + _line(1)
    file.abandon()


def test_a_link_to_a_session_is_read_only(present: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(present)
    file = _opened(link)
    assert file.read_only is not None
    with pytest.raises(SaveError):
        file.append(_line(1))
    assert present.read_bytes() == HEADER + _line(0)
    file.abandon()


def test_lines_are_appended_in_order(present: Path) -> None:
    file = _opened(present)
    for number in range(1, 50):
        file.append(_line(number, number * 100))
    assert present.read_bytes() == HEADER + b"".join(_line(n, n * 100 * bool(n)) for n in range(50))
    assert file.unsaved == 0
    assert file.problem is None
    file.abandon()


def test_opening_alone_changes_nothing(present: Path) -> None:
    before = present.stat()
    _opened(present).abandon()
    after = present.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def test_an_empty_file_gets_its_header_with_the_first_line(tmp_path: Path) -> None:
    empty = tmp_path / "s.jsonl"
    empty.touch()
    file = _opened(empty, header=HEADER)
    assert file.exists
    assert file.unsaved == 0
    file.append(_line(1))
    assert empty.read_bytes() == HEADER + _line(1)
    file.abandon()


def test_l2_a_torn_last_line_is_ended_in_the_write_that_follows_it(present: Path) -> None:
    present.write_bytes(HEADER + b'{"torn')
    file = _opened(present)
    assert present.read_bytes() == HEADER + b'{"torn'
    file.append(_line(1))
    file.append(_line(2))
    assert present.read_bytes() == HEADER + b'{"torn\n' + _line(1) + _line(2)
    file.abandon()


def test_damaged_lines_are_quarantined_at_opening(present: Path) -> None:
    file = SessionFile.opened(
        present, size=len(HEADER + _line(0)), has_torn_tail=False, damaged=[b"\x00\x00", b"{"], lease=None
    )
    assert present.with_name("s.jsonl.damaged").read_bytes() == b"\x00\x00\n{\n"
    file.abandon()


def test_nothing_is_appended_before_damaged_lines_are_kept(present: Path) -> None:
    side = present.with_name("s.jsonl.damaged")
    side.symlink_to(present.with_name("elsewhere"))
    file = SessionFile.opened(present, size=len(HEADER + _line(0)), has_torn_tail=False, damaged=[b"{"], lease=None)

    with pytest.raises(SaveError, match=r"s\.jsonl\.damaged: Too many levels"):
        file.append(_line(1))

    assert present.read_bytes() == HEADER + _line(0)
    side.unlink()
    file.flush()
    assert side.read_bytes() == b"{\n"
    assert present.read_bytes() == HEADER + _line(0) + _line(1)
    file.abandon()


def test_nothing_is_appended_to_what_may_only_be_read(present: Path) -> None:
    file = _opened(present, read_only="It has version 4.")
    with pytest.raises(SaveError, match=r"It has version 4\."):
        file.append(_line(1))
    assert file.problem == "It has version 4."
    assert file.unsaved == 1
    assert file.withdraw_last()
    with pytest.raises(SaveError, match=r"It has version 4\."):
        file.flush()
    assert present.read_bytes() == HEADER + _line(0)
    assert not present.with_name("s.jsonl.damaged").exists()
    file.abandon()


def test_a_file_that_changed_while_it_was_read_is_read_only(present: Path) -> None:
    for content in (HEADER, HEADER + _line(0)[:-1] + b"x"):
        file = SessionFile.opened(present, size=len(HEADER + _line(0)), has_torn_tail=False, damaged=[], lease=None)
        file.abandon()
        present.write_bytes(content)
        file = SessionFile.opened(present, size=len(HEADER + _line(0)), has_torn_tail=False, damaged=[], lease=None)
        assert file.read_only is not None
        assert "was replaced" in file.read_only
        file.abandon()


@pytest.mark.parametrize("kind", ["folder", "pipe", "nothing"])
def test_what_is_no_file_is_read_only(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.jsonl"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    file = SessionFile.opened(path, size=0, has_torn_tail=False, damaged=[], lease=None, header=HEADER)
    assert file.read_only is not None
    assert file.problem == file.read_only
    file.abandon()


def test_a_line_that_is_in_the_file_is_not_withdrawn(present: Path) -> None:
    file = _opened(present)
    file.append(_line(1))
    assert not file.withdraw_last()
    file.abandon()


def test_a_setup_line_that_waits_can_be_withdrawn(path: Path) -> None:
    file = SessionFile.fresh(path, HEADER)
    assert not file.withdraw_last()  # the header is no entry
    file.append(_line(1), is_durable=False)
    assert file.withdraw_last()
    assert not file.withdraw_last()
    file.append(_line(2))
    assert path.read_bytes() == HEADER + _line(2)
    file.abandon()


async def test_a_closed_file_takes_nothing(present: Path) -> None:
    file = _opened(present)
    await file.close()
    await file.close()
    with pytest.raises(SaveError, match="closed"):
        file.append(_line(1))
    await file.sync()
    assert file.unsaved == 0


# On the disk.


class Flushes:
    """Counts real flushes; holds them while the gate is closed."""

    def __init__(self) -> None:
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()
        self.is_in = threading.Event()

    def __call__(self, descriptor: int) -> None:
        self.count += 1
        self.is_in.set()
        self.gate.wait()
        os.fdatasync(descriptor)

    async def begun(self) -> None:
        await trio.to_thread.run_sync(self.is_in.wait)
        self.is_in.clear()


@pytest.fixture
def flushes() -> Flushes:
    return Flushes()


def _flushed_by(present: Path, flushes: Flushes) -> SessionFile:
    size = present.stat().st_size
    return SessionFile.opened(present, size=size, has_torn_tail=False, damaged=[], lease=None, flush_call=flushes)


async def test_l8_what_was_appended_is_flushed_once(present: Path, flushes: Flushes) -> None:
    file = _flushed_by(present, flushes)
    assert not file.is_durable
    for _ in range(2):  # what is there already, which a killed process may only have written
        await file.sync()
    assert (flushes.count, file.is_durable) == (1, True)
    file.append(_line(1))
    file.append(_line(2))
    assert not file.is_durable
    await file.sync()
    await file.sync()
    assert flushes.count == 2
    await file.close()
    assert flushes.count == 2


async def test_l8_a_new_file_is_flushed_and_a_session_without_one_is_not(path: Path, flushes: Flushes) -> None:
    file = SessionFile.fresh(path, HEADER, flush_call=flushes)
    file.append(_line(1), is_durable=False)
    await file.sync()
    assert flushes.count == 0
    file.append(_line(2))
    await file.sync()
    assert flushes.count == 1
    await file.close()


async def test_l8_closing_flushes(present: Path, flushes: Flushes) -> None:
    file = _flushed_by(present, flushes)
    file.append(_line(1))
    await file.close()
    assert flushes.count == 1


async def test_callers_share_a_flush_but_none_that_began_before_their_line(present: Path, flushes: Flushes) -> None:
    file = _flushed_by(present, flushes)
    returned: list[str] = []

    async def sync(name: str) -> None:
        await file.sync()
        returned.append(f"{name} after {flushes.count}")

    flushes.gate.clear()
    file.append(_line(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync, "first")
        nursery.start_soon(sync, "also first")
        await flushes.begun()
        file.append(_line(2))
        for number in range(5):
            nursery.start_soon(sync, f"late {number}")
        await trio.testing.wait_all_tasks_blocked()
        assert flushes.count == 1
        assert returned == []
        flushes.gate.set()

    assert flushes.count == 2
    # Whether those that came first see the second flush begin is between the threads.
    assert {name.rpartition(" after ")[0] for name in returned[:2]} == {"first", "also first"}
    assert sorted(returned[2:]) == [f"late {number} after 2" for number in range(5)]
    await file.close()


async def test_a_cancelled_caller_leaves_the_others_waiting_for_the_same_flush(present: Path, flushes: Flushes) -> None:
    file = _flushed_by(present, flushes)
    flushes.gate.clear()
    file.append(_line(1))
    first = trio.CancelScope()
    returned: list[str] = []

    async def cancelled() -> None:
        with first:
            await file.sync()
            returned.append("cancelled")

    async def other() -> None:
        await file.sync()
        returned.append("other")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled)
        await flushes.begun()
        nursery.start_soon(other)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert first.cancelled_caught
        assert returned == []
        flushes.gate.set()
    assert returned == ["other"]
    assert flushes.count == 1
    await file.close()


async def test_a_flush_without_a_waiting_caller_outlives_the_file(present: Path, flushes: Flushes) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    file = _flushed_by(present, flushes)
    flushes.gate.clear()
    file.append(_line(1))
    with trio.move_on_after(0.05) as scope:
        await file.close()
    assert scope.cancelled_caught
    assert len(os.listdir("/proc/self/fd")) == descriptors + 1  # the flush has it
    Lease.take(present).release()

    flushes.gate.set()
    with trio.fail_after(30):
        while len(os.listdir("/proc/self/fd")) > descriptors:
            await trio.lowlevel.checkpoint()


async def test_l8_a_close_that_is_cancelled_has_written_everything(present: Path, flushes: Flushes) -> None:
    file = _flushed_by(present, flushes)
    file.append(_line(1))
    with trio.CancelScope() as scope:
        scope.cancel()
        await file.close()
    assert scope.cancelled_caught
    assert present.read_bytes() == HEADER + _line(0) + _line(1)
    with trio.fail_after(30):
        await flushes.begun()


class FailingOnce(Flushes):
    """As above, but the first flush fails."""

    def __call__(self, descriptor: int) -> None:
        super().__call__(descriptor)
        if self.count == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_a_failed_flush_is_no_failure_for_a_later_line(present: Path) -> None:
    flushes = FailingOnce()
    file = _flushed_by(present, flushes)
    flushes.gate.clear()
    file.append(_line(1))
    returned: list[str] = []

    async def early() -> None:
        with pytest.raises(SaveError, match="Input/output error"):
            await file.sync()
        returned.append("early")

    async def late() -> None:
        await file.sync()
        returned.append("late")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(early)
        await flushes.begun()
        file.append(_line(2))
        nursery.start_soon(late)
        await trio.testing.wait_all_tasks_blocked()
        flushes.gate.set()

    assert sorted(returned) == ["early", "late"]
    assert file.problem is None
    assert present.read_bytes() == HEADER + _line(0) + _line(1) + _line(2)
    await file.close()


async def test_a_folder_that_can_not_be_flushed_is_an_error_until_it_can(present: Path, tmp_path: Path) -> None:
    durability = Durability(os.fdatasync, note_lost=lambda: None, is_content_lost=False)
    descriptor = Descriptor(os.open(present, os.O_RDWR))
    folder = tmp_path / "folder"
    durability.add_folders([folder])

    await durability.start(descriptor, 1).done.wait()

    assert isinstance(durability.error, FileNotFoundError)
    assert not durability.is_content_lost
    assert durability.durable == 0
    folder.mkdir()
    second = durability.start(descriptor, 1)
    await second.done.wait()
    assert second.folders == [folder]
    assert second.error is None
    assert durability.durable == durability.written == 1
    descriptor.release()


async def test_l8_the_folders_that_were_made_for_a_new_file_are_flushed_too(tmp_path: Path) -> None:
    made, moved = tmp_path / "sessions", tmp_path / "moved"

    def move_away(descriptor: int) -> None:
        os.fdatasync(descriptor)
        if not moved.exists():
            made.rename(moved)  # after our look at the path

    file = SessionFile.fresh(made / "--x--" / "s.jsonl", HEADER, flush_call=move_away)
    file.append(_line(1))
    with pytest.raises(SaveError, match="No such file or directory"):
        await file.sync()
    assert file.problem is not None
    made.symlink_to(moved)
    await file.sync()
    await file.close()


async def test_what_no_file_system_can_flush_is_taken_as_it_is() -> None:
    durability = Durability(os.fdatasync, note_lost=lambda: None, is_content_lost=False)
    reader, writer = os.pipe()  # answers with EINVAL, as file systems do that have no flush
    descriptor = Descriptor(writer)
    durability.wrote()
    await durability.start(descriptor, 1).done.wait()
    assert durability.error is None
    assert durability.durable == 1
    descriptor.release()
    os.close(reader)


# What is not written yet.


def test_a_line_of_which_a_part_is_in_the_file_is_not_withdrawn_even_if_it_is_written_anew() -> None:
    lines = UnwrittenLines(None)
    lines.add(_line(1), is_durable=True)
    lines.was_written(10)
    lines.was_broken_off(b"\n" + _foreign(1))
    assert not lines.withdraw_last()
    assert lines.rest(b"") == _line(1)
    lines.add(_line(2), is_durable=True)
    assert lines.withdraw_last()
    lines.mark_interleaved()
    lines.add(_line(3), is_durable=True)
    lines.mark_interleaved()
    assert not lines.withdraw_last()
    lines.was_written(len(_line(1) + _line(3)))
    lines.add(_line(4), is_durable=True)
    assert lines.withdraw_last()
    assert not lines


def test_a_foreign_line_that_is_glued_to_a_header_is_saved_behind_it() -> None:
    lines = UnwrittenLines(HEADER)
    lines.add(_line(1), is_durable=True)
    lines.was_written(10)
    lines.was_broken_off(_foreign(1) + _foreign(2))
    assert lines.rest(b"") == HEADER + _foreign(1) + _line(1)
    assert lines.withdraw_last()


# Kill.

_WRITER = """
import sys
from pathlib import Path
import trio
sys.path[:0] = {path!r}
from pinnace_agent.session.store.file import SessionFile
async def main():
    file = SessionFile.fresh(Path(sys.argv[1]), {header!r})
    number = 0
    while True:
        number += 1
        file.append(b'{{"type":"custom","id":"%08d","data":"%s"}}\\n' % (number, b"x" * (number * 7919 % 50_000)))
        if number % 3 == 0:
            await file.sync()
        print(number, flush=True)
trio.run(main)
"""


@pytest.mark.parametrize("wanted", [1, 2, 7, 150])
def test_kill_9_loses_nothing_that_was_appended_and_the_next_process_continues(path: Path, wanted: int) -> None:
    program = _WRITER.format(path=sys.path, header=HEADER)
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(wanted):
            process.stdout.readline()
        process.kill()

    lease = Lease.take(path)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    assert lines[0] == HEADER
    assert len(lines) > wanted
    assert all(line == _line(n, n * 7919 % 50_000) for n, line in enumerate(lines[1:-1], 1))
    file = SessionFile.opened(path, size=len(data), has_torn_tail=not data.endswith(b"\n"), damaged=[], lease=lease)
    file.append(_line(9))
    assert path.read_bytes().startswith(data)
    assert path.read_bytes().endswith(b"\n" + _line(9))
    file.abandon()
