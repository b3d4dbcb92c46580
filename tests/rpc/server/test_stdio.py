"""The program's end of stdout: a pipe that its reader made."""

import fcntl
import os
import socket
import sys

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pinnace_rpc.server import stdio

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes have a width on Linux only")

LARGE = os.urandom(1024) * 3 * 1024


def width(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)


async def read_all(reading: int, data: bytearray) -> None:
    async with trio.lowlevel.FdStream(reading) as stream:
        async for piece in stream:
            data += piece


async def test_a_pipe_is_wide_while_a_large_piece_is_written_and_as_it_was_afterwards(nursery: trio.Nursery) -> None:
    reading, writing = os.pipe()
    before, data = width(reading), bytearray()

    async with stdio.Stdout(writing) as stdout:
        nursery.start_soon(stdout.send_all, LARGE)
        await wait_all_tasks_blocked()
        assert width(reading) == stdio.WIDE_PIPE_BYTES

        nursery.start_soon(read_all, reading, data)
        await wait_all_tasks_blocked()
        assert data == LARGE
        assert stdout.write_now(b"next") == 4
        assert width(writing) == before
    await wait_all_tasks_blocked()
    assert data == LARGE + b"next"


async def test_a_pipe_that_is_still_full_stays_wide_until_its_reader_has_caught_up() -> None:
    reading, writing = os.pipe()
    before = width(reading)

    async with stdio.Stdout(writing) as stdout:
        await stdout.send_all(LARGE[: stdio.LARGE_BYTES - 1] + b"!")
        with pytest.raises(BlockingIOError):
            stdout.write_now(b"next")
        assert width(reading) == stdio.WIDE_PIPE_BYTES

        assert len(os.read(reading, stdio.LARGE_BYTES)) == stdio.LARGE_BYTES
        await stdout.send_all(b"next")
        assert width(reading) == before
    assert os.read(reading, 10) == b"next"
    os.close(reading)


async def test_a_wide_pipe_stays_as_its_reader_made_it() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, stdio.WIDE_PIPE_BYTES)

    async with stdio.Stdout(writing) as stdout:
        await stdout.send_all(bytes(stdio.LARGE_BYTES))
    assert width(reading) == stdio.WIDE_PIPE_BYTES
    os.close(reading)


async def test_a_pipe_that_may_not_be_widened_is_written_as_it_is(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "WIDE_PIPE_BYTES", 2**31 - 1)  # more than the system gives anybody
    reading, writing = os.pipe()
    before, data = width(reading), bytearray()
    nursery.start_soon(read_all, reading, data)

    async with stdio.Stdout(writing) as stdout:
        await stdout.send_all(LARGE)
        assert width(writing) == before
    await wait_all_tasks_blocked()
    assert data == LARGE


async def test_a_large_piece_goes_to_a_socket_too(nursery: trio.Nursery) -> None:
    ours, theirs = socket.socketpair()
    data = bytearray()
    nursery.start_soon(read_all, theirs.detach(), data)

    async with stdio.Stdout(ours.detach()) as stdout:
        await stdout.send_all(LARGE)
    await wait_all_tasks_blocked()
    assert data == LARGE


# The end: what is written is waited for as long as the reader reads.


def ends(kind: str) -> tuple[int, int]:
    """Return the reader's end and the program's."""
    if kind == "pipe":
        return os.pipe()
    theirs, ours = socket.socketpair()
    return theirs.detach(), ours.detach()


async def write_all(stdout: stdio.Stdout, finished: trio.Event) -> None:
    await stdout.send_all(bytes(512 * 1024))
    finished.set()


@pytest.mark.parametrize("is_signalled", [False, True])
@pytest.mark.parametrize(("kind", "piece_bytes"), [("pipe", 700), ("pipe", 64 * 1024), ("socket", 64 * 1024)])
async def test_a_reader_that_takes_something_from_time_to_time_gets_everything(
    nursery: trio.Nursery, autojump_clock: MockClock, kind: str, piece_bytes: int, is_signalled: bool
) -> None:
    """R-EOF-01: also one that is slow, or works for a while on what it has taken."""
    reading, writing = ends(kind)
    finished = trio.Event()
    progress: list[float] = []

    async def read_slowly() -> None:
        await wait_all_tasks_blocked()  # the writer has filled it
        while not finished.is_set():
            assert os.read(reading, piece_bytes)
            await trio.sleep(0.7 * (stdio.STALLED_AFTER_SIGNAL_S if is_signalled else stdio.STALLED_S))

    async with stdio.Stdout(writing) as stdout:
        nursery.start_soon(write_all, stdout, finished)
        nursery.start_soon(read_slowly)
        await stdout.wait_read(lambda: is_signalled, finished, lambda: progress.append(trio.current_time()))
        assert finished.is_set()
    assert len(progress) >= 512 * 1024 // piece_bytes // 2
    nursery.cancel_scope.cancel()
    os.close(reading)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize(("is_signalled", "limit_s"), [(False, stdio.STALLED_S), (True, stdio.STALLED_AFTER_SIGNAL_S)])
async def test_a_reader_that_takes_nothing_holds_nothing_up(
    nursery: trio.Nursery, autojump_clock: MockClock, kind: str, is_signalled: bool, limit_s: float
) -> None:
    reading, writing = ends(kind)
    finished = trio.Event()
    start = trio.current_time()
    async with stdio.Stdout(writing) as stdout:
        nursery.start_soon(write_all, stdout, finished)
        await stdout.wait_read(lambda: is_signalled, finished)
        assert not finished.is_set()
        nursery.cancel_scope.cancel()
    assert limit_s <= trio.current_time() - start < 2 * limit_s
    os.close(reading)
