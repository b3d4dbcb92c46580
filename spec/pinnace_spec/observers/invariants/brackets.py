"""Order of events: I-EVT-1 (grammar of a run), I-EVT-2 (updates), I-EVT-5 (no ids), I-EVT-12 (times).

Pure. After a finding the automaton continues from the record, so that one fault is reported once. Sources:
R-RUN-01, R-UPD-01, R-EVT-01, R-MSG-05, C-15.
"""

from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step

_CONVERSATION: Final = ("user", "assistant", "toolResult")


class RunGrammar(Automaton):
    """A run is `agent_start`, turns, `agent_end`; a turn is texts, one answer, results; a message is reported twice."""

    id = "I-EVT-1"
    rules = ("R-RUN-01",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._run = 0
        self._turn = 0
        self._message = 0
        self._begun: Record = edge.EMPTY
        self._answer = 0  # the turn's
        self._calls: dict[str, int] = {}
        self._has_cause = True  # a text was delivered in this run, or it was announced
        self._announced = 0

    def take(self, step: Step) -> None:
        """Take a record."""
        kind, number = self.fold.kind, step.number
        record = edge.as_record(step.record)
        match kind:
            case "agent_start":
                self._start_run(number)
            case "agent_end":
                self._end("agent_end", number, self._run, inside=(self._turn, self._message))
                self._run = self._turn = self._message = 0
                self._announced = number if record.get("willRetry") is True else 0
            case "turn_start":
                self._start_turn(number)
            case "turn_end":
                self._end("turn_end", number, self._turn, inside=(self._message, *self._calls.values()))
                self._turn = self._message = self._answer = 0
                self._calls.clear()
            case "message_start":
                self._start_message(number, edge.inner(record, "message"))
            case "message_end":
                self._end_message(number, edge.inner(record, "message"))
            case "tool_execution_start":
                self._calls[edge.text(record, "toolCallId")] = number
                if self._message or not self._turn:
                    self.report(f"record {number} starts a tool outside of a turn's tools", self._message, number)
            case "tool_execution_end":
                self._calls.pop(edge.text(record, "toolCallId"), None)
            case "compaction_end" | "auto_retry_start":
                is_announced = kind == "auto_retry_start" or record.get("willRetry") is True
                self._announced = number if is_announced else self._announced
            case _:
                pass

    def _start_run(self, number: int) -> None:
        self.armed += 1
        if self._run:
            self.report(f"record {number} starts a run inside of the one of record {self._run}", self._run, number)
        self._run, self._turn, self._message, self._answer = number, 0, 0, 0
        self._calls.clear()
        # Queued messages are delivered inside; a retry continues with the present context.
        self._has_cause = bool(self._announced) or not self.fold.checks.is_whole
        self._announced = 0

    def _start_turn(self, number: int) -> None:
        if not self._run:
            self.report(f"record {number} starts a turn outside of a run", number)
        elif self._turn:
            self.report(f"record {number} starts a turn inside of the one of record {self._turn}", self._turn, number)
        self._turn, self._message, self._answer = number, 0, 0
        self._calls.clear()

    def _end(self, kind: str, number: int, begun: int, inside: tuple[int, ...]) -> None:
        still_open = [each for each in inside if each]
        if not begun:
            self.report(f"record {number} ({kind}) ends what was not begun", number)
        elif still_open:
            what = f"record {number} ({kind}) comes while what record {still_open[0]} began is open"
            self.report(what, begun, *still_open, number, rules=("R-RUN-01", "C-15"))

    def _start_message(self, number: int, message: Record) -> None:
        role = message.get("role")
        if self._message:
            what = f"record {number} starts a message inside of the one of record {self._message}"
            self.report(what, self._message, number)
        elif role in _CONVERSATION and not self._turn:
            self.report(f"record {number} starts a message outside of a turn", number)
        elif role == "user" and self._answer:
            what = f"record {number} reports a text behind the answer of record {self._answer} in the same turn"
            self.report(what, self._answer, number)
        elif role == "assistant" and self._answer:
            what = f"record {number} starts a second answer in the turn of record {self._answer}"
            self.report(what, self._answer, number)
        elif role == "toolResult" and not self._answer:
            self.report(f"record {number} reports a result in a turn without an answer", self._turn, number)
        if role == "assistant":
            # Extensions may continue a run without a message.
            if not self._has_cause and self._run and not self.fold.checks.has_extensions:
                what = (
                    f"record {number} answers in the run of record {self._run}, which starts for no text, retry or room"
                )
                self.report(what, self._run, number)
            self._has_cause, self._answer = True, number
        elif role != "system":
            self._has_cause = True
        self._message, self._begun = number, message

    def _end_message(self, number: int, message: Record) -> None:
        begun, role = self._message, self._begun.get("role")
        self._message = 0
        if not begun:
            self.report(f"record {number} ends a message that was not begun", number)
        elif role != message.get("role"):
            self.report(f"record {number} ends a message of another role than record {begun} began", begun, number)
        elif role != "assistant" and not edge.is_equal(self._begun, message):
            self.report(f"record {number} ends another message than record {begun} began", begun, number)


class UpdatesInside(Automaton):
    """Updates come between the start and the end of an assistant message."""

    id = "I-EVT-2"
    rules = ("R-UPD-01",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._message = 0
        self._role: object = None
        self._last_end = 0

    def take(self, step: Step) -> None:
        """Take a record."""
        match self.fold.kind:
            case "message_start":
                self._message = step.number
                self._role = edge.inner(edge.as_record(step.record), "message").get("role")
            case "message_end":
                self._message, self._last_end = 0, step.number
            case "message_update":
                self.armed += 1
                if not self._message or self._role != "assistant":
                    what = f"record {step.number} updates no message of the assistant"
                    self.report(what, self._message or self._last_end, step.number)
            case _:
                pass


_WITH_ID: Final = frozenset(
    {
        *("response", "bash_execution_update", "client_request", "session"),
        *("extension_ui_request", "extension_ui_resolved", "hook_ui_request"),
    }
)


class NoIds(Automaton):
    """Events carry no id."""

    id = "I-EVT-5"
    rules = ("R-EVT-01",)

    def take(self, step: Step) -> None:
        """Look for one."""
        kind = self.fold.kind
        # An unknown record may be a request of a later generation.
        if kind in self.fold.generation.written and kind not in _WITH_ID:
            self.armed += 1
            if "id" in edge.as_record(step.record):
                self.report(f"record {step.number} ({kind}) has an id", step.number)


class Times(Automaton):
    """The times of messages do not run backwards."""

    id = "I-EVT-12"
    rules = ("R-MSG-05",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._last = (0.0, 0)
        """Time and step of the newest message."""
        self._before_results = (0.0, 0)
        """The same of the newest that is no result."""

    def take(self, step: Step) -> None:
        """Compare with the message before."""
        if self.fold.kind != "message_start":
            return
        message = edge.inner(edge.as_record(step.record), "message")
        time = edge.number(message, "timestamp")
        if time is None or message.get("role") not in _CONVERSATION:
            return
        self.armed += 1
        # Calls that run side by side end in any order, and their results are reported in the order of the calls.
        is_result = message.get("role") == "toolResult"
        last, reported = self._before_results if is_result else self._last
        if time < last:
            what = f"record {step.number} is {last - time:.0f} ms older than record {reported}, which it follows"
            # The original dates a queued text by when it was sent.
            self.report(what, reported, step.number, level="nonstrict")
        if not is_result:
            self._last = self._before_results = (time, step.number)
        elif time >= self._last[0]:
            self._last = (time, step.number)
