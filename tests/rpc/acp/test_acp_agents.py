"""Where the agents of sessions come from."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from pinnace_fuzz.process_tree import parent_of, words_of
from pinnace_rpc.acp.agents import Agents
from pinnace_rpc.acp.machine import OfProcess
from pinnace_rpc.acp.providers import ClientProviders
from pinnace_rpc.host.agents import zygote
from pinnace_rpc.host.agents.ports import HostedProcess
from pinnace_rpc.host.agents.zygote import FRESH_WHILE_LOADING
from pinnace_rpc.options.options import Options


async def test_agents_are_new_while_what_forks_loads_and_forks_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only answers a question is new and changes nothing; at most as many as of a host do not wait."""
    load, may_load = zygote._load, trio.Event()

    async def held(*arguments: Any) -> Any:
        await may_load.wait()
        return await load(*arguments)

    monkeypatch.setattr(zygote, "_load", held)
    monkeypatch.setattr(zygote, "WAIT_S", 60.0)  # a busy machine may load for longer
    async with trio.open_nursery() as nursery:
        words, options = ("--no-session", "--provider", "offline"), Options()
        agents = Agents(nursery, words, options, "0.1", ClientProviders(options), OfProcess(), is_persistent=False)
        async with started(agents.start_passing) as passing, started(agents.start) as first:
            assert {parent_of(passing.pid), parent_of(first.pid)} == {os.getpid()}
        async with AsyncExitStack() as stack:
            several: list[HostedProcess] = []
            for number in range(FRESH_WHILE_LOADING + 2):
                if number == FRESH_WHILE_LOADING:
                    may_load.set()
                several.append(await stack.enter_async_context(started(agents.start)))
            parents = [parent_of(process.pid) for process in several]
            assert [is_zygote(pid) for pid in parents] == [False] * FRESH_WHILE_LOADING + [True] * 2
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def started(start: Callable[[str], Awaitable[HostedProcess]]) -> AsyncGenerator[HostedProcess]:
    """An agent that has answered, so that another may load; it ends."""
    process = await start("/")
    async with process.stdout:
        async with process.stdin:
            await process.stdin.send_all(b'{"type":"get_state"}\n')
            await process.stdout.receive_some()
            yield process
        assert await process.wait() == 0


def is_zygote(pid: int) -> bool:
    return any(b"zygote_program" in word for word in words_of(pid))
