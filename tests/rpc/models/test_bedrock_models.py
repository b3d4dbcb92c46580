"""A model of Amazon Bedrock's in a real agent: keys of the environment, a tool, and what is left in the session.

The answers are constructed after the published format, never recorded.
"""

import json
from pathlib import Path
from typing import Any, Final

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.event_frames import encode_frame
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Reply
from pinnace_fuzz.trials.workbench import AgentStarter

MODEL: Final = "us.anthropic.claude-opus-5-5"
SECRET: Final = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEYS: Final = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE0000", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1"}
USAGE: Final = {"inputTokens": 30, "outputTokens": 5, "totalTokens": 35}


def answering(*events: tuple[str, Any], reason: str) -> Answer:
    """Answer with these events, and how it ends."""
    ends = [("messageStop", {"stopReason": reason}), ("metadata", {"usage": USAGE})]

    def answer(reply: Reply) -> None:
        reply.head(content_type="application/vnd.amazon.eventstream")
        for kind, payload in [*events, *ends]:
            reply.chunks(encode_frame({":message-type": "event", ":event-type": kind}, json.dumps(payload).encode()))
        reply.end()

    return answer


def delta(index: int, **what: object) -> tuple[str, Any]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": what}


USES_TOOL: Final = answering(
    delta(0, reasoningContent={"text": "I look."}),
    delta(0, reasoningContent={"signature": "QUFB"}),
    ("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "bash"}}}),
    delta(1, toolUse={"input": '{"command": "echo $AWS_SECRET_ACCESS_KEY"}'}),
    reason="tool_use",
)
ANSWERS: Final = answering(delta(0, text="It says so"), reason="end_turn")


def test_a_tool_is_called_its_result_answered_and_no_key_kept(agent: AgentStarter) -> None:
    with RawServer(USES_TOOL, ANSWERS) as bedrock, FakeLlm([]) as llm:
        models: Any = pi_models(llm.base_url)
        models["providers"]["amazon-bedrock"] = {"baseUrl": bedrock.url}
        pi = agent(llm, models=models, has_session=True, env=KEYS)
        pi.ask("set_model", provider="amazon-bedrock", modelId=MODEL)
        pi.ask("set_thinking_level", level="low")
        pi.say("look")
        messages = pi.ask("get_messages")["messages"]
        path = Path(pi.ask("get_state")["sessionFile"])
    first, second = (json.loads(request.body) for request in bedrock.requests)

    assert bedrock.requests[0].path == f"/model/{MODEL}/converse-stream"
    assert "/eu-west-1/bedrock/aws4_request" in bedrock.requests[0].headers["authorization"]
    assert first["additionalModelRequestFields"]["output_config"] == {"effort": "low"}
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "I look.", "signature": "QUFB"}}},
        {"toolUse": {"toolUseId": "t1", "name": "bash", "input": {"command": "echo $AWS_SECRET_ACCESS_KEY"}}},
    ]
    assert messages[-1]["content"] == [{"type": "text", "text": "It says so"}]
    assert messages[-1]["usage"]["totalTokens"] == 35
    # Commands work with the cloud, so they have its keys.
    assert second["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": f"{SECRET}\n"}]
    assert SECRET not in path.read_text(encoding="utf-8")
