"""Records the trace of one agent process: every line in both directions, in one order, with its time and its write.

Input is recorded before it is written, so that it precedes its response. Marks of the script are between.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pinnace_fuzz.harness.journal import Journal, ReceivedRecord, id_key
from pinnace_fuzz.judge.playing.said import is_said, only_said
from pinnace_fuzz.judge.scenarios.classes import MARK, Record
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_fuzz.records import LineSplitter
from pinnace_spec.observers.trace_file import record_of, step_of
from pinnace_spec.observers.verdicts import Direction, Step

# Ids of commands that the tester sends for itself; scenarios do not see their records.
KIT_ID = "kit-"


class RawTraceLine(NamedTuple):
    """One line of a trace, not yet read."""

    direction: Direction
    data: bytes
    time_s: float
    group: int


class Recording(Journal):
    """The journal of one process, which also keeps what is judged afterwards."""

    def __init__(self, *, max_line_bytes: int | None = None, max_bytes: int | None = None) -> None:
        super().__init__(max_line_bytes=max_line_bytes, max_bytes=max_bytes)
        self.lines: list[RawTraceLine] = []
        self.marks: list[tuple[int, str]] = []
        """Numbers of lines before a mark, and its name."""
        self.begun_s = time.monotonic()
        self.script_end: int | None = None
        """How many lines there were when the script had ended."""
        self._inputs = LineSplitter()
        self._group = 0

    def _take_line(self, line: bytes, time_s: float) -> None:
        self.lines.append(RawTraceLine("out", line, time_s, 0))
        # As leniently as observers read: an escaped lone surrogate is JSON, and waits for the record must find it.
        record = record_of(line.decode("utf-8", "surrogateescape"))
        if record is None:
            super()._take_line(line, time_s)
            return
        self.records.append(ReceivedRecord(len(self.records), time_s, dict(record), len(line) + 1))
        if record.get("type") == "response" and "id" in record:
            self.responses.setdefault(id_key(record["id"]), []).append(dict(record))

    def take_sent(self, data: bytes) -> None:
        """Record input that is about to be written."""
        with self._condition:
            self._group += 1
            now_s = time.monotonic()
            self.lines += [RawTraceLine("in", line, now_s, self._group) for line in self._inputs.feed(data)]
        super().take_sent(data)

    def end_input(self) -> None:
        """Stdin ends: bytes after the last LF are a line too."""
        with self._condition:
            if rest := self._inputs.rest:
                self._inputs = LineSplitter()
                self._group += 1
                self.lines.append(RawTraceLine("in", rest, time.monotonic(), self._group))

    def mark(self, name: str) -> None:
        """Set a mark here."""
        with self._condition:
            self.marks.append((len(self.lines), name))

    def end_script(self) -> None:
        """What comes from now on is not the script's doing."""
        with self._condition:
            if self.script_end is None:
                self.script_end = len(self.lines)

    def steps(self) -> list[Step]:
        """Return the trace as steps for observers."""
        return [self.step(at) for at in range(len(self.lines))]

    def step(self, at: int) -> Step:
        """Return one line as a step for observers."""
        line = self.lines[at]
        return step_of(at + 1, line.direction, line.data, line.time_s - self.begun_s, line.group)


def is_of_kit(record: Mapping[str, Any]) -> bool:
    """Return whether a record belongs to the tester's own commands."""
    own = record.get("id")
    return isinstance(own, str) and own.startswith(KIT_ID)


def is_of_sandbox(warning: Mapping[str, Any]) -> bool:
    """Return whether a warning, as a record or in the state, is about the sandbox of this machine."""
    return warning.get("kind") == "sandbox"


def without_warnings_of_sandbox(response: Record) -> Record:
    """Return a response without the warnings of its data that are about the sandbox."""
    data = as_object(response.get("data")) or {}
    warnings = as_list(data.get("warnings"))
    if warnings is None:
        return response
    kept = [each for each in warnings if not is_of_sandbox(as_object(each) or {})]
    others = {name: value for name, value in data.items() if name != "warnings"}
    return {**response, "data": {**others, **({"warnings": kept} if kept else {})}}


class Seen(NamedTuple):
    """A record as expressions see it, and its number in the trace."""

    record: Mapping[str, Any]
    number: int


def seen(
    steps: Sequence[Step],
    marks: Sequence[tuple[int, str]],
    end: int | None,
    *,
    has_unsaid: bool = False,
    is_sandboxed: bool = False,
) -> list[Seen]:
    """Return what the agent wrote until the end of the script, with the marks.

    Without answers to the tester's own commands.

    Args:
        steps: The trace.
        marks: Numbers of lines before a mark, and its name.
        end: How many lines there were at the end of the script.
        has_unsaid: There are messages of role `system`, which are not seen either.
        is_sandboxed: The agent runs in a sandbox: what it warns of that depends on the machine, and is not seen.
    """
    found: list[Seen] = []
    left = list(marks)
    for step in [*steps[:end], None]:
        while left and (step is None or left[0][0] < step.number):
            at, name = left.pop(0)
            found.append(Seen({"type": MARK, "name": name}, at))
        if step is not None and step.direction == "out":
            record = step.record if step.record is not None else {"type": "no record", "line": step.line}
            if (
                is_of_kit(record)
                or (is_sandboxed and record.get("type") == "warning" and is_of_sandbox(record))
                or (has_unsaid and not is_said(record))
            ):
                continue
            found.append(Seen(only_said(record) if has_unsaid else record, step.number))
    return found
