"""Where the agents of sessions come from."""

import os
from pathlib import Path

import trio

from pinnace_rpc.acp.agents import Agents
from pinnace_rpc.acp.translation.options import Wanted
from pinnace_rpc.host.agents.ports import AgentProcess

WANTED = Wanted("offline", None, None, "never", ())


async def test_the_first_agent_is_new_and_later_ones_are_forks(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        agents = Agents(nursery, ("--no-session", "--provider", "offline"), WANTED, "0.1", is_persistent=False)
        started: list[AgentProcess] = [await agents.start(str(tmp_path)) for _ in range(3)]
        parents = [_parent(process.pid) for process in started]
        assert parents[0] == os.getpid()
        assert parents[1] == parents[2] != os.getpid()
        for process in started:
            await process.stdin.aclose()
            assert await process.wait() == 0
            await process.stdout.aclose()
        nursery.cancel_scope.cancel()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
