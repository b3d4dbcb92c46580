"""Conversations with everything that a request can hold, for comparing what is sent with what others send.

The answers of models are constructed after the published formats, never recorded.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tests.agent.samples import text_block, user

from pinnace_agent.llm.request import ToolSpec
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    StopReason,
    ThinkingContent,
    ToolResultMessage,
    UserContent,
    zero_usage,
)

IMAGE: Final[ImageContent] = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
LONG_ID: Final = "call_" + "aZ9+/=|x" * 60
BASH: Final = ToolSpec(
    "bash", "Runs.", {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
)
READ: Final = ToolSpec("read", "Reads.", {"type": "object", "properties": {}, "additionalProperties": False})
OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic-messages": ("anthropic", "claude"),
    "google-generative-ai": ("google", "gemini"),
    "openai-completions": ("groq", "qwen"),
    "openai-responses": ("openai", "gpt"),
}
"""Provider and model of an answer, by its API."""


def answer(of: Model, *content: AssistantContent, reason: StopReason = "toolUse") -> AssistantMessage:
    """Return an answer of a model."""
    return {
        "role": "assistant",
        "content": list(content),
        "api": of["api"],
        "provider": of["provider"],
        "model": of["id"],
        "usage": zero_usage(),
        "stopReason": reason,
        "timestamp": 0,
    }


def call(call_id: str, name: str = "bash", **arguments: object) -> AssistantContent:
    """Return a call of a tool."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def result(call_id: str, *content: UserContent | str, name: str = "bash", is_error: bool = False) -> ToolResultMessage:
    """Return the result of a call; a string becomes a block of text."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [text_block(each) if isinstance(each, str) else each for each in content],
        "isError": is_error,
        "timestamp": 0,
    }


def thinking(thought: str, signature: str | None = None) -> AssistantContent:
    """Return a thought."""
    plain: ThinkingContent = {"type": "thinking", "thinking": thought}
    return plain if signature is None else {**plain, "thinkingSignature": signature}


def conversations(model: Model, own_ids: Sequence[str], own_signature: str | None) -> dict[str, list[Message]]:
    """Return conversations by name.

    Args:
        model: The one that is asked; some answers are its own.
        own_ids: Two ids of calls as its API gives them.
        own_signature: The signature of a thought of its own; None: its API has none.
    """
    one, two = own_ids
    sibling: Model = {**model, "id": f"{model['id']}-older"}
    own = answer(model, thinking("hm", own_signature), text_block("Hé"), call(one, command="ls"), call(two, "read"))
    found: dict[str, list[Message]] = {
        "a question": [user("hi")],
        "a question as a string": [{"role": "user", "content": "hi", "timestamp": 0}],
        "an image": [user("what is it?", IMAGE)],
        "an image alone": [user(IMAGE, IMAGE)],
        "own calls": [user("hi"), own, result(one, "a\nb"), result(two, "c", name="read"), user("go on")],
        "results with images": [user("hi"), own, result(one, "seen", IMAGE), result(two, IMAGE, name="read")],
        "results without text": [user("hi"), own, result(one), result(two, " \n", name="read")],
        "errors": [
            user("hi"),
            own,
            result(one, "no such file", is_error=True),
            result(two, IMAGE, name="read", is_error=True),
        ],
        "an empty error": [user("hi"), own, result(one, is_error=True), result(two, "  x  ", name="read")],
        "several texts in a result": [user("hi"), own, result(one, "a", "b", IMAGE, "c"), result(two, "d")],
        "calls without results": [user("hi"), own, user("never mind")],
        "a thought alone": [user("hi"), answer(model, thinking("hm", own_signature), reason="stop"), user("and?")],
        "blank texts": [user("hi"), answer(model, text_block(" \n"), text_block("a"), reason="stop"), user("b")],
        "thoughts between texts": [
            user("hi"),
            answer(model, text_block("a"), thinking("b", own_signature), text_block("c"), reason="stop"),
            user("d"),
        ],
        "an answer that failed": [user("hi"), answer(model, text_block("half"), reason="error"), user("again")],
        "an answer that was aborted": [user("hi"), answer(model, text_block("half"), reason="aborted"), user("b")],
        "odd characters": [user("𝄞\u2028\u0085é\\\"'"), answer(model, text_block("𝄞"), reason="stop"), user("</s>")],
        "another model of the provider": [
            user("hi"),
            answer(sibling, thinking("hm", own_signature), text_block("x"), call(one, command="ls")),
            result(one, "ok"),
            user("go on"),
        ],
        "ids that differ at their ends": [
            user("hi"),
            answer({**model, "provider": "elsewhere"}, call(f"{LONG_ID}1"), call(f"{LONG_ID}2")),
            result(f"{LONG_ID}2", "second"),
            result(f"{LONG_ID}1", "first"),
            user("go on"),
        ],
    }
    for api, (provider, model_id) in OTHERS.items():
        foreign: Model = {**model, "api": api, "provider": provider, "id": model_id}
        call_id = "call_1|fc_2" if api == "openai-responses" else "toolu_01" if api.startswith("anth") else LONG_ID
        signature = json.dumps({"type": "reasoning", "id": "rs_1", "summary": []}) if "responses" in api else "c2ln"
        found[f"an answer of {api}"] = [
            user("hi"),
            answer(foreign, thinking("hm", signature), text_block("x"), call(call_id, command="é")),
            result(call_id, "ok", IMAGE),
            user("go on"),
        ]
        found[f"{api} and back"] = [user("hi"), own, result(one, "a"), result(two, "b"), *found[f"an answer of {api}"]]
    return found
