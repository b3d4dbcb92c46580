"""A server on stdio that misbehaves in the way that its argument names. Plain Python: it starts at once.

`echo` is the tool that behaves; `bad` is the one that shows what a call meets.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1]
STDOUT = sys.stdout.buffer
CALLS: list[Any] = []
"""Of the tool `bad`."""


def write(data: bytes) -> None:
    STDOUT.write(data)
    STDOUT.flush()


def send(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **fields}


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def notify(method: str, **params: Any) -> None:
    send(method=f"notifications/{method}", params=params)


def hang() -> None:
    while True:
        time.sleep(3600)


RECURSIVE = {"type": "object", "properties": {"child": {"$ref": "#"}}}
# Fourteen levels of ten references each: 10^14 schemas.
BOMB = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/l0"}},
    "$defs": {
        f"l{level}": {"type": "object", "properties": {f"p{i}": {"$ref": f"#/$defs/l{level + 1}"} for i in range(10)}}
        for level in range(14)
    },
}


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def properties(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


ODD_NAMES = ["a\0b", "new\nline", "x" * 300, "mcp__inside__it", "\u202eright", "dot.ted", "dot_ted", "ü", "", 5, None]
LISTS: dict[str, list[Any]] = {
    "invalid-tools": [None, "text", {"name": "no-schema"}, tool("list", inputSchema=[1]), tool("echo")],
    "odd-names": [*(tool("x") | {"name": name} for name in ODD_NAMES), tool("echo")],
    "same-names": [tool("echo"), tool("echo", description="another"), tool("bad")],
    "many-tools": [tool("echo"), *(tool(f"t{number}") for number in range(5000))],
    "large-tool": [tool("echo"), tool("large", description="x" * 100_000)],
    "odd-tools": [
        tool("slow", execution={"taskSupport": "required"}),
        tool("echo", description="half \ud83d of it, and a whole \U0001f600", execution={"taskSupport": "optional"}),
        tool("bad"),
    ],
    "odd-schemas": [
        tool("bomb", inputSchema=BOMB),
        tool("x" * 70_000),
        tool(
            "index",
            inputSchema=properties(a={"$ref": "#/anyOf/\u00b2"}, b={"$ref": "#/anyOf/" + "9" * 5000}) | {"anyOf": []},
        ),
        tool("deep", inputSchema=properties(a={"enum": deep(600)})),
        tool(
            "many",
            inputSchema=properties(**{f"p{i}": {"$ref": "#/$defs/e"} for i in range(500)})
            | {"$defs": {"e": {"enum": ["x" * 40_000]}}},
        ),
        tool("required", inputSchema={"type": "object", "required": ["a", "a", 5]}),
        tool("booleans", inputSchema=properties(a=True, b=False, c={"type": "string"})),
        tool("odd", inputSchema={"type": ["object", 5], "properties": [], "required": "a", "items": {"$ref": 5}}),
        tool("results", outputSchema=BOMB),
        tool("echo"),
    ],
    "references": [
        tool("echo"),
        tool("recursive", inputSchema=RECURSIVE),
        tool("remote", inputSchema={"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}),
        tool("array", inputSchema={"type": "object", "properties": {"a": {"type": "array"}}}),
        tool("types", inputSchema={"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
    ],
}


PROMPTS: dict[str, list[Any]] = {
    "odd-prompts": [
        None,
        "text",
        {"name": 5},
        {"name": "x" * 70_000},
        {"name": "many", "arguments": [{"name": f"a{number}"} for number in range(10_000)]},
        {"name": "long", "arguments": [{"name": "a" * 70_000}]},
        {"name": "greet", "description": "\x1b[2Jhalf \ud83d\u202e", "arguments": [None, {"name": 5}, {"name": "who"}]},
        {"name": "deep", "arguments": deep(600)},
    ],
    "many-prompts": [{"name": f"p{number}", "description": "x" * 1000} for number in range(5000)],
}


def before_anything() -> None:  # noqa: PLR0912  # a case each
    match MODE:
        case "dies-at-once":
            sys.exit(3)
        case "raises-at-once":
            raise ValueError("the folder is missing")
        case "noise-first":
            write(b"Starting...\nready {\n\xff\xfe\n[]\n[1]\nnull\n\n\n")
        case "half-line-first":
            write(b'{"jsonrpc": "2.0", "method"')
            time.sleep(0.05)
            write(b': "notifications/x"}\n')
        case "long-line":
            write(b"x" * 64_000_000 + b"\n")
        case "endless-line":
            while True:
                write(b"x" * 1_000_000)
        case "no-newline-and-exit":
            write(b"x" * 10_000_000)
            sys.exit(0)
        case "invalid-lines":
            while True:
                write(b"no json\n" * 1000)
        case "deep":
            write(b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 10_000 + b"]" * 10_000 + b"}\n")
        case "stderr-flood":
            if os.fork() == 0:
                while True:
                    os.write(2, b"e" * 65536)
        case "ignores-term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "child-holds-stdout" | "setsid-child":
            subprocess.Popen(["sleep", "3600"], start_new_session=MODE == "setsid-child")
        case "hangs-at-once":
            hang()
        case _:
            pass


def initialize(number: Any) -> None:
    if MODE == "discovers":
        send(
            id=number, error={"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "x"}}
        )
        return
    if MODE == "knows-no-handshake":
        send(id=number, error={"code": -32601, "message": "Method not found"})
        return
    if MODE == "hangs-in-initialize":
        hang()
    if MODE == "dies-in-initialize":
        sys.exit(4)
    if MODE == "refuses-initialize":
        send(id=number, error={"code": -32000, "message": "no\nway"})
        return
    version = "9999-01-01" if MODE == "strange-version" else "2025-11-25"
    capabilities: Any = "all" if MODE == "strange-capabilities" else {"tools": {"listChanged": True}, "logging": {}}
    if MODE in ("changes", "refuses-prompts", "odd-prompts", "many-prompts"):
        capabilities = {"tools": {"listChanged": True}, "prompts": {}}
    info = {"name": "hostile", "version": "1"}
    send(id=number, result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
    if MODE == "answers-twice":
        send(id=number, result={"protocolVersion": version, "capabilities": {}, "serverInfo": info})
        send(id=4711, result={})
        send(id="x", error={"code": 1, "message": "x"})


def discover(number: Any) -> None:
    """As later versions of the protocol begin."""
    if MODE in ("discovers", "knows-no-handshake"):
        info = {"io.modelcontextprotocol/serverInfo": {"name": "hostile", "version": "1"}}
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "instructions": "Later."}
        send(id=number, result={**result, "_meta": info, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
    else:
        send(id=number, error={"code": -32601, "message": "Method not found"})


def list_tools(number: Any, cursor: Any) -> None:
    match MODE:
        case "hangs-in-list":
            hang()
        case "dies-in-list":
            sys.exit(5)
        case "endless-pages":
            send(id=number, result={"tools": [tool("echo")] if cursor is None else [], "nextCursor": str(time.time())})
        case "same-cursor":
            send(id=number, result={"tools": [tool("echo")] if cursor is None else [], "nextCursor": "c"})
        case "list-is-text":
            send(id=number, result={"tools": "echo"})
        case "changes":
            hinted = tool("echo", annotations={"readOnlyHint": True, "title": "(not a note)"})
            hinted["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}}
            send(id=number, result={"tools": [hinted | {"description": f"Version {len(CALLS)}."}, tool("bad")]})
        case _:
            send(id=number, result={"tools": LISTS.get(MODE, [tool("echo"), tool("bad")])})
            after_list()


def after_list() -> None:
    match MODE:
        case "list-changed-flood":
            while True:
                notify("tools/list_changed")
        case "log-flood":
            while True:
                notify("message", level="info", logger="x", data="y" * 1000)
        case "requests-flood":
            for number in range(10_000):
                send(id=f"s{number}", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        case "stops-reading":
            hang()
        case _:
            pass


def call(number: Any, name: str, params: dict[str, Any]) -> None:  # noqa: PLR0912  # a case each
    if name != "bad":
        structured = {"structuredContent": {"n": "none"}} if MODE == "changes" else {}
        send(id=number, result=text(f"echo {json.dumps(params.get('arguments'))}") | structured)
        return
    CALLS.append(number)
    if MODE == "changes":
        notify("tools/list_changed")
    token = (params.get("_meta") or {}).get("progressToken")
    match MODE:
        case "hangs-in-call":
            hang()
        case "discovers":
            meta = params["_meta"]
            said = [meta["io.modelcontextprotocol/protocolVersion"], meta["io.modelcontextprotocol/clientInfo"]["name"]]
            if "inputResponses" in params:
                root = params["inputResponses"]["where"]["roots"][0]["name"]
                send(id=number, result=text(f"{said} {root} {params['requestState']}") | {"resultType": "complete"})
            else:
                asked = {"where": {"method": "roots/list", "params": {}}}
                send(id=number, result={"resultType": "input_required", "inputRequests": asked, "requestState": "s"})
        case "returns-meta":
            send(id=number, result=text(json.dumps(params.get("_meta"))))
        case "dies-in-call":
            sys.stderr.write("the reason is on stderr\n")
            sys.exit(6)
        case "progress-flood":
            for value in range(20_000):
                notify("progress", progressToken=token, progress=value, total=20_000)
            send(id=number, result=text("done"))
        case "strange-progress":
            for strange in (5, 3, 5, "x", None, float("1e400")):
                notify("progress", progressToken=token, progress=strange)
            notify("progress", progressToken="other", progress=9)
            send(id=number, result=text("done"))
        case "large-error":
            send(id=number, error={"code": -1, "message": "e" * 10_000_000})
        case "error-without-content":
            send(id=number, result={"content": [], "isError": True})
        case "strange-content":
            image = {"type": "image", "data": "!!", "mimeType": "image/png"}
            other = {"type": "image", "data": "AAAA", "mimeType": "text/html"}
            send(id=number, result={"content": [image, other, {"type": "new"}, 5, None, {"type": "text"}]})
        case "odd-tools":
            send(id=number, result=text("half \udc00 of it, and a whole \U0001f600"))
        case "refuses-call":
            send(id=number, error={"code": -32000, "message": "the folder is closed"})
        case "many-blocks":
            write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[%s]}}\n' % (number, b",".join([b"{}"] * 100_000)))
        case "many-images":
            image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
            send(id=number, result={"content": [image] * 50_000})
        case "deep-structured":
            send(id=number, result={"content": [], "structuredContent": {"a": deep(600)}})
        case "large-structured":
            send(id=number, result={"content": [], "structuredContent": {"a": [{"b": [1.5, None]}] * 50_000}})
        case "odd-numbers":
            odd = b'{"content":[],"structuredContent":{"a":%s}}' % (b"9" * 400)
            write(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (number, odd))
        case "no-content":
            send(id=number, result={})
        case "result-is-text":
            send(id=number, result="done")
        case "large-result":
            send(id=number, result=text("line\n" * 100_000))
        case "answers-late":
            time.sleep(1.5)
            send(id=number, result=text("late"))
        case _:
            send(id=number, result=text("fine"))


def main() -> None:
    before_anything()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        params = message.get("params") or {}
        match message.get("method"):
            case "initialize":
                initialize(message["id"])
            case "server/discover":
                discover(message["id"])
            case "tools/list":
                list_tools(message["id"], params.get("cursor"))
            case "prompts/list" if MODE == "refuses-prompts":
                send(id=message["id"], error={"code": -32000, "message": "no prompts today"})
            case "prompts/list" if MODE in PROMPTS:
                send(id=message["id"], result={"prompts": PROMPTS[MODE], "nextCursor": str(time.time())})
            case "prompts/list":
                send(id=message["id"], result={"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]})
            case "prompts/get":
                said = {"type": "text", "text": f"Greet {params['arguments'].get('who')}."}
                send(id=message["id"], result={"messages": [{"role": "user", "content": said}]})
            case "tools/call":
                call(message["id"], params["name"], params)
            case _:
                pass
    if MODE in ("ignores-term", "hangs-in-call"):
        hang()


main()
