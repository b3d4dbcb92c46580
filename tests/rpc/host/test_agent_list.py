"""What a host lists of its agents: from the records that it sees, in one answer, or in one for each change."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from tests.rpc.host.attached import TIMEOUT_S, Connection, HostProcess, Record, environment_of, started

from pinnace_agent.core.ports.children import ChildReport
from pinnace_agent.session.child_agents import ChildBegun, shown_child
from pinnace_rpc.host.protocol import AgentAction, Answer, ListAgents
from pinnace_rpc.host.summary import AgentSummary
from pinnace_rpc.subagents.mailbox import Mailbox
from pinnace_rpc.subagents.progress import Progress

USAGE = {"input": 3, "output": 4, "cacheRead": 5, "cacheWrite": 0, "totalTokens": 12, "cost": {"total": 0.25}}
CLOCK = """
import os
import trio

def extension(pi):
    async def tick(ctx):
        ctx.ui.notify("begun")
        while not os.path.exists("seen"):
            await trio.sleep(0.01)
        await trio.sleep(1.5)  # several times what the agent may be idle
        with open("ticked", "w"):
            pass

    @pi.on("session_start")
    def start(ctx, event):
        pi.background.start_soon(tick, ctx)
"""


def row_of(host: HostProcess) -> Record:
    (row,) = host.ask(ListAgents(watches=False))["agents"]
    return dict(row)


def totals(connection: Connection) -> tuple[int, float]:
    session = connection.ask({"id": "stats", "type": "get_session_stats"})["data"]["session"]
    return session["tokens"]["total"], session["cost"]


def line(**record: object) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def test_a_list_has_what_the_agent_would_answer(host: HostProcess) -> None:
    """Also of a session that another process has begun, and of one that sleeps."""
    gate = host.folder / "gate"
    os.mkfifo(gate)
    with host.attach(has_cursors=True) as connection:
        connection.record()
        model = connection.ask({"id": "1", "type": "get_state"})["data"]["model"]
        new = row_of(host)
        assert (new["tokens"], new["cost"], new["queue"]) == (0, 0, 0)
        assert new["model"] == f"{model['provider']}/{model['id']}"
        assert new["memory"] > 2**20
        assert (len(new["lastReads"]), new["needsInput"]) == (1, False)

        connection.send({"id": "2", "type": "prompt", "message": "run `cat gate`"})
        connection.until(type="tool_execution_start")
        connection.ask({"id": "3", "type": "follow_up", "message": "more"})
        assert row_of(host)["queue"] == 1
        gate.write_text("open\n")
        connection.until(type="agent_settled")
        used = totals(connection)
        assert used[0] > 0
        after = row_of(host)
        assert (after["tokens"], after["cost"], after["queue"]) == (*used, 0)

        host.ask(AgentAction("restart", "main"))
        connection.until(type="agent_restarted")
        assert totals(connection) == used  # answered after what the host itself has asked
        assert (row_of(host)["tokens"], row_of(host)["model"]) == (used[0], new["model"])
        host.ask(AgentAction("stop", "main"))
    asleep = row_of(host)
    assert (asleep["tokens"], asleep["memory"], asleep["lastReads"]) == (used[0], None, [])


def test_a_watch_shows_each_change(host: HostProcess) -> None:
    program = [sys.executable, "-P", "-m", "pinnace_rpc", "agents", "--watch", "--json"]
    with subprocess.Popen(program, env=dict(host.environment), stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline()) == {"agents": []}
        with host.attach() as connection:
            connection.send({"id": "1", "type": "prompt", "message": "hi"})
            connection.until(type="agent_settled")
            used, _ = totals(connection)
            seen = [json.loads(watching.stdout.readline())["agents"]]
            while not (seen[-1] and seen[-1][0]["tokens"] == used):
                seen.append(json.loads(watching.stdout.readline())["agents"])
        watching.terminate()
        watching.wait(TIMEOUT_S)
    assert [each for each, after in pairwise(seen) if each == after] == []


def test_a_table_of_a_real_host_has_a_column_for_each_fact(host: HostProcess) -> None:
    with host.attach() as connection:
        connection.send({"id": "1", "type": "prompt", "message": "hi"})
        connection.until(type="agent_settled")
        program = [sys.executable, "-P", "-m", "pinnace_rpc", "agents"]
        listed = subprocess.run(program, env=dict(host.environment), capture_output=True, text=True, check=True)
    heads = "NAME STATE CLIENTS QUEUE MODEL TOKENS COST MEMORY ACTIVE RELEASE SESSION FOLDER".split()
    assert listed.stdout.splitlines()[0].split() == heads


def test_usage_is_added_up_from_the_records() -> None:
    """Of answers, of results with a usage of their own, and of compactions."""
    summary = AgentSummary()
    assert not summary.take_state({"messageCount": 0, "model": None, "pendingMessageCount": 0})
    answer = {"role": "assistant", "provider": "p", "model": "m", "usage": USAGE}
    summary.follow(b"message_end", line(type="message_end", message=answer))
    summary.follow(b"message_end", line(type="message_end", message={"role": "toolResult", "usage": USAGE}))
    summary.follow(b"message_end", line(type="message_end", message={"role": "user", "content": "x"}))
    summary.follow(b"compaction_end", line(type="compaction_end", result={"summary": "s", "usage": USAGE}))
    summary.follow(b"compaction_end", line(type="compaction_end", result=None))

    assert (summary.model, summary.tokens, summary.cost) == ("p/m", 36, 0.75)


def test_totals_of_a_session_that_is_continued_are_not_guessed() -> None:
    summary = AgentSummary()
    assert summary.take_state({"messageCount": 4})
    summary.follow(b"message_end", line(type="message_end", message={"role": "assistant", "usage": USAGE}))
    assert (summary.tokens, summary.cost) == (None, None)
    summary.take_totals({"tokens": {"total": 1}, "cost": 1, "session": {"tokens": {"total": 90}, "cost": 2.5}})
    assert (summary.tokens, summary.cost) == (90, 2.5)


def test_the_model_is_that_of_the_newest_answer_or_choice() -> None:
    summary = AgentSummary()
    summary.take_model_answer(line(type="response", success=True, data={"provider": "p", "id": "one"}))
    assert summary.model == "p/one"
    summary.take_model_answer(line(type="response", success=True, data={"model": {"provider": "p", "id": "two"}}))
    summary.take_model_answer(line(type="response", success=False, error="no such model"))
    assert summary.model == "p/two"


def test_an_agent_with_a_background_task_of_an_extension_stays_awake(folder: Path) -> None:
    """It sleeps when the task has ended: sleep would cancel it."""
    (folder / "clock.py").write_text(CLOCK)
    with started(folder, environment_of(folder), "--idle-minutes", "0.005") as host:
        with host.attach(start=("--provider", "offline", "-e", str(folder / "clock.py"))) as connection:
            connection.send({"id": "0", "type": "get_state"})
            connection.until(type="extension_ui_request", message="begun")
            state = connection.ask({"id": "1", "type": "get_state"})["data"]
            assert state["extensionsAtWork"] == [str(folder / "clock.py")]
            (folder / "seen").touch()
        with host.connect(ListAgents(watches=True)) as watching:
            while True:
                answer = watching.control()
                assert isinstance(answer, Answer)
                (row,) = json.loads(json.dumps(answer.record))["agents"]
                if row["state"] == "asleep":
                    break
    assert (folder / "ticked").exists()


def test_sub_agents_are_listed_while_they_work_and_counted_when_they_have_ended() -> None:
    """A call whose result an extension has replaced ends its sub-agent all the same."""
    summary = AgentSummary()
    summary.take_state({"messageCount": 0})
    agent = {
        "agentId": "k-12345678",
        "state": "running",
        "provider": "p",
        "model": "m",
        "activity": "ls",
        "usage": USAGE,
    }
    agent["sessionFile"] = "/k.jsonl"
    of_call = {"toolCallId": "c", "toolName": "subagent"}
    update = line(type="tool_execution_update", **of_call, partialResult={"details": {"agent": agent}})
    summary.follow(b"tool_execution_update", update)
    names = {"agentId": "k-12345678", "toolCallId": "c", "sessionFile": "/k.jsonl"}
    shown = {**names, "state": "running", "model": "p/m", "activity": "ls", "tokens": 12, "cost": 0.25}
    assert (summary.children, summary.tokens) == ([shown], 0)
    assert ["k-12345678"] * 3 == [*map(summary.child_of, ("k-12345678", "12345678", "/k.jsonl"))]
    assert [None] * 4 == [*map(summary.child_of, ("2345678", "k-123456", "", "/other"))]
    twin = {**agent, "agentId": "l-12345678", "sessionFile": None}
    second = line(
        type="tool_execution_update", toolCallId="d", toolName="subagent", partialResult={"details": {"agent": twin}}
    )
    summary.follow(b"tool_execution_update", second)
    assert (None, "l-12345678") == (summary.child_of("12345678"), summary.child_of("l-12345678"))
    summary.follow(b"tool_execution_end", line(type="tool_execution_end", toolCallId="d", toolName="subagent"))
    ended = {"agent": {**agent, "state": "completed"}}
    summary.follow(b"tool_execution_end", line(type="tool_execution_end", **of_call, result={"details": ended}))
    assert (summary.children, summary.tokens, summary.cost) == ([], 12, 0.25)
    summary.follow(b"tool_execution_update", update)
    summary.follow(b"tool_execution_end", line(type="tool_execution_end", **of_call, result={"content": []}))
    assert (summary.children, summary.tokens) == ([], 12)
    summary.follow(b"tool_execution_update", update)
    summary.forget_children()
    assert summary.children == []


USED: Record = {**USAGE, "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0) | {"total": 0.25}}
RECORDS: list[Record] = [
    {"type": "message_end", "message": {"role": "user", "content": "Task: count"}},
    {"type": "tool_execution_start", "toolName": "bash", "args": {"limit": 1, "command": "cat  gate\n" + "x" * 300}},
    {"type": "tool_execution_end", "toolName": "bash"},
    {"type": "tool_execution_start", "toolName": "ls", "args": {}},
    {"type": "message_end", "message": {"role": "toolResult", "content": [], "usage": USED}},
    {"type": "message_end", "message": {"role": "assistant", "content": [], "usage": USED}},
    {"type": "message_update", "message": {"role": "assistant", "content": []}},
    {"type": "message_end", "message": {"role": "assistant", "content": [], "stopReason": "error"}},
]


def test_both_kinds_are_listed_with_what_they_do() -> None:
    """By the same records: of the one that shows them to clients, and of the call."""
    begun: ChildBegun = {"agentId": "0c1f", "parentId": "s", "task": "count", "provider": "p", "model": "m"}
    of_client, of_call = AgentSummary(), AgentSummary()

    def report(state: ChildReport) -> None:
        update = line(type="tool_execution_update", toolCallId="c", toolName="subagent", partialResult=partial(state))
        of_call.follow(b"tool_execution_update", update)

    def partial(state: ChildReport) -> Record:
        return {"details": state.details()}

    progress = Progress(begun, "/0c1f.jsonl", Mailbox(), report)
    progress.show(progress.state)
    shown: Record = {**shown_child(begun, None), "sessionFile": "/0c1f.jsonl"}
    of_client.take_started(shown)
    rows: list[Record] = []
    for record in RECORDS:
        progress.take(record)
        of_client.follow_shown(line(type="subagent_event", agentId="0c1f", event=record))
        of_client.follow_shown(line(type="subagent_event", agentId="0c1e", event=record))
        [row], [other] = of_client.children, of_call.children
        rows.append(dict(row))
        assert {"toolCallId": "c", **row} == other

    assert ["bash cat gate " + "x" * 186, "ls", None] == [rows[each]["activity"] for each in (1, 4, 5)]
    assert [None, 24, 24] == [rows[each]["tokens"] for each in (4, 5, 7)]
    assert 0.5 == rows[-1]["cost"]


def test_one_that_a_client_has_started_is_listed_until_it_is_waited_for_no_more() -> None:
    summary = AgentSummary()
    summary.take_state({"messageCount": 0})
    agent: Record = {"agentId": "k", "state": "running", "provider": "p", "model": "m"}
    assert [True, False] == [summary.take_started(agent), summary.take_started(agent)]
    [row] = summary.children
    assert ("k", "p/m", False) == (row["agentId"], row["model"], "toolCallId" in row)
    ended: Record = {"agent": {**agent, "state": "completed", "usage": USAGE}}
    for _ in range(2):
        summary.started_ended("k", ended)
        assert (summary.children, summary.tokens, summary.cost) == ([], 12, 0.25)
