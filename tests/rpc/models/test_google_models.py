"""A model of Google's in a real agent: a custom provider, a tool, and a history that goes to another API and back.

The answers are constructed after the published format, never recorded.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pinnace_agent.llm.failures import provider_words
from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Reply
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.reading import kinds
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

KEY: Final = "AIzaSyFake0123456789"
GEMINI: Final = "gemini-3-flash-preview"
SETTLED: Final = {"type": "agent_settled"}


def answering(*parts: Mapping[str, object], reason: str = "STOP") -> Answer:
    """Answer with these parts, each in a chunk of its own."""
    usage = {"promptTokenCount": 30, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
    chunks: list[Record] = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    chunks[-1] |= {"usageMetadata": usage, "responseId": "r1", "modelVersion": GEMINI}
    chunks[-1]["candidates"][0]["finishReason"] = reason

    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(*(f"data: {json.dumps(chunk)}\r\n\r\n".encode() for chunk in chunks))
        reply.end()

    return answer


USES_TOOL: Final = answering(
    {"text": "I look.", "thought": True},
    {"text": "Looking"},
    {"functionCall": {"name": "bash", "args": {"command": "echo from-the-tool"}}, "thoughtSignature": "QUFB"},
)
ANSWERS: Final = answering({"text": "It says so"}, {"text": "", "thoughtSignature": "QkJC"})


def start(agent: AgentStarter, google: RawServer, llm: FakeLlm, **options: Any) -> HomedAgent:
    """Start an agent that knows both, with Google's in force."""
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0}
    model = {"id": GEMINI, "reasoning": True, "input": ["text"], "contextWindow": 100_000, "cost": cost}
    provider = {"baseUrl": f"{google.url}/v1beta", "api": "google-generative-ai", "apiKey": KEY, "models": [model]}
    models: Any = pi_models(llm.base_url)
    models["providers"]["goog"] = provider
    pi = agent(llm, models=models, has_session=True, **options)
    pi.ask("set_model", provider="goog", modelId=GEMINI)
    pi.ask("set_thinking_level", level="low")
    return pi


def bodies(google: RawServer) -> Sequence[Record]:
    return [json.loads(request.body) for request in google.requests]


def test_a_tool_is_called_and_its_result_answered(agent: AgentStarter) -> None:
    with RawServer(USES_TOOL, ANSWERS) as google, FakeLlm([]) as llm:
        pi = start(agent, google, llm)
        mark = pi.mark()
        pi.say("look")
        first, second = bodies(google)
        user, *answers = pi.ask("get_messages")["messages"]
        path = Path(pi.ask("get_state")["sessionFile"])

    assert google.connections == 1
    assert google.requests[0].path == f"/v1beta/models/{GEMINI}:streamGenerateContent?alt=sse"
    assert google.requests[0].headers["x-goog-api-key"] == KEY
    assert first["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "LOW"}
    assert "bash" in [each["name"] for each in first["tools"][0]["functionDeclarations"]]

    call, result, answer = answers
    call_id = call["content"][2]["id"]
    assert user["role"] == "user"
    assert [block["type"] for block in call["content"]] == ["thinking", "text", "toolCall"]
    assert (call["stopReason"], answer["stopReason"]) == ("toolUse", "stop")
    assert (result["toolCallId"], result["content"][0]["text"].strip()) == (call_id, "from-the-tool")
    assert answer["content"] == [{"type": "text", "text": "It says so", "textSignature": "QkJC"}]
    assert (answer["usage"]["input"], answer["usage"]["output"], answer["usage"]["reasoning"]) == (30, 7, 2)

    said, response = second["contents"][1:]
    assert said["parts"][2]["functionCall"] == {
        "id": call_id,
        "name": "bash",
        "args": {"command": "echo from-the-tool"},
    }
    assert said["parts"][2]["thoughtSignature"] == "QUFB"
    (only,) = response["parts"]
    assert only["functionResponse"]["response"]["output"].strip() == "from-the-tool"

    updates = pi.found({"type": "message_update"}, since=mark)
    reported = [record["assistantMessageEvent"]["type"] for record in updates]
    assert reported == [
        *("thinking_start", "thinking_delta", "thinking_end", "text_start", "text_delta", "text_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_end", "text_start", "text_delta", "text_end"),
    ]
    ran = kinds(pi.records[mark:], "tool_execution_start", "tool_execution_end", "agent_end", "agent_settled")
    assert ran == ["tool_execution_start", "tool_execution_end", "agent_end", "agent_settled"]

    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["message"] for row in rows if row["type"] == "message"] == [user, *answers]
    assert KEY not in path.read_text(encoding="utf-8")


def test_a_history_goes_to_another_api_and_back(agent: AgentStarter) -> None:
    other = {"text": "Other"}
    with RawServer(USES_TOOL, ANSWERS, answering({"text": "Back"})) as google, FakeLlm([other]) as llm:
        pi = start(agent, google, llm)
        pi.say("look")
        pi.ask("set_model", provider="fake", modelId="m1")
        pi.say("and you?")
        pi.ask("set_model", provider="goog", modelId=GEMINI)
        pi.say("again")
        last = bodies(google)[-1]["contents"]
        (request,) = llm.requests

    sent = request.body["messages"]
    assert [message["role"] for message in sent[1:]] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"]
    assert "I look." not in json.dumps(sent)
    assert "QUFB" not in json.dumps(sent)

    assert [content["role"] for content in last] == ["user", "model", "user", "model", "user", "model", "user"]
    assert [list(part) for part in last[1]["parts"]] == [
        ["thought", "text"],
        ["text"],
        ["functionCall", "thoughtSignature"],
    ]
    assert last[3]["parts"] == [{"text": "It says so", "thoughtSignature": "QkJC"}]
    assert last[5]["parts"] == [{"text": "Other"}]


def test_an_overloaded_model_is_asked_again_and_an_overflow_is_reported(agent: AgentStarter) -> None:
    def refusing(code: int, status: str, message: str) -> Answer:
        body = json.dumps({"error": {"code": code, "message": message, "status": status}}).encode()
        return lambda reply: reply.whole(body, status=f"{code} No", content_type="application/json")

    long = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
    settings = {"retry": {"baseDelayMs": 1}, "compaction": {"enabled": False}}
    answers = (refusing(503, "UNAVAILABLE", "Overloaded"), ANSWERS, refusing(400, "INVALID_ARGUMENT", long))
    with RawServer(*answers) as google, FakeLlm([]) as llm:
        pi = start(agent, google, llm, settings=settings)
        pi.say("one")
        pi.say("two")
        messages = pi.ask("get_messages")["messages"]

    (retry,) = pi.found({"type": "auto_retry_start"})
    assert json.loads(provider_words(retry["errorMessage"]))["error"]["status"] == "UNAVAILABLE"
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    assert json.loads(provider_words(messages[-1]["errorMessage"]))["error"]["message"] == long
