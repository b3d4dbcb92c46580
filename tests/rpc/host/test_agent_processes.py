"""Processes of agents that a host starts in new interpreters: pipes, environment, exit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from tests.rpc.host.conftest import LIMIT_S, Talk, status_of
from tests.source_tree import PYTHONPATH
from trio.testing import wait_all_tasks_blocked

from pinnace_rpc.host.agents import fresh, fresh_program
from pinnace_rpc.host.agents.fresh import COMMAND, FreshStarter
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentStarter, AgentStartError, HostedProcess
from pinnace_rpc.host.agents.process import STDERR_TAIL_BYTES, PipedProcess

MEMORY = 8 * 1024**3


@pytest.fixture
async def starter(nursery: trio.Nursery) -> AgentStarter:
    return FreshStarter(nursery, memory_bytes=MEMORY)


async def test_an_agent_answers_and_ends_with_its_stdin(starter: AgentStarter, start: AgentLaunch) -> None:
    process = await starter.start(start)
    talk = Talk(process)

    response = await talk.ask(id="1", type="get_state")

    assert response["success"] is True
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    assert "0027" == status_of(process.pid)["Umask"]
    assert str(MEMORY) in Path(f"/proc/{process.pid}/limits").read_text()
    assert 0 == await talk.end()


async def test_the_folder_of_an_agent_is_named_when_it_is_missing(starter: AgentStarter, start: AgentLaunch) -> None:
    with pytest.raises(AgentStartError, match="no-such-folder"):
        await starter.start(start._replace(cwd="/no-such-folder"))


async def test_the_end_of_stderr_explains_a_refused_start(starter: AgentStarter, start: AgentLaunch) -> None:
    process = await starter.start(start._replace(arguments=("--no-such-option-here", "x")))

    assert 2 == await Talk(process).end()
    assert "no-such-option-here" in process.stderr_tail()


async def test_a_killed_agent_has_the_signal_as_its_status(starter: AgentStarter, start: AgentLaunch) -> None:
    process = await starter.start(start)
    await Talk(process).ask(id="1", type="get_state")

    process.kill()

    assert -signal.SIGKILL == await Talk(process).ended()
    process.kill()


STARTED_WITH_SIGNALS = """\
import signal, sys, trio
from pathlib import Path
from pinnace_rpc.host.agents.fresh import FreshStarter
from pinnace_rpc.host.agents.ports import AgentLaunch
if sys.argv[1] == "changed":
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGALRM, signal.SIGTERM})
async def main():
    async with trio.open_nursery() as nursery:
        start = AgentLaunch(("--no-session", "--provider", "offline"), "/", {"PYTHONPATH": sys.argv[2]}, 0o022)
        agent = await FreshStarter(nursery).start(start)
        async with agent.stdout, agent.stdin:
            await agent.stdin.send_all(b'{"type":"bash","command":"grep Sig /proc/self/status"}\\n')
            answer = b""
            while b'"type":"response"' not in answer:
                answer += await agent.stdout.receive_some()
            state = Path(f"/proc/{agent.pid}/status").read_text().splitlines()
            print(*[line for line in state if line.startswith(("SigBlk", "SigIgn", "SigCgt"))])
            print(*[word for word in answer.decode().replace("\\\\n", "\\\\t").split("\\\\t") if len(word) == 16])
        await agent.wait()
trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signals are read in /proc")
def test_signals_that_the_host_ignores_or_blocks_are_handled_by_its_agents() -> None:
    """`nohup` and the background of a script leave them so; the commands of an agent inherit them from it."""

    def signals(how: str) -> str:
        program = [sys.executable, "-P", "-c", STARTED_WITH_SIGNALS, how, PYTHONPATH]
        return subprocess.run(program, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout

    assert fresh_program.__name__ in COMMAND
    plain = signals("plain")
    assert len(plain.split()) > 6
    assert plain == signals("changed")


async def test_the_exit_is_seen_while_a_child_holds_the_pipes_open(nursery: trio.Nursery) -> None:
    """And of stderr the end alone is kept, however much was written."""
    child = "import time; time.sleep(1000)"
    program = (
        "import subprocess, sys\n"
        f"sys.stderr.write('x' * {20 * STDERR_TAIL_BYTES} + 'the end')\n"
        f"print(subprocess.Popen([sys.executable, '-c', {child!r}]).pid, flush=True)\n"
    )
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert isinstance(process.stdin, trio.lowlevel.FdStream)
    assert process.stdout is not None
    assert isinstance(process.stderr, trio.lowlevel.FdStream)
    agent = PipedProcess(process.pid, (process.stdin, process.stdout, process.stderr), process.wait, process.kill)
    nursery.start_soon(agent.run)
    grandchild = int(await agent.stdout.receive_some(100))
    try:
        with trio.fail_after(LIMIT_S):
            assert 0 == await agent.wait()
    finally:
        os.kill(grandchild, signal.SIGKILL)

    tail = agent.stderr_tail()
    assert tail.endswith("xxxthe end")
    assert len(tail) <= STDERR_TAIL_BYTES
    await agent.stdin.aclose()
    await agent.stdout.aclose()


async def test_new_interpreters_load_two_at_a_time(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third starts when one of the first two has written something, or has ended."""
    monkeypatch.setattr(fresh, "COMMAND", ("sh", "-c", "read line && echo $line && cat"))
    starter = FreshStarter(nursery)
    begun, agents = trio.open_memory_channel[HostedProcess](4)

    async def begin() -> None:
        await begun.send(await starter.start(AgentLaunch((), "/", os.environ, 0o022)))

    for _ in range(4):
        nursery.start_soon(begin)
    with trio.fail_after(LIMIT_S):
        first, second = await agents.receive(), await agents.receive()
        await wait_all_tasks_blocked(0.05)
        assert 0 == agents.statistics().current_buffer_used
        await first.stdin.send_all(b"loaded\n")
        assert b"loaded\n" == await first.stdout.receive_some()
        third = await agents.receive()
        second.kill()
        assert b"" == await second.stdout.receive_some()
        fourth = await agents.receive()
        for each in (first, second, third, fourth):
            await each.stdin.aclose()
            await each.wait()
            await each.stdout.aclose()
