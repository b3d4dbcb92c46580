"""An abort during tools: every process is gone before its response, every bracket closed, and no further turn."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.trials.reading import faults, kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MakeGate = Callable[[], ShellGate]

PROMPT = {"id": "p", "type": "prompt", "message": "go"}
ABORT = {"id": "a", "type": "abort"}
SETTLED = {"type": "agent_settled"}
# Children, grandchildren, one that is nobody's child any more, and ears that are closed to all but SIGKILL.
FAMILY = "trap '' TERM HUP INT; (sleep 600 & sleep 600) & (sleep 600 & ) ; "
FAMILY_SIZE = 4


def bash_calls(*commands: str) -> dict[str, Any]:
    """Script an answer that calls bash once for each command, with ids t0, t1 …"""
    calls = [{"name": "bash", "id": f"t{n}", "args": {"command": command}} for n, command in enumerate(commands)]
    return {"tool_calls": calls}


def result_texts(pi: HomedAgent) -> dict[str, str]:
    """Return the text of each tool result message, in the order in which they were appended."""
    ends = pi.found({"type": "message_end", "message": {"role": "toolResult"}})
    return {end["message"]["toolCallId"]: end["message"]["content"][0]["text"] for end in ends}


@pytest.fixture
def in_tool(agent: AgentStarter, gates: MakeGate) -> HomedAgent:
    """One tool with a family works and has said something; the model has more to say if it were asked."""
    gate = gates()
    pi = agent([bash_calls(f"{FAMILY}echo said; {gate.reading}"), {"text": "more", "repeat": -1}])
    pi.send(PROMPT)
    pi.wait({"type": "tool_execution_update", "partialResult": {"content": [{"text": "said\n"}]}})
    gate.wait_reached()
    return pi


def test_the_whole_family_of_a_tool_is_gone_before_the_response(in_tool: HomedAgent) -> None:
    """R-ABT-01."""
    pi = in_tool
    while len(pi.descendants()) < FAMILY_SIZE:
        time.sleep(0.005)  # a shell does not tell when its children have theirs
    pi.request(ABORT)

    assert [] == pi.descendants()


def test_an_abort_closes_the_tool_the_turn_and_the_run_and_then_answers(in_tool: HomedAgent) -> None:
    """C-15: in this order, and nothing else."""
    pi = in_tool
    mark = pi.mark()
    pi.request(ABORT)
    end, _, result, turn, run, settled, response = [received.record for received in pi.records[mark:]]

    assert [
        "tool_execution_end",
        "message_start",
        "message_end",
        "turn_end",
        "agent_end",
        "agent_settled",
        "abort:ok",
    ] == kinds(pi.records[mark:])
    assert (True, "said\n\n\nCommand aborted") == (end["isError"], end["result"]["content"][0]["text"])
    assert ("toolResult", True) == (result["message"]["role"], result["message"]["isError"])
    assert end["result"]["content"] == result["message"]["content"]
    assert "toolUse" == turn["message"]["stopReason"]
    assert [result["message"]] == turn["toolResults"]
    assert ["user", "assistant", "toolResult"] == [message["role"] for message in run["messages"]]
    assert {"type": "agent_settled", "aborted": True} == settled
    assert {"id": "a", "type": "response", "command": "abort", "success": True} == response


def test_no_further_turn_follows_and_the_model_is_not_asked_again(in_tool: HomedAgent) -> None:
    """R-ABT-01: the answer to an aborted tool would be one that nobody asked for."""
    pi = in_tool
    pi.request(ABORT)
    mark = pi.mark()
    state = pi.request({"type": "get_state"})["data"]

    assert (False, 3) == (state["isStreaming"], state["messageCount"])
    assert mark + 1 == pi.mark()
    assert ["turn_start"] == kinds(pi.records, "turn_start")
    assert 1 == len(pi.llm.requests)


def test_the_conversation_goes_on_with_the_result_of_the_aborted_tool(in_tool: HomedAgent) -> None:
    pi = in_tool
    pi.request(ABORT)
    pi.request({"type": "prompt", "message": "and now?"})
    pi.wait(SETTLED)
    pi.wait(SETTLED)
    sent = pi.llm.requests[1].body["messages"]

    assert ["user", "assistant", "tool", "user"] == [message["role"] for message in sent if message["role"] != "system"]
    assert sent[-2]["content"].endswith("Command aborted")
    assert [] == faults(pi.records)


def test_each_of_two_aborts_is_answered_after_the_end(in_tool: HomedAgent) -> None:
    """C-7."""
    pi = in_tool
    mark = pi.mark()
    pi.send_many([ABORT, {**ABORT, "id": "a2"}])
    pi.wait_response("a2")

    assert ["agent_end", "agent_settled", "abort:ok", "abort:ok"] == kinds(
        pi.records[mark:], "agent_end", "agent_settled", "abort:ok"
    )


# Several tools.


def test_ends_come_in_order_of_completion_and_results_in_order_of_the_calls(
    agent: AgentStarter, gates: MakeGate
) -> None:
    """R-RUN-02, R-RUN-03."""
    calls = [gates() for _ in range(3)]
    pi = agent([bash_calls(*(f"{gate.reading}; echo $word" for gate in calls)), {"text": "done"}])
    pi.send(PROMPT)
    for gate in calls:
        gate.wait_reached()
    for number in (1, 2, 0):
        calls[number].release(f"word {number}")
        pi.wait({"type": "tool_execution_end", "toolCallId": f"t{number}"})
    pi.wait(SETTLED)
    (turn,) = pi.found({"type": "turn_end", "message": {"stopReason": "toolUse"}})

    assert ["t0", "t1", "t2"] == [start["toolCallId"] for start in pi.found({"type": "tool_execution_start"})]
    assert ["t1", "t2", "t0"] == [end["toolCallId"] for end in pi.found({"type": "tool_execution_end"})]
    assert {"t0": "word 0\n", "t1": "word 1\n", "t2": "word 2\n"} == result_texts(pi)
    assert ["t0", "t1", "t2"] == list(result_texts(pi))
    assert ["t0", "t1", "t2"] == [result["toolCallId"] for result in turn["toolResults"]]
    assert [] == faults(pi.records)


def test_an_abort_keeps_the_result_of_the_tool_that_had_ended(agent: AgentStarter, gates: MakeGate) -> None:
    """C-13: what was finished is told as it is; results still in order of the calls."""
    slow, quick = gates(), gates()
    pi = agent([bash_calls(f"{FAMILY}{slow.reading}", f"{quick.reading}; echo quick")])
    pi.send(PROMPT)
    slow.wait_reached()
    quick.release()
    pi.wait({"type": "tool_execution_end", "toolCallId": "t1", "isError": False})
    pi.request(ABORT)

    assert [("t0", "Command aborted"), ("t1", "quick\n")] == list(result_texts(pi).items())
    assert [] == pi.descendants()
    assert [] == faults(pi.records)


def test_all_tools_of_an_answer_are_aborted(agent: AgentStarter, gates: MakeGate) -> None:
    waiting = [gates() for _ in range(4)]
    pi = agent([bash_calls(*(FAMILY + gate.reading for gate in waiting))])
    pi.send(PROMPT)
    for gate in waiting:
        gate.wait_reached()
    pi.request(ABORT)

    assert dict.fromkeys(("t0", "t1", "t2", "t3"), "Command aborted") == result_texts(pi)
    assert [] == pi.descendants()
    assert [] == faults(pi.records)


def test_an_abort_that_comes_with_the_answer_ends_its_tools(agent: AgentStarter) -> None:
    """R-ABT-01: whether the abort meets the answer, its end or its tools, every call has its result."""
    pi = agent([{**bash_calls(f"{FAMILY}sleep 600"), "gate_each": "g"}])
    pi.send(PROMPT)
    pi.llm.release(*(f"g.{number}" for number in range(9)))
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "toolcall_delta"}})
    pi.request(ABORT)

    assert [] == pi.descendants()
    assert [] == faults(pi.records)
    assert [{"type": "agent_settled", "aborted": True}] == pi.found(SETTLED)


# What is queued meanwhile.


@pytest.fixture
def with_steer(in_tool: HomedAgent) -> HomedAgent:
    in_tool.request({"type": "steer", "message": "S"})
    in_tool.request({"type": "follow_up", "message": "F"})
    return in_tool


def test_a_steer_stays_queued_and_visible(with_steer: HomedAgent) -> None:
    """C-1: the original swallowed it in a turn that it aborted."""
    pi = with_steer
    pi.request(ABORT)
    state = pi.request({"type": "get_state"})["data"]

    assert (False, 2) == (state["isStreaming"], state["pendingMessageCount"])
    assert {"type": "queue_update", "steering": ["S"], "followUp": ["F"]} == pi.found({"type": "queue_update"})[-1]
    assert ["go"] == user_texts(pi.records)


def test_the_next_prompt_delivers_what_was_held_behind_its_own_text(with_steer: HomedAgent) -> None:
    """C-1, C-5."""
    pi = with_steer
    pi.request(ABORT)
    mark = pi.mark()
    pi.request({"type": "prompt", "message": "next"})
    pi.wait(SETTLED, since=mark)

    assert ["next", "S", "F"] == user_texts(pi.records[mark:])
    assert ["message_end", "message_end", "message_end"] == kinds(pi.records[mark:], "turn_start", "message_end")[1:4]
    assert {"type": "queue_update", "steering": [], "followUp": []} == pi.found({"type": "queue_update"})[-1]


def test_abort_clear_returns_the_texts_and_reports_that_the_queue_is_empty(with_steer: HomedAgent) -> None:
    """C-6: cleared when the abort is admitted, told in its response."""
    pi = with_steer
    mark = pi.mark()
    answer = pi.request({**ABORT, "queue": "clear"})

    assert {"cleared": {"steering": ["S"], "followUp": ["F"]}} == answer["data"]
    assert [{"type": "queue_update", "steering": [], "followUp": []}] == pi.found({"type": "queue_update"}, since=mark)
    assert ["queue_update", "agent_end", "agent_settled", "abort:ok"] == kinds(
        pi.records[mark:], "queue_update", "agent_end", "agent_settled", "abort:ok"
    )
    assert 0 == pi.request({"type": "get_state"})["data"]["pendingMessageCount"]


def test_abort_continue_starts_a_run_after_its_response(with_steer: HomedAgent) -> None:
    """C-8: and settles once, after that run."""
    pi = with_steer
    mark = pi.mark()
    pi.request({**ABORT, "queue": "continue"})
    pi.wait({"type": "agent_settled", "aborted": False})

    assert ["agent_end", "abort:ok", "agent_start", "agent_end", "agent_settled"] == kinds(
        pi.records[mark:], "agent_start", "agent_end", "agent_settled", "abort:ok"
    )
    assert ["go", "S", "F"] == user_texts(pi.records)
    assert [] == faults(pi.records)


# Whose shell it is.


def test_abort_ends_no_shell_of_the_client_and_abort_bash_none_of_a_tool(agent: AgentStarter, gates: MakeGate) -> None:
    """R-BSH-02."""
    tool, shell = gates(), gates()
    pi = agent([bash_calls(f"{tool.reading}; echo $word"), {"text": "done"}, bash_calls("sleep 600")])
    pi.send(PROMPT)
    tool.wait_reached()
    pi.send({"id": "b1", "type": "bash", "command": "sleep 600"})
    pi.request({"type": "abort_bash"})
    assert pi.wait_response("b1")["data"]["cancelled"]
    tool.release("unharmed")
    pi.wait(SETTLED)
    pi.send({"id": "b2", "type": "bash", "command": f"{shell.reading}; echo $word"})
    shell.wait_reached()
    pi.send({**PROMPT, "id": "p2"})
    pi.wait({"type": "tool_execution_start"})
    pi.request(ABORT)
    shell.release("unharmed")

    assert ["unharmed\n", "Command aborted"] == [
        end["result"]["content"][0]["text"] for end in pi.found({"type": "tool_execution_end"})
    ]
    assert ("unharmed\n", 0) == (pi.wait_response("b2")["data"]["output"], pi.wait_response("b2")["data"]["exitCode"])
