"""Commands that append to a session while another process leaves it, in an agent whose clock stands still."""

import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import trio
import trio.testing

from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.store.file import SessionFile
from pinnace_rpc.embedded.task import serve

Record = dict[str, Any]  # Any: JSON


class Pipes:
    """The agent's stdin and stdout."""

    def __init__(self) -> None:
        self._commands, self._stdin = trio.open_memory_channel[bytes](100)
        self._rest = b""
        self._changed = trio.Event()
        self.records: list[Record] = []

    def send(self, *records: Record) -> None:
        self._commands.send_nowait(b"".join(json.dumps(each).encode() + b"\n" for each in records))

    def end(self) -> None:
        self._commands.close()

    def answers(self) -> list[Record]:
        return [each for each in self.records if each["type"] == "response"]

    async def until(self, **fields: object) -> Record:
        """Wait for a record that has these fields."""
        while True:
            for record in self.records:
                if all(record.get(name) == value for name, value in fields.items()):
                    return record
            await self._changed.wait()

    # As the agent has them.

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def receive_some(self, max_bytes: int) -> bytes:
        assert max_bytes
        return await anext(self._stdin, b"")

    def write_now(self, data: bytes) -> int:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.records += map(json.loads, lines)
        self._changed.set()
        self._changed = trio.Event()
        return len(data)

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.write_now(data)

    async def wait_read(
        self, is_signalled: Callable[[], bool], finished: trio.Event, on_progress: Callable[[], object] = bool
    ) -> None:
        on_progress()
        await finished.wait()
        assert not is_signalled()


@pytest.fixture
async def owned(tmp_path: Path) -> Session:
    """A session that another process has; this one plays it."""
    session = Library(SessionFolder(tmp_path, is_flat=True)).new(str(tmp_path))
    session.keep({"role": "user", "content": [{"type": "text", "text": "one"}], "timestamp": 1})
    await session.sync()
    return session


async def serve_beside(owned: Session, folder: Path, pipes: Pipes) -> None:
    flags: Sequence[str] = ("--session", str(owned.path), "--provider", "offline")
    environment = {"HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder / "agent"), "PATH": os.environ["PATH"]}
    assert await serve(flags, environment, str(folder), pipes, pipes, os, time.time_ns) == 0


@asynccontextmanager
async def leaving(owned: Session, folder: Path) -> AsyncGenerator[tuple[Pipes, SessionFile]]:
    """Run an agent beside the process that has its session, which has announced that it leaves; wait for its end."""
    assert owned.file is not None
    pipes = Pipes()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_beside, owned, folder, pipes)
        pipes.send({"id": "s", "type": "get_state"})
        await pipes.until(id="s")
        owned.file.announce_end()
        yield pipes, owned.file


async def test_the_agent_answers_while_commands_wait_for_the_session(
    owned: Session, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """R-SES-06: they are carried out in their order when it has left; what appends nothing does not wait."""
    async with leaving(owned, tmp_path) as (pipes, file):
        pipes.send(
            {"id": "n", "type": "set_session_name", "name": "two"},
            {"id": "o", "type": "set_session_name", "name": "three"},
            {"id": "p", "type": "prompt", "message": "masts"},
            {"id": "b", "type": "bash", "command": "echo sails"},
            {"id": "t", "type": "get_state"},
        )
        state = await pipes.until(id="t")
        before = [each["id"] for each in pipes.answers()]
        file.abandon()
        mock_clock.autojump_threshold = 0.01
        await pipes.until(type="agent_settled")
        await pipes.until(id="b")
        pipes.send({"id": "m", "type": "get_messages"}, {"id": "u", "type": "get_state"})
        last = await pipes.until(id="u")
        pipes.end()
    after = [(each["id"], each["success"]) for each in pipes.answers()]
    texts = json.dumps((await pipes.until(id="m"))["data"]["messages"])

    assert ["s", "t"] == before
    assert "sessionName" not in state["data"]
    assert "three" == last["data"]["sessionName"]
    assert [each for each in after if each[0] in ("n", "o", "p")] == [("n", True), ("o", True), ("p", True)]
    assert ("b", True) in after
    assert all(each in texts for each in ("one", "masts", "sails"))


async def test_a_prompt_that_waits_for_a_process_that_leaves_the_session_is_aborted(
    owned: Session, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """R-ABT-01: the wait ends at once, without any time that passes."""
    async with leaving(owned, tmp_path) as (pipes, file):
        began_s = mock_clock.current_time()
        pipes.send({"id": "p", "type": "prompt", "message": "masts"})
        await trio.testing.wait_all_tasks_blocked(0.05)  # it waits by now, or is checked yet
        pipes.send({"id": "a", "type": "abort"})
        refused, aborted = await pipes.until(id="p"), await pipes.until(id="a")
        took_s = mock_clock.current_time() - began_s
        file.abandon()
        mock_clock.autojump_threshold = 0.01
        pipes.end()

    assert ("aborted", True, 0) == (refused["errorCode"], aborted["success"], took_s)
