"""An agent of a host whose process is one of pipes in memory, with a client's connection.

For what a real process can't be stopped in: it answers when the test has it.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import trio
import trio.testing

from pinnace_rpc.host import routing
from pinnace_rpc.host.agent import HostedAgent
from pinnace_rpc.host.agents.ports import HostedProcess
from pinnace_rpc.host.agents.supervisor import Supervisor
from pinnace_rpc.host.details import AgentDetails
from pinnace_rpc.host.protocol import Ended

MIB: Final = 1024 * 1024
CONNECTION: Final = 7


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

    async def answer(self, name: str, identity: str, data: object, *, is_cut: bool = False) -> None:
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
        await self.agent.commands.send(CONNECTION, self.client, routing.read_command(line), line)

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
