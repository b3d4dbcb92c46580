"""Commands in one write, over real pipes: what was accepted is delivered once or handed back; abort ends everything."""

import os

import pytest

from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.trials.workbench import AgentStarter

SETTLED = {"type": "agent_settled"}
STREAMING = {"type": "message_update"}


def user_texts(agent: Agent) -> list[str]:
    """Return the user texts that entered the conversation, in order."""
    ends = agent.found({"type": "message_end", "message": {"role": "user"}})
    return [record["message"]["content"][0]["text"] for record in ends]


def kinds(agent: Agent, *wanted: str) -> list[str]:
    """Return the types of records in order; responses as `command:ok` or `command:error`."""
    words: list[str] = []
    for received in agent.records:
        record = received.record
        if record["type"] == "response":
            words.append(f"{record['command']}:{'ok' if record['success'] else 'error'}")
        else:
            words.append(str(record["type"]))
    return [word for word in words if word in wanted]


def test_abort_and_then_a_prompt_in_one_write_ends_the_run_and_starts_the_next(agent: AgentStarter) -> None:
    """C-9: the prompt waits for the abort and is taken after its response."""
    pi = agent([{"chunks": [{"text": "a"}, {"hang": True}]}, {"text": "second"}])
    pi.send({"id": "p1", "type": "prompt", "message": "first"})
    pi.wait(STREAMING)
    pi.send_many([{"id": "ab", "type": "abort"}, {"id": "p2", "type": "prompt", "message": "next"}])
    pi.wait(SETTLED)
    pi.wait(SETTLED)

    assert ["prompt:ok", "agent_end", "agent_settled", "abort:ok", "prompt:ok", "agent_end", "agent_settled"] == kinds(
        pi, "prompt:ok", "abort:ok", "agent_end", "agent_settled"
    )
    assert ["first", "next"] == user_texts(pi)


def test_of_two_prompts_in_one_write_the_second_is_refused(agent: AgentStarter) -> None:
    """R-PRM-04: never lost, never run beside the first."""
    pi = agent([{"text": "one"}])
    pi.send_many(
        [{"id": "p1", "type": "prompt", "message": "first"}, {"id": "p2", "type": "prompt", "message": "second"}]
    )
    pi.wait(SETTLED)
    refused = pi.wait_response("p2")

    assert pi.wait_response("p1")["success"]
    assert not refused["success"]
    assert refused["error"].startswith("Agent is already processing. Specify streamingBehavior")
    assert ["first"] == user_texts(pi)


@pytest.mark.parametrize("behavior", ["steer", "followUp"])
def test_of_two_prompts_in_one_write_the_second_is_queued_when_it_says_how(agent: AgentStarter, behavior: str) -> None:
    """R-PRM-03: accepted in preflight, delivered in the same run."""
    pi = agent([{"text": "one"}, {"text": "two"}])
    pi.send_many(
        [
            {"id": "p1", "type": "prompt", "message": "first"},
            {"id": "p2", "type": "prompt", "message": "second", "streamingBehavior": behavior},
        ]
    )
    pi.wait(SETTLED)

    assert {"disposition": "queued"} == pi.wait_response("p2")["data"]
    assert ["first", "second"] == user_texts(pi)
    assert ["agent_start", "agent_end"] == kinds(pi, "agent_start", "agent_end")


def test_nothing_runs_after_the_response_of_an_abort_sent_with_its_prompt(agent: AgentStarter) -> None:
    """R-ABT-01: the prompt is refused, and the model is never asked."""
    pi = agent([{"text": "one"}])
    pi.send_many([{"id": "p", "type": "prompt", "message": "first"}, {"id": "ab", "type": "abort"}])
    pi.wait_response("ab")
    pi.request({"id": "s", "type": "get_state"})

    assert not pi.wait_response("p")["success"]
    assert [] == kinds(pi, "agent_start")
    assert [] == pi.llm.requests


def test_bash_and_abort_bash_in_one_write_cancel_the_command(agent: AgentStarter) -> None:
    """R-BSH-02: registered before it could be missed."""
    pi = agent()
    pi.send_many([{"id": "b", "type": "bash", "command": "sleep 30"}, {"id": "ab", "type": "abort_bash"}])
    result = pi.wait_response("b")

    assert result["data"]["cancelled"] is True
    assert "exitCode" not in result["data"]
    assert ["abort_bash:ok", "bash:ok"] == kinds(pi, "abort_bash:ok", "bash:ok")


def test_a_prompt_behind_new_session_in_one_write_runs_in_the_new_session(agent: AgentStarter) -> None:
    """C-10: the prompt waits for the replacement."""
    pi = agent([{"text": "one"}])
    before = pi.request({"id": "s1", "type": "get_state"})["data"]["sessionId"]
    pi.send_many([{"id": "n", "type": "new_session"}, {"id": "p", "type": "prompt", "message": "hello"}])
    pi.wait(SETTLED)
    after = pi.request({"id": "s2", "type": "get_state"})["data"]

    assert {"cancelled": False, "cleared": {"steering": [], "followUp": []}} == pi.wait_response("n")["data"]
    assert before != after["sessionId"]
    assert 2 == after["messageCount"]


def test_a_read_that_waited_shows_what_was_reported_before_it(agent: AgentStarter) -> None:
    """R-STA-01: one step takes the line behind a session's replacement, and begins the run that follows from it."""
    pi = agent([{"text": "one"}])
    texts = [{"type": "follow_up", "message": "first"}, {"type": "follow_up", "message": "second"}]
    reads = [{"id": "r0", "type": "get_state"}, {"id": "r1", "type": "get_state"}]
    pi.send_many([{"type": "new_session"}, texts[0], reads[0], texts[1], reads[1]])
    shown: list[object] = []
    for name in ("r0", "r1"):
        data = pi.wait_response(name)["data"]
        at = next(n for n, each in enumerate(pi.records) if each.record.get("id") == name)
        told = [each.record for each in pi.records[:at] if each.record["type"] == "queue_update"]
        shown.append((data["pendingMessageCount"], data["isStreaming"]))
        assert [len(told[-1]["steering"]) + len(told[-1]["followUp"])] == [data["pendingMessageCount"]]

    # While the second message is being saved, the first one is delivered.
    assert [(1, True), (1, True)] == shown


def test_new_session_in_the_middle_of_a_run_closes_it_and_withdraws_the_queue(agent: AgentStarter) -> None:
    """C-10, R-QUE-09: closing records first, an empty queue_update, the texts in the response."""
    pi = agent([{"chunks": [{"text": "a"}, {"hang": True}]}])
    pi.send({"id": "p", "type": "prompt", "message": "first"})
    pi.wait(STREAMING)
    pi.send_many([{"id": "st", "type": "steer", "message": "queued"}, {"id": "n", "type": "new_session"}])

    assert {"steering": ["queued"], "followUp": []} == pi.wait_response("n")["data"]["cleared"]
    assert ["steer:ok", "agent_end", "queue_update", "agent_settled", "new_session:ok"] == kinds(
        pi, "steer:ok", "agent_end", "queue_update", "agent_settled", "new_session:ok"
    )[1:]
    assert 0 == pi.request({"id": "s", "type": "get_state"})["data"]["messageCount"]


def test_a_steer_while_idle_starts_a_run(agent: AgentStarter) -> None:
    """R-QUE-07, C-4: queue_update, response, then the run that delivers it."""
    pi = agent([{"text": "one"}])
    pi.send({"id": "st", "type": "steer", "message": "hello"})
    pi.wait(SETTLED)

    assert {"disposition": "started"} == pi.wait_response("st")["data"]
    assert ["hello"] == user_texts(pi)


@pytest.mark.parametrize("moment", ["agent_start", "message_update", "message_end", "turn_end", "agent_end"])
def test_a_steer_right_after_any_record_of_a_run_is_delivered_once(agent: AgentStarter, moment: str) -> None:
    """R-QUE-07, C-2: between the last record of a run and its settling there is no gap to fall into."""
    pi = agent([{"text": ["one", " more"], "repeat": -1}])
    pi.send({"id": "p", "type": "prompt", "message": "first"})
    pi.wait({"type": moment})
    pi.send({"id": "st", "type": "steer", "message": "steered"})
    assert pi.wait_response("st")["success"]
    pi.wait({"type": "message_end", "message": {"role": "user", "content": [{"text": "steered"}]}})
    while pi.request({"type": "get_state", "id": f"s{pi.mark()}"})["data"]["isStreaming"]:
        pi.wait(SETTLED)

    assert ["first", "steered"] == user_texts(pi)


def test_steers_and_follow_ups_during_tools_are_delivered_in_their_order(agent: AgentStarter) -> None:
    """R-QUE-03, R-QUE-04: all calls finish; steering at the next turns, follow-ups when the run would stop."""
    call = {"name": "bash", "args": {"command": "read line < gate"}}
    pi = agent([{"tool_calls": [call]}, {"text": "t", "repeat": -1}])
    (pi.home.work / "gate").unlink(missing_ok=True)
    os.mkfifo(pi.home.work / "gate")
    pi.send({"id": "p", "type": "prompt", "message": "go"})
    pi.wait({"type": "tool_execution_start"})
    pi.send_many(
        [
            {"id": "s1", "type": "steer", "message": "S1"},
            {"id": "s2", "type": "steer", "message": "S2"},
            {"id": "f1", "type": "follow_up", "message": "F1"},
            {"id": "f2", "type": "follow_up", "message": "F2"},
        ]
    )
    pi.wait_response("f2")
    (pi.home.work / "gate").write_text("go\n")
    pi.wait(SETTLED)

    assert ["go", "S1", "S2", "F1", "F2"] == user_texts(pi)
    assert ["agent_start", *["turn_start"] * 5, "agent_end"] == kinds(pi, "agent_start", "turn_start", "agent_end")
