"""A prompt that kill -9 has cut is visible after the restart, until the conversation goes on."""

import os
import signal
from collections.abc import Callable

import pytest

from pinnace_fuzz.shell_gate import ShellGate
from pinnace_fuzz.workbench import AgentStarter, HomedAgent

MakeGate = Callable[[], ShellGate]
SETTLED = {"type": "agent_settled"}


def interrupted(pi: HomedAgent) -> object:
    return pi.request({"type": "get_state"})["data"].get("interrupted")


def kill(pi: HomedAgent) -> None:
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit()


def user_entry(pi: HomedAgent) -> object:
    return pi.request({"type": "get_fork_messages"})["data"]["messages"][-1]["entryId"]


def test_a_prompt_that_was_cut_before_the_answer_is_told(agent: AgentStarter) -> None:
    first = agent([{"chunks": [{"hang": True}]}], has_session=True, is_checked=False)
    first.request({"type": "prompt", "message": "go"})
    first.wait({"type": "agent_start"})
    kill(first)

    pi = agent((), "--continue", again=first)
    assert interrupted(pi) == {"entryId": user_entry(pi), "text": "go", "during": "answer", "cutCalls": []}


def test_a_prompt_that_was_cut_in_a_tool_is_told_with_the_calls_until_the_next_run(
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
    first.close_stdin()
    first.wait_exit()

    pi = agent((), "--continue", again=first)
    assert interrupted(pi) is None
