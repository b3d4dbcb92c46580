"""Messages, tools and results as JSON, in the form that the semantic conventions give them. Pure; has secrets in it.

Only called where the user has asked for content, and in the thread that exports. Pictures are left out: their type is
there.
"""

from collections.abc import Iterable, Mapping, Sequence

from pinnace_agent.core.json_access import as_array, as_object, compact_json
from pinnace_agent.llm.context import llm_text, user_text
from pinnace_agent.llm.request import ToolSpec
from pinnace_agent.telemetry.conventions import finish_reason
from pinnace_spec.records.messages import AssistantMessage, Message

Part = dict[str, object]


def input_messages(messages: Iterable[Message]) -> str:
    """Return what a model is asked."""
    return compact_json([_message(each) for each in messages])


def output_messages(message: AssistantMessage) -> str:
    """Return what a model has answered."""
    return compact_json([{**_message(message), "finish_reason": finish_reason(message["stopReason"])}])


def system_instructions(prompt: str) -> str:
    """Return a system prompt."""
    return compact_json([_text(prompt)])


def tool_definitions(tools: Sequence[ToolSpec]) -> str:
    """Return the tools that a model may call."""
    return compact_json([{"type": "function", **tool._asdict()} for tool in tools])


def _text(text: object) -> Part:
    return {"type": "text", "content": text}


def _message(message: Message) -> dict[str, object]:
    match message["role"]:
        case "user":
            return {"role": "user", "parts": _parts(message.get("content"))}
        case "assistant":
            return {"role": "assistant", "parts": [_part(block) for block in message["content"]]}
        case "toolResult":
            response = {"type": "tool_call_response", "id": message["toolCallId"]}
            return {"role": "tool", "parts": [{**response, "response": _parts(message.get("content"))}]}
        case "bashExecution":
            return {"role": "user", "parts": [_text(user_text(message))]}
        case _:
            return {"role": "user", "parts": _parts(llm_text(message))}


def _parts(content: object) -> list[Part]:
    if isinstance(content, str):
        return [_text(content)]
    return [_part(block) for each in as_array(content) if (block := as_object(each)) is not None]


def _part(block: Mapping[str, object]) -> Part:
    match block.get("type"):
        case "text":
            return _text(block.get("text", ""))
        case "thinking":
            return {"type": "reasoning", "content": block.get("thinking", "")}
        case "toolCall":
            return {"type": "tool_call", **{name: block.get(name) for name in ("id", "name", "arguments")}}
        case "image":
            return {"type": "blob", "modality": "image", "mime_type": block.get("mimeType"), "content": ""}
        case kind:
            return {"type": str(kind)}
