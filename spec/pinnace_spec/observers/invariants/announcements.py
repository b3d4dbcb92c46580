"""Announcements: I-SES-1 (a change of the conversation is announced, once), I-UI-1 (so is a dialog that is taken back).

Pure. The records are this program's; of agents without them there is nothing to judge. Sources: R-SES-16, R-SES-17,
R-UI-02, R-UI-08.
"""

from typing import Final, NamedTuple

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, Sent
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step
from pinnace_spec.records.command_table import CLIENT_ANSWERS
from pinnace_spec.records.messages import DIALOG_METHODS

_REASONS: Final = {"new_session": "new", "reset": "new", "switch_session": "resume", "navigate_tree": "navigate"}
"""Of commands that change the conversation; all others copy the session."""
_CHANGERS: Final = SESSION_COMMANDS | {"navigate_tree"}
_ENDING: Final = "shutting_down"


class _Change(NamedTuple):
    """A `session_changed` that no response has followed yet."""

    number: int
    reason: str
    leaf: object


class ChangesAnnounced(Automaton):
    """Each change of the conversation has one `session_changed`, before its response and before reads that show it."""

    id = "I-SES-1"
    rules = ("R-SES-16",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._has_record = "session_changed" in fold.generation.records
        self._open: _Change | None = None  # of a command of the client
        self._session: tuple[object, int] | None = None  # the current one, and the record that has shown it
        self._leaf: tuple[object, int] | None = None  # likewise, while nothing can have moved it

    def take(self, step: Step) -> None:
        """Take a record."""
        if not self._has_record or step.direction == "in" or step.record is None:
            return
        answered, record = self.fold.commands.answered, step.record
        if answered is not None:
            self._answer(answered, step.number, record)
        elif self.fold.kind == "session_changed":
            self._change(step.number, record)
        elif self.fold.kind in {"message_end", "entry_appended", "compaction_end"}:
            self._leaf = None

    def _change(self, number: int, record: Record) -> None:
        self.armed += 1
        session, reason = record.get("sessionId"), edge.text(record, "reason")
        former = self._session
        is_other = reason in {"new", "fork"}
        if former is not None and is_other == (session == former[0]) and reason != "resume":
            what = f"record {number} names the session {'of' if is_other else 'as another one than'} record {former[1]}"
            self.report(what, former[1], number)
        work = self.fold.work
        if reason != "takeover" and not work.is_resting:
            begun = work.run or work.retry or work.compaction or work.announced
            what = f"record {number} announces another conversation in the work of record {begun}"
            self.report(what, begun, number, rules=("R-SES-17",))
        self._session, self._leaf = (session, number), (record.get("leafId"), number)
        if record.get("by") != "client":
            return
        if not self.fold.commands.are_open(_CHANGERS):
            if self.fold.checks.has_inputs and self.fold.checks.is_whole:
                self.report(f"record {number} announces a change by the client, which has asked for none", number)
            return
        if self._open is not None:
            what = f"record {number} announces a change again that record {self._open.number} has announced"
            self.report(what, self._open.number, number)
        self._open = _Change(number, reason, record.get("leafId"))

    def _answer(self, sent: Sent, number: int, record: Record) -> None:
        data = edge.inner(record, "data")
        if sent.kind in _CHANGERS:
            is_made = sent.is_success and data.get("cancelled") is not True
            change = self._take_announced(sent.kind, is_made=is_made)
            if is_made:
                self._compare(sent, number, data, change)
            elif change is not None and record.get("errorCode") != _ENDING:
                what = f"record {number} refuses a change that record {change.number} has announced"
                self.report(what, change.number, number)
        elif sent.kind == "get_state" and sent.is_success:
            self._compare_session(number, data.get("sessionId"))
        elif sent.kind in {"get_entries", "get_tree"} and sent.is_success:
            self._leaf = data.get("leafId"), number
        elif sent.kind not in {"get_messages", "get_session_stats", "get_fork_messages", "get_last_assistant_text"}:
            self._leaf = None  # it may append an entry

    def _take_announced(self, kind: str, *, is_made: bool) -> _Change | None:
        """Take what was announced for a command that is answered, unless it can only be another one's that is open."""
        change = self._open
        if change is None:
            return None
        causes = frozenset(each for each in _CHANGERS if _REASONS.get(each, "fork") == change.reason)
        if not (is_made and kind in causes) and self.fold.commands.are_open(causes):
            return None
        self._open = None
        return change

    def _compare(self, sent: Sent, number: int, data: Record, change: _Change | None) -> None:
        self.armed += 1
        if sent.kind == "navigate_tree":
            self._compare_move(number, data, change)
        elif change is None and sent.kind == "reset":
            pass  # its answer is the same when it was vetoed or withdrawn
        elif change is None:
            what = f"record {number} answers a {sent.kind} that no record has announced"
            self.report(what, sent.number, number, rules=("R-SES-16", "R-SES-17"))
        elif change.reason != _REASONS.get(sent.kind, "fork"):
            what = f"record {number} answers a {sent.kind}, which record {change.number} calls {change.reason}"
            self.report(what, change.number, number)

    def _compare_move(self, number: int, data: Record, change: _Change | None) -> None:
        if change is not None:
            if change.reason != "navigate" or change.leaf != data.get("leafId"):
                what = f"record {number} answers another move than record {change.number} has announced"
                self.report(what, change.number, number)
            return
        leaf = self._leaf
        has_moved = "editorText" in data or "summaryEntry" in data
        if has_moved or (leaf is not None and leaf[0] != data.get("leafId")):
            at = 0 if leaf is None else leaf[1]
            what = f"record {number} answers a move that no record has announced"
            self.report(what, at, number, rules=("R-SES-16", "R-SES-17"))

    def _compare_session(self, number: int, session: object) -> None:
        former, self._session = self._session, (session, number)
        if former is not None:
            self.armed += 1
            if session != former[0]:
                what = f"record {number} shows another session than record {former[1]}, and no record has announced it"
                self.report(what, former[1], number)


class DialogsTakenBack(Automaton):
    """`extension_ui_resolved` names a dialog that is open, once, and a dialog without a time has no timeout."""

    id = "I-UI-1"
    rules = ("R-UI-08",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._asked: dict[str, tuple[int, bool]] = {}
        self._resolved: dict[str, int] = {}
        self._answered: set[str] = set()

    def take(self, step: Step) -> None:
        """Take a record."""
        record = edge.as_record(step.record)
        if step.direction == "in":
            if record.get("type") == CLIENT_ANSWERS[0] and isinstance(record.get("id"), str):
                self._answered.add(edge.text(record, "id"))
            return
        match self.fold.kind:
            case "extension_ui_request" if edge.text(record, "method") in DIALOG_METHODS:
                self._asked[edge.text(record, "id")] = step.number, "timeout" in record
            case "extension_ui_resolved":
                self._resolve(step.number, record)
            case _:
                pass

    def _resolve(self, number: int, record: Record) -> None:
        self.armed += 1
        dialog, reason = edge.text(record, "id"), edge.text(record, "reason")
        asked, has_time = self._asked.get(dialog, (0, True))
        if (former := self._resolved.setdefault(dialog, number)) != number:
            self.report(f"record {number} takes a dialog back that record {former} has taken back", former, number)
        elif not asked and self.fold.checks.is_whole:
            self.report(f"record {number} takes back a dialog that was not asked", number)
        elif reason == "timeout" and not has_time:
            self.report(f"record {number} ends the dialog of record {asked}, which has no time", asked, number)
        elif reason == "answered" and self.fold.checks.is_whole and dialog not in self._answered:
            self.report(
                f"record {number} ends the dialog of record {asked}, which no client has answered", asked, number
            )
