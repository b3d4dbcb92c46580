"""The client's end of an agent that runs in the test's own process."""

import json
from typing import Any, Literal

import trio

from pinnace_spec.observers import Step
from pinnace_spec.observers.trace_file import step_of


class TracingClient:
    """Keeps the records that the agent writes, and the trace: the records and the lines that were sent, in order."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.trace: list[Step] = []

    def note(self, direction: Literal["in", "out"], line: bytes) -> None:
        """Add a line to the trace."""
        self.trace.append(step_of(len(self.trace) + 1, direction, line, trio.current_time()))

    async def send_all(self, data: bytes) -> None:
        """Take what the agent writes."""
        await trio.lowlevel.checkpoint()
        for line in data.splitlines():
            self.records.append(json.loads(line))
            self.note("out", line)
