"""Sums: I-EVT-8, `turn_end` and `agent_end` hold what was reported.

Pure. Keeps the messages of the run. Source: R-RUN-07.
"""

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step


class Sums(Automaton):
    """`turn_end` holds the turn's answer and results, `agent_end` all messages of the run."""

    id = "I-EVT-8"
    rules = ("R-RUN-07",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._run: list[tuple[int, Record]] = []
        self._answer: tuple[int, Record] | None = None
        self._results: list[tuple[int, Record]] = []
        self._is_run_known = False

    def take(self, step: Step) -> None:
        """Take a record."""
        record = edge.as_record(step.record)
        match self.fold.kind:
            case "agent_start":
                self._run, self._is_run_known = [], True
            case "turn_start":
                self._answer, self._results = None, []
            case "message_end":
                message = edge.inner(record, "message")
                self._run.append((step.number, message))
                if message.get("role") == "assistant":
                    self._answer = (step.number, message)
                elif message.get("role") == "toolResult":
                    self._results.append((step.number, message))
            case "turn_end":
                self._compare_turn(step.number, record)
            case "agent_end":
                self._compare_run(step.number, record)
            case _:
                pass

    def _compare_turn(self, number: int, record: Record) -> None:
        if self._answer is None:
            return
        self.armed += 1
        reported, message = self._answer
        if not _is_same(message, record.get("message")):
            self.report(
                f"record {number} ends the turn with another answer than record {reported} reported", reported, number
            )
        self._compare(
            number, [edge.as_record(each) for each in edge.items(record, "toolResults")], self._results, "turn"
        )
        self._answer = None

    def _compare_run(self, number: int, record: Record) -> None:
        if self._is_run_known:
            self.armed += 1
            self._compare(number, [edge.as_record(each) for each in edge.items(record, "messages")], self._run, "run")
        self._run, self._is_run_known = [], False

    def _compare(self, number: int, held: list[Record], reported: list[tuple[int, Record]], what: str) -> None:
        for (step, message), other in zip(reported, held, strict=False):
            if not _is_same(message, other):
                self.report(
                    f"record {number} ends the {what} with another message than record {step} reported", step, number
                )
                return
        if len(held) < len(reported):
            step = reported[len(held)][0]
            self.report(f"record {number} ends the {what} without the message of record {step}", step, number)
        elif len(held) > len(reported):
            extra = f"{len(held) - len(reported)} messages that were not reported"
            self.report(f"record {number} ends the {what} with {extra}", *(step for step, _ in reported[-1:]), number)


_DOCUMENTED = frozenset(
    "role content api provider model usage stopReason errorMessage timestamp toolCallId toolName isError".split()
)


def _is_same(reported: object, held: object) -> bool:
    """Compare what the protocol knows of messages: an agent may add fields of its own to one of them."""
    one, two = edge.as_record(reported), edge.as_record(held)
    shared = (one.keys() & two.keys()) | _DOCUMENTED
    return edge.is_equal(
        {name: one[name] for name in one if name in shared}, {name: two[name] for name in two if name in shared}
    )
