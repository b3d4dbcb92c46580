"""Sub-agents that a client starts, and waits for: `start_agent`, `wait_agent`."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.conftest import await_gone
from tests.rpc.subagents.test_subagents import WAITING, counted, entries_of

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.wire.framing import MAX_RECORD_BYTES

ANSWER = {"text": "two sails", "match": "Task: count"}


def started(pi: HomedAgent, task: str = "count", **fields: object) -> Record:
    """Start one, and return it."""
    agent: Record = pi.ask("start_agent", task=task, **fields)["agent"]
    return agent


def row(pi: HomedAgent) -> Record:
    [listed] = pi.ask("list_agents")["agents"]
    return dict(listed)


@pytest.mark.parametrize("has_session", [True, False])
def test_one_is_started_while_the_agent_rests_and_waited_for(agent: AgentStarter, has_session: bool) -> None:
    """R-SUB-13, R-SUB-14: without the tool, beside no run; its answer is that of a wait, also of a later one, its
    usage counts once, and the conversation has nothing of it."""
    pi = agent([ANSWER], has_session=has_session)
    one = started(pi, "count the sails", messageId="t")
    waited = pi.ask("wait_agent", agentId=one["agentId"])
    again, known = pi.ask("wait_agent", agentId=one["agentId"], timeout=0), started(pi, "other", messageId="t")
    stats, state = pi.ask("get_session_stats"), pi.ask("get_state")

    assert {"task": "count the sails", "state": "running", "messageId": "t"}.items() <= one.items()
    assert "toolCallId" not in one
    assert ("completed", "two sails") == (waited["agent"]["state"], waited["text"])
    assert waited == again
    assert waited["agent"] == known == row(pi)
    assert waited["agent"]["usage"]["totalTokens"] == stats["session"]["tokens"]["total"] > 0
    assert [] == pi.ask("get_messages")["messages"]
    assert 1 == len(pi.llm.requests)
    assert not pi.found({"type": "agent_start"})
    if has_session:
        [begun] = [each["data"] for each in entries_of(state["sessionFile"]) if each.get("customType")]
        assert (one["agentId"], "t") == (begun["agentId"], begun["messageId"])
        assert ["completed"] == [each["outcome"] for each in counted(state["sessionFile"])]


def test_it_works_beside_a_run_and_no_abort_ends_it(agent: AgentStarter) -> None:
    """R-SUB-13: several wait, commands are answered meanwhile, and `cancel_agent` ends it."""
    hanging = {"chunks": [{"text": "I"}, {"gate": "h"}], "match": "hello"}
    pi = agent([hanging, WAITING])
    pi.send({"id": "p", "type": "prompt", "message": "hello"})
    pi.llm.wait_reached("h")
    one = started(pi)
    pi.llm.wait_reached("g")
    below = pi.descendants()
    for name in ("w1", "w2"):
        pi.send({"id": name, "type": "wait_agent", "agentId": one["agentId"]})
    pi.ask("abort")
    during = pi.ask("wait_agent", agentId=one["agentId"], timeout=0.01)
    pi.ask("cancel_agent", agentId=one["agentId"])
    waited = [pi.wait_response(name)["data"] for name in ("w1", "w2")]

    assert ("running", None) == (during["agent"]["state"], during["text"])
    assert waited[0] == waited[1]
    assert ("cancelled", "half") == (waited[0]["agent"]["state"], waited[0]["text"])
    assert [] == await_gone(below)


@pytest.mark.parametrize(
    ("fields", "settings", "expected"),
    [
        ({"tools": ["ls"]}, {}, 'tools: this agent has no active tool "ls"'),
        ({"cwd": ".."}, {}, "cwd: .. is no folder within"),
        ({"model": "nowhere/none"}, {}, 'model: "nowhere/none" is no provider/id'),
        ({"maxTurns": 0}, {}, "Invalid start_agent command: maxTurns must be an integer of at least 1"),
        ({"timeout": 0}, {}, "Invalid start_agent command: timeout must be a number above 0"),
        ({"task": " "}, {}, "Invalid start_agent command: task must be a text that is not empty"),
        ({}, {"tools": {"maxSubagents": 0}}, "tools.maxSubagents is 0"),
        ({}, {"tools": {"maxSubagentDepth": 0}}, "tools.maxSubagentDepth is 0"),
        ({"flags": ("--tool-approval", "read-only")}, {}, "this session is read-only"),
    ],
)
def test_more_than_the_agent_has_is_refused_by_name(
    agent: AgentStarter, fields: dict[str, Any], settings: dict[str, Any], expected: str
) -> None:
    """R-SUB-13: as a call of the tool is; nothing is started, and nothing is kept."""
    flags = fields.pop("flags", ())
    pi = agent([], *flags, settings=settings, has_session=True)
    refused = pi.request({"type": "start_agent", "task": "count", **fields})

    assert refused["error"].startswith(expected)
    assert ("invalid_field" if expected.startswith("Invalid") else "agent_refused") == refused["errorCode"]
    assert [] == pi.ask("list_agents")["agents"]
    assert not Path(pi.ask("get_state")["sessionFile"]).exists()


def test_what_a_sub_agent_could_not_be_sent_is_refused(agent: AgentStarter) -> None:
    """R-SUB-10, R-SUB-13: some characters take more bytes in its pipe than in that of the client."""
    pi = agent([WAITING], is_checked=False)
    text = "x" + "\x85" * (MAX_RECORD_BYTES // len(r"\u0085"))
    refused = pi.request({"type": "start_agent", "task": text})
    one = started(pi)
    unsent = pi.request({"type": "message_agent", "agentId": one["agentId"], "message": text})
    empty = pi.request({"type": "message_agent", "agentId": one["agentId"], "message": ""})
    listed = row(pi)

    assert "Invalid message_agent command: message must be a text that is not empty" == empty["error"]
    assert ("agent_refused", "task: it is longer") == (refused["errorCode"], refused["error"][:18])
    assert unsent["error"].startswith("Invalid message_agent command: message must not be longer than")
    assert one == listed


def test_both_kinds_share_the_limit(agent: AgentStarter) -> None:
    """R-SUB-04."""
    pi = agent([WAITING], settings={"tools": {"maxSubagents": 1}})
    one = started(pi)
    refused = pi.request({"type": "start_agent", "task": "weigh"})
    pi.llm.wait_reached("g")
    pi.llm.release("g")
    pi.ask("wait_agent", agentId=one["agentId"])

    assert "tools.maxSubagents is 1" in refused["error"]


def test_its_time_ends_it(agent: AgentStarter) -> None:
    """R-SUB-13: and its end says so, also in a list."""
    pi = agent([WAITING])
    one = started(pi, timeout=0.01)
    waited = pi.ask("wait_agent", agentId=one["agentId"])["agent"]

    assert ("cancelled", "it did not end within 0.01 seconds") == (waited["state"], waited["error"])
    assert waited == row(pi)


def test_its_question_is_the_user_s_and_outlasts_an_abort(agent: AgentStarter) -> None:
    """R-SUB-13, R-UI-02: it names the sub-agent, and no call."""
    write = {"tool_calls": [{"name": "write", "args": {"path": "a.txt", "content": "x"}}], "match": "Task: count"}
    pi = agent([write, {"text": "written", "match": "Task: count"}], "--tool-approval", "ask")
    one = started(pi)
    asked = pi.wait({"type": "extension_ui_request", "method": "select"})
    pi.ask("abort")
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"})
    waited = pi.ask("wait_agent", agentId=one["agentId"])

    assert asked["title"].endswith(f"Asked by the sub-agent {one['agentId']}")
    assert "toolCallId" not in asked
    assert "written" == waited["text"]
    assert (pi.home.work / "a.txt").exists()


@pytest.mark.parametrize("ending", ["new_session", "end of input"])
def test_its_session_ends_it_and_answers_what_waits(agent: AgentStarter, ending: str) -> None:
    """R-SUB-13, R-SUB-14: its end is in the session that has started it."""
    pi = agent([WAITING], has_session=True)
    pi.ask("hello", subagents=True)
    file = pi.ask("get_state")["sessionFile"]
    one = started(pi)
    pi.llm.wait_reached("g")
    below = pi.descendants()
    pi.send({"id": "w", "type": "wait_agent", "agentId": one["agentId"]})
    if ending == "new_session":
        pi.send({"id": "n", "type": "new_session"})
        pi.wait_response("n")
        unknown = pi.request({"type": "wait_agent", "agentId": one["agentId"]})
        assert "agent_not_found" == unknown["errorCode"]
        assert [] == pi.ask("list_agents")["agents"]
    else:
        pi.close_stdin()
    waited = pi.wait_response("w")["data"]
    *_, last = [each["agent"] for each in pi.found({"type": "subagent_event"}) if "agent" in each]

    assert [] == await_gone(below)
    assert "cancelled" == waited["agent"]["state"] == last["state"]
    assert ["cancelled"] == [each["outcome"] for each in counted(file)]


def test_a_drain_waits_for_it(agent: AgentStarter) -> None:
    """R-SUB-13, C-17."""
    pi = agent([WAITING], "--on-eof", "drain", has_session=True)
    file = pi.ask("get_state")["sessionFile"]
    one = started(pi)
    pi.llm.wait_reached("g")
    pi.send({"id": "w", "type": "wait_agent", "agentId": one["agentId"]})
    pi.send({"id": "s", "type": "get_state"})
    pi.wait_response("s")
    pi.close_stdin()
    pi.llm.release("g")
    waited = pi.wait_response("w")["data"]
    pi.wait_exit()

    assert ("completed", "half done") == (waited["agent"]["state"], waited["text"])
    assert ["completed"] == [each["outcome"] for each in counted(file)]


def test_what_another_process_has_begun_is_not_started_again(agent: AgentStarter) -> None:
    """R-SUB-13: also one that this process has not read, since it opened the session before."""
    pi = agent([{"text": "one"}, WAITING], is_checked=False, has_session=True)
    pi.say("hello")
    file = pi.ask("get_state")["sessionFile"]
    other = agent((), "--session", file, again=pi)
    other.ask("get_state")
    one = started(pi, messageId="t")
    pi.llm.wait_reached("g")
    below = pi.descendants()
    os.kill(pi.process.pid, signal.SIGKILL)
    gone = await_gone(below)
    known = started(other, messageId="t")

    assert [] == gone
    assert (one["agentId"], "interrupted") == (known["agentId"], known["state"])
    assert known == row(other)


def test_kill_9_leaves_what_was_accepted(agent: AgentStarter) -> None:
    """R-SUB-06, R-SUB-13: it is interrupted, and a start that is repeated by its name starts nothing."""
    pi = agent([WAITING], is_checked=False, has_session=True)
    one = started(pi, messageId="t")
    pi.llm.wait_reached("g")
    below, file = pi.descendants(), pi.ask("get_state")["sessionFile"]
    os.kill(pi.process.pid, signal.SIGKILL)
    gone = await_gone(below)
    again = agent((), "--session", file, again=pi)
    known = started(again, messageId="t")
    waited = again.ask("wait_agent", agentId=one["agentId"])

    assert [] == gone
    assert ("interrupted", one["agentId"]) == (known["state"], known["agentId"])
    assert known == waited["agent"]
    assert ["interrupted"] == [each["outcome"] for each in counted(file)]
