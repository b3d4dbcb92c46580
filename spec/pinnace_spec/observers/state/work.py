"""What is open: a run, its turn, its message, its tool calls, a compaction, a retry; and what was announced.

Pure. A part of the fold (`fold`). Judges nothing: also a record out of order opens or closes its bracket. Rules
R-RUN-01, R-RTY-02, C-8, C-15.
"""

from dataclasses import dataclass, field

from pinnace_spec.observers import edge
from pinnace_spec.observers.verdicts import Record, Step


@dataclass(slots=True)
class Work:
    """Numbers of the steps that opened what is open; 0: it is not."""

    run: int = 0
    turn: int = 0
    message: int = 0
    compaction: int = 0
    retry: int = 0
    """The first `auto_retry_start` of the bracket."""
    calls: dict[str, int] = field(default_factory=dict[str, int])
    """Executing tool calls."""
    announced: int = 0
    """The record that announced further work: an `agent_end` or a `compaction_end` with willRetry, a retry."""
    settled: int = 0
    """The last `agent_settled`."""
    run_ended: int = 0
    """The last `agent_end`."""
    run_started: int = 0
    """The last `agent_start`."""
    active: int = 0
    """The last record that begins or ends one of these."""

    def advance(self, step: Step) -> None:
        """Take a step."""
        kind = edge.out_kind(step)
        if kind and step.record is not None and kind != "response":
            self._take(kind, step.number, step.record)

    def _take(self, kind: str, number: int, record: Record) -> None:
        active = self.active
        self.active = number
        match kind:
            case "agent_start":
                self.run = self.run_started = number
                self.turn = self.message = self.announced = 0
                self.calls.clear()
            case "agent_end":
                self.run = self.turn = self.message = 0
                self.calls.clear()
                self.run_ended = number
                self.announced = number if record.get("willRetry") is True else 0
            case "turn_start":
                self.turn, self.message = number, 0
            case "turn_end":
                self.turn = 0
            case "message_start":
                self.message = number
            case "message_end":
                self.message = 0
            case "tool_execution_start":
                self.calls[edge.text(record, "toolCallId")] = number
            case "tool_execution_end":
                self.calls.pop(edge.text(record, "toolCallId"), None)
            case "compaction_start":
                self.compaction, self.announced = number, 0
            case "compaction_end":
                self.compaction = 0
                self.announced = number if record.get("willRetry") is True else 0
            case "auto_retry_start":
                self.retry, self.announced = self.retry or number, number
            case "auto_retry_end":
                self.retry = 0
                if not self.run:
                    self.announced = 0
            case "agent_settled":
                self.settled, self.announced = number, 0
            case _:
                self.active = active

    @property
    def is_resting(self) -> bool:
        """Nothing is open or announced; accepted messages may still begin a run."""
        return not (self.run or self.compaction or self.retry or self.announced)

    def open_brackets(self) -> list[tuple[str, int]]:
        """Name what is open, innermost first, with the steps that opened it."""
        found = [(f"tool call {edge.shown(call)}", number) for call, number in self.calls.items()]
        found += [("a message", self.message), ("a turn", self.turn), ("a run", self.run)]
        found += [("a retry", self.retry), ("a compaction", self.compaction)]
        return [(name, number) for name, number in found if number]
