"""What Bedrock's bodies have beyond those of the original, and when its stream is over."""

import json
from collections.abc import Sequence
from typing import Any

from tests.agent.llm.recording import Recorder
from tests.agent.samples import served_model

from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.bedrock.endpoint import Endpoint
from pinnace_agent.llm.bedrock.failures import BedrockTexts
from pinnace_agent.llm.bedrock.request import request_body
from pinnace_agent.llm.bedrock.stream import EventReader
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import zero_usage

MODEL: Any = served_model(id="m", api="bedrock-converse-stream", provider="amazon-bedrock", input=["text", "image"])
END: Any = {"usage": zero_usage(), "stopReason": "toolUse", "timestamp": 0}
FROM: Any = {"role": "assistant", "api": MODEL["api"], "provider": MODEL["provider"], "model": "m"}
LONG = "x" * 70


def body_of(*messages: Any, tools: Sequence[ToolSpec] = (), **changes: Any) -> Any:
    model: Any = {**MODEL, **changes}
    request = LlmRequest(model, "", messages, tools, "off", None, {}, "s1")
    return request_body(request, Endpoint("http://127.0.0.1:1", "us-east-1"))


def user(*content: Any) -> Any:
    return {"role": "user", "content": list(content), "timestamp": 0}


def text(value: str) -> Any:
    return {"type": "text", "text": value}


NO_ARGUMENTS: Any = {}
TOOL_CALL: Any = {"type": "toolCall", "id": "c1", "name": "ba sh", "arguments": NO_ARGUMENTS}
CALL: Any = {**FROM, **END, "content": [TOOL_CALL]}
RESULT: Any = {"role": "toolResult", "toolCallId": "c1", "toolName": "ba sh", "isError": False, "timestamp": 0}


def test_messages_of_one_role_in_a_row_are_one() -> None:
    """The API requires turns; what a user says after results is in their message."""
    body = body_of(user(text("a")), user(text("b")), CALL, {**RESULT, "content": [text("r")]}, user(text("c")))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"] == [{"text": "a"}, {"text": "b"}]
    assert body["messages"][2]["content"][1:] == [{"text": "c"}]


def test_the_tools_of_a_history_are_named_where_a_request_has_none() -> None:
    body = body_of(user(text("a")), CALL, {**RESULT, "content": []})
    assert body["toolConfig"] == {
        "tools": [{"toolSpec": {"name": "ba_sh", "inputSchema": {"json": {"type": "object"}}}}]
    }


def test_names_of_tools_are_as_long_as_the_api_takes() -> None:
    body = body_of(user(text("a")), tools=[ToolSpec(LONG, "Does.", {}), ToolSpec(f"{LONG}y", "Does.", {})])
    names = [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]]
    assert [len(name) for name in names] == [64, 58]
    assert len(set(names)) == 2


def test_an_image_of_another_kind_is_named_in_its_place() -> None:
    body = body_of(user({"type": "image", "data": "AA==", "mimeType": "image/bmp"}))
    assert body["messages"][0]["content"] == [{"text": "(image omitted: Amazon Bedrock takes no image/bmp)"}]


def test_what_a_user_configures_is_sent_where_the_api_has_it() -> None:
    body = body_of(user(text("a")), samplingParams={"temperature": 0.5, "top_p": 0.9, "top_k": 3})
    assert body["inferenceConfig"] == {"maxTokens": 4000, "temperature": 0.5, "topP": 0.9}
    assert body["additionalModelRequestFields"] == {"top_k": 3}


def test_the_usage_after_the_stop_reason_is_the_last_event() -> None:
    builder = MessageBuilder(MODEL, Recorder(), 0)
    builder.start()
    reader = EventReader(builder, ToolNames(), BedrockTexts(Secrets()))

    def read(**event: object) -> bool:
        return reader.read(SseEvent(b"event", json.dumps(event).encode()))

    assert not read(contentBlockDelta={"contentBlockIndex": 0, "delta": {"text": "x"}})
    assert not read(metadata={"usage": {"inputTokens": 1}})
    assert not read(messageStop={"stopReason": "end_turn"})
    assert reader.is_complete
    assert read(metadata={"usage": {"inputTokens": 2}})
    assert builder.usage["input"] == 2
