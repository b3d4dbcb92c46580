"""Requests to Amazon Bedrock as the original makes them: the same conversations, and both bodies and paths compared.

What release 1.5.2 sent is kept in tests/data, so that this runs without it; where it is present, it must still send so
(a campaign). To record anew, delete the file and run this with the original. What differs on purpose is made equal
first: messages of one role in a row are one here, and the texts that stand for what is empty are worded otherwise.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.agent.llm.original_requests import original_tool
from tests.agent.samples import prices
from tests.source_tree import DATA

from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.llm.bedrock.endpoint import endpoint_of
from pinnace_agent.llm.bedrock.request import http_request
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_fuzz.harness.model_server.event_frames import encode_frame
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply
from pinnace_spec.records.messages import zero_usage

RECORDED: Final = DATA / "bedrock-requests-of-pi-1.5.2.json"
SCRIPT: Final = DATA / "bedrock_requests.mjs"
PROVIDER: Final = "amazon-bedrock"
OLD: Final = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NEW: Final = "us.anthropic.claude-opus-5-5"
MIDDLE: Final = "us.anthropic.claude-sonnet-4-6"
NOVA: Final = "us.amazon.nova-2-lite-v1:0"
GPT: Final = "openai.gpt-6.1-sol"
GPT_OSS: Final = "openai.gpt-oss-120b-1:0"
PROFILE: Final = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/ab12"
IMAGE: Final = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
# Texts that stand for nothing, for images, and what leads images: ours and the original's.
STAND_INS: Final = frozenset(
    [
        *("(no tool output)", "<empty>", "(see attached image)", "Attached image(s) from tool result:"),
        *("(image attached after the tool results)",),
    ]
)


class Case(NamedTuple):
    """A request, by what is different in it."""

    name: str
    model: str = OLD
    messages: Sequence[Mapping[str, Any]] = ()
    level: str = "off"
    system: str = "Be brief."
    has_tools: bool = True
    prefers_strict: bool = False
    env: Mapping[str, str] = {}
    changes: Mapping[str, Any] = {}
    """Of the model."""


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def said(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content) or [text("hi")], "timestamp": 0}


def answered(*content: Mapping[str, Any], model: str = OLD, **more: object) -> dict[str, Any]:
    message = {"role": "assistant", "content": list(content), "api": "bedrock-converse-stream", "provider": PROVIDER}
    end = "toolUse" if any(block["type"] == "toolCall" for block in content) else "stop"
    return {**message, "model": model, "usage": zero_usage(), "stopReason": end, "timestamp": 0, **more}


def call(call_id: str, **arguments: object) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "bash", "arguments": arguments}


def result(call_id: str, *content: Any, is_error: bool = False) -> dict[str, Any]:
    message = {"role": "toolResult", "toolCallId": call_id, "toolName": "bash", "content": list(content)}
    return {**message, "isError": is_error, "timestamp": 0}


def thought(value: str, signature: str = "", **more: object) -> dict[str, Any]:
    return {"type": "thinking", "thinking": value, "thinkingSignature": signature, **more}


TWO_CALLS: Final = (
    said(text("go")),
    answered(thought("hm", "c2ln"), text("I look."), call("c1", command="ls"), call("c2", a={"": 1, "b": [None, 1.5]})),
    result("c1", text("a\nb")),
    result("c2", text("no"), is_error=True),
)
# Where the window decides, the two programs leave different margins (DEVIATION D-55).
SMALL: Final = {"maxTokens": 16_000}
LEVELS: Final = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
CASES: Final = (
    *(Case(f"{model} {level}", model, (said(),), level) for model in (OLD, MIDDLE, NEW, GPT) for level in LEVELS),
    *(Case(f"{NOVA} {level}", NOVA, (said(),), level) for level in ("off", "high")),
    *(Case(f"{GPT_OSS} {level}", GPT_OSS, (said(),), level, changes=SMALL) for level in ("off", "high")),
    Case("no system prompt and no tools", messages=(said(),), system="", has_tools=False),
    Case("strict tools", messages=(said(),), prefers_strict=True),
    Case("strict tools for a model without", GPT, messages=(said(),), prefers_strict=True),
    Case("two calls", messages=TWO_CALLS),
    Case("two calls, and on", messages=(*TWO_CALLS, answered(text("done")), said(text("thanks")))),
    Case("a call without a result", messages=(said(), answered(call("c1")), said(text("and?")))),
    Case("an image", messages=(said(text("see"), IMAGE),)),
    Case("an image for a model without eyes", GPT_OSS, (said(text("see"), IMAGE),), changes=SMALL),
    Case("an image as a result", messages=(said(), answered(call("c1")), result("c1", text("x"), IMAGE))),
    Case("only an image as a result", messages=(said(), answered(call("c1")), result("c1", IMAGE))),
    Case("an image as an error", messages=(said(), answered(call("c1")), result("c1", IMAGE, is_error=True))),
    Case("an empty result", messages=(said(), answered(call("c1")), result("c1", text("  ")))),
    Case("blank texts", messages=(said(text(" "), text("x")), answered(text(" "), text("y")), said())),
    Case("a foreign id", messages=(said(), answered(call("a|b+c/d="), model="m"), result("a|b+c/d=", text("x")))),
    Case("an unsigned thought", messages=(said(), answered(thought("hm"), text("x")), said())),
    Case("a redacted thought", messages=(said(), answered(thought("", "cmVk", redacted=True), text("x")), said())),
    Case("a damaged redacted thought", messages=(said(), answered(thought("", "~", redacted=True), text("x")), said())),
    Case("a thought of another model", messages=(said(), answered(thought("hm", "c"), text("x"), model="m"), said())),
    Case("a thought without a signature", NOVA, (said(), answered(thought("hm"), text("x"), model=NOVA), said())),
    Case("half a surrogate pair", messages=(said(text("a\ud83d")),)),
    Case("a failed answer", messages=(said(), answered(text("x"), stopReason="error"), said(text("again")))),
    Case("a long cache", messages=(said(),), env={"PI_CACHE_RETENTION": "long"}),
    Case("a forced cache", NOVA, (said(),), env={"AWS_BEDROCK_FORCE_CACHE": "1"}),
    Case("GovCloud", MIDDLE, (said(),), "high", env={"AWS_REGION": "us-gov-west-1"}),
    Case("a profile with a name", PROFILE, (said(),), "high", changes={"name": "Claude Opus 5"}),
    Case("a profile without a name", PROFILE, (said(),), "high", changes={"name": "team"}),
    Case("a small model", OLD, (said(),), "high", changes={"maxTokens": 9000}),
)


def model_of(case: Case, base_url: str) -> Any:
    known: Any = Catalog().find(PROVIDER, case.model) or Catalog().find(PROVIDER, NEW)
    return {**known, "id": case.model, "cost": prices(1, 2), **case.changes, "baseUrl": base_url}


TOOLS: Final = (ToolSpec("bash", "Runs.", {"type": "object", "properties": {"command": {"type": "string"}}}),)


def tools_of(case: Case) -> Sequence[ToolSpec]:
    return [tool._replace(prefers_strict=case.prefers_strict) for tool in TOOLS] if case.has_tools else ()


def theirs(original: Sequence[str], folder: Path) -> list[Any]:
    """Return the path and the body of each case as the original sends them."""
    module = Path(original[-1]).parent / "chunks" / "bedrock-converse-stream.js"

    def answer(reply: Reply) -> None:
        headers = {":message-type": "event", ":event-type": "messageStop"}
        reply.whole(
            encode_frame(headers, b'{"stopReason":"end_turn"}'), content_type="application/vnd.amazon.eventstream"
        )

    with RawServer(answer) as server:
        listed: list[Any] = []
        for case in CASES:
            tools = [original_tool(tool) for tool in tools_of(case)]
            first = {"role": "system", "content": case.system, "toolsAdded": tools, "timestamp": 0}
            options = {} if case.level == "off" else {"reasoning": case.level}
            env = {"AWS_REGION": "us-east-1", **case.env}
            context = {"messages": [first, *case.messages]}
            listed.append({"model": model_of(case, server.url), "context": context, "options": options, "env": env})
        cases = folder / "cases.json"
        cases.write_text(json.dumps(listed))
        keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_BEDROCK_FORCE_HTTP1": "1"}
        done = subprocess.run(
            [original[0], str(SCRIPT), str(module), str(cases)],
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **keys},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == ""
    return [{"path": request.path, "body": json.loads(request.body)} for request in server.requests]


def ours(case: Case) -> Any:
    model = model_of(case, "http://127.0.0.1:1")
    tools = tools_of(case)
    messages: Any = case.messages
    level: Any = case.level
    request = LlmRequest(model, case.system, messages, tools, level, None, {}, "s1")
    http = http_request(request, endpoint_of(model, {"AWS_REGION": "us-east-1", **case.env}), None)
    return {"path": http.url.removeprefix("http://127.0.0.1:1"), "body": json.loads(http.body)}


def normal(sent: Any) -> Any:
    """Return a request in the form in which both programs' must be equal."""
    messages: list[Any] = []
    for message in sent["body"]["messages"]:
        content = [plain(block) for block in message["content"]]
        if messages and messages[-1]["role"] == message["role"]:
            messages[-1]["content"] += content
        else:
            messages.append({"role": message["role"], "content": content})
    body = {name: value for name, value in sent["body"].items() if value not in ({}, None)}
    return {"path": sent["path"], "body": {**body, "messages": messages}}


def plain(block: Any) -> Any:
    """Return a block with one text for all that stand for something else."""
    if "toolResult" in block:
        inner = block["toolResult"]
        return {"toolResult": {**inner, "content": [plain(each) for each in inner["content"]]}}
    value = block.get("text")
    return {"text": "(stands in)"} if value in STAND_INS or str(value).startswith("Images from the") else block


@pytest.fixture(scope="module")
def recorded() -> list[Any]:
    assert RECORDED.exists(), "run the campaign of this file with the original"
    requests: list[Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return requests


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_a_request_is_as_the_original_makes_it(
    number: int, recorded: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[number]
    for name in ("PI_CACHE_RETENTION", "AWS_BEDROCK_FORCE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    assert normal(ours(case)) == normal(recorded[number])


def test_the_original_still_sends_what_was_recorded(original_pi: list[str], tmp_path: Path) -> None:
    sent = theirs(original_pi, tmp_path)
    if not RECORDED.exists():
        RECORDED.write_text("[\n" + ",\n".join(json.dumps(each) for each in sent) + "\n]\n", encoding="utf-8")
    assert sent == json.loads(RECORDED.read_text(encoding="utf-8"))
