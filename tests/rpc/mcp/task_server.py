"""A server whose tools run as tasks, as each version of the protocol has them: no SDK of Python does that.

Speaks JSON lines on stdio. Each tool is a sequence of states, which requests of them go through, the last one again and
again. Writes what it was sent into the file of its argument.
"""

import json
import sys
from pathlib import Path
from typing import Any

log = Path(sys.argv[1])
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which one?",
        "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}, "required": ["which"]},
    },
}
DONE = {"content": [{"type": "text", "text": "the result"}]}
STATES: dict[str, list[dict[str, Any]]] = {
    "plain": [
        {"status": "working", "statusMessage": "begun"},
        {"status": "working", "statusMessage": "half"},
        {"status": "completed", "result": DONE},
    ],
    "asks": [
        {"status": "input_required", "inputRequests": {"first": QUESTION}},
        {"status": "input_required", "inputRequests": {"first": QUESTION}},
        {"status": "completed", "result": DONE},
    ],
    "fails": [{"status": "working"}, {"status": "failed", "error": {"code": -32000, "message": "no more sails"}}],
    "is_cancelled": [{"status": "working"}, {"status": "cancelled", "statusMessage": "the wind fell"}],
    "is_odd": [{"status": "working"}, {"status": "becalmed"}],
    "is_empty": [{"status": "working"}, {"status": "completed"}],
    "lasts": [{"status": "working", "statusMessage": "begun"}],
    "dies": [{"status": "working"}],
    "notifies": [{"status": "working"}, {"status": "working"}, {"status": "completed", "result": DONE}],
}
places: dict[str, int] = {}
discovered: set[str] = set()


def state_of(task: str, *, advances: bool) -> dict[str, Any]:
    states = STATES[task.partition("-")[0]]
    if advances:
        places[task] = min(places[task] + 1, len(states) - 1)
    now = states[places[task]]
    interval = "pollIntervalMs" if discovered else "pollInterval"
    kept = now if discovered else {key: now[key] for key in ("status", "statusMessage") if key in now}
    return {"taskId": task, "createdAt": "2026-11-29T00:00:00Z", "lastUpdatedAt": "2026-11-29T00:00:00Z"} | kept | {
        interval: 60_000 if task.startswith("notifies") else 1, "ttlMs" if discovered else "ttl": None,
    }  # fmt: skip


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "server/discover":
            discovered.add("2026-07-28")
            extensions: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}
            return {
                "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {}, "extensions": extensions},
            }  # fmt: skip
        case "initialize":
            tasks: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
            info = {"name": "tasks", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": tasks}, "serverInfo": info}
        case "tools/list":
            execution = {} if discovered else {"execution": {"taskSupport": "required"}}
            schema = {"type": "object"}
            tools = [{"name": name, "description": name, "inputSchema": schema, **execution} for name in STATES]
            return {"tools": tools, "ttlMs": 0, "cacheScope": "private"}
        case "tools/call":
            task = f"{params['name']}-{len(places)}"
            places[task] = 0
            state = state_of(task, advances=False)
            return {"resultType": "task", **state} if discovered else {"task": state}
        case "tasks/get":
            if params["taskId"].startswith("dies"):
                sys.exit(1)
            return state_of(params["taskId"], advances=True)
        case "tasks/result":
            now = STATES[params["taskId"].partition("-")[0]][-1]
            if "error" in now:
                raise ValueError(now["error"]["message"])
            if params["taskId"].startswith("asks"):
                send({"id": "question", **QUESTION})
                received(sys.stdin.readline())
            result: dict[str, Any] = now.get("result", DONE)
            return result
        case "subscriptions/listen":
            acknowledged = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"}
            send({**acknowledged, "params": {"notifications": params["notifications"]}})
            raise Unanswered
        case "tasks/update" | "tasks/cancel":
            return {}
        case _:
            raise ValueError(f"no method {method}")


class Unanswered(Exception):
    """The answer comes later, or never."""


def notify(result: dict[str, Any]) -> None:
    """Report the state of a task that works and is of a tool that notifies, as soon as it was said."""
    task = result if discovered else result.get("task", result)
    if str(task.get("taskId")).startswith("notifies") and task["status"] == "working":
        send({"method": "notifications/tasks" if discovered else "notifications/tasks/status", "params": task})


def received(line: str) -> None:
    with log.open("a") as file:
        file.write(line)


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    received(line)
    if "id" not in message or "method" not in message:
        continue
    try:
        if message["method"] == "server/discover" and sys.argv[2] == "2025-11-25":
            raise ValueError("no method server/discover")
        result = answer(message["method"], message.get("params") or {})
        if discovered:
            result = {"resultType": "complete", **result}
        send({"id": message["id"], "result": result})
        if message["method"] == "tasks/get" or not discovered:
            notify(result)
    except Unanswered:
        pass
    except ValueError as error:
        send({"id": message["id"], "error": {"code": -32601, "message": str(error)}})
