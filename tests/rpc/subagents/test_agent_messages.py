"""Messages to sub-agents that work: `message_agent`."""

import os
import re
import signal
from typing import Any

import pytest
from tests.rpc.conftest import await_gone
from tests.rpc.subagents.test_subagents import DELEGATE, TOOLS, call, counted, ends, entries_of

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

GATED = {"chunks": [{"gate": "g"}, {"text": "two sails"}], "match": "Task: count"}


def begun(pi: HomedAgent, gate: str = "g") -> str:
    """Have a sub-agent wait for its model, and return its id."""
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    pi.llm.wait_reached(gate)
    [*_, listed] = pi.ask("list_agents")["agents"]
    return str(listed["agentId"])


def queued(file: str) -> list[str]:
    """The messages that are queued in the file of a session, as its operations say."""
    found: list[str] = []
    for entry in entries_of(file):
        data = entry.get("data", {}) if entry.get("customType") == "pinnace.queue" else {}
        found += [data["messageId"]] if data.get("op") == "add" else []
        gone = (*data.get("messageIds", ()), entry.get("messageId"))
        found = [each for each in found if each not in gone]
    return found


def state(message_id: str, text: str, name: str) -> Record:
    return {"messageId": message_id, "text": text, "state": name}


def test_a_message_is_delivered_before_its_next_answer(agent: AgentStarter) -> None:
    """R-SUB-10: once, also if it is repeated; its own records and its end name it."""
    answer = {"text": "and one mast", "match": "Message: /masts, too"}
    pi = agent([call("count"), GATED, answer, {"text": "thanks"}], *TOOLS, has_session=True)
    pi.ask("hello", subagents=True)
    child = begun(pi)
    first = pi.ask("message_agent", agentId=child, message="/masts, too", messageId="m")
    again = pi.ask("message_agent", agentId=child, message="/masts, too", messageId="m")
    [during] = pi.ask("list_agents")["agents"]
    pi.llm.release("g")
    pi.wait({"type": "agent_settled"})
    [end] = pi.found({"type": "tool_execution_end"})
    [listed] = pi.ask("list_agents")["agents"]
    late = pi.request({"type": "message_agent", "agentId": child, "message": "more"})
    known = pi.ask("message_agent", agentId=child, message="/masts, too", messageId="m")
    [last] = [each["agent"] for each in pi.found({"type": "subagent_event"}) if each.get("agent", {}).get("messages")]
    inside = [each["event"] for each in pi.found({"type": "subagent_event"}) if "event" in each]

    assert [{"messageId": "m", "state": "accepted"}] * 2 == [first, again]
    assert [state("m", "/masts, too", "accepted")] == during["messages"]
    assert [("and one mast", False)] == ends(pi)
    delivered = [state("m", "/masts, too", "delivered")]
    assert delivered == listed["messages"] == end["result"]["details"]["agent"]["messages"] == last["messages"]
    assert ["message_start", "message_end"] == [each["type"] for each in inside if each.get("messageId") == "m"]
    assert {"messageId": "m", "state": "delivered"} == known
    assert "agent_not_found" == late["errorCode"]
    assert f"{child} is completed (agentId: expected" in late["error"]
    assert "returned" not in counted(pi.ask("get_state")["sessionFile"])[0]


@pytest.mark.parametrize("has_session", [True, False])
def test_what_it_was_not_given_is_returned_with_its_end(agent: AgentStarter, has_session: bool) -> None:
    """R-SUB-10: one that is cancelled takes no more from then on, and names what it has not had."""
    pi = agent([call("count"), GATED, {"text": "without"}], *TOOLS, has_session=has_session)
    child = begun(pi)
    made = pi.ask("message_agent", agentId=child, message="masts")["messageId"]
    pi.send({"id": "c", "type": "cancel_agent", "agentId": child})
    ending = pi.request({"type": "message_agent", "agentId": child, "message": "more"})
    end = pi.wait({"type": "tool_execution_end"})
    pi.wait({"type": "agent_settled"})
    [listed] = pi.ask("list_agents")["agents"]

    returned = [state(made, "masts", "returned")]
    assert "agent_not_found" == ending["errorCode"]
    assert re.search(f"{child} is (ending|cancelled) .agentId: expected", ending["error"])
    assert returned == end["result"]["details"]["agent"]["messages"] == listed["messages"]
    if has_session:
        assert [[made]] == [each["returned"] for each in counted(pi.ask("get_state")["sessionFile"])]


@pytest.mark.parametrize(
    ("victim", "is_delivered", "outcome"),
    [
        ("child", False, "failed"),
        ("child", True, "failed"),
        ("parent", False, "interrupted"),
        ("parent", True, "interrupted"),
    ],
)
def test_kill_9_delivers_or_returns_a_message(
    agent: AgentStarter, victim: str, is_delivered: bool, outcome: str
) -> None:
    """R-SUB-10: its own file decides, so that it is the same in every later process; an agent that continues with
    that file has no message that was returned."""
    second = {"chunks": [{"gate": "h"}], "match": "Message: masts"}
    script: list[Any] = [call("count"), GATED]
    script += [second] * is_delivered + [{"text": "thanks"}] * (victim == "child")
    pi = agent(script, *TOOLS, is_checked=victim == "child", has_session=True)
    child, file = begun(pi), pi.ask("get_state")["sessionFile"]
    below = pi.descendants()
    assert "accepted" == pi.ask("message_agent", agentId=child, message="masts", messageId="m")["state"]
    [begun_child] = pi.ask("list_agents")["agents"]
    while not is_delivered and queued(begun_child["sessionFile"]) != ["m"]:
        pi.ask("get_state")  # until it has been sent the message
    if is_delivered:
        pi.llm.release("g")
        pi.llm.wait_reached("h")
    if victim == "child":
        for pid in below:
            os.kill(pid, signal.SIGKILL)
        pi.wait({"type": "agent_settled"})
    else:
        os.kill(pi.process.pid, signal.SIGKILL)
    gone = await_gone(below)
    again = pi if victim == "child" else agent((), "--session", file, again=pi)
    [listed] = again.ask("list_agents")["agents"]
    fate = "delivered" if is_delivered else "returned"
    known = again.ask("message_agent", agentId=child, message="masts", messageId="m")
    late = again.request({"type": "message_agent", "agentId": child, "message": "more"})

    assert [] == gone
    assert (outcome, [state("m", "masts", fate)]) == (listed["state"], listed["messages"])
    assert {"messageId": "m", "state": fate} == known
    assert f"{child} is {outcome}" in late["error"]
    assert is_delivered == ("m" in [each.get("messageId") for each in entries_of(listed["sessionFile"])])
    assert [] == queued(listed["sessionFile"])
