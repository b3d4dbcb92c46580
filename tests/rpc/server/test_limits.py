"""Limits end a run that would go on for ever: as an abort, with the queue held, and the reason told."""

from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

PROMPT = {"id": "p", "type": "prompt", "message": "go"}
# Always one more tool; each answer costs 10 * 1 + 5 * 2 millionths.
CALLING: Scripted = {"tool_calls": [{"name": "bash", "args": {"command": "echo again"}}], "repeat": -1}
COST_OF_ONE = 0.00002
HANGING: Scripted = {"chunks": [{"text": "one"}, {"hang": True}]}
SLEEPING: Scripted = {"tool_calls": [{"name": "bash", "args": {"command": "echo begun; sleep 600"}}]}
# Limits for tests in which something has to happen before the time is over: on a busy machine at one of the later ones.
LIMITS_S = (0.4, 2.0, 10.0, 50.0)


def limited(limit: str) -> dict[str, object]:
    return {"type": "agent_settled", "aborted": True, "reason": "limit", "limit": limit}


def end_of(pi: HomedAgent, prompt: Any = PROMPT) -> dict[str, Any]:
    """Prompt, and return how that settled."""
    mark = pi.mark()
    pi.send(prompt)
    return dict(pi.wait({"type": "agent_settled"}, since=mark))


def test_turns(agent: AgentStarter) -> None:
    """R-LIM-02: what the last answer calls is carried out, and no request follows."""
    pi = agent([CALLING], "--max-turns", "3")

    assert limited("maxTurns") == end_of(pi)
    assert 3 == len(pi.llm.requests)
    assert [False] * 3 == [end["isError"] for end in pi.found({"type": "tool_execution_end"})]
    assert ["turn_start", "turn_end"] * 3 == kinds(pi.records, "turn_start", "turn_end")
    assert pi.wait_response("p")["success"]


def test_turns_are_enough_for_what_needs_no_more(agent: AgentStarter) -> None:
    pi = agent([{"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "done"}], "--max-turns", "2")

    assert {"type": "agent_settled", "aborted": False} == end_of(pi)


def test_turns_are_counted_anew_for_each_run(agent: AgentStarter) -> None:
    pi = agent([{"text": "fine", "repeat": -1}], "--max-turns", "1")

    assert [False, False] == [end_of(pi)["aborted"], end_of(pi, {"type": "prompt", "message": "again"})["aborted"]]


def test_an_attempt_that_failed_is_no_turn(agent: AgentStarter) -> None:
    settings = {"retry": {"baseDelayMs": 1}}
    script: list[Scripted] = [{"error": {"status": 503}}, {"error": {"status": 503}}, {"text": "fine"}]
    pi = agent(script, "--max-turns", "1", settings=settings)

    assert {"type": "agent_settled", "aborted": False} == end_of(pi)


def test_a_model_without_prices_is_not_selected_under_a_limit_of_cost(agent: AgentStarter) -> None:
    """Zeros say that a model is free: its cost can be counted."""
    described = {"baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "apiKey": "none"}
    free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    models = [{"id": "priced", "cost": free}, {"id": "unpriced"}]
    local = {"providers": {"local": {**described, "models": models}}}
    words = ("--provider", "local", "--model", "priced")
    pi = agent((), *words, models=local, settings={"limits": {"maxCost": 1}}, names_model=False)
    refused = pi.request({"type": "set_model", "provider": "local", "modelId": "unpriced"})

    assert (False, "no_model") == (refused["success"], refused["errorCode"])
    assert "local/unpriced has no prices" in refused["error"]
    assert "priced" == pi.request({"type": "get_state"})["data"]["model"]["id"]


def test_what_is_queued_stays_queued_until_the_next_text(agent: AgentStarter) -> None:
    """R-LIM-01: as after an abort; neither the text nor the run is lost."""
    pi = agent([{"chunks": [{"text": "one"}, {"gate": "g"}]}, {"text": "more", "repeat": -1}], "--max-turns", "1")
    pi.send(PROMPT)
    pi.llm.wait_reached("g")
    pi.ask("steer", message="S")
    pi.ask("follow_up", message="F")
    pi.llm.release("g")

    assert limited("maxTurns") == pi.wait({"type": "agent_settled"})
    assert 2 == pi.ask("get_state")["pendingMessageCount"]
    assert "stop" == pi.found({"type": "turn_end"})[-1]["message"]["stopReason"]
    assert ["go"] == user_texts(pi.records)
    assert limited("maxTurns") == end_of(pi, {"type": "prompt", "message": "next"})
    assert ["go", "next", "S"] == user_texts(pi.records)


def test_a_queue_cuts_no_calls_short(agent: AgentStarter) -> None:
    """R-LIM-02."""
    call = {"name": "bash", "args": {"command": "echo again"}}
    pi = agent([{"tool_calls": [call], "hold": "head"}], "--max-turns", "1")
    pi.send(PROMPT)
    pi.llm.wait_reached("head")
    pi.ask("steer", message="S")
    pi.llm.release("head")

    assert limited("maxTurns") == pi.wait({"type": "agent_settled"})
    assert [(False, "again\n")] == results(pi)
    assert 1 == pi.ask("get_state")["pendingMessageCount"]


def test_cost(agent: AgentStarter) -> None:
    """R-LIM-02."""
    pi = agent([CALLING], "--max-cost", str(COST_OF_ONE * 2.5))

    assert limited("maxCost") == end_of(pi)
    assert 3 == len(pi.llm.requests)


def test_cost_counts_what_failed(agent: AgentStarter) -> None:
    """A stream that broke off was paid for."""
    broken: Scripted = {"chunks": [{"text": "o"}, {"usage": {"input": 100, "output": 9}}, {"disconnect": "rst"}]}
    pi = agent([broken, {"text": "fine"}], "--max-cost", "0.0001", settings={"retry": {"baseDelayMs": 1}})

    assert limited("maxCost") == end_of(pi)
    assert 1 == len(pi.llm.requests)


@pytest.mark.parametrize(
    "script", [HANGING, SLEEPING, CALLING, {"hold": "for ever"}], ids=["model", "tool", "loop", "head"]
)
def test_time(script: Scripted, agent: AgentStarter) -> None:
    """R-LIM-01: a model that hangs, a tool that hangs, a run that goes on."""
    pi = agent([script], "--max-run-seconds", "0.3")

    assert limited("maxRunSeconds") == end_of(pi)
    assert not pi.ask("get_state")["isStreaming"]


def test_time_ends_a_wait_for_the_next_attempt(agent: AgentStarter) -> None:
    settings = {"retry": {"baseDelayMs": 600_000, "maxAgentDelayMs": 600_000}}
    for limit_s in LIMITS_S:
        pi = agent([{"error": {"status": 503}}], "--max-run-seconds", str(limit_s), settings=settings)
        assert limited("maxRunSeconds") == end_of(pi)
        if pi.found({"type": "auto_retry_start"}):
            break

    assert ["auto_retry_start", "auto_retry_end", "agent_settled"] == kinds(
        pi.records, "auto_retry_start", "auto_retry_end", "agent_settled"
    )


def test_time_that_is_over_concerns_no_later_run(agent: AgentStarter) -> None:
    for limit_s in LIMITS_S:
        pi = agent([HANGING, {"text": "two"}], "--max-run-seconds", str(limit_s))
        assert limited("maxRunSeconds") == end_of(pi)
        settled = end_of(pi, {"type": "prompt", "message": "again"})
        if not settled["aborted"]:
            break

    assert {"type": "agent_settled", "aborted": False} == settled


def test_time_ends_a_drain_and_the_queue_is_kept(agent: AgentStarter) -> None:
    """C-16, C-17: what would have kept the process for ever."""
    pi = agent([HANGING], "--max-run-seconds", "0.5", "--on-eof", "drain")
    pi.send_many([PROMPT, {"type": "follow_up", "message": "F"}])  # together: the time may be over behind the first
    pi.wait({"type": "queue_update", "followUp": ["F"]})
    pi.close_stdin()

    assert 0 == pi.wait_exit(60)
    assert limited("maxRunSeconds") in pi.found({"type": "agent_settled"})
    assert ["go"] == user_texts(pi.records)


def test_an_abort_that_was_asked_for_has_no_limit(agent: AgentStarter) -> None:
    pi = agent([HANGING], "--max-run-seconds", "600", "--max-turns", "5", "--max-cost", "1")
    pi.send(PROMPT)
    pi.wait({"type": "message_update"})
    pi.request({"type": "abort"})

    assert {"type": "agent_settled", "aborted": True} == pi.wait({"type": "agent_settled"})


def test_the_settings_have_limits_too_and_a_flag_goes_before(agent: AgentStarter) -> None:
    settings = {"limits": {"maxTurns": 2, "maxCost": 0, "maxRunSeconds": 60.5}}
    pi, other = agent([CALLING], settings=settings), agent([CALLING], "--max-turns", "1", settings=settings)

    assert (limited("maxTurns"), 2) == (end_of(pi), len(pi.llm.requests))
    assert (limited("maxTurns"), 1) == (end_of(other), len(other.llm.requests))


def test_in_the_oldest_profile_the_run_just_ends(agent: AgentStarter) -> None:
    pi = agent([CALLING], "--max-turns", "1", "--protocol", "seed")
    pi.send(PROMPT)
    pi.wait({"type": "agent_end"})

    assert not pi.ask("get_state")["isStreaming"]


# The time of a single tool call.


def results(pi: HomedAgent) -> list[tuple[bool, str]]:
    return [(end["isError"], end["result"]["content"][0]["text"]) for end in pi.found({"type": "tool_execution_end"})]


def test_a_tool_call_takes_no_longer_than_the_settings_say(agent: AgentStarter) -> None:
    """R-LIM-03: the run goes on, and the model reads what the command has said so far."""
    for limit_s in LIMITS_S:
        pi = agent([SLEEPING, {"text": "done"}], settings={"tools": {"timeoutSeconds": limit_s}})
        assert not end_of(pi)["aborted"]
        told = f"Command timed out after {limit_s:g} seconds"
        if [(True, told)] != results(pi):  # it had begun by then
            break

    assert [(True, f"begun\n\n\n{told}")] == results(pi)


def test_a_call_that_names_its_time_has_it(agent: AgentStarter) -> None:
    """R-LIM-03."""
    call = {"name": "bash", "args": {"command": "sleep 0.6; echo through", "timeout": 30}}
    pi = agent([{"tool_calls": [call]}, {"text": "done"}], settings={"tools": {"timeoutSeconds": 0.2}})
    end_of(pi)

    assert [(False, "through\n")] == results(pi)


def test_any_tool_has_a_time(agent: AgentStarter, tmp_path: Path) -> None:
    """R-LIM-03: here a search whose program hangs."""
    program = tmp_path / "bin" / "rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    script: list[Scripted] = [{"tool_calls": [{"name": "grep", "args": {"pattern": "x"}}]}, {"text": "done"}]
    settings = {"tools": {"timeoutSeconds": 0.4}}
    pi = agent(script, "--tools", "grep", settings=settings, path_first=program.parent)

    assert not end_of(pi)["aborted"]
    assert [(True, "Tool timed out after 0.4 seconds")] == results(pi)
