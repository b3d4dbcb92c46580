"""A session on a full disk, with a deleted or replaced file, and with other programs that write to it."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from tests.source_tree import PYTHONPATH

from pinnace_agent.session.store.append_file import AppendFile, FileReplaced, open_for_appending
from pinnace_agent.session.store.file import SaveError, SessionFile
from pinnace_agent.session.store.lease import Lease

HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/x"}\n'


def _line(number: int, size: int = 0) -> bytes:
    return b'{"type":"custom","id":"%08d","data":"%s"}\n' % (number, b"x" * size)


def _foreign(number: int) -> bytes:
    return b'{"type":"custom","id":"foreign%d"}\n' % number


def _opened(path: Path, lease: Lease | None = None) -> SessionFile:
    data = path.read_bytes()
    return SessionFile.opened(
        path, size=len(data), has_torn_tail=data[-1:] not in (b"", b"\n"), damaged=[], lease=lease
    )


def _append_elsewhere(path: Path, data: bytes) -> None:
    """As a program does that takes no lease: it opens the file, appends and closes."""
    with path.open("ab") as file:
        file.write(data)


def _fill(folder: Path) -> Path:
    """Leave no byte free on a disk; return the file that takes them all."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def _mount(*command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not here")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")


def _unmount(folder: Path) -> None:
    # Lazily: what a failed test has left open must not keep the disk.
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session file with a header and a line."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEADER + _line(0))
    return path


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB of our own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    _mount("mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(disk))
    yield disk
    _unmount(disk)


def _problem(file: SessionFile) -> str | None:
    return file.problem  # so that a type checker does not take it for constant


class Reports:
    """What a file reports of other programs, and its notices for people."""

    def __init__(self, file: SessionFile) -> None:
        self.foreign: list[bytes] = []
        self.notices: list[str] = []
        file.on_foreign = self.foreign.append
        file.on_notice = self.notices.append


class CutLine(NamedTuple):
    """A file whose end is the beginning of `_line(1, 20_000)`: the disk was full."""

    path: Path
    file: SessionFile
    filler: Path
    """Takes all the room; delete it."""
    content: bytes


@pytest.fixture
def cut_line(disk: Path) -> CutLine:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER)
    filler = _fill(disk)
    file = _opened(path)
    with pytest.raises(SaveError):
        file.append(_line(1, 20_000))
    return CutLine(path, file, filler, path.read_bytes())


# Full disks and limits.


def test_l4_l5_on_a_full_disk_an_append_fails_and_the_line_is_kept_until_there_is_space(disk: Path) -> None:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER + _line(0, 4096 - len(HEADER) - len(_line(0))))  # ends with a block
    before = path.read_bytes()
    assert len(before) == 4096
    filler = _fill(disk)
    file = _opened(path)

    for number in (1, 2):
        with pytest.raises(SaveError) as caught:
            file.append(_line(number))

    for part in (str(path), os.strerror(errno.ENOSPC), "free some disk space", "kept in memory"):
        assert part in caught.value.text
    assert _problem(file) == caught.value.text
    assert file.unsaved == 2
    assert path.read_bytes() == before
    filler.unlink()
    file.append(_line(3))
    assert path.read_bytes() == before + _line(1) + _line(2) + _line(3)
    assert file.problem is None
    assert file.unsaved == 0
    file.abandon()


def test_l4_a_line_that_could_not_be_saved_can_be_withdrawn(disk: Path) -> None:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER + _line(0, 4096 - len(HEADER) - len(_line(0))))
    before = path.read_bytes()
    filler = _fill(disk)
    file = _opened(path)
    with pytest.raises(SaveError):
        file.append(_line(1))

    assert file.withdraw_last()

    assert file.problem is None
    assert file.unsaved == 0
    filler.unlink()
    file.append(_line(2))
    assert path.read_bytes() == before + _line(2)
    file.abandon()


def test_l4_a_line_that_was_cut_is_continued_where_it_was_cut(cut_line: CutLine) -> None:
    path, file, filler, cut = cut_line

    assert len(HEADER) < len(cut) < 20_000
    with pytest.raises(SaveError):
        file.append(_line(2))
    assert path.read_bytes() == cut
    assert file.withdraw_last()
    filler.unlink()
    file.flush()
    assert path.read_bytes() == HEADER + _line(1, 20_000)
    file.abandon()


def test_l4_a_line_that_was_cut_and_withdrawn_leaves_nothing(cut_line: CutLine) -> None:
    """It must not be completed: a crash would find it whole, and not what refuses it."""
    path, file, filler, cut = cut_line
    assert len(cut) > len(HEADER)

    assert file.withdraw_last()

    assert path.read_bytes() == HEADER
    assert (file.problem, file.unsaved) == (None, 0)
    assert not file.withdraw_last()
    filler.unlink()
    file.append(_line(2))
    assert path.read_bytes() == HEADER + _line(2)
    file.abandon()


async def test_l4_what_comes_in_the_place_of_a_cut_line_is_flushed_anew(cut_line: CutLine) -> None:
    """Also while the cut line is being brought to the disk."""
    path, file, filler, _ = cut_line
    with pytest.raises(SaveError):
        await file.sync()
    assert file.withdraw_last()
    states = [file.is_durable]
    filler.unlink()
    file.append(_line(2))
    states.append(file.is_durable)
    await file.sync()
    assert [*states, file.is_durable] == [False, False, True]
    assert path.read_bytes() == HEADER + _line(2)
    file.abandon()


def test_l4_the_newest_line_is_taken_out_of_the_file_unless_others_have_written_behind_it(disk: Path) -> None:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER)
    file = _opened(path)
    assert not file.take_back()  # what was opened is not ours
    file.append(_line(1))
    assert file.take_back()
    assert path.read_bytes() == HEADER
    assert not file.take_back()
    file.append(_line(2))
    filler = _fill(disk)
    with pytest.raises(SaveError):
        file.append(_line(3, 8000))
    assert not file.take_back()  # of the newest one a part may be there
    assert file.withdraw_last()
    assert file.take_back()
    assert path.read_bytes() == HEADER
    filler.unlink()
    file.append(_line(4))
    _append_elsewhere(path, _foreign(1))
    assert not file.take_back()
    assert path.read_bytes() == HEADER + _line(4) + _foreign(1)
    file.abandon()


def test_l4_a_cut_line_is_not_withdrawn_when_others_have_written_behind_it(cut_line: CutLine) -> None:
    path, file, filler, cut = cut_line
    filler.unlink()
    _append_elsewhere(path, _foreign(1))

    assert not file.withdraw_last()

    assert path.read_bytes() == cut + _foreign(1)
    file.abandon()


def test_l4_a_cut_line_after_which_others_wrote_is_written_anew_and_theirs_is_saved(cut_line: CutLine) -> None:
    path, file, filler, cut = cut_line
    reports = Reports(file)
    filler.unlink()
    _append_elsewhere(path, _foreign(1) + _foreign(2))

    file.append(_line(2))

    # The first foreign line was glued to our half and is lost to every reader there: it is written once more.
    assert path.read_bytes() == cut + _foreign(1) + _foreign(2) + _foreign(1) + _line(1, 20_000) + _line(2)
    assert reports.foreign == [_foreign(1) + _foreign(2)]
    assert file.foreign_lines == 2
    file.abandon()


def test_l4_a_cut_line_that_others_ended_is_written_anew(cut_line: CutLine) -> None:
    path, file, filler, cut = cut_line
    filler.unlink()
    _append_elsewhere(path, b"\n" + _foreign(1))

    assert not file.withdraw_last()  # bytes of it are in the file
    file.flush()

    assert path.read_bytes() == cut + b"\n" + _foreign(1) + _line(1, 20_000)
    file.abandon()


def test_l4_a_session_that_could_not_be_made_leaves_no_file_and_is_made_later(disk: Path) -> None:
    path = disk / "--x--" / "s.jsonl"
    path.parent.mkdir()
    filler = _fill(disk)
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(1), is_durable=False)

    with pytest.raises(SaveError, match="No space left"):
        file.append(_line(2))

    assert not path.exists()
    assert not file.exists
    assert file.unsaved == 2
    assert file.withdraw_last()
    assert file.unsaved == 0
    assert file.problem is None
    filler.unlink()
    file.append(_line(3))
    assert path.read_bytes() == HEADER + _line(1) + _line(3)
    file.abandon()


def test_l4_a_header_that_was_cut_is_continued(disk: Path) -> None:
    path = disk / "s.jsonl"
    filler = _fill(disk)
    with filler.open("r+b") as file_object:
        file_object.truncate(filler.stat().st_size - 8192)  # a block is for the lease
    header = HEADER.replace(b"/x", b"/x" * 3000)
    file = SessionFile.fresh(path, header)

    with pytest.raises(SaveError):
        file.append(_line(1))

    assert path.read_bytes() == header[:4096]
    assert file.exists
    assert file.withdraw_last()
    filler.unlink()
    file.append(_line(2))
    assert path.read_bytes() == header + _line(2)
    file.abandon()


def test_l4_a_limit_for_file_sizes_is_reported_and_the_line_finished_when_it_is_raised(path: Path) -> None:
    program = f"""
import resource, sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from pinnace_agent.session.store.file import SaveError, SessionFile
path = Path(sys.argv[1])
file = SessionFile.opened(path, size=path.stat().st_size, has_torn_tail=False, damaged=[], lease=None)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
try:
    file.append({_line(1, 10_000)!r})
    sys.exit(2)
except SaveError as error:
    print(error.text)
assert path.stat().st_size == 5000, path.stat()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
file.append({_line(2)!r})
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert "limit for file sizes" in done.stdout
    assert path.read_bytes() == HEADER + _line(0) + _line(1, 10_000) + _line(2)


async def test_l4_closing_tries_once_more(disk: Path) -> None:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER)
    filler = _fill(disk)
    file = _opened(path, Lease.take(path))
    with pytest.raises(SaveError):
        file.append(_line(1, 20_000))
    with pytest.raises(SaveError):
        await file.sync()
    filler.unlink()
    await file.close()
    assert path.read_bytes() == HEADER + _line(1, 20_000)
    Lease.take(path).release()


async def test_closing_on_a_full_disk_lets_go_of_everything_without_an_error(disk: Path) -> None:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER)
    file = _opened(path, Lease.take(path))
    _fill(disk)
    with pytest.raises(SaveError):
        file.append(_line(1, 20_000))
    await file.close()
    Lease.take(path).release()


def test_l4_a_torn_tail_that_is_ended_and_then_no_space_is_ended_once(disk: Path) -> None:
    path = disk / "s.jsonl"
    torn = HEADER + b"{" * (4095 - len(HEADER))  # one byte is free in its block: the line feed
    path.write_bytes(torn)
    filler = _fill(disk)
    file = _opened(path)
    with pytest.raises(SaveError):
        file.append(_line(1))
    assert path.read_bytes() == torn + b"\n"
    assert file.withdraw_last()  # not one byte of it is there
    filler.unlink()
    file.append(_line(2))
    assert path.read_bytes() == torn + b"\n" + _line(2)
    file.abandon()


# What can't be written at all.


def test_a_read_only_disk_is_reported(disk: Path) -> None:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

    file = _opened(path)
    new = SessionFile.fresh(disk / "--x--" / "new.jsonl", HEADER)

    assert file.read_only is not None
    assert "Read-only file system" in file.read_only
    with pytest.raises(SaveError, match="Read-only"):
        file.append(_line(1))
    with pytest.raises(SaveError, match="Read-only"):
        new.append(_line(1))
    file.abandon()
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    new.flush()
    assert (disk / "--x--" / "new.jsonl").read_bytes() == HEADER + _line(1)
    new.abandon()


def test_a_file_that_may_not_be_written_is_read_only(path: Path) -> None:
    path.chmod(0o400)
    if os.access(path, os.W_OK):
        pytest.skip("no mode keeps root from writing")
    file = _opened(path)
    assert file.read_only is not None
    assert "Permission denied" in file.read_only


# Files that go, or are no longer the same.


def test_a_deleted_file_is_written_back_whole(path: Path) -> None:
    file = _opened(path)
    reports = Reports(file)
    file.append(_line(1))
    path.unlink()

    file.append(_line(2))

    assert path.read_bytes() == HEADER + _line(0) + _line(1) + _line(2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(reports.notices) == 1
    assert "deleted" in reports.notices[0]
    assert os.listdir(path.parent) == ["s.jsonl"]
    path.unlink()
    file.append(_line(3))
    file.append(_line(4))
    assert path.read_bytes() == HEADER + b"".join(map(_line, range(5)))
    file.abandon()


def test_a_deleted_folder_is_made_again_and_the_lease_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "s.jsonl"
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(0))
    shutil.rmtree(path.parent)

    file.append(_line(1))

    assert path.read_bytes() == HEADER + _line(0) + _line(1)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.with_name("s.jsonl.lease").exists()
    file.abandon()
    assert os.listdir(path.parent) == ["s.jsonl"]


def test_a_deleted_file_is_not_written_back_while_another_process_has_the_lease(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "s.jsonl"
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(0))
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    other = Lease.take(path)

    with pytest.raises(SaveError, match="in use"):
        file.append(_line(1))

    assert not path.exists()
    other.release()
    file.flush()
    assert path.read_bytes() == HEADER + _line(0) + _line(1)
    file.abandon()


async def test_a_file_that_is_deleted_before_it_is_flushed_is_written_back(path: Path) -> None:
    file = _opened(path)
    file.append(_line(1))
    path.unlink()
    await file.sync()
    assert path.read_bytes() == HEADER + _line(0) + _line(1)
    path.unlink()  # everything was safe: this was meant
    await file.sync()
    await file.close()
    assert not path.exists()


def test_a_deleted_file_that_can_not_be_written_back_is_when_there_is_space(disk: Path) -> None:
    path = disk / "s.jsonl"
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(0, 100_000))
    path.unlink()
    filler = _fill(disk)

    with pytest.raises(SaveError, match="No space left"):
        file.append(_line(1))

    assert sorted(os.listdir(disk)) == ["filler", "s.jsonl.lease"]
    filler.unlink()
    file.flush()
    assert path.read_bytes() == HEADER + _line(0, 100_000) + _line(1)
    file.abandon()


def _by_a_file(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"theirs\n")
    os.replace(other, path)


def _by_a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.with_name("target").write_bytes(b"theirs\n")
    path.symlink_to("target")


def _by_a_link_to_itself(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def _by_a_folder(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.mkdir()


@pytest.mark.parametrize("replace", [_by_a_file, _by_a_link, _by_a_link_to_itself, _by_a_folder])
def test_a_file_that_was_replaced_is_not_touched(path: Path, replace: Callable[[Path], None]) -> None:
    file = _opened(path)
    replace(path)
    before = {entry.name: entry.stat() for entry in os.scandir(path.parent)}

    for _ in range(2):
        with pytest.raises(SaveError, match="was replaced"):
            file.append(_line(1))

    after = {entry.name: entry.stat() for entry in os.scandir(path.parent)}
    assert {name: (found.st_size, found.st_ino) for name, found in before.items()} == {
        name: (found.st_size, found.st_ino) for name, found in after.items()
    }
    assert file.withdraw_last()
    assert file.withdraw_last()
    with pytest.raises(SaveError, match="was replaced"):
        file.flush()
    assert file.problem is not None
    file.abandon()


def test_once_the_replacement_is_moved_away_everything_is_written_back(path: Path) -> None:
    file = _opened(path)
    _by_a_file(path)
    with pytest.raises(SaveError):
        file.append(_line(1))
    path.rename(path.with_name("theirs"))

    file.append(_line(2))

    assert path.read_bytes() == HEADER + _line(0) + _line(1) + _line(2)
    assert path.with_name("theirs").read_bytes() == b"theirs\n"
    file.abandon()


async def test_a_file_that_was_replaced_before_it_was_flushed_is_reported(path: Path) -> None:
    file = _opened(path)
    file.append(_line(1))
    _by_a_file(path)
    with pytest.raises(SaveError, match="was replaced"):
        await file.sync()
    assert file.problem is not None
    await file.close()
    assert path.read_bytes() == b"theirs\n"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="emptied"),
        pytest.param(HEADER, id="shortened"),
        pytest.param(HEADER + _line(7), id="rewritten with the same size"),
        pytest.param(HEADER + _line(7, 500), id="rewritten and longer"),
    ],
)
def test_a_file_that_was_rewritten_in_place_is_not_touched(path: Path, content: bytes) -> None:
    file = _opened(path)
    file.append(_line(1))
    file.append(_line(2))
    before = path.stat().st_mtime_ns
    path.write_bytes(content.ljust(path.stat().st_size, b" ") if content == HEADER + _line(7) else content)
    os.utime(path, ns=(before + 1, before + 1))  # clocks of file systems tick slowly
    rewritten = path.read_bytes()

    with pytest.raises(SaveError, match="was replaced"):
        file.append(_line(3))

    assert path.read_bytes() == rewritten
    file.abandon()


def test_a_file_that_was_only_touched_is_the_same(path: Path) -> None:
    file = _opened(path)
    os.utime(path, ns=(1, 1))
    file.append(_line(1))
    os.utime(path, ns=(1, 1))
    file.append(_line(2))
    assert path.read_bytes() == HEADER + b"".join(map(_line, range(3)))
    assert file.foreign_lines == 0
    file.abandon()


def test_what_comes_to_the_path_while_a_file_is_written_back_is_not_overwritten(path: Path) -> None:
    file = AppendFile(path, open_for_appending(path), size=path.stat().st_size, is_torn=False)
    _by_a_file(path)
    with pytest.raises(FileExistsError):
        file.write_anew(is_replacing=False)
    with pytest.raises(FileReplaced):
        file.write_anew(is_replacing=True)
    assert path.read_bytes() == b"theirs\n"
    assert os.listdir(path.parent) == ["s.jsonl"]
    file.descriptor.release()


# Other writers.


def test_l9_lines_of_another_program_are_detected_kept_and_reported_once(path: Path) -> None:
    file = _opened(path)
    reports = Reports(file)
    file.append(_line(1))
    _append_elsewhere(path, _foreign(1) + _foreign(2))
    file.append(_line(2))
    file.append(_line(3))
    _append_elsewhere(path, _foreign(3))
    file.append(_line(4))

    assert path.read_bytes() == (
        HEADER + _line(0) + _line(1) + _foreign(1) + _foreign(2) + _line(2) + _line(3) + _foreign(3) + _line(4)
    )
    assert reports.foreign == [_foreign(1) + _foreign(2), _foreign(3)]
    assert file.foreign_lines == 3
    assert len(reports.notices) == 1
    file.abandon()


def test_l9_lines_that_were_appended_between_reading_and_opening_are_reported(path: Path) -> None:
    size = path.stat().st_size
    _append_elsewhere(path, _foreign(1))
    file = SessionFile.opened(path, size=size, has_torn_tail=False, damaged=[], lease=None)
    reports = Reports(file)
    file.append(_line(1))
    assert reports.foreign == [_foreign(1)]
    file.abandon()


def test_l9_a_foreign_line_that_is_torn_is_ended_before_ours(path: Path) -> None:
    file = _opened(path)
    reports = Reports(file)
    _append_elsewhere(path, _foreign(1) + b'{"tor')
    file.append(_line(1))
    file.append(_line(2))
    assert path.read_bytes() == HEADER + _line(0) + _foreign(1) + b'{"tor\n' + _line(1) + _line(2)
    assert reports.foreign == [_foreign(1)]
    _append_elsewhere(path, _foreign(2))
    file.append(_line(3))
    assert reports.foreign == [_foreign(1), _foreign(2)]
    file.abandon()


def test_l9_a_foreign_line_in_two_parts_with_nothing_of_ours_in_between_is_reported_whole(disk: Path) -> None:
    path = disk / "s.jsonl"
    path.write_bytes(HEADER)
    file = _opened(path)
    reports = Reports(file)
    other = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(other, b'{"id":"' + b"y" * (4096 - len(HEADER) - 7))  # ends with a block
    filler = _fill(disk)
    with pytest.raises(SaveError):
        file.append(_line(1))
    filler.unlink()
    os.write(other, b'"}\n')
    os.close(other)

    file.append(_line(2))

    theirs = b'{"id":"' + b"y" * (4096 - len(HEADER) - 7) + b'"}\n'
    assert reports.foreign == [theirs]
    assert path.read_bytes() == HEADER + theirs + _line(1) + _line(2)
    file.abandon()


def test_l9_a_line_that_slips_in_between_our_check_and_our_write_is_reported_too(path: Path) -> None:
    file = _opened(path)
    foreign: list[bytes] = []

    def slip_in(lines: bytes) -> None:
        foreign.append(lines)
        if len(foreign) == 1:  # after the look, before the write
            _append_elsewhere(path, _foreign(2))

    file.on_foreign = slip_in
    _append_elsewhere(path, _foreign(1))
    file.append(_line(1))
    file.append(_line(2))

    assert path.read_bytes() == HEADER + _line(0) + _foreign(1) + _foreign(2) + _line(1) + _line(2)
    assert foreign == [_foreign(1), _foreign(2)]
    file.abandon()


def test_l9_a_line_of_ours_that_is_glued_to_a_torn_one_is_written_once_more(path: Path) -> None:
    file = _opened(path)

    def slip_in(_lines: bytes) -> None:
        _append_elsewhere(path, b'{"tor')

    file.on_foreign = slip_in
    _append_elsewhere(path, _foreign(1))
    file.append(_line(1))
    file.append(_line(2))

    assert path.read_bytes() == HEADER + _line(0) + _foreign(1) + b'{"tor' + _line(1) + _line(1) + _line(2)
    file.abandon()


def test_l9_a_header_is_not_put_behind_what_another_program_began(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    file = SessionFile.opened(path, size=0, has_torn_tail=False, damaged=[], lease=None, header=HEADER)
    path.write_bytes(HEADER.replace(b'"s"', b'"t"'))
    with pytest.raises(SaveError, match="begun a session"):
        file.append(_line(1))
    assert path.read_bytes() == HEADER.replace(b'"s"', b'"t"')
    file.abandon()


_APPENDER = """
import os, sys
sys.stdin.readline()
for number in range(3000):
    with open(sys.argv[1], "ab") as file:
        file.write(b'{"type":"custom","id":"foreign%d"}\\n' % number)
print("done", flush=True)
"""


def test_l9_of_two_programs_that_write_at_the_same_time_no_line_is_lost_or_reported_twice(path: Path) -> None:
    file = _opened(path)
    reports = Reports(file)
    command = [sys.executable, "-c", _APPENDER, str(path)]
    number = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        other.stdin.write(b"\n")
        other.stdin.flush()
        while other.poll() is None or number < 3000:
            number += 1
            file.append(_line(number, number % 300))
    file.append(_line(number + 1))

    # A look can fall into the middle of a write of theirs; an empty line is then what ends it.
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line != b"\n"]
    theirs = [line for line in lines if b"foreign" in line]
    assert theirs == [_foreign(n) for n in range(3000)]
    assert [line for line in lines[2:] if b"foreign" not in line] == [
        *(_line(n, n % 300) for n in range(1, number + 1)),
        _line(number + 1),
    ]
    assert b"".join(reports.foreign) == b"".join(theirs)
    assert file.foreign_lines == 3000
    file.abandon()


# A disk that takes bytes and does not keep them.


@pytest.fixture
def thin_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system on a device that promises more than it has: a flush fails when `store` is full.

    As with thin provisioning and network quotas, writing itself succeeds. `disk` is the mounted file system.
    """
    store, disk = tmp_path / "store", tmp_path / "disk"
    store.mkdir()
    disk.mkdir()
    _mount("mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(store))
    try:
        (store / "image").touch()
        os.truncate(store / "image", 16 * 1024 * 1024)
        _mount("mkfs.ext4", "-q", "-O", "^has_journal", str(store / "image"))
        _mount("mount", "-o", "loop", str(store / "image"), str(disk))
        try:
            yield tmp_path
        finally:
            _unmount(disk)
    finally:
        _unmount(store)


async def test_l8_a_failed_flush_is_reported_until_everything_is_really_on_the_disk(thin_disk: Path) -> None:
    path = thin_disk / "disk" / "s.jsonl"
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(0, 100_000))
    await file.sync()
    filler = _fill(thin_disk / "store")
    file.append(_line(1, 100_000))
    assert _problem(file) is None

    inode = path.stat().st_ino
    for _ in range(2):
        with pytest.raises(SaveError, match="No space left"):
            await file.sync()
    assert path.stat().st_ino == inode  # nothing takes its place that is not on the disk
    assert sorted(os.listdir(path.parent)) == ["lost+found", "s.jsonl", "s.jsonl.lease"]
    assert _problem(file) is not None
    with suppress(SaveError):
        file.append(_line(2, 100_000))
    assert _problem(file) is not None

    filler.unlink()
    with path.open("rb") as cached:  # the kernel may forget what it could not write, and does when memory is short
        os.posix_fadvise(cached.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert _line(1, 100_000) not in cached.read()
    file.append(_line(3))
    await file.sync()
    assert _problem(file) is None
    await file.close()

    # What the kernel has in memory must not answer for the disk.
    subprocess.run(["umount", str(thin_disk / "disk")], check=True)
    _mount("mount", "-o", "loop", str(thin_disk / "store" / "image"), str(thin_disk / "disk"))
    assert path.read_bytes() == HEADER + _line(0, 100_000) + _line(1, 100_000) + _line(2, 100_000) + _line(3)
    assert sorted(os.listdir(path.parent)) == ["lost+found", "s.jsonl"]


async def test_l8_a_failed_flush_fails_for_every_caller_that_waited_for_it(thin_disk: Path) -> None:
    file = SessionFile.fresh(thin_disk / "disk" / "s.jsonl", HEADER)
    file.append(_line(0))
    await file.sync()
    _fill(thin_disk / "store")
    file.append(_line(1, 100_000))
    failed = 0

    async def sync() -> None:
        nonlocal failed
        with pytest.raises(SaveError):
            await file.sync()
        failed += 1

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(sync)
    assert failed == 3
    await file.close()


# The next process reads from the memory of the system what a flush could not write, and a flush of its own writes
# nothing of that.

_FAILING = """
import os, signal, sys
from pathlib import Path
import trio
from pinnace_agent.session.store.file import SaveError, SessionFile
from pinnace_agent.session.store.lease import Lease

async def main(path: Path, line: bytes, ends: str, space: int) -> None:
    def fail(descriptor: int) -> None:
        os.fdatasync(descriptor)
        if not space:
            raise OSError(5, "Input/output error")
    data = path.read_bytes()
    file = SessionFile.opened(
        path, size=len(data), has_torn_tail=False, damaged=[], lease=Lease.take(path), flush_call=fail
    )
    file.append(line)
    try:
        await file.sync()
    except SaveError:
        if ends == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    file.abandon()

path, line, ends, space = sys.argv[1:]
trio.run(main, Path(path), line.encode(), ends, int(space))
"""


def _fail_elsewhere(path: Path, line: bytes, ends: str, *, is_disk_real: bool) -> None:
    """Append in a process whose flush fails: of its own call, or since the disk does."""
    command = [sys.executable, "-c", _FAILING, str(path), line.decode(), ends, str(int(is_disk_real))]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": PYTHONPATH}, check=False)
    assert done.returncode == (-signal.SIGKILL if ends == "killed" else 0)


@pytest.mark.parametrize("ends", ["killed", "in order"])
async def test_l8_what_a_former_process_could_not_flush_is_written_anew_once(path: Path, ends: str) -> None:
    _fail_elsewhere(path, _line(1), ends, is_disk_real=False)

    inodes = [path.stat().st_ino]
    for number in (2, 3):
        lease = Lease.take(path)
        assert lease.is_content_lost == (number == 2)
        file = _opened(path, lease)
        file.append(_line(number))
        await file.sync()
        inodes.append(path.stat().st_ino)
        await file.close()

    assert inodes[0] != inodes[1] == inodes[2]
    assert path.read_bytes() == HEADER + b"".join(map(_line, range(4)))
    assert os.listdir(path.parent) == [path.name]


async def test_l8_a_mark_stays_until_everything_is_really_on_the_disk(path: Path) -> None:
    for _ in range(3):
        _fail_elsewhere(path, _line(1), "killed", is_disk_real=False)
        assert b'"contentLost": true' in path.with_name(f"{path.name}.lease").read_bytes()
    path.unlink()  # a mark is about a file that is there
    file = SessionFile.fresh(path, HEADER)
    file.append(_line(0))
    await file.close()

    assert os.listdir(path.parent) == [path.name]


async def test_l8_what_a_killed_process_could_not_flush_is_on_the_disk_when_the_next_one_says_so(
    thin_disk: Path,
) -> None:
    path = thin_disk / "disk" / "s.jsonl"
    path.write_bytes(HEADER + _line(0))
    with path.open("rb") as written:
        os.fsync(written.fileno())
    filler = _fill(thin_disk / "store")
    _fail_elsewhere(path, _line(1, 60_000), "killed", is_disk_real=True)
    filler.unlink()

    file = _opened(path, Lease.take(path))
    file.append(_line(2))
    await file.sync()
    await file.close()
    subprocess.run(["umount", str(thin_disk / "disk")], check=True)
    _mount("mount", "-o", "loop", str(thin_disk / "store" / "image"), str(thin_disk / "disk"))

    assert path.read_bytes() == HEADER + _line(0) + _line(1, 60_000) + _line(2)
