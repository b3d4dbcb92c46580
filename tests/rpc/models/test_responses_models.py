"""Models behind OpenAI Responses in the whole program: events, session file, another API in the same conversation."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pinnace_agent.llm.failures import provider_words
from pinnace_fuzz.harness.adapters import API_KEY
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import kinds
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MODEL = {
    "name": "Fake",
    "reasoning": True,
    "input": ["text"],
    "contextWindow": 128_000,
    "maxTokens": 4096,
    "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25},
}
CALLING = {
    "reasoning": ["Let me ", "see."],
    "text": "Looking.",
    "tool_calls": [{"name": "bash", "args": {"command": "echo from the shell"}, "id": "call_1"}],
    "usage": {"input": 100, "output": 20, "cacheRead": 40, "reasoning": 7},
}


@pytest.fixture
def start(
    llm: Callable[[Iterable[Scripted]], FakeLlm], agent: AgentStarter
) -> Callable[[Iterable[Scripted]], HomedAgent]:
    """Starts an agent with a model of each of two APIs at one scripted server."""

    def starter(script: Iterable[Scripted]) -> HomedAgent:
        server = llm(script)
        shared = {"baseUrl": f"{server.base_url}/v1", "apiKey": API_KEY}
        models = {
            "providers": {
                "fake": {**shared, "api": "openai-responses", "models": [{"id": "m1", **MODEL}]},
                "chat": {**shared, "api": "openai-completions", "models": [{"id": "c1", **MODEL}]},
            }
        }
        return agent(server, "--thinking", "low", models=models, has_session=True)

    return starter


def brief(messages: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return role and content of messages, shortly."""
    return [(message["role"], " ".join(map(_word, message["content"]))) for message in messages]


def _word(block: dict[str, Any]) -> str:
    return str(block.get("text") or block.get("thinking") or block.get("id")).strip()


CONVERSATION = [
    ("user", "P"),
    ("assistant", "Let me see. Looking. call_1|fc_2"),
    ("toolResult", "from the shell"),
    ("assistant", "Done."),
]


def test_a_prompt_a_call_and_an_answer(start: Callable[[Iterable[Scripted]], HomedAgent]) -> None:
    pi = start([CALLING, {"text": ["Do", "ne."]}])
    pi.say("P")
    messages = pi.ask("get_messages")["messages"]
    with open(pi.ask("get_state")["sessionFile"], "rb") as file:
        written = [row["message"] for row in map(json.loads, file) if row["type"] == "message"]

    assert brief(messages) == brief(written) == CONVERSATION
    assert messages == written
    first, second = pi.llm.requests
    assert {first.path, second.path} == {"/v1/responses"}
    assert first.headers["session-id"] == second.headers["session-id"] == pi.ask("get_state")["sessionId"]
    assert [item.get("type", item.get("role")) for item in second.body["input"]] == [
        *("developer", "user", "reasoning", "message", "function_call", "function_call_output")
    ]
    updates = [record["assistantMessageEvent"]["type"] for record in pi.found({"type": "message_update"})]
    assert [each for each in updates if not each.endswith("_delta")] == [
        *("thinking_start", "thinking_end", "text_start", "text_end", "toolcall_start", "toolcall_end"),
        *("text_start", "text_end"),
    ]
    assert kinds(pi.records, "turn_end", "tool_execution_end", "agent_end") == [
        *("tool_execution_end", "turn_end", "turn_end", "agent_end")
    ]
    answer = messages[1]
    assert (answer["api"], answer["stopReason"], answer["responseId"]) == ("openai-responses", "toolUse", "resp_fake")
    assert (answer["usage"]["input"], answer["usage"]["cacheRead"], answer["usage"]["reasoning"]) == (100, 40, 7)


def test_models_of_two_apis_share_a_conversation(start: Callable[[Iterable[Scripted]], HomedAgent]) -> None:
    """Each is sent its own thoughts and ids, and of the other's only what it can read."""
    chat_call = {"name": "bash", "args": {"command": "echo again"}, "id": "chat/call+1"}
    pi = start(
        [
            CALLING,
            {"text": "Done."},
            {"reasoning": "secretly", "tool_calls": [chat_call]},
            {"text": "Again."},
            {"text": "Back."},
        ]
    )
    pi.say("P")
    pi.ask("set_model", provider="chat", modelId="c1")
    pi.say("Q")
    pi.ask("set_model", provider="fake", modelId="m1")
    pi.say("R")
    asked, back = pi.llm.requests[2], pi.llm.requests[4]

    assert [request.path.rpartition("/")[2] for request in pi.llm.requests] == [
        *("responses", "responses", "completions", "completions", "responses")
    ]
    roles = [message["role"] for message in asked.body["messages"]]
    assert roles[1:] == ["user", "assistant", "tool", "assistant", "user"]
    (called,) = asked.body["messages"][2]["tool_calls"]
    assert called["id"] == asked.body["messages"][3]["tool_call_id"] == "call_1_fc_2"
    assert "Let me see." not in asked.text
    items = back.body["input"]
    assert [item.get("type", item.get("role")) for item in items[1:]] == [
        *("user", "reasoning", "message", "function_call", "function_call_output", "message"),
        *("user", "function_call", "function_call_output", "message"),
        "user",
    ]
    assert items[8]["call_id"] == items[9]["call_id"] == "chat_call_1"
    assert (items[2]["id"], items[4].get("id"), items[8].get("id")) == ("rs_0", "fc_2", None)
    assert "secretly" not in back.text
    assert brief(pi.ask("get_messages")["messages"])[-1] == ("assistant", "Back.")


def test_a_refusal_is_reported_and_the_next_prompt_works(start: Callable[[Iterable[Scripted]], HomedAgent]) -> None:
    refusal = {"status": 400, "body": {"error": {"message": f"No, {API_KEY}", "code": "invalid_prompt"}}}
    pi = start([{"error": refusal}, {"text": "Done."}])
    pi.say("P", "Q")
    failed, answered = (message for message in pi.ask("get_messages")["messages"] if message["role"] == "assistant")

    text = 'fake API error (400): {"message":"No, [redacted]","code":"invalid_prompt"}'
    assert (failed["stopReason"], provider_words(failed["errorMessage"])) == ("error", text)
    assert brief([answered]) == [("assistant", "Done.")]
