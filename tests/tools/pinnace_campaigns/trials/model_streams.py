"""One whole answer of each API, in the bytes of its stream: thoughts, text, a call, and how it ends.

Constructed after the published formats, never recorded. Pure. What an answer says is the same for every API, so that
one test holds for all of them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

THOUGHT = "hm 𝄞"
# U+2028 and U+0085 end lines for many readers of lines, and none in such a stream.
TEXT = "Hé\u2028l\u0085o"
COMMAND: Mapping[str, object] = {"command": "ls 'a'\n"}
TOOL = "bash"
FAILURE = "The model broke down"


Wire: TypeAlias = dict[str, object]


class ModelStream(NamedTuple):
    """How one API streams that answer."""

    api: str
    path: str
    """What is added to the base address."""
    events: Callable[[str], Sequence[bytes]]
    """Makes the events, each with its blank line, of an answer with this text."""
    end: int
    """Which event says how the answer ended: a stream that is cut before it has failed."""
    error: bytes
    """An event that says that the answer failed, with the text `FAILURE`."""


def _event(value: object, name: str = "") -> bytes:
    data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


def _named(*values: Mapping[str, object]) -> list[bytes]:
    return [_event(value, str(value["type"])) for value in values]


def _completions(text: str) -> list[bytes]:
    def chunk(delta: object, reason: str | None = None) -> bytes:
        return _event({"choices": [{"delta": delta, "finish_reason": reason}]})

    arguments = json.dumps(COMMAND)
    call = {"index": 0, "id": "c1", "function": {"name": TOOL, "arguments": arguments[:5]}}
    return [
        chunk({"reasoning_content": THOUGHT}),
        chunk({"content": text[:1]}),
        chunk({"content": text[1:]}),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments[5:]}}]}),
        chunk({}, "tool_calls"),
        _event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
        _event("[DONE]"),
    ]


def _conversations(text: str) -> list[bytes]:
    arguments = json.dumps(COMMAND)

    def chunk(content: object, *calls: Wire, reason: str | None = None, **more: object) -> bytes:
        delta: Wire = {"content": content, **({"tool_calls": calls} if calls else {})}
        return _event(
            {"id": "r1", "model": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}
        )

    def call(piece: str, call_id: str) -> Wire:
        return {"id": call_id, "index": 0, "function": {"name": TOOL, "arguments": piece}}

    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return [
        chunk([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]),
        chunk(text[:1]),
        chunk([{"type": "text", "text": text[1:]}]),
        chunk("", call(arguments[:5], "aB3dE6gH9")),
        chunk("", call(arguments[5:], "null")),
        chunk("", reason="tool_calls", usage=usage),
        _event("[DONE]"),
    ]


def _messages(text: str) -> list[bytes]:
    arguments = json.dumps(COMMAND)

    def delta(index: int, **what: str) -> Wire:
        return {"type": "content_block_delta", "index": index, "delta": what}

    def begin(index: int, **block: object) -> Wire:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def end(index: int) -> Wire:
        return {"type": "content_block_stop", "index": index}

    message: Wire = {"id": "r1", "model": "m1", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}
    return _named(
        {"type": "message_start", "message": message},
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking=THOUGHT),
        delta(0, type="signature_delta", signature="c2ln"),
        end(0),
        begin(1, type="text", text=""),
        delta(1, type="text_delta", text=text[:1]),
        delta(1, type="text_delta", text=text[1:]),
        end(1),
        begin(2, type="tool_use", id="c1", name=TOOL, input={}),
        delta(2, type="input_json_delta", partial_json=arguments[:5]),
        delta(2, type="input_json_delta", partial_json=arguments[5:]),
        end(2),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


def _responses(text: str) -> list[bytes]:
    arguments = json.dumps(COMMAND)
    part: Wire = {"type": "output_text", "text": text, "annotations": []}
    reasoning: Wire = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}]}
    message: Wire = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    call: Wire = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": TOOL, "arguments": arguments}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    output: list[Wire] = [reasoning, message, {**call, "status": "completed"}]

    def added(index: int, item: Mapping[str, object]) -> Wire:
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def done(index: int) -> Wire:
        return {"type": "response.output_item.done", "output_index": index, "item": output[index]}

    def delta(index: int, kind: str, piece: str, **more: object) -> Wire:
        item_id = str(output[index]["id"])
        return {"type": f"response.{kind}.delta", "output_index": index, "item_id": item_id, "delta": piece, **more}

    return _named(
        {"type": "response.created", "response": {"id": "r1", "model": "m1", "status": "in_progress", "output": []}},
        added(0, {**reasoning, "summary": []}),
        delta(0, "reasoning_summary_text", THOUGHT, summary_index=0),
        done(0),
        added(1, {**message, "status": "in_progress", "content": []}),
        delta(1, "output_text", text[:1], content_index=0),
        delta(1, "output_text", text[1:], content_index=0),
        done(1),
        added(2, {**call, "arguments": "", "status": "in_progress"}),
        delta(2, "function_call_arguments", arguments[:5]),
        delta(2, "function_call_arguments", arguments[5:]),
        done(2),
        {
            "type": "response.completed",
            "response": {"id": "r1", "model": "m1", "status": "completed", "output": output, "usage": usage},
        },
    )


def _contents(text: str) -> list[bytes]:
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}

    def chunk(part: Mapping[str, object], **more: object) -> bytes:
        return _event({"candidates": [{"content": {"role": "model", "parts": [part]}, **more}], "usageMetadata": usage})

    return [
        chunk({"thought": True, "text": THOUGHT}),
        chunk({"text": text[:1]}),
        chunk({"text": text[1:]}),
        chunk({"functionCall": {"id": "c1", "name": TOOL, "args": COMMAND}, "thoughtSignature": "c2ln"}),
        chunk({"text": ""}, finishReason="STOP"),
    ]


STREAMS = (
    ModelStream("openai-completions", "/chat/completions", _completions, 5, _event({"error": {"message": FAILURE}})),
    ModelStream(
        "anthropic-messages",
        "/v1/messages",
        _messages,
        14,
        *_named({"type": "error", "error": {"type": "api_error", "message": FAILURE}}),
    ),
    ModelStream(
        "openai-responses",
        "/responses",
        _responses,
        12,
        *_named({"type": "error", "code": "server_error", "message": FAILURE}),
    ),
    ModelStream(
        "mistral-conversations",
        "/v1/chat/completions",
        _conversations,
        5,
        _event({"object": "error", "message": FAILURE, "type": "internal_server_error", "code": "3000"}),
    ),
    ModelStream(
        "google-generative-ai",
        "/models/m1:streamGenerateContent?alt=sse",
        _contents,
        4,
        _event({"error": {"code": 503, "message": FAILURE, "status": "UNAVAILABLE"}}),
    ),
)
"""One for each wire format."""
AZURE: Final = STREAMS[2]._replace(api="azure-openai-responses", path="/responses?api-version=v1")
"""The stream of another API, which only its requests distinguish."""
