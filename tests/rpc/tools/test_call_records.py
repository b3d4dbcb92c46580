"""The records of tool calls: of which call of which answer, and when a gated one begins. R-TOL-09, R-TOL-10."""

import json

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

DONE = {"text": "done"}


def calling(*commands: str) -> Record:
    """A scripted answer whose calls have one id, as gateways send them."""
    return {"tool_calls": [{"name": "bash", "id": "call_0", "args": {"command": each}} for each in commands]}


def records(pi: HomedAgent, *kinds: str) -> list[Record]:
    types = [f"tool_execution_{kind}" for kind in kinds or ("start", "update", "end")]
    return [each for name in types for each in pi.found({"type": name})]


def test_the_records_of_a_call_name_its_answer_and_its_place(agent: AgentStarter) -> None:
    """R-TOL-10: also where calls have one id."""
    pi = agent([calling("echo one", "echo two"), calling("echo three"), DONE])
    pi.say("go")
    entries = pi.ask("get_entries")["entries"]
    answers = [each["id"] for each in entries if each.get("message", {}).get("role") == "assistant"]
    started = [(each["assistantEntryId"], each["callIndex"]) for each in records(pi, "start")]

    assert [(answers[0], 0), (answers[0], 1), (answers[1], 0)] == started
    assert sorted(started) == sorted((each["assistantEntryId"], each["callIndex"]) for each in records(pi, "end"))
    assert {*started} == {(each["assistantEntryId"], each["callIndex"]) for each in records(pi, "update")}
    assert not any("gated" in each for each in records(pi))


def test_a_gated_call_reports_when_its_execution_begins(agent: AgentStarter) -> None:
    """R-TOL-10: not while the question is open, and not if it is refused."""
    read = {"tool_calls": [{"name": "read", "args": {"path": "a"}}]}
    pi = agent([calling("true"), calling("true"), read, DONE], "--tool-approval", "ask")
    (pi.home.work / "a").touch()
    pi.send({"type": "prompt", "message": "go"})
    asked = pi.wait({"type": "extension_ui_request"})
    assert ([True], []) == ([each.get("gated") for each in records(pi, "start")], records(pi, "update", "end"))
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
    asked = pi.wait({"type": "extension_ui_request"})
    assert [] == records(pi, "update")
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"})
    pi.wait({"type": "agent_settled"})
    first = {each["toolName"]: each for each in reversed(records(pi, "update"))}

    assert [True] * 3 == [each.get("gated") for each in records(pi, "start")]
    assert [{"content": []}] * 2 == [first[name]["partialResult"] for name in ("bash", "read")]


@pytest.mark.parametrize("profile", ["seed", "0.5x"])
def test_an_exact_profile_has_none_of_the_fields(agent: AgentStarter, profile: str) -> None:
    """R-PRO-02."""
    write = {"tool_calls": [{"name": "write", "args": {"path": "a", "content": ""}}]}
    pi = agent([write, DONE], "--tool-approval", "ask")
    pi.ask("hello", protocol=profile)
    pi.send({"type": "prompt", "message": "go"})
    asked = pi.wait({"type": "extension_ui_request"})
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"})
    pi.wait({"type": "agent_end"})
    text = json.dumps([*records(pi), asked, *pi.found({"type": "message_end"}), *pi.found({"type": "turn_end"})])

    assert not [each for each in ("assistantEntryId", "callIndex", "gated", "created", "optionKinds") if each in text]
    assert (pi.home.work / "a").exists()


def test_a_write_says_whether_it_has_created_the_file(agent: AgentStarter) -> None:
    """R-TOL-09."""
    write = {"tool_calls": [{"name": "write", "args": {"path": "a", "content": "x"}}]}
    pi = agent([write, write, DONE])
    pi.say("go")

    assert [{"created": True}, {"created": False}] == [each["result"]["details"] for each in records(pi, "end")]
