"""An MCP server on stdio with one tool, which runs a command with a shell. Plain Python: it starts at once."""

import json
import subprocess
import sys
from typing import Any

TOOL = {"name": "run", "description": "Run a command.", "inputSchema": {"type": "object"}}
SERVER = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}


def answer(method: str, params: Any) -> Any:
    match method:
        case "initialize":
            return SERVER
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            command = params["arguments"]["command"]
            done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
            return {"content": [{"type": "text", "text": done.stdout + done.stderr}]}
        case _:
            return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params"))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
