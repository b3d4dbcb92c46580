"""Endings: I-EOF-1 (everything is closed in time), I-CRASH (no other cause ends the process).

Pure. Commands that were left without an answer are I-RSP-1's. Sources: R-EOF-01, R-EOF-02, R-SIG-01, R-ERR-02.
"""

import re
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.verdicts import EXIT_S, ORDERLY, End, Step

_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\)|^\s+at .+:\d+:\d+\)?$", re.MULTILINE)
_ERROR: Final = re.compile(r"(?:Uncaught )?\w*(?:Error|Exception|panic)\w*\b.*:")


class ClosedInTime(Automaton):
    """When the process ends every bracket is closed, and it ends in time."""

    id = "I-EOF-1"
    rules = ("R-EOF-01",)

    def end(self, end: End) -> None:
        """Judge the end."""
        if end.how not in {"exit", "hang"}:
            return
        self.armed += 1
        if end.how == "exit":
            for name, begun in self.fold.work.open_brackets():
                self.report(f"the trace ends while {name} of record {begun} is open", begun)
        if end.how == "hang" or end.seconds > self.fold.checks.deadline_s(EXIT_S):
            text = "the process does not end" if end.how == "hang" else f"the process ends after {end.seconds:.1f} s"
            self.report(f"{text}, though its input has", end.after or 0, is_timed=True)


class NoCrash(Automaton):
    """Only the end of stdin and signals end the process."""

    id = "I-CRASH"
    # The command that ended the process is never answered.
    rules = ("R-ERR-02", "R-RSP-01")
    _has_begun = False

    def take(self, step: Step) -> None:
        """Count possible causes of its end."""
        self.armed += step.direction == "in"
        self._has_begun = True

    def end(self, end: End) -> None:
        """Look at the code."""
        # An agent without input and output has refused to start.
        if end.how != "exit" or end.code in ORDERLY or not self._has_begun:
            return
        found = _TRACEBACK.search(end.stderr)
        # A process that takes no commands says by its code how its one prompt ended.
        if not self.fold.checks.has_inputs and end.code is not None and end.code > 0 and not found:
            return
        last = self.fold.commands.last_input
        shown = f": {edge.shown(_last_words(end.stderr))}" if found and end.stderr.strip() else ""
        behind = f" behind record {last}" if last else ""
        self.report(f"the process ends with {end.code}{behind}{shown}", last)


def _last_words(stderr: str) -> str:
    """Select the line that names the error: some runtimes write a stack trace and more after it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if _ERROR.match(line)), lines[-1])
