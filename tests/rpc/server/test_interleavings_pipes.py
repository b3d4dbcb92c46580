"""The interleavings that broke earlier drafts of the rules, over real pipes: those that this release can reach.

Numbered as in tests/statechart/test_interleavings.py, which has all twenty on the pure chart.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import faults, kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MakeGate = Callable[[], ShellGate]
MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]

ENDLESS = {"chunks": [{"text": "one"}, {"hang": True}]}
MORE = {"text": "more", "repeat": -1}
PROMPT = {"id": "P", "type": "prompt", "message": "P"}
STEER = {"id": "S", "type": "steer", "message": "S"}
ABORT = {"id": "A", "type": "abort"}
SETTLED = {"type": "agent_settled"}
RUNS = ("agent_start", "agent_end", "agent_settled", "abort:ok", "steer:ok", "prompt:ok", "prompt:error")
DRAIN = ("--on-eof", "drain")


def streaming(agent: AgentStarter, *flags: str) -> HomedAgent:
    """Return an agent in the middle of an answer to P; further requests are answered at once."""
    pi = agent([ENDLESS, MORE], *flags)
    pi.send(PROMPT)
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    return pi


def keyed(agent: AgentStarter, gate: ShellGate, model: FakeLlm) -> HomedAgent:
    """Return an agent whose key is what the gate is told, at each prompt and each further request; nothing: no key."""
    models: Any = pi_models(model.base_url)
    models["providers"]["fake"]["apiKey"] = f"!{gate.reading}; echo $word"
    return agent(model, models=models)


def since(pi: HomedAgent, mark: int) -> list[str]:
    return kinds(pi.records[mark:], *RUNS)


def test_01_a_steer_after_an_abort_is_new_work(agent: AgentStarter) -> None:
    """C-1, C-7: what is accepted after the abort runs after its response; it is not parked by it."""
    pi = streaming(agent)
    mark = pi.mark()
    pi.send_many([ABORT, STEER])
    pi.wait({"type": "agent_settled", "aborted": False})

    assert ["steer:ok", "agent_end", "abort:ok", "agent_start", "agent_end", "agent_settled"] == since(pi, mark)
    assert ["P", "S"] == user_texts(pi.records)
    assert [] == faults(pi.records)


def test_03_a_refused_prompt_releases_nothing(agent: AgentStarter, gates: MakeGate, llm: MakeLlm) -> None:
    """C-1: acceptance releases, not arrival."""
    gate = gates()
    pi = keyed(agent, gate, llm([ENDLESS, MORE]))
    pi.send(PROMPT)
    gate.release("key")
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    pi.request(STEER)
    pi.request(ABORT)
    mark = pi.mark()
    pi.send({"id": "Q", "type": "prompt", "message": "Q"})
    gate.release("")
    assert "no_api_key" == pi.wait_response("Q")["errorCode"]
    state = pi.request({"type": "get_state"})["data"]

    assert ["prompt:error", "agent_settled"] == since(pi, mark)
    assert (False, 1) == (state["isStreaming"], state["pendingMessageCount"])
    assert ["P"] == user_texts(pi.records)


def test_04_abort_continue_answers_before_the_run_and_settles_after_it(agent: AgentStarter) -> None:
    """C-8: no settled between an abort's response and the run that it lets start."""
    pi = streaming(agent)
    mark = pi.mark()
    pi.send_many([STEER, {**ABORT, "queue": "continue"}])
    pi.wait(SETTLED)

    assert ["steer:ok", "agent_end", "abort:ok", "agent_start", "agent_end", "agent_settled"] == since(pi, mark)
    assert ["P", "S"] == user_texts(pi.records)


def test_06_a_prompt_that_waits_behind_a_session_command_does_not_run_after_an_abort(agent: AgentStarter) -> None:
    """C-9: an abort answers everything that waits and would work on the run; the session stays."""
    pi = streaming(agent)
    before = pi.request({"type": "get_state"})["data"]["sessionId"]
    mark = pi.mark()
    pi.send_many([{"id": "N", "type": "new_session"}, {"id": "Q", "type": "prompt", "message": "Q"}, ABORT])
    pi.wait_response("A")
    state = pi.request({"type": "get_state"})["data"]

    assert {"cancelled": True} == pi.wait_response("N")["data"]
    assert "Aborted before it started" == pi.wait_response("Q")["error"]
    assert ["prompt:error", "agent_end", "agent_settled", "abort:ok"] == since(pi, mark)
    assert (before, False) == (state["sessionId"], state["isStreaming"])


def test_07_texts_sent_behind_a_session_command_belong_to_the_new_session(agent: AgentStarter) -> None:
    """C-10, C-9, C-11: a read overtakes and sees the session in force; what comes later waits for the new one."""
    pi = streaming(agent)
    old = pi.request({"type": "get_state"})["data"]["sessionId"]
    mark = pi.mark()
    pi.send_many([{"id": "N", "type": "new_session"}, STEER, {"id": "G", "type": "get_state"}])
    pi.wait({"type": "agent_settled", "aborted": False})
    new = pi.request({"type": "get_state"})["data"]

    assert old == pi.wait_response("G")["data"]["sessionId"] != new["sessionId"]
    assert ["get_state:ok", "agent_end", "new_session:ok", "steer:ok", "agent_start"] == kinds(
        pi.records[mark:], "get_state:ok", "agent_end", "new_session:ok", "steer:ok", "agent_start"
    )[:5]
    assert ["S", "more"] == [
        message["content"][0]["text"] for message in pi.request({"type": "get_messages"})["data"]["messages"]
    ]


def test_10_abort_clear_then_steer_then_abort_hold_parks_the_steer(agent: AgentStarter) -> None:
    """C-6, C-7: each abort acts at its admission, and the last one's option counts."""
    pi = streaming(agent)
    pi.request({"type": "steer", "message": "cleared"})
    mark = pi.mark()
    pi.send_many([{**ABORT, "id": "A1", "queue": "clear"}, STEER, {**ABORT, "id": "A2"}])
    pi.wait_response("A2")
    state = pi.request({"type": "get_state"})["data"]

    assert ["steer:ok", "agent_end", "agent_settled", "abort:ok", "abort:ok"] == since(pi, mark)
    assert {"cleared": {"steering": ["cleared"], "followUp": []}} == pi.wait_response("A1")["data"]
    assert (False, 1) == (state["isStreaming"], state["pendingMessageCount"])
    assert ["S"] == pi.found({"type": "queue_update"})[-1]["steering"]


def test_11_a_preflight_that_was_aborted_is_refused_though_its_key_came(
    agent: AgentStarter, gates: MakeGate, llm: MakeLlm
) -> None:
    """C-13: the prompt's text was not delivered, so it is handed back."""
    gate = gates()
    pi = keyed(agent, gate, llm([MORE]))
    pi.send(PROMPT)
    gate.wait_reached()
    pi.send(ABORT)
    pi.wait_response("A")

    assert ["prompt:error", "agent_settled", "abort:ok"] == since(pi, 0)
    assert "Aborted before it started" == pi.wait_response("P")["error"]
    assert [] == pi.llm.requests
    assert [] == pi.descendants()


def test_15_a_steer_accepted_during_a_refused_preflight_still_runs(
    agent: AgentStarter, gates: MakeGate, llm: MakeLlm
) -> None:
    """C-3: its run has no preflight that could refuse it for ever."""
    gate = gates()
    pi = keyed(agent, gate, llm([MORE]))
    pi.send(PROMPT)
    gate.wait_reached()
    pi.request(STEER)
    gate.release("")
    pi.wait({"type": "agent_start"})
    gate.release("key")
    pi.wait(SETTLED)

    assert ["steer:ok", "prompt:error", "agent_start", "agent_end", "agent_settled"] == since(pi, 0)
    assert ["S"] == user_texts(pi.records)
    assert "more" == pi.request({"type": "get_last_assistant_text"})["data"]["text"]


def test_15_what_preflight_would_refuse_becomes_the_error_of_the_answer(
    agent: AgentStarter, gates: MakeGate, llm: MakeLlm
) -> None:
    """C-3: n queued texts cost at most n failing runs."""
    gate = gates()
    pi = keyed(agent, gate, llm([]))
    pi.send(PROMPT)
    gate.wait_reached()
    pi.request(STEER)
    pi.request({"type": "follow_up", "message": "F"})
    for _ in range(3):
        gate.release("")
    pi.wait(SETTLED)
    ends = pi.found({"type": "message_end", "message": {"role": "assistant", "stopReason": "error"}})

    assert ["agent_start", "agent_end", "agent_start", "agent_end", "agent_settled"] == since(pi, 0)[-5:]
    assert ["S", "F"] == user_texts(pi.records)
    assert 2 == len(ends)
    assert all(end["message"]["errorMessage"].startswith("No API key found for fake.") for end in ends)
    assert [] == faults(pi.records)


@pytest.mark.parametrize("mode", ["all", "one-at-a-time"])
def test_16_a_steer_while_idle_does_not_overtake_a_held_one(agent: AgentStarter, mode: str) -> None:
    """C-4: first in, first out within a queue."""
    pi = streaming(agent)
    pi.request({"type": "set_steering_mode", "mode": mode})
    pi.request({"type": "steer", "message": "H"})
    pi.request(ABORT)
    mark = pi.mark()
    pi.send(STEER)
    pi.wait(SETTLED, since=mark)

    assert ["steer:ok", "agent_start", "agent_end", "agent_settled"] == since(pi, mark)
    assert ["P", "H", "S"] == user_texts(pi.records)
    assert (1 if mode == "all" else 2) == len(kinds(pi.records[mark:], "turn_start"))


def test_18_abort_bash_withdraws_a_bash_that_waits(agent: AgentStarter) -> None:
    """C-9: nothing starts after the response that said it was ended."""
    pi = streaming(agent)
    mark = pi.mark()
    bash = {"id": "B", "type": "bash", "command": "touch started"}
    pi.send_many([{"id": "N", "type": "new_session"}, bash, {"id": "AB", "type": "abort_bash"}])
    pi.wait_response("N")
    pi.request({"type": "bash", "command": "true"})

    assert {"output": "", "cancelled": True, "truncated": False} == pi.wait_response("B")["data"]
    assert ["bash:ok", "abort_bash:ok", "agent_end", "new_session:ok"] == kinds(
        pi.records[mark:], "bash:ok", "abort_bash:ok", "agent_end", "new_session:ok"
    )[:4]
    assert not (pi.home.work / "started").exists()


def test_20_a_drain_leaves_what_is_held_and_closes(agent: AgentStarter) -> None:
    """C-17: held texts stay queued, are reported a last time, and the process still ends."""
    pi = streaming(agent, *DRAIN)
    pi.request(STEER)
    pi.request(ABORT)
    mark = pi.mark()
    pi.close_stdin()

    assert 0 == pi.wait_exit()
    assert [["S"]] == [update["steering"] for update in pi.found({"type": "queue_update"}, since=mark)]
    assert ["queue_update"] == kinds(pi.records[mark:])


def test_20_a_drain_finishes_what_is_queued(agent: AgentStarter) -> None:
    """C-17: nothing is cancelled; what is owed runs first."""
    pi = agent([{"chunks": [{"text": "one"}, {"gate": "g"}]}, MORE], *DRAIN)
    pi.send(PROMPT)
    pi.llm.wait_reached("g")
    pi.request({"type": "follow_up", "message": "F"})
    pi.close_stdin()
    pi.llm.release("g")

    assert 0 == pi.wait_exit()
    assert ["P", "F"] == user_texts(pi.records)
    assert {"type": "agent_settled", "aborted": False} == pi.records[-1].record
    assert [] == faults(pi.records)
