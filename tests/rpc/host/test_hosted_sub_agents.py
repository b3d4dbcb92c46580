"""Sub-agents of an agent that a host keeps: its own processes, which end with the host."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.rpc.host.attached import PROGRAM, TIMEOUT_S, Connection, HostProcess, Record, environment_of, started

from pinnace_rpc.cli.commands.agents import table
from pinnace_rpc.host.protocol import AgentAction, ListAgents

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


def words_of(folder: Path, *more: str) -> tuple[str, ...]:
    """What an agent is started with whose sub-agents wait in a command."""
    os.mkfifo(folder / "gate")
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return ("--provider", "offline", "--model", str(script), "--tools", "+subagent", *more)


def delegate(connection: Connection) -> Record:
    """Have the agent start a sub-agent; return it, as `list_agents` has it, when it runs its command."""
    connection.send({"id": "p", "type": "prompt", "message": "delegate"})
    updates: list[Record] = [{}]
    while "cat gate" not in str(updates[-1]):
        updates = connection.until(type="tool_execution_update")
    listed: Record
    (listed,) = connection.ask({"id": "l", "type": "list_agents"})["data"]["agents"]
    return listed


def shown_of(records: Sequence[Record]) -> list[Record]:
    return [each for each in records if each["type"] == "subagent_event"]


def test_each_client_is_shown_a_sub_agent_from_when_it_asks_and_the_others_are_not(folder: Path) -> None:
    """R-SUB-09, R-HST-01: what others ask for changes neither what a client is sent nor the numbers of its events."""
    hello = {"id": "h", "type": "hello", "subagents": True}
    with (
        started(folder, environment_of(folder)) as host,
        host.attach(start=words_of(folder), has_cursors=True) as other,
        host.attach(start=()) as first,
    ):
        journal = other.record()["journal"]
        first.ask(hello)
        other.send({"id": "p", "type": "prompt", "message": "delegate"})
        of_first: list[Record] = [{}]
        while of_first[-1].get("event", {}).get("toolName") != "bash":
            of_first += first.until(type="subagent_event")
        with host.attach(start=(), has_cursors=True) as late:
            late.send(hello)
            of_late = late.until(type="response", id="h")
            working = shown_of(of_late)
            host.ask(AgentAction("stop", of_first[-1]["agentId"]))
            of_first += first.until(type="tool_execution_end", toolName="subagent")
            of_late += late.until(type="tool_execution_end", toolName="subagent")
            late.ask({"id": "n", "type": "hello", "subagents": False})
        of_other = other.until(type="tool_execution_end", toolName="subagent")
        with host.attach(start=(), since=f"{journal}.1:0") as again:
            of_again = again.until(seq=of_other[-1]["seq"])

    numbered = [each["seq"] for each in of_other if each["type"] != "response"]
    assert list(range(1, len(numbered) + 1)) == numbered
    assert [] == shown_of(of_other) == shown_of(of_again)
    assert ["running"] == [each["agent"]["state"] for each in working]
    for each in (of_first, of_late):
        assert ["running", "cancelled"] == [one["agent"]["state"] for one in shown_of(each[1:]) if "agent" in one]
        assert "agent" in shown_of(each[1:])[0]
        assert not any("seq" in one for one in shown_of(each[1:]))


def row_of(host: HostProcess) -> Record:
    (row,) = host.ask(ListAgents(watches=False))["agents"]
    return dict(row)


def test_kill_9_of_the_host_cancels_a_sub_agent_and_leaves_nothing_running(folder: Path) -> None:
    """R-SUB-05, R-SUB-07: its agents, whose pipes end, end in order, and keep the end of what they have started."""
    words = words_of(folder)
    message = {"id": "m", "type": "message_agent", "message": "masts", "messageId": "m"}
    with started(folder, environment_of(folder)) as host, host.attach(start=words) as connection:
        before = processes_of(folder)
        listed = delegate(connection)
        accepted = connection.ask({**message, "agentId": listed["agentId"]})["data"]["state"]
        during = processes_of(folder)
        row = row_of(host)
        host.process.kill()
        host.process.wait(TIMEOUT_S)
    deadline_s = time.monotonic() + TIMEOUT_S
    while (left := processes_of(folder)) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    with started(folder, environment_of(folder)) as host, host.attach(start=words) as connection:
        later = connection.ask({"id": "l", "type": "list_agents"})["data"]["agents"]

    (child,) = row["subagents"]
    assert (listed["agentId"], "running", row["model"]) == (child["agentId"], child["state"], child["model"])
    assert (listed["sessionFile"], listed["toolCallId"]) == (child["sessionFile"], child["toolCallId"])
    assert "cat gate" in child["activity"]
    assert f"\n└ {child['agentId'][-8:]}  running  " in table([row])
    assert during - before
    assert set() == left
    assert [(listed["agentId"], "cancelled")] == [(each["agentId"], each["state"]) for each in later]
    assert ("accepted", ["returned"]) == (accepted, [each["state"] for each in later[0]["messages"]])


def test_one_that_a_client_has_started_is_listed_and_stopped(folder: Path) -> None:
    """R-HST-08, R-SUB-09, R-SUB-13: it is listed below its agent, with what it does and its question, until it has
    ended; its client, which has not asked, is not sent what it does."""
    words = words_of(folder, "--tool-approval", "ask")
    turns = [{"tools": [{"name": "bash", "arguments": {"command": each}}]} for each in ("true", "cat gate")]
    (folder / "script.json").write_text(json.dumps({"turns": turns}))
    with started(folder, environment_of(folder)) as host, host.attach(start=words) as connection:
        begun = connection.ask({"id": "s", "type": "start_agent", "task": "count"})["data"]["agent"]
        first = connection.until(type="extension_ui_request", method="select")[-1]
        # What the host has asked for precedes this: the second call begins behind it.
        connection.send({"id": "l", "type": "list_agents"})
        connection.send({"type": "extension_ui_response", "id": first["id"], "value": "Allow once"})
        seen = connection.until(type="extension_ui_request", method="select")
        (waiting,) = row_of(host)["subagents"]
        connection.send({"id": "w", "type": "wait_agent", "agentId": begun["agentId"]})
        host.ask(AgentAction("stop", begun["agentId"][-8:]))
        ended = connection.until(type="response", id="w")[-1]["data"]["agent"]
        rest = row_of(host)

    assert seen[-1]["title"].endswith(begun["agentId"])
    assert (begun["agentId"], "bash cat gate", True) == (
        waiting["agentId"],
        waiting["activity"],
        waiting["needsInput"],
    )
    assert waiting["tokens"] is not None
    assert "toolCallId" not in waiting
    assert [] == shown_of(seen)
    assert ("cancelled", []) == (ended["state"], rest["subagents"])


def test_kill_9_of_the_agent_has_the_next_one_answer_what_waits(folder: Path) -> None:
    """R-SUB-13, R-SUB-14: a wait is asked again, and a start that was not answered is decided by the session."""
    words = words_of(folder)
    with (
        started(folder, environment_of(folder)) as host,
        host.attach(start=words, client="ide", has_cursors=True) as connection,
    ):
        begun = connection.ask({"id": "s", "type": "start_agent", "task": "count", "messageId": "t"})["data"]["agent"]
        connection.send({"id": "w", "type": "wait_agent", "agentId": begun["agentId"]})
        during = row_of(host)
        os.kill(during["pid"], signal.SIGSTOP)
        connection.send({"id": "again", "type": "start_agent", "task": "count", "messageId": "t"})
        (commands,) = folder.rglob("host/agents/main/clients/*.jsonl")
        while b"again" not in commands.read_bytes():
            pass
        os.kill(during["pid"], signal.SIGKILL)
        answers: dict[object, Record] = {}
        while {"w", "again"} - answers.keys():
            answers |= {each.get("id"): each for each in connection.until(type="response")}
        row = row_of(host)

    ended = answers["w"]["data"]["agent"]
    assert [begun["agentId"]] == [each["agentId"] for each in during["subagents"]]
    assert (begun["agentId"], "interrupted") == (ended["agentId"], ended["state"])
    assert ended == answers["again"]["data"]["agent"]
    assert [] == row["subagents"]


def test_kill_9_of_the_agent_has_its_session_decide_a_message_in_progress(folder: Path) -> None:
    """R-SUB-10: the next process is asked the same, and knows what was accepted: no outcome is unknown."""
    words = words_of(folder)
    with (
        started(folder, environment_of(folder)) as host,
        host.attach(start=words, client="ide", has_cursors=True) as connection,
    ):
        child = delegate(connection)
        message = {"type": "message_agent", "agentId": child["agentId"], "message": "masts"}
        first = connection.ask({**message, "id": "first", "messageId": "m"})["data"]
        pid = row_of(host)["pid"]
        os.kill(pid, signal.SIGSTOP)
        connection.send({**message, "id": "known", "messageId": "m"}, {**message, "id": "new"})
        (commands,) = folder.rglob("host/agents/main/clients/*.jsonl")
        while b"new" not in commands.read_bytes():
            pass
        os.kill(pid, signal.SIGKILL)
        answers: dict[object, Record] = {}
        while {"known", "new"} - answers.keys():  # what is known waits for the disk
            answers |= {each.get("id"): each for each in connection.until(type="response")}
        (later,) = connection.ask({"id": "l2", "type": "list_agents"})["data"]["agents"]
        again = connection.ask({**message, "id": "new"})
        row = row_of(host)

    assert "accepted" == first["state"]
    assert {"messageId": "m", "state": "returned"} == answers["known"]["data"]
    assert "agent_not_found" == answers["new"]["errorCode"]
    assert f"{child['agentId']} is interrupted" in answers["new"]["error"]
    assert answers["new"] == again
    assert ("interrupted", ["m"]) == (later["state"], [each["messageId"] for each in later["messages"]])
    assert [] == row["subagents"]


def view_of(host: HostProcess, name: str) -> "subprocess.Popen[str]":
    """Attach to a sub-agent by a plain pipe."""
    program = [*PROGRAM, "attach", name]
    pipe = subprocess.PIPE
    return subprocess.Popen(program, env=dict(host.environment), stdin=pipe, stdout=pipe, text=True, cwd=host.folder)


def until(view: "subprocess.Popen[str]", **fields: object) -> Record:
    assert view.stdout is not None
    while line := view.stdout.readline():
        record: Record = json.loads(line)
        if all(record.get(name) == value for name, value in fields.items()):
            return record
    raise AssertionError("the view has ended")


def messages_of(end: Record) -> list[Record]:
    messages: list[Record] = end["result"]["details"]["agent"]["messages"]
    return messages


def test_one_that_waits_for_the_user_is_listed_and_stopped_by_the_end_of_its_id(folder: Path) -> None:
    """R-HST-08, R-HST-09: an attach to it is one to its agent, which answers for it, and shows it alone."""
    words = words_of(folder, "--tool-approval", "ask")
    with started(folder, environment_of(folder)) as host, host.attach(start=words) as connection:
        connection.send({"id": "p", "type": "prompt", "message": "delegate"})
        first = connection.until(type="extension_ui_request")[-1]
        asks = row_of(host)["subagents"]
        connection.send({"type": "extension_ui_response", "id": first["id"], "value": "Allow once"})
        connection.until(type="extension_ui_request")
        row = row_of(host)
        (child,) = row["subagents"]
        identity, file = child["agentId"], child["sessionFile"]
        attaches = [host.refusal(host.request(session=each)) for each in (identity, file)]
        other = host.refusal(AgentAction("restart", identity)).error
        program = [*PROGRAM, "agents", "stop", identity[-8:]]
        with view_of(host, identity[-8:]) as view:
            assert view.stdin is not None
            asked = until(view, type="extension_ui_request")
            view.stdin.write('{"id":"g","type":"get_messages"}\n{"id":"m","type":"prompt","message":"masts"}\n')
            view.stdin.flush()
            conversation, given = until(view, id="g")["data"]["messages"], until(view, id="m")
            stopped = subprocess.run(program, env=dict(host.environment), check=False)
            seen = connection.until(type="tool_execution_end", toolName="subagent")
            settled = until(view, type="agent_settled")
            view.stdin.close()
            left = view.wait(TIMEOUT_S)
        late = host.refusal(AgentAction("stop", identity)).error

    assert [] == asks
    assert (True, True) == (row["needsInput"], child["needsInput"])
    assert f"\n└ {identity[-8:]}  needs input  " in table([row])
    text = f"{identity} is a sub-agent of main, which answers for it: attach to main"
    assert [(text, {**child, "agent": "main"})] * 2 == [(each.error, each.subagent) for each in attaches]
    assert asked["title"].endswith(f"Asked by the sub-agent {identity}")
    assert "Task: count" in str(conversation[0])
    assert ({"disposition": "queued"}, True, 0) == (given["data"], settled["aborted"], left)
    assert [("masts", "returned")] == [(each["text"], each["state"]) for each in messages_of(seen[-1])]
    assert f"{identity} is a sub-agent of main, and can be stopped alone" == other
    assert 0 == stopped.returncode
    assert "cancelled" == seen[-1]["result"]["details"]["agent"]["state"]
    assert "there is no agent" in late
