"""Records that many tests need and few look into: models, messages, and what is read of an answer."""

from typing import cast

from pinnace_spec.records.messages import (
    AssistantMessage,
    Model,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
    zero_usage,
)


def sample_model(**fields: object) -> Model:
    """Return a model without a price; fields take the place of the sample's."""
    sample = {
        "id": "m",
        "name": "m",
        "api": "a",
        "provider": "p",
        "baseUrl": "",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 10_000,
        "maxTokens": 4_000,
    }
    return cast("Model", {**sample, **fields})


def served_model(**fields: object) -> Model:
    """Return the model of a server on this machine that speaks chat completions, unless fields say otherwise."""
    served: dict[str, object] = {
        "id": "m1",
        "name": "Model one",
        "api": "openai-completions",
        "provider": "local",
        "baseUrl": "http://127.0.0.1:1/v1",
        "contextWindow": 100_000,
    }
    return sample_model(**{**served, **fields})


def prices(input_: float, output: float, cache_read: float = 0, cache_write: float = 0) -> dict[str, float]:
    """Return the `cost` of a model, in dollars for a million tokens."""
    return {"input": input_, "output": output, "cacheRead": cache_read, "cacheWrite": cache_write}


def user(*content: UserContent | str, timestamp: int = 0) -> UserMessage:
    """Return a message of the user; a string becomes a block of text."""
    blocks: list[UserContent] = [text_block(each) if isinstance(each, str) else each for each in content]
    return {"role": "user", "content": blocks, "timestamp": timestamp}


def text_block(text: str) -> TextContent:
    """Return a block of text."""
    return {"type": "text", "text": text}


def sample_answer(*content: object, **fields: object) -> AssistantMessage:
    """Return an answer with this content that used nothing; fields take the place of the sample's."""
    sample = {
        "role": "assistant",
        "content": list(content),
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": zero_usage(),
        "stopReason": "stop",
        "timestamp": 0,
    }
    return cast("AssistantMessage", {**sample, **fields})


def answer_of(model: Model, *content: object, **fields: object) -> AssistantMessage:
    """Return an answer of this model, as `sample_answer` makes it."""
    return sample_answer(*content, api=model["api"], provider=model["provider"], model=model["id"], **fields)


def tool_call(call_id: str, name: str = "read", /, **arguments: object) -> ToolCall:
    """Return a call of a tool."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def tool_result(
    call_id: str, *content: UserContent | str, is_error: bool = False, name: str = "read", timestamp: int = 0
) -> ToolResultMessage:
    """Return the result of a call; a string becomes a block of text."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [text_block(each) if isinstance(each, str) else each for each in content],
        "isError": is_error,
        "timestamp": timestamp,
    }


def text_of(message: AssistantMessage) -> str:
    """Return the text of an answer, its blocks joined."""
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def failure(message: AssistantMessage) -> str:
    """Return the error's text of an answer that has failed."""
    assert message["stopReason"] == "error"
    return message.get("errorMessage", "")
