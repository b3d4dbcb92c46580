"""Consequences without a command: I-EVT-9 (retries), I-EVT-10 (compactions), I-EVT-11 (settled).

Pure. An announced record comes before any other. Sources: R-RTY-01, R-RTY-02, R-CMP-02, R-CMP-06, C-8,
C-14, C-15.
"""

from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, TEXT_COMMANDS
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.state.queue_texts import Text
from pinnace_spec.observers.verdicts import End, Record, Step

# Records are read some time after they were written, each by another delay.
_EARLY_S: Final = 0.3
_LATE_S: Final = 2.0
_CAUSES: Final = TEXT_COMMANDS | SESSION_COMMANDS | {"abort", "abort_retry", "compact", "clear_queue"}
_FOLLOWERS: Final = frozenset({"agent_start", "auto_retry_start", "compaction_start", "agent_settled"})


class Retries(Automaton):
    """Attempts count 1, 2, … up to their maximum, each announced, each after its delay; the bracket ends once."""

    id = "I-EVT-9"
    rules = ("R-RTY-01", "R-RTY-02")

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._announced = 0  # an agent_end with willRetry
        self._reported = False  # agent_end says whether it will retry
        self._started: Step | None = None  # its delay is running
        self._delay_s = 0.0
        self._open = 0
        self._attempt: int = 0
        self._has_spoken = False  # a text came since: its failures count anew
        self._asked = 0  # the newest text of the client
        self._stop = ""

    def take(self, step: Step) -> None:
        """Take a record."""
        kind, number, record = self.fold.kind, step.number, edge.as_record(step.record)
        sent = self.fold.commands.sent
        if sent is not None and sent.kind in TEXT_COMMANDS:
            self._asked = number
        if kind in _FOLLOWERS:
            self._follow(kind, step)
        match kind:
            case "agent_end":
                self._announced = number if record.get("willRetry") is True else 0
                self._reported = "willRetry" in record
                if self._announced and self._stop != "error":
                    self.report(f"record {number} announces a retry, though its answer is no error", number)
            case "message_end":
                message = edge.inner(record, "message")
                if message.get("role") == "assistant":
                    self._stop = edge.text(message, "stopReason")
                else:
                    self._has_spoken = True
            case "auto_retry_start":
                self._start(step, record)
            case "auto_retry_end":
                self._end(number, record)
            case _:
                pass

    def end(self, end: End) -> None:
        """Find announced records that never came."""
        if end.how == "exit" and self._announced:
            self.report(f"record {self._announced} announces a retry that never comes", self._announced)

    def _follow(self, kind: str, step: Step) -> None:
        number = step.number
        if self._announced and kind != "auto_retry_start":
            self.report(
                f"record {number} ({kind}) comes where record {self._announced} announced a retry",
                self._announced,
                number,
            )
            self._announced = 0
        if self._started is not None and kind != "auto_retry_start":
            begun, self._started = self._started, None
            if kind == "agent_start":
                self._measure(begun, step)
            else:
                self.report(
                    f"record {number} ({kind}) comes where record {begun.number} announced a run", begun.number, number
                )
        elif self._open and kind in {"compaction_start", "agent_settled"}:
            what = f"record {number} ({kind}) comes inside of the retry of record {self._open}"
            self.report(what, self._open, number, rules=("C-14", "C-15"))

    def _measure(self, begun: Step, step: Step) -> None:
        checks = self.fold.checks
        if not checks.has_times or not checks.is_reading:
            return
        if self._asked > begun.number and not self.fold.generation.has_settled:
            return  # older generations let a new text run in the delay
        waited_s = step.at - begun.at
        if waited_s < self._delay_s - _EARLY_S:
            waited = f"record {step.number} comes {waited_s:.1f} s after record {begun.number}"
            what = f"{waited}, the delay was {self._delay_s} s"
            self.report(what, begun.number, step.number, rules=("R-RTY-01",))
        elif waited_s > self._delay_s + checks.deadline_s(_LATE_S):
            what = f"record {step.number} comes only {waited_s:.1f} s after record {begun.number}"
            self.report(
                f"{what}, which reported {self._delay_s} s",
                begun.number,
                step.number,
                rules=("R-RTY-01",),
                is_timed=True,
            )

    def _start(self, step: Step, record: Record) -> None:
        self.armed += 1
        number = step.number
        if self._reported and not self._announced:
            self.report(f"record {number} starts a retry that no agent_end announced", number)
        if self._started is not None:
            self.report(
                f"record {number} starts a retry inside of the delay of record {self._started.number}",
                self._started.number,
                number,
            )
        attempt, most = edge.count(record, "attempt"), edge.count(record, "maxAttempts")
        allowed = {self._attempt + 1, 1} if self._has_spoken else {self._attempt + 1}
        if attempt is None or attempt not in allowed or (most is not None and attempt > most):
            what = f"record {number} starts attempt {attempt} of {most} after attempt {self._attempt}"
            self.report(what, self._open, number)
        self._attempt, self._has_spoken, self._announced = attempt or self._attempt + 1, False, 0
        self._open = self._open or number
        self._started, self._delay_s = step, (edge.number(record, "delayMs") or 0) / 1000

    def _end(self, number: int, record: Record) -> None:
        if not self._open:
            self.report(f"record {number} ends a retry that is not open", number)
        elif edge.count(record, "attempt") not in {self._attempt, None}:
            attempt = edge.count(record, "attempt")
            self.report(f"record {number} ends attempt {attempt}, open is attempt {self._attempt}", self._open, number)
        elif record.get("success") is True and self._stop in {"error", "aborted"}:
            self.report(f"record {number} reports success, the last answer is {self._stop}", self._open, number)
        self._open, self._attempt, self._started, self._has_spoken = 0, 0, None, False


class Compactions(Automaton):
    """One at a time, outside of runs, ended with the reason it began with; behind one that will retry a run follows."""

    id = "I-EVT-10"
    rules = ("R-CMP-06", "R-CMP-11")

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        newer, older = self.rules
        self._rule = (newer if fold.generation.has_compaction_records else older,)
        self._open = 0
        self._reason: object = None
        self._run = 0
        self._owed = 0

    def take(self, step: Step) -> None:
        """Take a record."""
        kind, number, record = self.fold.kind, step.number, edge.as_record(step.record)
        answered = self.fold.commands.answered
        is_early = answered is not None and answered.kind == "compact" and answered.is_success and self._open
        if is_early and answered is not None and self._reason == "manual":
            what = f"record {number} answers record {answered.number} inside of the compaction of record {self._open}"
            self.report(what, answered.number, self._open, number, rules=self._rule)
        if kind in _FOLLOWERS:
            if self._owed and kind != "agent_start":
                what = f"record {number} ({kind}) comes where record {self._owed} announced a run"
                self.report(what, self._owed, number, rules=("R-CMP-02",))
            self._owed = 0
        match kind:
            case "agent_start":
                if self._open:
                    self.report(
                        f"record {number} starts a run inside of the compaction of record {self._open}",
                        self._open,
                        number,
                        rules=self._rule,
                    )
                self._run = number
            case "agent_end":
                self._run = 0
            case "compaction_start":
                self._start(number, record)
            case "compaction_end":
                self._end(number, record)
            case "agent_settled" if self._open:
                what = f"record {number} settles inside of the compaction of record {self._open}"
                self.report(what, self._open, number, rules=self._rule)
            case _:
                pass

    def end(self, end: End) -> None:
        """Find an announced run that never came."""
        if end.how == "exit" and self._owed:
            rules = ("R-CMP-02", "R-EOF-01") if self.is_ours else ("R-EOF-01",)
            self.report(f"record {self._owed} announces a run that never comes", self._owed, rules=rules)

    def _start(self, number: int, record: Record) -> None:
        self.armed += 1
        if self._open:
            what = f"record {number} starts a compaction inside of the one of record {self._open}"
            self.report(what, self._open, number, rules=self._rule)
        if self._run:
            what = f"record {number} starts a compaction inside of the run of record {self._run}"
            self.report(what, self._run, number, rules=("C-15",))
        self._open, self._reason = number, record.get("reason")

    def _end(self, number: int, record: Record) -> None:
        begun, self._open = self._open, 0
        reason, will_retry = record.get("reason"), record.get("willRetry") is True
        is_overflow = reason is None or reason == "overflow"
        has_result = edge.is_object(record.get("result"))
        if not begun:
            self.report(f"record {number} ends a compaction that was not begun", number, rules=self._rule)
        elif record.get("type") == "compaction_end" and not edge.is_equal(reason, self._reason):  # older: no reason
            what = f"record {number} ends a compaction for another reason than record {begun} began it"
            self.report(what, begun, number, rules=self._rule)
        if will_retry and not (is_overflow and has_result):
            self.report(
                f"record {number} will retry, though {reason} has made no room", begun, number, rules=("R-CMP-02",)
            )
        self._owed = number if will_retry else 0


class Settled(Automaton):
    """`agent_settled` comes once for each piece of work, when nothing is open and nothing is deliverable."""

    id = "I-EVT-11"
    rules = ("C-8",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._work = 0  # the work that has not settled
        self._settled = 0
        self._may_settle = 0  # what was sent or reported since, and may be such a piece
        self._owed = 0  # the last step at which a queue had messages and was not paused

    def take(self, step: Step) -> None:
        """Take a step."""
        sent, answered = self.fold.commands.sent, self.fold.commands.answered
        if self.fold.queues.pending and not self.fold.queues.is_held:
            self._owed = step.number
        if sent is not None and sent.kind in _CAUSES:
            self._may_settle = step.number
            return
        if answered is not None and (text := self.fold.queues.of(answered)) is not None:
            self._hear(text, step.number)
            return
        match self.fold.kind:
            case "agent_start":
                self._start(step.number)
            case "compaction_start" | "auto_retry_start":
                self._may_settle = step.number
            case "queue_update" if self.fold.queues.pending:
                # Queued messages begin work; an empty queue does not.
                self._may_settle = step.number
            case "agent_settled":
                self._settle(step.number)
            case _:
                pass

    def end(self, end: End) -> None:
        """Find work that never settled."""
        generation = self.fold.generation
        is_known = self._settled or self.fold.checks.has_inputs
        if end.how == "exit" and self._work and generation.has_settled and is_known:
            self.report(f"the work of record {self._work} never settles", self._work, rules=("R-EOF-01",))

    def _hear(self, text: Text, number: int) -> None:
        """A text that starts a run is accepted only at rest, and rest is reported."""
        if text.accepted != number or text.way != "own" or text.is_handled or text.may_change or not self._work:
            return
        fold = self.fold
        if self._owed > text.sent.number:
            return  # what was left would have been reported in a run of its own: this one took it along, or its place
        if fold.generation.has_settled and not fold.work.run and not fold.checks.has_extensions:
            what = f"record {number} starts new work, and the work of record {self._work} has not settled"
            self.report(what, self._work, number)
            self._work = 0

    def _start(self, number: int) -> None:
        checks, fold = self.fold.checks, self.fold
        is_known = checks.has_inputs and not checks.has_extensions and fold.generation.has_settled
        if is_known and self._settled > self._may_settle and not fold.commands.are_open(TEXT_COMMANDS):
            what = f"record {number} starts a run after record {self._settled} settled, without a request"
            self.report(what, self._settled, number)
        self._work = self._work or number

    def _settle(self, number: int) -> None:
        self.armed += 1
        work = self.fold.work
        # The fold has taken this step, which opens and closes nothing.
        for name, begun in work.open_brackets():
            self.report(f"record {number} settles while {name} of record {begun} is open", begun, number)
            break
        checks = self.fold.checks
        has_cause = bool(self._work) or self._may_settle >= max(self._settled, 1) or not checks.is_whole
        if not has_cause and not checks.has_extensions and checks.has_inputs:
            before = f"again after record {self._settled}" if self._settled else "although nothing has worked"
            self.report(f"record {number} settles {before}", self._settled, number)
        self._work, self._settled = 0, number
        if self.fold.commands.are_open(_CAUSES):
            # What was sent before this record was read may have been taken only after it was written.
            self._may_settle = number
