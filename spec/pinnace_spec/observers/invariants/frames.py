"""Lines: I-FRM-1 (framing), I-FRM-2 (nothing else on stdout), I-FRM-5 (text survives), I-FRM-6 (alive).

Pure. Sources: R-FRM-01, R-FRM-03, R-FRM-09, R-ORD-02.
"""

import re
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import Sent
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import End, Step

# Characters at which some readers split lines, and code points that UTF-8 can't represent.
_DELICATE: Final = re.compile("[\u0085\u2028\u2029\ud800-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SEPARATORS: Final = re.compile("[\u0085\u2028\u2029]")
_DEEP: Final = 900
# A `get_state` is answered in this time.
_ANSWER_S: Final = 5.0
_UNDECODED: Final = re.compile("[\udc80-\udcff]")


class Framing(Automaton):
    """Each line of stdout is UTF-8 and ends with LF; it contains no other line separator."""

    id = "I-FRM-1"
    rules = ("R-FRM-01", "R-FRM-03")

    def take(self, step: Step) -> None:
        """Check the line."""
        if step.direction == "in":
            return
        self.armed += 1
        if step.line.isascii():
            return
        if _UNDECODED.search(step.line):
            self.report(f"record {step.number} is not UTF-8", step.number)
        elif found := _SEPARATORS.search(step.line):
            name = f"U+{ord(found[0]):04X}"
            self.report(f"record {step.number} holds {name} unescaped", step.number, rules=("R-FRM-09",))

    def end(self, end: End) -> None:
        """Check the bytes after the last LF."""
        if end.rest and end.how == "exit":
            self.report(f"stdout ends with {edge.shown(end.rest)}, without LF")


class OnlyRecords(Automaton):
    """Stdout holds JSON objects and nothing else."""

    id = "I-FRM-2"
    rules = ("R-FRM-03",)

    def take(self, step: Step) -> None:
        """Check that the line is a record."""
        if step.direction == "out":
            self.armed += 1
            if step.record is None and not _is_deep(step.line):
                self.report(f"record {step.number} is not a JSON object: {edge.shown(step.line)}", step.number)


def _is_deep(line: str) -> bool:
    """Whether a line is nested deeper than this judge can parse: it may be a record."""
    return line.startswith("{") and line.count("[") + line.count("{") > _DEEP


class RoundTrip(Automaton):
    """Delicate characters come back in ids and names as they were sent."""

    id = "I-FRM-5"
    rules = ("R-FRM-01", "R-FRM-09")

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._ids: list[Sent] = []
        self._name: Sent | None = None

    def take(self, step: Step) -> None:
        """Remember delicate ids and names; compare those that come back."""
        commands = self.fold.commands
        if (sent := commands.sent) is not None:
            self._send(sent)
            return
        if (answered := commands.answered) is not None:
            self._answer(answered, step)
        elif commands.is_stray and step.record is not None and isinstance(step.record.get("id"), str):
            name, reported = edge.text(step.record, "command"), edge.text(step.record, "id")
            lost = next((each for each in self._ids if not each.answered and each.kind == name), None)
            if lost is not None and _skeleton(reported) == _skeleton(edge.text(lost.record, "id")):
                what = f"the id of record {lost.number} comes back changed in record {step.number}"
                self.report(what, lost.number, step.number)

    def _send(self, sent: Sent) -> None:
        if _DELICATE.search(edge.text(sent.record, "id")):
            self.armed += 1
            self._ids = [each for each in self._ids[-99:] if not each.answered] + [sent]
        if sent.kind == "set_session_name":
            self._name = None

    def _answer(self, answered: Sent, step: Step) -> None:
        if answered.kind == "set_session_name" and answered.is_success:
            # A name is one line: line separators may become blanks.
            is_delicate = _SURROGATE.search(edge.text(answered.record, "name"))
            self._name = answered if is_delicate else None
        elif self._name is not None and answered.kind == "get_state" and answered.is_success:
            if answered.number < self._name.number:
                return
            name, self._name = self._name, None
            shown = edge.text(edge.inner(edge.as_record(step.record), "data"), "sessionName")
            self.armed += 1
            if self.fold.commands.are_open(frozenset({"set_session_name", "new_session", "switch_session", "fork"})):
                return
            wanted = edge.text(name.record, "name").strip()
            if _SURROGATE.findall(shown) != _SURROGATE.findall(wanted) and _skeleton(shown) == _skeleton(wanted):
                what = f"record {step.number} shows {edge.shown(shown)} where record {name.number} set another name"
                self.report(what, name.number, step.number)


def _skeleton(text: str) -> str:
    return re.sub("[\u0085\u2028\u2029\ud800-\udfff\ufffd?\\s]", "", text)


class Alive(Automaton):
    """`get_state` is answered in time, after any input."""

    id = "I-FRM-6"
    rules = ("R-ORD-02",)

    def take(self, step: Step) -> None:
        """Measure."""
        answered, checks = self.fold.commands.answered, self.fold.checks
        if answered is None or answered.kind != "get_state":
            return
        self.armed += 1
        waited_s = step.at - answered.at
        if checks.has_times and checks.is_reading and waited_s > checks.deadline_s(_ANSWER_S):
            what = f"record {step.number} answers the get_state of record {answered.number} after {waited_s:.1f} s"
            self.report(what, answered.number, step.number, is_timed=True)

    def end(self, end: End) -> None:
        """Find missing responses."""
        if end.how != "hang" or not self.fold.checks.is_reading:
            return
        for sent in self.fold.commands.open.values():
            if sent.kind == "get_state":
                self.report(f"the get_state of record {sent.number} is never answered", sent.number, is_timed=True)
                return
