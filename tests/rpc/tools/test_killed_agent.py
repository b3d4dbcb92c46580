"""kill -9 of the agent: what its commands have started dies with it.

Nothing inside the agent can act any more then; what does is a watchdog that no kill of a group or a tree hits.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.conftest import await_gone

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import descriptors_of, is_alive
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MakeGate = Callable[[], ShellGate]
Begin = Callable[..., HomedAgent]

# A child, a grandchild, an orphan, a group of its own within the session (as `timeout` and job control make them), and
# ears that are closed to all but SIGKILL.
FAMILY = "trap '' TERM HUP INT; sleep 600 & (sleep 600 & sleep 600) & (sleep 600 &) ; set -m; sleep 600 & set +m; "
FAMILY_SIZE = 7


def bash_call(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "id": "t0", "args": {"command": command}}]}


def watchdogs_of(pid: int) -> list[int]:
    """Find the watchdogs that read from a pipe of a process."""
    pipes = descriptors_of(pid)
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if b"pinnace-watchdog" in (entry / "cmdline").read_bytes() and os.readlink(entry / "fd/0") in pipes:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def in_a_tool(agent: AgentStarter, gate: ShellGate, *flags: str) -> HomedAgent:
    pi = agent([bash_call(f"{FAMILY}{gate.reading}")], *flags, is_checked=False)
    pi.send({"id": "p", "type": "prompt", "message": "go"})
    return pi


def in_a_command_of_the_client(agent: AgentStarter, gate: ShellGate, *flags: str) -> HomedAgent:
    pi = agent([], *flags, is_checked=False)
    pi.send({"id": "b", "type": "bash", "command": f"{FAMILY}{gate.reading}"})
    return pi


def await_family(pi: HomedAgent, gate: ShellGate) -> list[int]:
    gate.wait_reached()
    while len(found := pi.descendants()) < FAMILY_SIZE:
        time.sleep(0.005)  # a shell does not tell when its children have theirs
    return found


@pytest.mark.parametrize("begin", [in_a_tool, in_a_command_of_the_client])
def test_kill_9_of_the_agent_ends_its_commands_and_their_descendants(
    agent: AgentStarter, gates: MakeGate, begin: Begin
) -> None:
    gate = gates()
    pi = begin(agent, gate)
    family = await_family(pi, gate)
    watchdogs = watchdogs_of(pi.process.pid)

    # With its whole group, as a shell's `kill -9 %1` does.
    os.killpg(pi.process.pid, signal.SIGKILL)

    assert [] == await_gone(family)
    assert 1 == len(watchdogs)
    assert [] == await_gone(watchdogs)


# Holds back what a thread has started, as a busy machine does, so that the agent does not know of it.
UNKNOWN = """
import trio
start = trio.lowlevel.open_process
async def held(*arguments, **options):
    await start(*arguments, **options)
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
def extension(pi):
    trio.lowlevel.open_process = held
"""


@pytest.mark.parametrize("ends", [[signal.SIGKILL], [signal.SIGHUP, signal.SIGTERM]], ids=["kill -9", "second signal"])
@pytest.mark.parametrize("begin", [in_a_tool, in_a_command_of_the_client])
def test_a_command_that_the_agent_has_just_started_ends_with_it(
    agent: AgentStarter, gates: MakeGate, begin: Begin, ends: list[signal.Signals], tmp_path: Path
) -> None:
    extension = tmp_path / "unknown.py"
    extension.write_text(UNKNOWN)
    gate = gates()
    pi = begin(agent, gate, "-e", str(extension))
    family = await_family(pi, gate)
    for each in ends:
        pi.signal(each)
    pi.wait_exit()

    assert [] == await_gone(family)


def test_the_watchdog_ends_with_an_agent_that_leaves(agent: AgentStarter) -> None:
    pi = agent([])
    pi.request({"type": "bash", "command": "true"})
    watchdogs = watchdogs_of(pi.process.pid)
    pi.close_stdin()
    pi.wait_exit()

    assert 1 == len(watchdogs)
    assert [] == await_gone(watchdogs)


def test_what_an_ended_command_left_in_the_background_survives_kill_9(agent: AgentStarter) -> None:
    """As it survives the agent's other ends: a server that was started on purpose."""
    pi = agent([], is_checked=False)
    pi.request({"type": "bash", "command": "sleep 600 >/dev/null 2>&1 &"})
    (server,) = pi.descendants()
    watchdogs = watchdogs_of(pi.process.pid)
    os.kill(pi.process.pid, signal.SIGKILL)

    assert [] == await_gone(watchdogs)
    assert is_alive(server)


def test_another_watchdog_follows_one_that_was_killed(agent: AgentStarter, gates: MakeGate) -> None:
    gate = gates()
    pi = agent([], is_checked=False)
    pi.send({"id": "b", "type": "bash", "command": f"{FAMILY}{gate.reading}"})
    family = await_family(pi, gate)
    (watchdog,) = watchdogs_of(pi.process.pid)
    os.kill(watchdog, signal.SIGKILL)
    assert [] == await_gone([watchdog])
    pi.request({"type": "bash", "command": "true"})  # the next command notices

    (watchdog,) = watchdogs_of(pi.process.pid)
    os.kill(pi.process.pid, signal.SIGKILL)

    assert [] == await_gone([watchdog, *family])


def test_an_abort_ends_the_groups_that_a_command_has_made_of_its_own(agent: AgentStarter, gates: MakeGate) -> None:
    """`timeout` makes its own group, and models like to use it."""
    gate = gates()
    pi = agent([bash_call(f"timeout 600 sleep 600 & {gate.reading}")])
    pi.send({"id": "p", "type": "prompt", "message": "go"})
    gate.wait_reached()
    while len(pi.descendants()) < 3:
        time.sleep(0.005)
    pi.request({"type": "abort"})

    assert [] == pi.descendants()
