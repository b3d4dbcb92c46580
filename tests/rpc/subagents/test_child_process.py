"""The conversation with the process of a sub-agent, with a shell in its place."""

import os
import subprocess
from pathlib import Path

import pytest
import trio

from pinnace_agent.shell.child_processes import children
from pinnace_rpc.subagents.process import ChildProcess, Record

# Each line comes when the one before was taken, and so by itself.
SCRIPT = """exec 3<>"$1"; echo '{"type":"begun"}'; read _ <&3; cat >/dev/null
for each in 1 2 3; do echo '{"type":"last"}'; read _ <&3; done"""


@pytest.mark.parametrize("is_full", [False, True])
async def test_all_that_comes_while_it_ends_is_taken(tmp_path: Path, is_full: bool) -> None:
    """Whether or not the client that is shown it has room."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    taken: list[object] = []
    begun, is_waiting = trio.Event(), trio.Event()
    opened = os.open(gate, os.O_RDWR)

    def take(record: Record) -> None:
        taken.append(record["type"])
        begun.set()
        os.write(opened, b"\n")

    async def room() -> None:
        is_waiting.set()
        if is_full:
            await trio.sleep_forever()

    pipe = subprocess.PIPE
    command = ["/bin/sh", "-c", SCRIPT, "sh", str(gate)]
    child = await children().start(command, stdin=pipe, stdout=pipe, stderr=pipe)
    process = ChildProcess(child, take, room)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.read)
        nursery.start_soon(process.read_stderr)
        await begun.wait()
        await is_waiting.wait()
        await process.end()
    os.close(opened)

    assert taken == ["begun", "last", "last", "last"]
