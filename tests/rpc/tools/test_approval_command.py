"""`set_tool_approval`: the mode changes while the agent works, with and without extensions. R-SET-07."""

import json
from pathlib import Path

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

EXTENSION = """
def extension(pi):
    @pi.on("tool_call")
    def allow(ctx, event):
        return None
"""
DONE = {"text": "done"}


def touch(name: str, gate: str | None = None) -> Record:
    """A scripted answer that calls bash, after its gate was opened."""
    call = [{"tool": {"id": name, "name": "bash"}}, {"args": json.dumps({"command": f"touch {name}"})}]
    return {"chunks": [*([] if gate is None else [{"gate": gate}]), *call]}


def results(pi: HomedAgent) -> list[bool]:
    return [not each["isError"] for each in pi.found({"type": "tool_execution_end"})]


@pytest.fixture(params=["with extensions", "without"])
def flags(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    if request.param == "without":
        return ()
    path = tmp_path / "allowing.py"
    path.write_text(EXTENSION)
    return ("-e", str(path))


def question(pi: HomedAgent) -> Record:
    return pi.wait({"type": "extension_ui_request", "method": "select"})


def answer(pi: HomedAgent, asked: Record, value: str) -> None:
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": value})


def test_the_next_call_of_a_run_is_decided_by_the_new_mode(agent: AgentStarter, flags: tuple[str, ...]) -> None:
    """R-SET-07: the run began without any approval."""
    pi = agent([touch("one", "first"), touch("two", "second"), touch("three"), DONE], *flags)
    pi.send({"type": "prompt", "message": "go"})
    pi.llm.wait_reached("first")
    pi.ask("set_tool_approval", mode="ask")
    pi.llm.release("first")
    asked = question(pi)
    assert "\n\ncommand: touch one\n(in " in asked["title"]
    answer(pi, asked, "Allow once")
    pi.llm.wait_reached("second")
    pi.ask("set_tool_approval", mode="read-only")
    pi.llm.release("second")
    pi.wait({"type": "agent_settled"})

    assert [True, False, False] == results(pi)
    assert (pi.home.work / "one").exists()
    assert "read-only" == pi.ask("get_state")["toolApproval"]


def test_the_question_that_is_open_at_a_change_decides_its_call(agent: AgentStarter, flags: tuple[str, ...]) -> None:
    """R-SET-07: the next call runs without one."""
    pi = agent([touch("one"), touch("two"), DONE], "--tool-approval", "ask", *flags)
    assert "ask" == pi.ask("get_state")["toolApproval"]
    pi.send({"type": "prompt", "message": "go"})
    asked = question(pi)
    pi.ask("set_tool_approval", mode="never")
    assert [] == results(pi)
    answer(pi, asked, "Deny")
    pi.wait({"type": "agent_settled"})

    assert [False, True] == results(pi)


def test_the_mode_outlasts_the_session_and_what_was_allowed_does_not(
    agent: AgentStarter, flags: tuple[str, ...]
) -> None:
    """R-SET-07."""
    pi = agent([touch("one"), touch("two"), DONE, touch("three"), DONE], *flags)
    pi.ask("set_tool_approval", mode="ask")
    pi.send({"type": "prompt", "message": "go"})
    answer(pi, question(pi), "Allow for this session")
    pi.wait({"type": "agent_settled"})
    mark = pi.mark()
    pi.ask("new_session")
    pi.send({"type": "prompt", "message": "go"})
    answer(pi, pi.wait({"type": "extension_ui_request", "method": "select"}, since=mark), "Deny")
    pi.wait({"type": "agent_settled"}, since=mark)

    assert [True, True, False] == results(pi)


def test_an_abort_refuses_the_call_of_an_open_question(agent: AgentStarter, flags: tuple[str, ...]) -> None:
    """R-ABT-01."""
    pi = agent([touch("one"), DONE], "--tool-approval", "ask", *flags)
    pi.send({"type": "prompt", "message": "go"})
    question(pi)
    pi.ask("abort")
    pi.wait({"type": "agent_settled"}, since=0)

    assert not (pi.home.work / "one").exists()


@pytest.mark.parametrize("mode", ["always", None, 1])
def test_a_mode_that_does_not_exist_is_refused(agent: AgentStarter, mode: object) -> None:
    """R-ERR-03."""
    pi = agent([], "--tool-approval", "ask")
    refused = pi.request({"type": "set_tool_approval", "mode": mode})

    assert "invalid_field" == refused["errorCode"]
    wanted = "Invalid set_tool_approval command: mode must be 'never', 'ask' or 'read-only'"
    assert wanted == refused["error"]
    assert "ask" == pi.ask("get_state")["toolApproval"]


@pytest.mark.parametrize("profile", ["seed", "0.5x"])
def test_an_older_generation_knows_neither_command_nor_field(agent: AgentStarter, profile: str) -> None:
    """R-PRO-02."""
    pi = agent([])
    assert "set_tool_approval" not in pi.ask("hello", protocol=profile)["commands"]
    refused = pi.request({"type": "set_tool_approval", "mode": "ask"})

    assert "Unknown command: set_tool_approval" == refused["error"]
    assert "toolApproval" not in pi.ask("get_state")
