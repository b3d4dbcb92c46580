"""A program with an agent in it that speaks the protocol at stdin and stdout: byte for byte what `open_agent` speaks.

What extensions print goes to stderr, as the protocol has stdout. So everything that starts `pinnace --mode rpc` can be
given an agent in a program: the judge, clients, tests.
"""

import os
import signal
import sys
from functools import partial

import trio

from pinnace_agent.core.surroundings import Surroundings
from pinnace_rpc.client.failures import StartFailed
from pinnace_rpc.embedded.thread import AgentThread

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
PIECE_BYTES = 65536


async def serve(flags: list[str]) -> int:
    agent = AgentThread(flags, Surroundings(dict(os.environ), os.getcwd()))
    try:
        await agent.started()
    except StartFailed as failure:
        sys.stderr.write(f"pinnace: {failure}\n")
        return failure.exit_code
    async with trio.open_nursery() as nursery:
        ended_by: list[int] = []
        nursery.start_soon(watch_signals, agent, ended_by)
        nursery.start_soon(take, agent)
        await give(agent)
        await agent.wait()
        nursery.cancel_scope.cancel()
    agent.close()
    if agent.stderr_tail:
        sys.stderr.write(f"pinnace: {agent.stderr_tail}\n")
    if ended_by[:1] == [signal.SIGINT]:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    return 128 + ended_by[0] if ended_by else agent.exit_code or 0


async def take(agent: AgentThread) -> None:
    """Pass commands on."""
    stdin = trio.lowlevel.FdStream(os.dup(0))
    while data := await stdin.receive_some(PIECE_BYTES):
        await agent.stdin.send_all(data)
    agent.stdin.close()


async def give(agent: AgentThread) -> None:
    """Pass records on, until there are no more or nothing reads them."""
    stdout = trio.lowlevel.FdStream(PROTOCOL)
    try:
        while data := await agent.stdout.receive_some(PIECE_BYTES):
            await stdout.send_all(data)
    except trio.BrokenResourceError:
        agent.stdout.close()
        agent.stop()  # it has nothing more to write, by which it would notice


async def watch_signals(agent: AgentThread, ended_by: list[int]) -> None:
    with trio.open_signal_receiver(*SIGNALS) as signals:
        async for number in signals:
            ended_by.append(number)
            agent.stop()


if __name__ == "__main__":
    PROTOCOL = os.dup(1)
    os.dup2(2, 1)
    words = [word for place, word in enumerate(sys.argv[1:]) if sys.argv[1:][place : place + 2] != ["--mode", "rpc"]]
    sys.exit(trio.run(partial(serve, [word for word in words if word != "rpc"])))
