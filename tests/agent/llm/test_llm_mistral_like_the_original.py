"""What is sent to Mistral and read from its answers, as by the original: for tables of conversations and of streams.

What release 1.5.2 sent and read is kept in tests/data, so that this runs without it. Where it is present it must still
do so. To record anew, delete the files and run this with the original. The streams are constructed after the published
format, never recorded.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from tests.agent.llm.conversations import BASH, READ, conversations
from tests.agent.llm.original_requests import Answer, Conversation, ask_original, plain_ids, read_by_original
from tests.agent.llm.recording import Recorder
from tests.agent.samples import prices, served_model, user
from tests.recorded import Record, RecordedList

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.mistral.provider import MistralProvider
from pinnace_agent.llm.mistral.request import http_request
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply
from pinnace_spec.records.messages import THINKING_LEVELS, Model

REQUESTS: Final = RecordedList("mistral-requests")
ANSWERS: Final = RecordedList("mistral-answers")
IDS: Final = ("aB3dE6gH9", "call_of_a_hosted_model")
EFFORTS: Final = {"off": "none", "minimal": None, "low": None, "medium": None, "high": "high", "xhigh": None}
DIFFERENCES: Final = {
    "ids that differ at their ends": "results follow their calls in order",
}


def model(**fields: object) -> Model:
    mistrals: dict[str, object] = {
        "id": "mistral-medium-latest",
        "api": "mistral-conversations",
        "provider": "mistral",
        "baseUrl": "https://api.mistral.ai",
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": 1_000_000,
        "thinkingLevelMap": EFFORTS,
        "cost": prices(1, 2),
    }
    return served_model(**{**mistrals, **fields})


def without_names() -> Model:
    found = model()
    del found["thinkingLevelMap"]
    return found


PLAIN: Final = model(id="codestral-latest", reasoning=False, input=["text"])
CASES: Final = [
    *(
        Conversation(name, model(), messages, "high", tools=(BASH, READ))
        for name, messages in conversations(model(), IDS, None).items()
    ),
    *(
        Conversation(f"{name}, of a plain model", PLAIN, messages)
        for name, messages in conversations(PLAIN, IDS, None).items()
    ),
    *(Conversation(f"level {level}", model(), [user("hi")], level) for level in ("off", "high")),
    *(
        Conversation(f"level {level} without names", without_names(), [user("hi")], level)
        for level in THINKING_LEVELS[:5]
    ),
    Conversation("always thinking", model(thinkingLevelMap={"off": None, "low": "low"}), [user("hi")]),
    Conversation("a level without a word", model(thinkingLevelMap={"off": None}), [user("hi")], "medium"),
    Conversation("no system prompt", model(), [user("hi")], system_prompt=""),
    Conversation("a server below a path", model(baseUrl="http://127.0.0.1:9/mistral//"), [user("hi")]),
]


def sent(asked: Conversation) -> Record:
    """Return what would be sent for a conversation."""
    request = LlmRequest(asked.model, asked.system_prompt, asked.messages, asked.tools, asked.level, "key", {}, "s1")
    http = http_request(request)
    headers = {name.lower(): value for name, value in http.headers.items()}
    return {"url": http.url, "headers": headers, "body": json.loads(http.body)}


def compared(answer: Record, asked: Conversation) -> Any:
    return answer["url"], answer["headers"], plain_ids(answer["body"], asked)


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    asked = ask_original(original_pi, CASES)
    REQUESTS.check([{"case": case.name, **answer} for case, answer in zip(CASES, asked, strict=True)])


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: Conversation) -> None:
    (theirs,) = (each for each in REQUESTS.read() if each["case"] == case.name)
    is_equal = compared(sent(case), case) == compared(theirs, case)

    assert is_equal == (case.name.removesuffix(", of a plain model") not in DIFFERENCES)


# Streams


def chunk(delta: object, reason: str | None = None, **more: object) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _event({"id": "r1", "model": "mistral-medium-latest", "choices": [choice], **more})


def _event(value: object) -> str:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n"


def said(*content: object, reason: str | None = None) -> str:
    return "".join(chunk({"content": each}, reason) for each in content)


def thought(*texts: str) -> list[object]:
    return [{"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts], "closed": True}]


def calls(*deltas: Mapping[str, object], reason: str | None = None) -> str:
    return chunk({"content": "", "tool_calls": list(deltas)}, reason)


def call(arguments: object, **more: object) -> dict[str, object]:
    return {"function": {"name": "bash", "arguments": arguments}, **more}


def used(**counts: object) -> str:
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, **counts}
    return said("a") + chunk({"content": ""}, "stop", usage=usage)


END: Final = chunk({"content": ""}, "stop") + _event("[DONE]")
CALLED: Final = chunk({"content": ""}, "tool_calls") + _event("[DONE]")
STREAMS: Final[Mapping[str, str]] = {
    "text": said("Hé", "llo", " 𝄞") + END,
    "thoughts and text": said(thought("h", "m"), thought(" and"), "Hello", " you") + END,
    "texts in parts": said([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["c"]) + END,
    "text, thoughts, text": said("a", thought("b"), [{"type": "text", "text": "c"}]) + END,
    "all in one list": said([{"type": "text", "text": "a"}, *thought("b"), {"type": "text", "text": "c"}]) + END,
    "empty pieces": said("", thought(""), thought(), None, [], thought("b"), "", "c") + END,
    "references": said("a", [{"type": "reference", "reference_ids": [1]}], "b") + END,
    "a whole call": said("x") + calls(call('{"a":1}', id="aB3dE6gH9", index=0), reason="tool_calls") + _event("[DONE]"),
    "arguments as an object": calls(call({"a": {"b": []}}, id="aB3dE6gH9", index=0)) + CALLED,
    "no arguments": calls(call("", id="aB3dE6gH9", index=0)) + CALLED,
    "a call in pieces without an id": (
        calls(call('{"a"', id="aB3dE6gH9", index=0)) + calls(call(":1", index=0)) + calls(call("}", index=0)) + CALLED
    ),
    "pieces whose id is null": (
        calls(call('{"a"', id="aB3dE6gH9", index=0)) + calls(call(":1}", id="null", index=0)) + CALLED
    ),
    "two calls at once": (
        calls(call('{"a":1}', id="aB3dE6gH9", index=0), call('{"b":2}', id="aB3dE6gH8", index=1)) + CALLED
    ),
    "two calls interleaved": (
        calls(call('{"a"', id="aB3dE6gH9", index=0))
        + calls(call('{"b"', id="aB3dE6gH8", index=1))
        + calls(call(":1}", index=0))
        + calls(call(":2}", index=1))
        + CALLED
    ),
    "calls without an index": calls(call('{"a":1}', id="aB3dE6gH9")) + calls(call('{"b":2}', id="aB3dE6gH8")) + CALLED,
    "text behind a call": said("a") + calls(call("{}", id="aB3dE6gH9", index=0)) + said("b") + CALLED,
    "text between the pieces of a call": (
        calls(call('{"a"', id="aB3dE6gH9", index=0)) + said("b") + calls(call(":1}", index=0)) + said("c") + CALLED
    ),
    "thoughts before a call": said(thought("hm")) + calls(call("{}", id="aB3dE6gH9", index=0)) + CALLED,
    "arguments that are no JSON": calls(call('{"a":', id="aB3dE6gH9", index=0)) + CALLED,
    "the end of the window": said("a") + chunk({"content": ""}, "model_length"),
    "the end of the limit": said("a") + chunk({"content": ""}, "length"),
    "the server failed": said("a") + chunk({"content": ""}, "error"),
    "usage": used(),
    "cached": used(prompt_tokens_details={"cached_tokens": 6}),
    "cached, in the singular": used(prompt_token_details={"cached_tokens": 5}),
    "cached, beside": used(num_cached_tokens=4),
    "more cached than sent": used(num_cached_tokens=40),
    "cached in all places": used(num_cached_tokens=1, prompt_tokens_details={"cached_tokens": 2}),
    "no counts": used(prompt_tokens=None, completion_tokens=None, total_tokens=None),
    "no last blank line": (said("a") + chunk({"content": "b"}, "stop")).rstrip("\n"),
    "no reason": said("a"),
}
REFUSALS: Final[Mapping[str, tuple[int, str]]] = {
    "a refusal": (429, '{"object":"error","message":"slow down","type":"rate_limited","code":"1300"}'),
    "an invalid request": (422, '{"detail":[{"type":"missing","loc":["body"]}]}'),
}
# Differences of words alone.
WORDS: Final = {"no reason": "Stream ended without finish_reason"}


def answers() -> dict[str, Answer]:
    streams = {name: Answer(model(), body) for name, body in STREAMS.items()}
    return streams | {name: Answer(model(), body, status) for name, (status, body) in REFUSALS.items()}


def test_the_original_still_reads_what_is_recorded(original_pi: list[str]) -> None:
    found = read_by_original(original_pi, list(answers().values()))
    ANSWERS.check([{"case": name, **answer} for name, answer in zip(answers(), found, strict=True)])


async def read(given: Answer) -> Record:
    """Return what is read from an answer that a server sends."""

    def answer(reply: Reply) -> None:
        reply.head(status=f"{given.status} Given")
        reply.chunks(given.body.encode())
        reply.end()

    builder = MessageBuilder(given.model, Recorder(), 0)
    with RawServer(answer) as server:
        asked: Model = {**given.model, "baseUrl": server.url}
        await MistralProvider().stream(LlmRequest(asked, "", [user("hi")], (), "off", "k", {}, "s1"), builder)
        await close_clients()
    message = builder.message
    usage = {name: count for name, count in message["usage"].items() if name != "cost" and count != 0}
    found: Record = {
        "content": message["content"],
        "stopReason": message["stopReason"],
        "rawStopReason": builder.raw_stop_reason,
        "responseId": message.get("responseId"),
        "errorMessage": message.get("errorMessage"),
        "usage": usage,
    }
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("name", answers())
async def test_the_same_is_read_as_by_the_original(name: str) -> None:
    (theirs,) = (each for each in ANSWERS.read() if each["case"] == name)
    del theirs["case"]
    theirs["usage"] = {counted: count for counted, count in theirs["usage"].items() if count != 0}
    if name in WORDS:
        theirs["errorMessage"] = WORDS[name]

    ours = await read(answers()[name])
    for block in (*ours["content"], *theirs["content"]):
        if "argumentsError" in block:
            block["argumentsError"] = "worded differently"

    assert ours == theirs
