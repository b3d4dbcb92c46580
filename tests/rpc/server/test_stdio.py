"""The program's end of stdout: a pipe that its reader made."""

import fcntl
import os
import socket
import sys

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

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
