"""Sub-agents of an agent that a host keeps: its own processes, which end with the host."""

import json
import os
import time
from pathlib import Path

from tests.rpc.host.attached import TIMEOUT_S, Record, environment_of, started

from pinnace_rpc.cli.commands.agents import table
from pinnace_rpc.host.protocol import ListAgents

# The sub-agent has the same script, and no tool `subagent`: its own call is refused, and its next one does not end.
CALLS = [("subagent", {"task": "count"}), ("bash", {"command": "cat gate"})]
SCRIPT = {"turns": [{"tools": [{"name": name, "arguments": arguments}]} for name, arguments in CALLS]}


def processes_of(folder: Path) -> set[int]:
    """The processes that have an environment of this host's."""
    mark = f"PI_CODING_AGENT_DIR={folder / 'agent'}".encode()
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.add(int(process.name))
        except OSError:
            continue
    return found


def test_kill_9_of_the_host_cancels_a_sub_agent_and_leaves_nothing_running(folder: Path) -> None:
    """R-SUB-05, R-SUB-07: its agents, whose pipes end, end in order, and keep the end of what they have started."""
    os.mkfifo(folder / "gate")
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    words = ("--provider", "offline", "--model", str(script), "--tools", "+subagent")
    with started(folder, environment_of(folder)) as host, host.attach(start=words) as connection:
        before = processes_of(folder)
        connection.send({"id": "p", "type": "prompt", "message": "delegate"})
        connection.until(type="tool_execution_start")
        updates: list[Record] = [{}]
        while "cat gate" not in str(updates[-1]):
            updates = connection.until(type="tool_execution_update")
        listed = connection.ask({"id": "l", "type": "list_agents"})["data"]["agents"]
        during = processes_of(folder)
        (row,) = host.ask(ListAgents(watches=False))["agents"]
        host.process.kill()
        host.process.wait(TIMEOUT_S)
    deadline_s = time.monotonic() + TIMEOUT_S
    while (left := processes_of(folder)) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    with started(folder, environment_of(folder)) as host, host.attach(start=words) as connection:
        later = connection.ask({"id": "l", "type": "list_agents"})["data"]["agents"]

    assert ["running"] == [each["state"] for each in listed]
    (child,) = row["subagents"]
    assert (listed[0]["agentId"], "running", row["model"]) == (child["agentId"], child["state"], child["model"])
    assert "cat gate" in child["activity"]
    assert f"\n└ {child['agentId'][:8]}  running  " in table([row])
    assert during - before
    assert set() == left
    assert [(listed[0]["agentId"], "cancelled")] == [(each["agentId"], each["state"]) for each in later]
