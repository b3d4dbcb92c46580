"""The harness with an agent that is not ours: what it prepares is what agents of this family read."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.trials.workbench import AgentStarter

pytestmark = [pytest.mark.peer, pytest.mark.slow]


@pytest.fixture
def agent(original_pi: list[str], tmp_path: Path) -> Iterator[AgentStarter]:
    with AgentStarter(original_pi, tmp_path) as starter:
        yield starter


def test_it_streams_text_and_runs_a_tool(agent: AgentStarter) -> None:
    call = {"name": "bash", "args": {"command": "echo from the tool"}}
    running = agent([{"tool_calls": [call]}, {"reasoning": "hm", "text": ["do", "ne"], "gzip": True}])
    state = running.request({"type": "get_state"})["data"]
    assert (state["model"]["id"], state["model"]["contextWindow"]) == ("m1", 128_000)

    assert running.request({"type": "prompt", "message": "go"})["success"]
    assert not running.wait({"type": "tool_execution_end"})["isError"]
    end = running.wait({"type": "agent_end"})

    assert "from the tool" in running.llm.requests[1].text
    assert {"type": "text", "text": "done"} in end["messages"][-1]["content"]
    assert running.llm.strays == []


def test_calls_end_in_order_of_completion_and_their_results_follow_in_order_of_the_calls(
    agent: AgentStarter, tmp_path: Path
) -> None:
    """What ours does, too (C-13), although documents of 0.67.68 have ends in order of the calls."""
    with ShellGate(tmp_path / "gate") as gate:
        calls = [{"name": "bash", "args": {"command": each}} for each in (f"{gate.reading}; echo 1", "echo 2")]
        running = agent([{"tool_calls": calls}, {"text": "done"}])
        assert running.request({"type": "prompt", "message": "go"})["success"]
        ends = [running.wait({"type": "tool_execution_end"})]
        gate.release()
        ends.append(running.wait({"type": "tool_execution_end"}))
        end = running.wait({"type": "agent_end"})

    assert ["2\n", "1\n"] == [each["result"]["content"][0]["text"] for each in ends]
    results = [each for each in end["messages"] if each["role"] == "toolResult"]
    assert ["1\n", "2\n"] == [each["content"][0]["text"] for each in results]


def test_an_abort_at_a_gate_is_noticed(agent: AgentStarter) -> None:
    running = agent([{"text": ["begin", {"gate": "g"}, "never"]}])
    running.request({"type": "prompt", "message": "go"})
    running.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    running.llm.wait_reached("g")
    sent_s = time.monotonic()
    running.request({"type": "abort"})
    (departure,) = running.llm.wait_disconnects(1)

    assert departure.during == "gate g"
    assert departure.time_s - sent_s < 30  # and not at the end, when all connections are closed
