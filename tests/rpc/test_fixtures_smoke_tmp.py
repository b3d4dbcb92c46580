from pinnace_fuzz.workbench import AgentStarter

def test_a_prompt_is_answered(agent: AgentStarter) -> None:
    running = agent([{"text": ["Hel", "lo"]}])
    assert running.request({"type": "prompt", "message": "hi"})["success"]
    running.wait({"type": "agent_end"})
    assert len(running.llm.requests) == 1

def test_gate_abort(agent: AgentStarter) -> None:
    running = agent([{"text": ["a", {"gate": "g"}, "b"]}])
    running.request({"type": "prompt", "message": "hi"})
    running.llm.wait_reached("g")
    running.wait({"type": "message_update"})
    assert running.request({"type": "abort"})["success"]
    running.llm.wait_disconnects(1)
