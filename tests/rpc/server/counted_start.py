"""Runs a program and counts the calls of its main thread, up to each write of a record.

    counted_start.py FILE agent ARGUMENTS...     the agent
    counted_start.py FILE trio                   a program that starts trio and writes a line

Into FILE goes, as JSON, the count at each write, and the modules that were loaded at the first. Calls of Python's
functions and of built-in ones count alike. A program of its own, since a profiler slows what it counts.
"""

import json
import os
import sys
from types import FrameType
from typing import Any

# The modules that write records: the pump through trio, and what a turn puts at its end.
_WRITERS = ("trio.", "pinnace_rpc.server.stdio")


class Counter:
    """Counts calls until it is told to write what it has."""

    def __init__(self) -> None:
        self.calls = 0
        self.at_writes: list[int] = []
        self.modules: list[str] = []

    def hook(self, frame: FrameType, event: str, arg: Any) -> None:
        """Take one event of the interpreter."""
        if event in ("call", "c_call"):
            self.calls += 1
            if arg is os.write and frame.f_globals.get("__name__", "").startswith(_WRITERS):
                if not self.modules:
                    self.modules = list(sys.modules)
                self.at_writes.append(self.calls)

    def write(self, path: str) -> None:
        """Stop counting and keep what was counted."""
        sys.setprofile(None)
        with open(path, "w") as file:
            json.dump({"at_writes": self.at_writes, "modules": self.modules}, file)


def bare_trio() -> None:
    """Start trio and write a line."""
    import trio

    async def main() -> None:
        async with trio.lowlevel.FdStream(os.dup(1)) as stream:
            await stream.send_all(b"{}\n")

    trio.run(main)


def main() -> None:
    """Count what the command line names."""
    path, kind, *arguments = sys.argv[1:]
    del sys.path[0]  # this folder
    counter = Counter()
    sys.setprofile(counter.hook)
    try:
        if kind == "trio":
            bare_trio()
            status = 0
        else:
            from pinnace_rpc.cli.main import main as agent

            status = agent(arguments)
    finally:
        counter.write(path)
    sys.exit(status)


if __name__ == "__main__":
    main()
