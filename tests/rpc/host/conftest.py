"""A host; and processes of agents as it holds them: what they are started with, and conversations with them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.rpc.host.attached import HostProcess, environment_of, short_folder, started
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_rpc.host.agents.ports import AgentLaunch, HostedProcess

LIMIT_S = 60


@pytest.fixture
def start(tmp_path: Path) -> AgentLaunch:
    """What an agent of the source tree is started with."""
    home = prepare_pi_home(tmp_path / "home", "http://127.0.0.1:9", env={"PYTHONPATH": PYTHONPATH})
    return AgentLaunch((*home.arguments, "--no-session"), str(home.work), home.env, 0o027)


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture
def host(folder: Path) -> Iterator[HostProcess]:
    with started(folder, environment_of(folder)) as process:
        yield process


class Talk:
    """A conversation with an agent over the pipes of its process."""

    def __init__(self, process: HostedProcess) -> None:
        self.process = process
        self._rest = b""

    async def ask(self, **command: object) -> dict[str, Any]:
        """Write a command and return its response."""
        await self.process.stdin.send_all(json.dumps(command).encode() + b"\n")
        with trio.fail_after(LIMIT_S):
            while True:
                while b"\n" not in self._rest:
                    data = await self.process.stdout.receive_some(65536)
                    assert data, self.process.stderr_tail()
                    self._rest += data
                line, _, self._rest = self._rest.partition(b"\n")
                record: dict[str, Any] = json.loads(line)
                if record["type"] == "response":
                    return record

    async def shell(self, command: str) -> str:
        """Have the agent run a shell command and return the output."""
        response = await self.ask(id="shell", type="bash", command=command)
        output = response["data"]["output"]
        assert isinstance(output, str)
        return output

    async def end(self) -> int | None:
        """End the agent by the end of its stdin and return its status."""
        await self.process.stdin.aclose()
        return await self.ended()

    async def ended(self) -> int | None:
        """Wait for the exit and return the status."""
        with trio.fail_after(LIMIT_S):
            status = await self.process.wait()
        await self.process.stdin.aclose()
        await self.process.stdout.aclose()
        return status


def status_of(pid: int) -> Mapping[str, str]:
    """Return what the system says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
