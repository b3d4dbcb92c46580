"""A tiny agent in one file, without a model: answers a few commands, and is wrong in one way if an argument says so.

Imports nothing of the project: it is what a stranger would put in front of the judge. Faults: `dies-of-null`, `deaf`,
`answers-twice`, `refuses-all`, `endless-line`, `endless-records` (both from get_messages on), `says-no-command`,
`loses-ids` (of what it does not know), `closes-stdin` (after a line that is no object; dies half a second later),
`closes-stdin-alone` (and lives on), `slow-to-end`, `mute`, `floods` (the model's server with connections),
`daemon=FILE` (leaves a process without parent and environment, in its own session; its number is added to FILE).
"""

import json
import os
import socket
import sys
import time
from urllib.parse import urlsplit

FAULTS = {word for word in sys.argv[1:] if not word.startswith("-")}
KNOWN = "get_state get_messages get_commands new_session set_session_name abort abort_retry set_auto_retry".split()
STATE = {
    "model": None,
    "thinkingLevel": "off",
    "isStreaming": False,
    "isCompacting": False,
    "steeringMode": "one-at-a-time",
    "followUpMode": "one-at-a-time",
    "sessionId": "s",
    "autoCompactionEnabled": True,
    "messageCount": 0,
    "pendingMessageCount": 0,
}


def say(record: dict[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps(record).encode() + b"\n")
    sys.stdout.buffer.flush()


def refuse(command: str, text: str, **own: object) -> None:
    record: dict[str, object] = {**own, "type": "response", "command": command, "success": False, "error": text}
    if "says-no-command" in FAULTS:
        del record["command"]
    say(record)


def take(line: bytes) -> None:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if not line.strip(b" \t\r"):
        return
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError):
        return refuse("parse", "no JSON")
    if record is None and "dies-of-null" in FAULTS:
        raise TypeError("null has no fields")
    if not isinstance(record, dict):
        if FAULTS & {"closes-stdin", "closes-stdin-alone"}:
            os.close(0)
            say({"type": "stopping"})
            time.sleep(0.5 if "closes-stdin" in FAULTS else 600)
            os._exit(3)
        return refuse("parse", "no object")
    own = {"id": record["id"]} if isinstance(record.get("id"), str) else {}
    command = record.get("type")
    if not isinstance(command, str):
        return refuse("unknown", "no type", **own)
    if "refuses-all" in FAULTS:
        return refuse(command, "not today", **own)
    if command == "get_messages":
        write_without_end()
    if command not in KNOWN:
        return refuse(command, f"Unknown command: {command}", **({} if "loses-ids" in FAULTS else own))
    answer: dict[str, object] = {**own, "type": "response", "command": command, "success": True}
    match command:
        case "get_state":
            answer["data"] = STATE
        case "set_session_name":
            STATE["sessionName"] = record.get("name")
        case "get_messages":
            answer["data"] = {"messages": []}
        case "get_commands":
            answer["data"] = {"commands": []}
        case "new_session":
            answer["data"] = {"cancelled": False}
        case _:
            pass
    say(answer)
    if "answers-twice" in FAULTS:
        say(answer)


def write_without_end() -> None:
    while "endless-line" in FAULTS:
        sys.stdout.buffer.write(b"x" * 1_000_000)
    while "endless-records" in FAULTS:
        sys.stdout.buffer.write(b'{"type":"more"}\n' * 10_000)


def leave_a_daemon(file: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for each in range(3):
                os.close(each)
            os.execve("/bin/sh", ["sh", "-c", f"echo $$ >> '{file}'; exec sleep 600"], {})
        os._exit(0)
    os.wait()


def main() -> None:
    for word in FAULTS:
        if word.startswith("daemon="):
            leave_a_daemon(word.removeprefix("daemon="))
    if "mute" in FAULTS:
        sys.exit(7)
    if "floods" in FAULTS:
        address = urlsplit(os.environ["OPENAI_BASE_URL"])
        open_ones = [socket.create_connection((str(address.hostname), int(address.port or 0))) for _ in range(300)]
        STATE["sessionId"] = str(len(open_ones))
    for line in sys.stdin.buffer:
        if "deaf" in FAULTS and b"s" in line:
            time.sleep(600)
        take(line)
    if "slow-to-end" in FAULTS:
        time.sleep(600)


main()
