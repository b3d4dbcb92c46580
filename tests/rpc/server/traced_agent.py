"""Runs the agent and writes which of its functions were called, in order.

    traced_agent.py FILE ARGUMENTS...

Into FILE goes a line for each call in the main thread: the file below its distribution's folder, and the qualified name
of the function. A program of its own, since a profiler slows what it traces.
"""

import sys
from types import FrameType
from typing import Any


class Tracer:
    """Collects the calls of the agent's functions."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._names: dict[Any, str | None] = {}

    def hook(self, frame: FrameType, event: str, _arg: Any) -> None:
        """Take one event of the interpreter."""
        if event != "call":
            return
        code = frame.f_code
        if code not in self._names:
            place = code.co_filename.find("/pinnace_")
            self._names[code] = f"{code.co_filename[place + 1 :]} {code.co_qualname}" if place >= 0 else None
        if (name := self._names[code]) is not None:
            self.calls.append(name)


def main() -> None:
    """Trace what the command line names."""
    path, *arguments = sys.argv[1:]
    del sys.path[0]  # this folder
    from pinnace_rpc.cli.main import main as agent

    tracer = Tracer()
    sys.setprofile(tracer.hook)
    try:
        status = agent(arguments)
    finally:
        sys.setprofile(None)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(tracer.calls))
    sys.exit(status)


if __name__ == "__main__":
    main()
