"""Aborts: I-ABT-1. After the response to an abort nothing runs, and nothing starts without a later request.

Pure. The messages that the abort pauses stay queued; an abort with `continue` is not judged here, since a run follows
it. Sources: R-ABT-01, C-1, C-6, C-7, C-13.
"""

import re
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import TEXT_COMMANDS, Sent
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step

_ABORTED: Final = re.compile(r"\babort|\bcancel", re.IGNORECASE)


class Aborted(Automaton):
    """Aborted work is closed before the response; the answer has stop reason `aborted`; no turn is opened for it."""

    id = "I-ABT-1"
    rules = ("R-ABT-01",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._abort: Sent | None = None  # the last one that was answered
        self._cut = 0  # the turn of this run whose tools an abort has ended
        self._turn_behind = 0  # opened after it

    def take(self, step: Step) -> None:
        """Take a step."""
        if not self.fold.checks.has_inputs:
            return
        answered = self.fold.commands.answered
        if answered is not None:
            if answered.kind == "abort" and answered.is_success:
                self._answer(answered, step.number)
            return
        record = edge.as_record(step.record)
        match self.fold.kind:
            case "agent_start":
                self._cut = self._turn_behind = 0
                self._start_run(step.number)
            case "turn_end":
                self._end_turn(step.number, record)
            case "turn_start" if self._cut:
                self._turn_behind = step.number
            case "message_end":
                self._end_message(step.number, edge.inner(record, "message"))
            case _:
                pass

    def _answer(self, abort: Sent, number: int) -> None:
        self.armed += 1
        continues = abort.record.get("queue") == "continue"
        self._abort = None if continues else abort
        work, queues = self.fold.work, self.fold.queues
        # A message that was sent after this abort resumes the paused queue, whether another abort is under way or not.
        is_released = queues.last_accepted is not None and queues.last_accepted.sent.number > abort.number
        # What a later command has begun, while this answer has waited for the disk, is not what was aborted.
        is_newer = any(
            each.kind == "compact" and each.number > abort.number for each in self.fold.commands.open.values()
        )
        for name, begun in self.fold.work.open_brackets():
            if not continues and not (is_newer and begun > abort.number):
                what = (
                    f"record {number} answers the abort of record {abort.number} while {name} of record {begun} is open"
                )
                self.report(what, abort.number, begun, number)
                return
        # So does a later abort with `continue`, whatever has been sent since and may not be read yet.
        release = queues.last_release
        is_released = is_released or (release is not None and release.number > abort.number)
        is_owed = queues.pending > 0 and (is_released or not queues.is_held)
        if self.fold.generation.has_settled and work.run_started > work.settled and not continues and not is_owed:
            what = f"record {number} answers the abort of record {abort.number}"
            self.report(
                f"{what} before the run of record {work.run_started} has settled",
                abort.number,
                work.run_started,
                number,
                rules=("C-6", "C-8"),
            )

    def _start_run(self, number: int) -> None:
        abort, queues = self._abort, self.fold.queues
        if abort is None or self.fold.checks.has_extensions:
            return
        self._abort = None
        release = queues.last_release
        if release is not None and release.number > abort.number:
            return
        # A message that was sent after the abort and not rejected, or one whose outcome is unknown.
        newer = [text for text in queues.texts[-20:] if text.sent.number > abort.number and not text.refused]
        if newer or any(s.kind in TEXT_COMMANDS and s.number > abort.number for s in self.fold.commands.open.values()):
            return
        what = f"record {number} starts a run behind the answer of record {abort.answered} to an abort"
        self.report(
            f"{what}, and nothing was sent since", abort.number, abort.answered, number, rules=("R-ABT-01", "C-1")
        )

    def _end_turn(self, number: int, record: Record) -> None:
        results = [edge.as_record(each) for each in edge.items(record, "toolResults")]
        aborts = [sent for sent in self.fold.commands.open.values() if sent.kind == "abort"]
        is_cut = any(each.get("isError") is True and _ABORTED.search(edge.words(each)) for each in results)
        self._cut = number if is_cut and aborts else 0
        self._turn_behind = 0

    def _end_message(self, number: int, message: Record) -> None:
        if message.get("role") != "assistant":
            return
        if self._turn_behind and edge.text(message, "stopReason") in {"aborted", "error"} and not edge.blocks(message):
            what = f"record {number} ends an empty answer in a turn that record {self._turn_behind} opened"
            self.report(f"{what} behind the aborted tools of record {self._cut}", self._cut, self._turn_behind, number)
        aborts = [sent for sent in self.fold.commands.open.values() if sent.kind == "abort"]
        said = edge.text(message, "errorMessage")
        if aborts and message.get("stopReason") == "error" and _ABORTED.search(said):
            what = f"record {number} calls an answer failed ({edge.shown(said)}) that record {aborts[0].number} aborted"
            self.report(what, aborts[0].number, number, rules=("R-ABT-01", "C-13"))
