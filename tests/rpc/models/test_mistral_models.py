"""Models of Mistral in the whole program, by the built-in catalog."""

from collections.abc import Callable, Iterable

from pinnace_fuzz.harness.adapters import API_KEY
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter


def test_a_prompt_a_call_and_an_answer(llm: Callable[[Iterable[Scripted]], FakeLlm], agent: AgentStarter) -> None:
    calling = {
        "text": "Looking.",
        "tool_calls": [{"name": "bash", "args": {"command": "echo here"}, "id": "aB3dE6gH9"}],
    }
    server = llm([calling, {"text": "Done."}])
    models = {"providers": {"mistral": {"baseUrl": server.base_url, "apiKey": API_KEY}}}
    pi = agent(server, "--model", "mistral/mistral-medium-latest:high", names_model=False, models=models)
    pi.say("P")
    messages = pi.ask("get_messages")["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant", "toolResult", "assistant"]
    assert messages[-1]["api"] == "mistral-conversations"
    first, second = server.requests
    assert {first.path, second.path} == {"/v1/chat/completions"}
    assert first.headers["x-affinity"] == second.body["prompt_cache_key"] == pi.ask("get_state")["sessionId"]
    assert second.body["reasoning_effort"] == "high"
    assert second.body["messages"][-1]["tool_call_id"] == "aB3dE6gH9"
    assert second.body["messages"][-1]["content"] == [{"type": "text", "text": "here"}]
