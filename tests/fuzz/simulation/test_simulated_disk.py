"""The simulated disk keeps what was flushed, and of the rest what a seed decides."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, Disk, DiskFaults, ProcessDisk

SEEDS = range(40)
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND


def disk_of(folder: Path, seed: int, faults: DiskFaults = EMPTY_FAULTS) -> Disk:
    root = folder / str(seed)
    root.mkdir(parents=True)
    return Disk(root, random.Random(seed), faults, lambda _: None)


def flush_names(disk: ProcessDisk, folder: Path) -> None:
    descriptor = disk.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    disk.fsync(descriptor)
    disk.close(descriptor)


def after_crashes(folder: Path, work: Callable[[ProcessDisk, Path], object]) -> list[dict[str, bytes]]:
    """Do something on a disk of each seed, and return what crashes of the machine leave."""
    found: list[dict[str, bytes]] = []
    for seed in SEEDS:
        disk = disk_of(folder, seed)
        process = disk.begin()
        work(process, folder / str(seed))
        process.stop()
        process.close_all()
        disk.lose_power()
        found.append(disk.contents())
    return found


def test_what_was_flushed_with_its_name_is_kept(tmp_path: Path) -> None:
    """Content and name are both on the disk."""

    def work(disk: ProcessDisk, folder: Path) -> None:
        number = disk.open(folder / "a", NEW)
        disk.write(number, b"one\n")
        disk.fdatasync(number)
        flush_names(disk, folder)

    assert [{"a": b"one\n"}] * len(SEEDS) == after_crashes(tmp_path, work)


def test_a_name_that_was_not_flushed_may_be_lost(tmp_path: Path) -> None:
    """The content alone is on the disk."""

    def work(disk: ProcessDisk, folder: Path) -> None:
        number = disk.open(folder / "a", NEW)
        disk.write(number, b"one\n")
        disk.fsync(number)

    found = after_crashes(tmp_path, work)

    assert {} in found
    assert {"a": b"one\n"} in found


def test_writes_behind_a_flush_are_kept_lost_torn_or_zeros(tmp_path: Path) -> None:
    """A journal may have brought the size to the disk, and not the data."""

    def work(disk: ProcessDisk, folder: Path) -> None:
        number = disk.open(folder / "a", NEW)
        disk.write(number, b"one\n")
        disk.fsync(number)
        flush_names(disk, folder)
        disk.write(number, b"two\n")
        disk.write(number, b"three\n")

    contents = {each["a"] for each in after_crashes(tmp_path, work)}

    assert {b"one\n", b"one\ntwo\nthree\n"} <= contents
    assert all(each.startswith(b"one\n") for each in contents)
    assert any(b"\0" in each for each in contents)
    assert any(not each.endswith(b"\n") and b"\0" not in each for each in contents)


def test_a_file_that_was_renamed_before_its_flush_may_be_empty(tmp_path: Path) -> None:
    """Names and contents are independent."""

    def work(disk: ProcessDisk, folder: Path) -> None:
        number = disk.open(folder / "temporary", NEW)
        disk.write(number, b"one\n")
        disk.rename(folder / "temporary", folder / "a")
        flush_names(disk, folder)

    assert {"a": b""} in after_crashes(tmp_path, work)


def test_a_crash_of_the_process_loses_nothing(tmp_path: Path) -> None:
    """The page cache is the system's."""
    disk = disk_of(tmp_path, 0)
    process = disk.begin()
    number = process.open(tmp_path / "0" / "a", NEW)
    process.write(number, b"one\n")
    process.stop()

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        process.write(number, b"two\n")
    process.close_all()
    assert {"a": b"one\n"} == disk.contents()


def test_a_flush_that_has_failed_drops_what_it_could_not_write(tmp_path: Path) -> None:
    """The next flush succeeds and proves nothing about it."""

    def work(disk: ProcessDisk, folder: Path) -> None:
        number = disk.open(folder / "a", NEW)
        flush_names(disk, folder)
        disk.write(number, bytes([65]) * 4096)
        disk.device.faults = DiskFaults(flush_error=1.0)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            disk.fsync(number)
        disk.device.faults = EMPTY_FAULTS
        disk.write(number, b"two\n")
        disk.fsync(number)

    assert [{"a": bytes(4096) + b"two\n"}] * len(SEEDS) == after_crashes(tmp_path, work)


def test_a_folder_that_was_removed_may_come_back_with_what_was_in_it(tmp_path: Path) -> None:
    """Until the names of the folder above are on the disk; another folder of its name has nothing of it."""

    def work(disk: ProcessDisk, folder: Path, *, is_flushed: bool = False) -> None:
        for content in (b"one\n", b"two\n"):
            disk.mkdir(folder / "of")
            number = disk.open(folder / "of" / "a", NEW)
            disk.write(number, content)
            disk.fsync(number)
            flush_names(disk, folder / "of")
            flush_names(disk, folder)
            disk.unlink(folder / "of" / "a")
            disk.rmdir(folder / "of")
        if is_flushed:
            flush_names(disk, folder)

    found = after_crashes(tmp_path / "f", work)
    removed = after_crashes(tmp_path / "r", lambda disk, folder: work(disk, folder, is_flushed=True))

    assert {} in found
    assert {"of/a": b"two\n"} in found
    assert all(each in ({}, {"of/a": b"two\n"}) for each in found)
    assert [{}] * len(SEEDS) == removed
