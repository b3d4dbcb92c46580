"""A prompt that kill -9 has cut is visible after the restart, until the conversation goes on."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MakeGate = Callable[[], ShellGate]
SETTLED = {"type": "agent_settled"}
ENDS = """
def extension(pi):
    @pi.tool
    async def ends(ctx):
        "End the run."
        return {"content": [], "terminate": True}
"""


def interrupted(pi: HomedAgent) -> object:
    return pi.request({"type": "get_state"})["data"].get("interrupted")


def kill(pi: HomedAgent) -> None:
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit()


def user_entry(pi: HomedAgent) -> object:
    return pi.request({"type": "get_fork_messages"})["data"]["messages"][-1]["entryId"]


def test_a_prompt_that_was_interrupted_before_the_answer_is_reported(agent: AgentStarter) -> None:
    first = agent([{"chunks": [{"hang": True}]}], has_session=True, is_checked=False)
    first.request({"type": "prompt", "message": "go"})
    first.wait({"type": "agent_start"})
    kill(first)

    pi = agent((), "--continue", again=first)
    assert interrupted(pi) == {"entryId": user_entry(pi), "text": "go", "during": "answer", "cutCalls": []}


def test_a_prompt_that_was_interrupted_in_a_tool_is_reported_with_the_calls_until_the_next_run(
    agent: AgentStarter, gates: MakeGate
) -> None:
    gate = gates()
    calls = [
        {"name": "bash", "id": "done", "args": {"command": "true"}},
        {"name": "bash", "id": "cut", "args": {"command": gate.reading}},
    ]
    first = agent([{"tool_calls": calls}], has_session=True, is_checked=False)
    first.request({"type": "prompt", "message": "go " + "x" * 300})
    gate.wait_reached()
    kill(first)

    pi = agent((), "--continue", again=first)
    found = interrupted(pi)
    assert found == {
        "entryId": user_entry(pi),
        "text": ("go " + "x" * 300)[:200],
        "during": "tools",
        "cutCalls": [{"id": "done", "name": "bash"}, {"id": "cut", "name": "bash"}],
    }
    pi.llm.add({"text": "done"})
    pi.request({"type": "prompt", "message": "go on"})
    pi.wait(SETTLED)
    assert interrupted(pi) is None


@pytest.mark.parametrize("ending", ["abort", "stdin", "settled"])
def test_an_orderly_end_leaves_nothing_interrupted(agent: AgentStarter, gates: MakeGate, ending: str) -> None:
    gate = gates()
    command = "true" if ending == "settled" else gate.reading
    call = {"name": "bash", "id": "c", "args": {"command": command}}
    first = agent([{"tool_calls": [call]}, {"text": "done"}], has_session=True)
    first.request({"type": "prompt", "message": "go"})
    if ending == "settled":
        first.wait(SETTLED)
    else:
        gate.wait_reached()
    if ending == "abort":
        first.request({"type": "abort"})
    assert_nothing_interrupted(agent, first)


FAILURE: Scripted = {"error": {"status": 503, "headers": {}, "body": {"error": {"message": "overloaded"}}}}


@pytest.mark.parametrize(("delay_ms", "is_again"), [(60_000, False), (1, True)])
def test_a_prompt_that_was_interrupted_in_a_retry_is_reported(
    agent: AgentStarter, delay_ms: int, is_again: bool
) -> None:
    """In the delay, and in the request that follows it."""
    settings = {"retry": {"baseDelayMs": delay_ms}}
    script: list[Scripted] = [FAILURE, {"chunks": [{"hang": True}]}]
    first = agent(script, has_session=True, is_checked=False, settings=settings)
    first.request({"type": "prompt", "message": "go"})
    first.wait({"type": "auto_retry_start"})
    if is_again:
        first.wait({"type": "agent_start"})
    kill(first)

    pi = agent((), "--continue", again=first)
    assert interrupted(pi) == {"entryId": user_entry(pi), "text": "go", "during": "answer", "cutCalls": []}


def assert_nothing_interrupted(agent: AgentStarter, first: HomedAgent) -> None:
    """End an agent in order and continue its session."""
    first.close_stdin()
    first.wait_exit()

    pi = agent((), "--continue", again=first)
    assert interrupted(pi) is None


@pytest.mark.parametrize("ending", ["abort", "abort_retry"])
def test_a_retry_that_was_given_up_leaves_nothing_interrupted(agent: AgentStarter, ending: str) -> None:
    settings = {"retry": {"baseDelayMs": 60_000}}
    first = agent([FAILURE], has_session=True, settings=settings)
    first.request({"type": "prompt", "message": "go"})
    first.wait({"type": "auto_retry_start"})
    first.request({"type": ending})
    assert_nothing_interrupted(agent, first)


def test_a_limit_leaves_nothing_interrupted(agent: AgentStarter) -> None:
    call = {"name": "bash", "id": "c", "args": {"command": "true"}}
    first = agent([{"tool_calls": [call]}], "--max-turns", "1", has_session=True)
    first.request({"type": "prompt", "message": "go"})
    first.wait(SETTLED)
    assert_nothing_interrupted(agent, first)


def test_a_tool_that_ends_the_run_leaves_nothing_interrupted(agent: AgentStarter, tmp_path: Path) -> None:
    path = tmp_path / "ends.py"
    path.write_text(ENDS, encoding="utf-8")
    first = agent([{"tool_calls": [{"name": "ends", "id": "c", "args": {}}]}], "-e", str(path), has_session=True)
    first.request({"type": "prompt", "message": "go"})
    first.wait(SETTLED)
    assert_nothing_interrupted(agent, first)
