"""What a client is shown of sub-agents that has asked for it: `subagent_event`."""

from collections.abc import Mapping
from typing import Any

from tests.rpc.subagents.test_subagents import DELEGATE, TOOLS, call, entries_of

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

# Any: JSON
LIST: Mapping[str, Any] = {"tool_calls": [{"name": "bash", "args": {"command": "echo found"}}], "match": "Task: count"}


def shown(pi: HomedAgent) -> list[Record]:
    return pi.found({"type": "subagent_event"})


def test_what_it_does_is_shown_between_its_beginning_and_its_end(agent: AgentStarter) -> None:
    """R-SUB-09: each record once, as its own process has written it; with the ids of the entries of its file."""
    answer = {"text": ["one", " two"], "match": "Task: count"}
    pi = agent([call("count"), LIST, answer, {"text": "thanks"}], *TOOLS, has_session=True)
    pi.ask("hello", subagents=True)
    pi.say(DELEGATE)
    first, *events, last = shown(pi)
    [end] = pi.found({"type": "tool_execution_end"})
    [listed] = pi.ask("list_agents")["agents"]
    inside = [each["event"] for each in events]
    kinds = [each["type"] for each in inside if each["type"] not in ("message_update", "tool_execution_update")]
    deltas = [each["assistantMessageEvent"] for each in inside if each["type"] == "message_update"]
    ended = [each["entryId"] for each in inside if each["type"] == "message_end"]
    kept = [each["id"] for each in entries_of(listed["sessionFile"]) if each["type"] == "message"]

    message, tool = ["message_start", "message_end"], ["tool_execution_start", "tool_execution_end"]
    assert [*message * 2, *tool, *message * 2] == kinds
    assert "one two" == "".join(each["delta"] for each in deltas if each["type"] == "text_delta")
    assert kept == ended
    assert {**listed, "state": "running"} == {**first["agent"], "usage": listed["usage"]}
    assert listed == last["agent"]
    assert {listed["agentId"]} == {each["agentId"] for each in shown(pi)}
    assert [last, end] == [each for each in pi.found({}) if each in (last, end)]


def test_one_that_works_is_shown_from_when_a_client_asks(agent: AgentStarter) -> None:
    """R-SUB-09: nothing before, and nothing when the client asks for no more."""
    waiting = {"chunks": [{"gate": "g"}, {"text": "two"}], "match": "Task: count"}
    again = {"chunks": [{"gate": "h"}, {"text": "three"}], "match": "Task: count"}
    pi = agent([call("count"), {**LIST}, waiting, {"text": "thanks"}, call("count"), again, {"text": "bye"}], *TOOLS)
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    pi.llm.wait_reached("g")
    before = shown(pi)
    pi.ask("hello", subagents=True)
    begun = shown(pi)
    pi.llm.release("g")
    pi.wait({"type": "agent_settled"})
    during = shown(pi)
    mark = pi.mark()
    pi.send({"id": "q", "type": "prompt", "message": DELEGATE})
    pi.llm.wait_reached("h")
    pi.ask("hello", subagents=False)
    until = shown(pi)
    pi.llm.release("h")
    pi.wait({"type": "agent_settled"}, since=mark)

    assert [] == before
    assert "running" == begun[0]["agent"]["state"]
    assert "two" in str([each.get("event") for each in during])
    assert "completed" == during[-1]["agent"]["state"]
    assert until == shown(pi)
