"""One request to pi's gateway: address, headers, body.

The body has the messages of a session as they are, since the gateway converts them for the model behind it: thoughts of
other models, failed answers and calls without results are left to it. Messages with roles of the agent's own become
messages of the user, as pi makes them. Independent of how it is sent and of the answer.
"""

from collections.abc import Iterator, Sequence
from typing import Final, cast

from pinnace_agent.core.json_access import compact_body
from pinnace_agent.llm.clean_messages import without_controls
from pinnace_agent.llm.context import llm_text, user_text
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.request import HttpRequest, merged_headers, retention
from pinnace_spec.records.messages import AssistantMessage, Message

Wire = dict[str, object]

# Calls of the tool are held to its schema where the model behind the gateway does that.
_STRICT: Final = {"constrainedSampling": {"type": "json_schema", "strict": "prefer"}}


def http_request(request: LlmRequest) -> HttpRequest:
    """Put a request together."""
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    if request.api_key:
        headers["Authorization"] = f"Bearer {request.api_key}"
    return HttpRequest(
        url=request.model["baseUrl"].rstrip("/") + "/messages",
        headers=merged_headers(headers, request.headers),
        body=compact_body(request_body(request)),
    )


def request_body(request: LlmRequest) -> Wire:
    """Return the body."""
    options: Wire = {}
    if request.max_tokens is not None:
        options["maxTokens"] = request.max_tokens
    if request.thinking_level != "off":
        options["reasoning"] = request.thinking_level
    if retention() == "long":
        options["cacheRetention"] = "long"
    if request.session_id:
        options["sessionId"] = request.session_id
    messages = [*_system(request), *_wire_messages(request.messages)]
    return {"model": request.model["id"], "context": {"messages": messages}, "options": options}


def _system(request: LlmRequest) -> Iterator[Wire]:
    """Yield the message that says what the model is to do, and with which tools; none if there is nothing to say."""
    if request.system_prompt or request.tools:
        yield {
            "role": "system",
            "content": request.system_prompt,
            "toolsAdded": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    **(_STRICT if tool.prefers_strict else {}),
                }
                for tool in request.tools
            ],
            "timestamp": 0,
        }


def _wire_messages(messages: Sequence[Message]) -> Iterator[object]:
    for message in messages:
        match message["role"]:
            case "user" | "toolResult":
                yield without_controls(message)
            case "assistant":
                yield _answer(message)
            case "bashExecution":
                if not message.get("excludeFromContext"):
                    yield _user(user_text(message), message["timestamp"])
            case _:
                yield _user(llm_text(message), message["timestamp"])


def _answer(message: AssistantMessage) -> Wire:
    """Return an answer without what this program adds to a call."""
    clean = cast("AssistantMessage", without_controls(message))  # its role stays
    plain = [{name: value for name, value in block.items() if name != "argumentsError"} for block in clean["content"]]
    return {**clean, "content": plain}


def _user(content: object, timestamp: object) -> Wire:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": "user", "content": blocks, "timestamp": timestamp}
