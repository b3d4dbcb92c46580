"""A stand-in for an agent: does what each line says, so that the driver can be tested without one.

Answers every command; `type` says what else it does first. Started by tests of the driver as a script.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any


def say(record: dict[str, Any]) -> None:
    os.write(1, json.dumps(record).encode() + b"\n")


def perform(command: dict[str, Any], read_sizes: list[int]) -> dict[str, Any]:
    """Do what a command says; return the data of its response."""
    match command["type"]:
        case "say_bytes":
            os.write(1, command["text"].encode("utf-8", "surrogateescape"))
        case "say_many":
            # One call may write a part only. Not by sys.stdout, which loses bytes if the process is stopped meanwhile.
            line = json.dumps({"type": "filler", "text": "x" * command["size"]}).encode() + b"\n"
            for _ in range(command["n"]):
                left = memoryview(line)
                while left:
                    left = left[os.write(1, left) :]
        case "say_stderr":
            sys.stderr.write(command["text"])
            sys.stderr.flush()
        case "read_sizes":
            return {"sizes": read_sizes}
        case "environment":
            return {"environment": dict(os.environ), "argv": sys.argv[1:], "cwd": str(os.getcwd())}
        case "spawn":
            nowhere = subprocess.DEVNULL
            child = subprocess.Popen(
                ["/bin/sleep", "600"],
                env=command.get("env"),
                start_new_session=True,
                stdout=nowhere,
                stderr=nowhere,
            )
            return {"pid": child.pid}
        case "be_deaf":
            say({"type": "deaf"})
            time.sleep(600)
        case "exit":
            os.write(1, command.get("last_words", "").encode())
            os._exit(command["code"])
        case _:
            pass
    return {}


def main() -> None:
    stay = "--stay" in sys.argv
    rest = b""
    read_sizes: list[int] = []
    say({"type": "hello"})
    while data := os.read(0, 1 << 20):
        read_sizes.append(len(data))
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            command = json.loads(line)
            data_out = perform(command, read_sizes)
            if command["type"] == "unanswered":
                continue
            response = {"type": "response", "command": command["type"], "success": True, "data": data_out}
            say(response | ({"id": command["id"]} if "id" in command else {}))
    if stay:
        time.sleep(600)


if __name__ == "__main__":
    main()
