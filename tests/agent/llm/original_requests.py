"""What the original sends for a conversation and reads from an answer, release 1.5.2, asked as a library.

One API is asked, without a process of RPC. Its client is given a `fetch` that sends nothing and returns the answer.
Whatever else it wants goes to a server on this machine, which gives it a token.
"""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from tests.recorded import Record

from pinnace_agent.llm.request import ToolSpec
from pinnace_spec.records.messages import Message, Model, ThinkingLevel

SCRIPT: Final = """
import { once } from "node:events";
import { readdirSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { zstdDecompressSync } from "node:zlib";
const folder = process.argv[1];
const tokens = http.createServer((_, response) => {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ access_token: "token", expires_in: 3600, token_type: "Bearer" }));
}).listen(0, "127.0.0.1");
await once(tokens, "listening");
tokens.unref();
https.request = (url, options, ...rest) => http.request(
  { ...options, protocol: "http:", agent: undefined, host: "127.0.0.1", port: tokens.address().port }, ...rest
);
let input = "";
for await (const piece of process.stdin) input += piece;
const answers = [];
const plain = (body) => typeof body === "string" ? body : zstdDecompressSync(body);
for (const { model, context, options, variables, answer, status } of JSON.parse(input)) {
  Object.assign(process.env, variables);
  const name = readdirSync(folder).find((each) => each.startsWith(`${model.api}-`));
  const { streamSimple } = await import(`${folder}/${name}`);
  const sent = {};
  const fetch = globalThis.fetch = async (url, { headers, body }) => {
    const told = [...new Headers(headers)].filter(([name]) => !/^x-stainless|^user-agent/.test(name));
    Object.assign(sent, { url: String(url), headers: Object.fromEntries(told), body: JSON.parse(plain(body)) });
    return new Response(answer ?? "", { status: status ?? 200, headers: { "content-type": "text/event-stream" } });
  };
  const message = await streamSimple(model, context, { apiKey: "key", fetch, ...options }).result();
  const { content, stopReason, rawStopReason, responseId, errorMessage, usage } = message;
  const { cost, ...counts } = usage;
  const found = { content, stopReason, rawStopReason, responseId, errorMessage, usage: counts };
  answers.push(answer !== undefined ? found : "url" in sent ? sent : { error: errorMessage });
  for (const each of Object.keys(variables)) delete process.env[each];
}
console.log(JSON.stringify(answers));
"""


class Conversation(NamedTuple):
    """One request, as both programs are asked for it."""

    name: str
    model: Model
    messages: Sequence[Message]
    level: ThinkingLevel = "off"
    system_prompt: str = "Be brief."
    tools: Sequence[ToolSpec] = ()
    variables: dict[str, str] = {}  # noqa: RUF012 - never changed
    own_variables: dict[str, str] = {}  # noqa: RUF012 - never changed
    key: str | None = "key"


def ask_original(original: Sequence[str], asked: Sequence[Conversation]) -> list[Record]:
    """Return what the original sends for each conversation: address, headers and body, or the error."""
    return _run(original, [_case(each) for each in asked])


class Answer(NamedTuple):
    """An answer of a server."""

    model: Model
    body: str
    status: int = 200


def read_by_original(original: Sequence[str], answers: Sequence[Answer]) -> list[Record]:
    """Return what the original reads from each answer: content, usage, stop reason, error."""
    cases = [
        {"model": each.model, "context": {"messages": []}, "answer": each.body, "status": each.status, "variables": {}}
        for each in answers
    ]
    return _run(original, cases)


def _run(original: Sequence[str], cases: Sequence[Record]) -> list[Record]:
    chunks = Path(original[-1]).with_name("chunks")
    done = subprocess.run(
        [original[0], "--input-type=module", "-e", SCRIPT, str(chunks)],
        input=json.dumps(cases),
        env={"HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Record] = json.loads(done.stdout.strip().rpartition("\n")[2])  # behind warnings of its client
    return answers


def original_tool(tool: ToolSpec) -> dict[str, Any]:
    """Return the description of a tool as the original has it."""
    described = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    sampling = {"constrainedSampling": {"type": "json_schema", "strict": "prefer"}}
    return {**described, **(sampling if tool.prefers_strict else {})}


def _case(asked: Conversation) -> dict[str, Any]:
    tools = [original_tool(tool) for tool in asked.tools]
    system = {"role": "system", "content": asked.system_prompt, "toolsAdded": tools, "timestamp": 0}
    reasoning = {} if asked.level == "off" else {"reasoning": asked.level}
    return {
        "model": asked.model,
        "context": {"messages": [system, *asked.messages]},
        "options": {
            "apiKey": asked.key,
            "transport": "sse",
            "sessionId": "s1",
            "env": asked.own_variables,
            **reasoning,
        },
        "variables": asked.variables,
    }


class HasMessages(Protocol):
    """What has a history."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the request."""
        ...


def plain_ids(body: object, asked: HasMessages) -> object:
    """Return a body in which each id that its client made up is a number: those of the history stay as they are."""
    history = json.dumps([message for message in asked.messages if message["role"] != "user"])
    known = {
        part for each in re.findall(r'"(?:id|toolCallId)": "([^"]*)"', history) for part in (each, *each.split("|"))
    }
    numbers: dict[str, int] = {}

    def plain(value: object, name: str = "") -> object:
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            return {key: plain(member, key) for key, member in members.items()}
        if isinstance(value, list):
            return [plain(each) for each in cast("list[object]", value)]
        if name in {"id", "call_id", "tool_call_id"} and isinstance(value, str) and value not in known:
            return numbers.setdefault(value, len(numbers))
        return value

    return plain(body)
