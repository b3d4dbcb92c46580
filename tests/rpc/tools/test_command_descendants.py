"""What a command has started ends with it, wherever it has moved; what an ended command left behind lives on."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import is_alive
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MakeGate = Callable[[], ShellGate]
END_S = 60.0

# Ways to leave a process group. Those without an environment have lost everything by which a process is recognised
# when the agent is gone.
ESCAPES = {
    "group": "set -m; {} & set +m",
    "session": "setsid {} &",
    "orphan": "({} &)",
    "daemon": "(setsid sh -c '{} & exit' &)",
    "daemon-in-a-group": "(setsid bash -c 'set -m; {} & exit' &)",
}
BARE_ESCAPES = {
    "bare-session": "env -i setsid {} &",
    "bare-session-orphan": "(env -i setsid {} &)",
    "bare-daemon": "(env -i setsid sh -c '{} & exit' &)",
}


def escaping(escapes: dict[str, str]) -> str:
    """Return a command that starts a process in each of these ways."""
    return "; ".join(f"sh {name}.sh" for name in escapes)


def write_escapes(folder: Path, escapes: dict[str, str]) -> None:
    """Write a script for each way: quotes within quotes within JSON are nobody's joy."""
    for name, escape in escapes.items():
        (folder / f"{name}.sleeper").write_text(f"echo $$ > {name}.new; mv {name}.new {name}.pid; exec sleep 600\n")
        (folder / f"{name}.sh").write_text(escape.replace("{}", f"sh {name}.sleeper") + "\n")


def pids_of(folder: Path, escapes: dict[str, str]) -> dict[str, int]:
    """Wait until all have started."""
    deadline_s = time.monotonic() + END_S
    while not all((folder / f"{name}.pid").exists() for name in escapes):
        assert time.monotonic() < deadline_s
        time.sleep(0.005)  # no event tells of it
    return {name: int((folder / f"{name}.pid").read_text()) for name in escapes}


def left_of(pids: dict[str, int], within_s: float = END_S) -> list[str]:
    """Return those that still run after a while."""
    deadline_s = time.monotonic() + within_s
    while (left := [name for name, pid in pids.items() if is_alive(pid)]) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    for name in left:
        os.kill(pids[name], signal.SIGKILL)
    return left


def bash_call(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "id": "t0", "args": {"command": command}}]}


def abort(pi: HomedAgent) -> None:
    pi.request({"type": "abort"})


def end_of_input(pi: HomedAgent) -> None:
    pi.close_stdin()
    pi.wait_exit()


def sigterm(pi: HomedAgent) -> None:
    pi.signal(signal.SIGTERM)
    pi.wait_exit()


def new_session(pi: HomedAgent) -> None:
    pi.request({"type": "new_session"})


def two_signals(pi: HomedAgent) -> None:
    pi.signal(signal.SIGTERM)
    pi.signal(signal.SIGINT)
    pi.wait_exit()


def kill_9(pi: HomedAgent) -> None:
    pi.signal(signal.SIGKILL)


ALL = {**ESCAPES, **BARE_ESCAPES}


@pytest.mark.parametrize(
    ("end", "escapes"),
    [(abort, ALL), (new_session, ALL), (end_of_input, ALL), (sigterm, ALL), (two_signals, ALL), (kill_9, ESCAPES)],
)
def test_what_has_left_the_group_of_a_running_tool_ends_with_it(
    agent: AgentStarter, gates: MakeGate, end: Callable[[HomedAgent], None], escapes: dict[str, str]
) -> None:
    gate = gates()
    pi = agent([bash_call(f"{escaping(escapes)}; {gate.reading}")], is_checked=False)
    write_escapes(pi.home.work, escapes)
    pi.send({"id": "p", "type": "prompt", "message": "go"})
    gate.wait_reached()
    pids = pids_of(pi.home.work, escapes)
    assert all(map(is_alive, pids.values()))

    end(pi)

    assert [] == left_of(pids)


def test_abort_bash_ends_what_has_left_the_group_and_nothing_of_another_command(
    agent: AgentStarter, gates: MakeGate
) -> None:
    gate = gates()
    pi = agent([], is_checked=False)
    former = {"former": "setsid {} &"}
    write_escapes(pi.home.work, {**ALL, **former})
    pi.request({"type": "bash", "command": f"{escaping(former)} >/dev/null 2>&1"})
    pi.send({"id": "b", "type": "bash", "command": f"{escaping(ALL)}; {gate.reading}"})
    gate.wait_reached()
    pids = pids_of(pi.home.work, ALL)

    pi.request({"type": "abort_bash"})

    assert [] == left_of(pids)
    assert ["former"] == left_of(pids_of(pi.home.work, former), within_s=0)


@pytest.mark.parametrize("end", [abort, new_session, end_of_input, kill_9])
def test_what_an_ended_command_left_in_the_background_lives_on(
    agent: AgentStarter, end: Callable[[HomedAgent], None]
) -> None:
    """A server that was started on purpose, whether it has a session of its own or not."""
    left = {"group": "{} &", "session": "setsid {} &", "daemon": ESCAPES["daemon"]}
    pi = agent([], is_checked=False)
    write_escapes(pi.home.work, left)
    pi.request({"type": "bash", "command": f"({escaping(left)}) >/dev/null 2>&1"})
    pids = pids_of(pi.home.work, left)

    end(pi)

    assert sorted(left) == sorted(left_of(pids, within_s=0.1))


def test_orphans_of_commands_that_have_ended_are_reaped(agent: AgentStarter, gates: MakeGate) -> None:
    """The agent is their parent now; while it is idle, too."""
    gate = gates()
    pi = agent([])
    (pi.home.work / "orphan.sh").write_text(f"echo $$ > pid; {gate.reading}\n")
    pi.request({"type": "bash", "command": "(setsid sh -c 'sh orphan.sh & exit' >/dev/null 2>&1 &)"})
    gate.wait_reached()
    orphan = (pi.home.work / "pid").read_text().strip()
    children = Path(f"/proc/{pi.process.pid}/task/{pi.process.pid}/children")
    deadline_s = time.monotonic() + END_S
    while (left := children.read_text().split()) != [orphan]:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.005)  # what led to it has to end first
    gate.release()
    deadline_s = time.monotonic() + END_S
    while found := children.read_text():
        assert time.monotonic() < deadline_s, found
        time.sleep(0.005)
