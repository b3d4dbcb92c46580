"""Responses that are too long for the memory of a host, and are not read to their end, or kept nowhere.

The process is one of pipes in memory: a real one can't be stopped within a response. R-HST-03.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import pytest
import trio
import trio.testing

from pinnace_rpc.host import routing
from pinnace_rpc.host.agent import HostedAgent
from pinnace_rpc.host.agents.ports import HostedProcess
from pinnace_rpc.host.agents.supervisor import Supervisor
from pinnace_rpc.host.details import AgentDetails
from pinnace_rpc.host.named_clients import NamedClient
from pinnace_rpc.host.protocol import Ended

MIB: Final = 1024 * 1024
CONNECTION: Final = 7
COMMAND: Final = b'{"id":"c","type":"bash","command":"seq 1000000"}'
READ: Final = b'{"id":"r","type":"get_messages"}'


class Process:
    """A process of an agent, as the test has it write."""

    pid = 2**22 + 1

    def __init__(self) -> None:
        self.stdin, self._taken = trio.testing.memory_stream_pair()
        self.stdout, self.writing = trio.testing.memory_stream_pair()
        self._lines: list[dict[str, Any]] = []

    def send_now(self, _line: bytes) -> int:
        return 0

    async def asked(self, name: str) -> str:
        """Wait for a command, and return its id."""
        while True:
            for line in self._lines:
                if line["type"] == name:
                    self._lines.remove(line)
                    return str(line["id"])
            self._lines += map(json.loads, bytes(await self._taken.receive_some()).splitlines())

    async def answer(self, name: str, identity: str, data: str, *, is_cut: bool = False) -> None:
        """Write a response, whole or all but its end."""
        head = {"id": identity, "type": "response", "command": name, "success": True, "data": data}
        line = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        await self.writing.send_all(line[:-3] if is_cut else line)


class Running:
    """Decides that the agent has a process."""

    life = "running"
    error = None
    start = None

    def answered(self) -> None:
        pass


class Connection:
    """A connection that keeps what it is answered."""

    number = CONNECTION
    has_cursors = True
    last_read = 0.0

    def __init__(self) -> None:
        self.answers = 0

    def answered(self, _place: int) -> None:
        self.answers += 1

    def finish(self, _place: int, ended: Ended) -> None:
        raise AssertionError(ended)


class Hosted:
    """An agent of a host with one process and one connection."""

    def __init__(self, folder: Path, nursery: trio.Nursery) -> None:
        self.agent = HostedAgent(
            "a",
            str(folder),
            "0",
            nursery,
            lambda _: cast(Supervisor, Running()),
            AgentDetails("/", "pi"),
            journal_bytes=3 * MIB,
        )
        self.connection = Connection()
        self.agent.connections.add(self.connection)
        self.client = self.agent.clients.join("ide", CONNECTION)

    async def begin(self) -> Process:
        """Start a process, which has its state known."""
        process = Process()
        self.agent.process_began(cast(HostedProcess, process), "host")
        await process.answer("get_state", await process.asked("get_state"), "")
        return process

    async def send(self, line: bytes) -> None:
        client: NamedClient | None = self.client
        await self.agent.commands.send(CONNECTION, client, routing.read_command(line), line)

    def known(self, line: bytes) -> Any:
        """What the table says of a repeated command: its state, and its answer."""
        command = routing.read_command(line)
        state = self.client.table.look_up(command.identity, command.fields, is_lasting=True)
        return state, json.loads(self.client.table.response("c")) if state == "answered" else None


@asynccontextmanager
async def hosted(folder: Path) -> AsyncGenerator[Hosted]:
    """Have an agent of a host, and close it in the end."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            made = Hosted(folder, nursery)
            yield made
            nursery.cancel_scope.cancel()
    made.agent.close()
    made.client.table.close()


async def end(had: Hosted, process: Process) -> None:
    """End a process that another one follows."""
    await process.writing.aclose()
    await had.agent.process_ended(-9, "")
    had.agent.will_be_replaced()


async def test_a_command_of_which_the_response_is_cut_is_answered_as_unknown(tmp_path: Path) -> None:
    async with hosted(tmp_path) as had:
        process = await had.begin()
        await had.send(COMMAND)
        await process.answer("bash", await process.asked("bash"), "x" * 2 * MIB, is_cut=True)
        await end(had, process)
        (state, answer), is_quiet = had.known(COMMAND), had.agent.is_quiet()

    assert ("answered", "outcome_unknown", 1) == (state, answer["errorCode"], had.connection.answers)
    assert is_quiet


async def test_a_read_of_which_the_response_is_cut_is_asked_again(tmp_path: Path) -> None:
    async with hosted(tmp_path) as had:
        process = await had.begin()
        await had.send(READ)
        await process.answer("get_messages", await process.asked("get_messages"), "x" * 2 * MIB, is_cut=True)
        await end(had, process)
        second = await had.begin()
        await second.answer("get_messages", await second.asked("get_messages"), "")
        await trio.testing.wait_all_tasks_blocked()
        answers, still_open = had.connection.answers, had.agent.router.count(CONNECTION)

    assert (1, 0) == (answers, still_open)


@pytest.mark.parametrize("line", [COMMAND, READ])
async def test_a_response_that_is_kept_nowhere_is_answered_as_unknown(tmp_path: Path, line: bytes) -> None:
    """Again and again, which the slots of reads end if one that is answered is not free."""
    name = routing.read_command(line).name
    async with hosted(tmp_path) as had:
        process = await had.begin()
        for count in range(1, 3):
            await had.send(line.replace(b'"id":"', b'"id":"again-' if count > 1 else b'"id":"'))
            await process.answer(name, await process.asked(name), "x" * 4 * MIB)
            await trio.testing.wait_all_tasks_blocked()
            assert count == had.connection.answers
        still_open = had.agent.router.count(CONNECTION)
        are_free = [await had.agent.commands.reads.take() for _ in range(32)]
        state, _ = had.known(line)

    assert 0 == still_open
    assert all(are_free)
    assert state == ("answered" if line == COMMAND else "new")
