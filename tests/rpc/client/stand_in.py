"""A stand-in for an agent that misbehaves as it is told: by commands that no agent has, and by flags.

Answers every other command. Flags: `--stubborn` ignores the end of stdin and TERM, `--deaf` reads nothing, `--banner`
begins with a line that is no record, `--farewell` ends with much, `--child` has a child in its process group,
`--record FILE` keeps what it has read there.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any


def write(data: bytes) -> None:
    """Write to stdout. Python's own file loses the rest of a large write that a stop of the process has cut."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def say(record: Any, end: bytes = b"\n") -> None:
    write(json.dumps(record).encode() + end)


def perform(command: dict[str, Any]) -> dict[str, Any] | None:
    """Do what a command says; return the data of its answer, or None to leave it without one."""
    match command["type"]:
        case "say":  # what is written, if need be instead of an answer
            for record in command["records"]:
                say(record)
            return None if command.get("alone") else {}
        case "say_bytes":
            write(command["text"].encode("utf-8", "surrogateescape"))
        case "flood":  # so many records of so many bytes
            for number in range(command["count"]):
                say({"type": "filler", "number": number, "text": "x" * command["size"]})
        case "flood_stderr":
            for number in range(command["count"]):
                sys.stderr.write(f"line {number}\n")
        case "nest":
            text = '{"type":"deep","value":' + "[" * command["depth"] + "]" * command["depth"] + "}\n"
            write(text.encode())
        case "unanswered":
            return None
        case "get_state":
            say({"type": "response", "id": command["id"], "command": "get_state", "success": True})
            return None
        case "twice":
            say({"type": "response", "id": command["id"], "command": "twice", "success": True, "data": {"number": 1}})
            return {"number": 2}
        case "stop_reading":
            say({"type": "response", "id": command["id"], "command": command["type"], "success": True})
            time.sleep(600)
        case "close_stdout":
            os.close(1)
            time.sleep(600)
        case "die":
            write(command.get("last_words", "").encode())
            sys.stderr.write(command.get("complaint", ""))
            sys.stderr.flush()
            if "signal" in command:
                os.kill(os.getpid(), command["signal"])
            os._exit(command.get("code", 0))
        case _:
            pass
    return {}


def main() -> None:
    flags = sys.argv[1:]
    if "--stubborn" in flags:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--child" in flags:
        child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", child])
    if "--banner" in flags:
        os.write(1, b"> start\n")
    if "--deaf" in flags:
        time.sleep(600)
    for line in sys.stdin.buffer:
        if "--record" in flags:
            with open(flags[flags.index("--record") + 1], "ab") as record:
                record.write(line)
        command = json.loads(line)
        if command["type"] == "extension_ui_response":
            say({"type": "heard", "answer": command})
            continue
        data = perform(command)
        if data is not None:
            say({"type": "response", "id": command["id"], "command": command["type"], "success": True, "data": data})
    if "--farewell" in flags:
        perform({"type": "flood", "count": 100, "size": 10_000})
    if "--stubborn" in flags:
        time.sleep(600)


if __name__ == "__main__":
    main()
