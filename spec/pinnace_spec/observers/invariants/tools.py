"""Tool calls: I-EVT-6 (paired, one result each, in order), I-EVT-7 (output grows), I-FIL-1 (files of the client).

Pure. Sources: R-RUN-02 to R-RUN-05, R-TOL-01, R-TOL-08, R-FIL-02, R-FIL-04.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step

_FAILED: Final[Mapping[str, tuple[str, ...]]] = {
    "length": ("R-RUN-05",),
    "error": ("R-RUN-04",),
    "aborted": ("R-RUN-04",),
}
"""Why no call of an answer is executed, and which rule says so."""


class CallsPaired(Automaton):
    """Each call of an answer is executed at most once and has one result, in call order; failures execute none."""

    id = "I-EVT-6"
    rules = ("R-TOL-01", "R-RUN-03")

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._answer = 0
        self._stop = ""
        self._wanted: list[str] = []
        self._names: dict[str, str] = {}
        self._open: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._has_failed: dict[str, tuple[int, bool]] = {}  # the outcome of an execution's end
        self._results: list[tuple[str, int]] = []
        self._next = 0  # the place in call order of the last call that was started

    def take(self, step: Step) -> None:
        """Take a record."""
        record, number = edge.as_record(step.record), step.number
        match self.fold.kind:
            case "turn_start" | "agent_start":
                self._forget()
            case "message_start":
                self._hear_start(number, edge.inner(record, "message"))
            case "message_end":
                self._hear(number, edge.inner(record, "message"))
            case "tool_execution_start":
                self._start(number, record)
            case "tool_execution_update" | "tool_execution_end" as kind:
                self._go_on(kind, number, record)
            case "turn_end":
                self._close(number)
            case _:
                pass

    def _forget(self) -> None:
        self._answer, self._stop, self._next = 0, "", 0
        self._wanted, self._names = [], {}
        self._open, self._done, self._results = {}, {}, []
        self._has_failed = {}

    def _hear(self, number: int, message: Record) -> None:
        if message.get("role") == "assistant":
            self._forget()
            calls = edge.calls(message)
            self._answer, self._stop = number, edge.text(message, "stopReason")
            self._wanted = [edge.text(call, "id") for call in calls]
            self._names = {edge.text(call, "id"): edge.text(call, "name") for call in calls}
            self.armed += len(calls)
        elif message.get("role") == "toolResult":
            call = edge.text(message, "toolCallId")
            self._results.append((call, number))
            ended, has_failed = self._has_failed.get(call, (0, None))
            is_error = message.get("isError") is True
            if has_failed not in (None, is_error) and not self.fold.checks.has_extensions:
                what = f"record {number} reports {edge.shown(call)} as {'no ' if has_failed else ''}error"
                self.report(f"{what}, record {ended} {'' if has_failed else 'not '}so", ended, number)

    def _hear_start(self, number: int, message: Record) -> None:
        call = edge.text(message, "toolCallId")
        if message.get("role") == "toolResult" and call in self._open:
            what = f"record {number} reports the result of {edge.shown(call)}, which still executes"
            self.report(what, self._open[call], number)

    def _start(self, number: int, record: Record) -> None:
        call, name = edge.text(record, "toolCallId"), edge.text(record, "toolName")
        if call not in self._names:
            self.report(
                f"record {number} executes {edge.shown(call)}, which is no call of the turn", self._answer, number
            )
        elif call in self._open or call in self._done:
            before = self._open.get(call) or self._done[call]
            self.report(f"record {number} executes {edge.shown(call)}, which record {before} had begun", before, number)
        elif name != self._names[call]:
            what = f"record {number} executes {edge.shown(call)} as {edge.shown(name)}"
            self.report(f"{what}, record {self._answer} calls {edge.shown(self._names[call])}", self._answer, number)
        elif self._stop in {"error", "aborted"}:
            # Reported, and perhaps only to say that it is not executed: its end shows.
            what = f"record {number} reports a call of the answer of record {self._answer}, which is {self._stop}"
            self.report(what, self._answer, number, rules=("R-RUN-04",), level="nonstrict")
        elif (place := self._wanted.index(call)) < self._next:
            what = f"record {number} starts {edge.shown(call)} out of call order"
            self.report(what, self._answer, number, rules=("R-RUN-02",))
        else:
            self._next = place
        self._open[call] = number

    def _go_on(self, kind: str, number: int, record: Record) -> None:
        call = edge.text(record, "toolCallId")
        begun = self._open.get(call)
        if begun is None:
            what = f"record {number} ({kind}) reports {edge.shown(call)}, which is not executing"
            self.report(what, self._done.get(call, 0) or self._answer, number)
            return
        if kind == "tool_execution_end":
            self._done[call] = begun
            self._has_failed[call] = number, record.get("isError") is True
            del self._open[call]
            if self._stop in _FAILED and record.get("isError") is not True:
                what = f"record {number} executed {edge.shown(call)} of the answer of record {self._answer}"
                self.report(f"{what}, which ended with {self._stop}", self._answer, number, rules=_FAILED[self._stop])

    def _close(self, number: int) -> None:
        for call, begun in self._open.items():
            what = f"record {number} ends the turn while {edge.shown(call)} of record {begun} executes"
            self.report(what, begun, number)
        got = [call for call, _ in self._results]
        # The calls of a failed answer are not executed, and have no result.
        is_free = self._stop in {"error", "aborted"} and not got
        if self._answer and not is_free and got != self._wanted:
            what = f"record {number} ends the turn with results of {got}, record {self._answer} calls {self._wanted}"
            in_order = len(set(got)) == len(got) and set(got) == set(self._wanted)
            rules = ("R-RUN-03",) if in_order else ("R-TOL-01",)
            self.report(what, self._answer, *(step for _, step in self._results), number, rules=rules)
        self._forget()


class _Output(NamedTuple):
    number: int
    text: str


# A window over the end of the output; other agents may keep less than ours does, never less than this.
_WINDOW_CHARACTERS: Final = 1_000


class OutputGrows(Automaton):
    """The output of a shell that is shown so far is a beginning of what is shown next, until it is cut at the front."""

    id = "I-EVT-7"
    rules = ("R-TOL-08",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._shown: dict[str, _Output] = {}

    def take(self, step: Step) -> None:
        """Compare with the update before."""
        kind, record = self.fold.kind, edge.as_record(step.record)
        if kind in {"agent_end", "turn_end"}:
            self._shown.clear()
        elif kind == "tool_execution_end":
            self._shown.pop(edge.text(record, "toolCallId"), None)
        elif kind == "tool_execution_update" and edge.text(record, "toolName") == "bash":
            self._compare(step.number, edge.text(record, "toolCallId"), edge.inner(record, "partialResult"))

    def _compare(self, number: int, call: str, partial: Record) -> None:
        text = edge.words(partial)
        before = self._shown.get(call)
        self._shown[call] = _Output(number, text)
        if before is None:
            return
        self.armed += 1
        is_cut = edge.inner(partial, "details").get("truncation") is not None or len(before.text) >= _WINDOW_CHARACTERS
        if not text.startswith(before.text) and not is_cut:
            what = f"record {number} shows {edge.shown(text)} where record {before.number} showed"
            self.report(f"{what} {edge.shown(before.text)}", before.number, number)


class FileRequests(Automaton):
    """A request for a file has its own id, an open call and an offered method; no call succeeds by a write undone."""

    id = "I-FIL-1"
    rules = ("R-FIL-02",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._offered: frozenset[str] = frozenset()
        self._calls: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._unwritten: dict[str, dict[str, int]] = {}
        """The writes of each call that the client has not confirmed, by their ids."""

    def take(self, step: Step) -> None:
        """Follow offers, calls, requests and answers."""
        record, number = edge.as_record(step.record), step.number
        if step.direction == "in":
            if edge.text(record, "type") == "client_response":
                self._answer(record)
            return
        answered = self.fold.commands.answered
        if answered is not None and answered.kind == "hello" and answered.is_success:
            offered = edge.texts(answered.record, "delegate")
            self._offered = self._offered if offered is None else frozenset(offered)
        match self.fold.kind:
            case "tool_execution_start":
                self._calls[edge.text(record, "toolCallId")] = number
            case "client_request":
                self._ask(number, record)
            case "tool_execution_end":
                self._end(number, record)
            case _:
                pass

    def _ask(self, number: int, record: Record) -> None:
        self.armed += 1
        identity, call = edge.text(record, "id"), edge.text(record, "toolCallId")
        method = edge.text(record, "method")
        if before := self._asked.get(identity):
            self.report(f"record {number} has the id of the request of record {before}", before, number)
        if call not in self._calls:
            self.report(f"record {number} asks for {edge.shown(call)}, which is not executing", number)
        if method not in self._offered and self.fold.checks.has_inputs and self.fold.checks.is_whole:
            self.report(f"record {number} asks for {edge.shown(method)}, which the client has not offered", number)
        self._asked[identity] = number
        if method == "write_text_file":
            self._unwritten.setdefault(call, {})[identity] = number

    def _answer(self, record: Record) -> None:
        is_done = record.get("success") is True or record.get("errorCode") == "unsupported"
        for writes in self._unwritten.values():
            # The first answer counts, whatever it is.
            if (number := writes.pop(edge.text(record, "id"), 0)) and not is_done:
                writes[""] = number

    def _end(self, number: int, record: Record) -> None:
        call = edge.text(record, "toolCallId")
        self._calls.pop(call, None)
        undone = self._unwritten.pop(call, {})
        # Extensions may have changed the result.
        if undone and record.get("isError") is False and not self.fold.checks.has_extensions:
            begun = next(iter(undone.values()))
            what = f"record {number} reports success of {edge.shown(call)}, whose write in record {begun} was not done"
            self.report(what, begun, number, rules=("R-FIL-04",))
