"""The harness with an agent that is not ours: what it prepares is what agents of this family read."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace_fuzz.workbench import AgentStarter

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
