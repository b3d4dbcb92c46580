"""Responses: I-RSP-1 (once), I-RSP-2 (shape), I-RSP-3 (dialogs), I-RSP-4 (causes), I-RSP-5 (no internals).

Pure. Checks the envelope and the fields that clients depend on; the models of the records check every field.
Sources: R-RSP-01, R-RSP-02, R-UI-01, R-ERR-01, R-ERR-03, R-EOF-01.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, get_args

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import SLOW_COMMANDS, UNREADABLE, UNTYPED, Sent
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import ORDERLY, End, Record, Step
from pinnace_spec.records.command_table import CLIENT_ANSWERS, COMMAND_TABLE, FLAGS, MODES, SETTINGS
from pinnace_spec.records.messages import QueueMode

_INTERNALS: Final = re.compile(
    r"Cannot read propert|is not a function|is not iterable|is not defined|undefined is not|\bTraceback \(most recent"
    r"|\n\s+at \S+ \(|\bAttributeError\b|\bKeyError\b|\bTypeError\b|\bNoneType\b|Converting circular structure"
    r"|must be of type string or an instance of|Maximum call stack"
)
# Fields that clients read of a response, by type: enough to distinguish it from another response.
_SHAPES: Final[Mapping[str, Mapping[str, type | tuple[type, ...]]]] = {
    "get_state": {
        "thinkingLevel": str,
        "isStreaming": bool,
        "isCompacting": bool,
        "sessionId": str,
        "messageCount": int,
    },
    "get_messages": {"messages": list},
    "get_available_models": {"models": list},
    "get_commands": {"commands": list},
    "get_entries": {"entries": list},
    "get_tree": {"tree": list},
    "get_fork_messages": {"messages": list},
    "get_branch_messages": {"messages": list},
    "get_session_stats": {"sessionId": str, "userMessages": int, "assistantMessages": int, "tokens": dict},
    "bash": {"output": str, "cancelled": bool, "truncated": bool},
    "compact": {"summary": str, "tokensBefore": int},
    "clear_queue": {"steering": list, "followUp": list},
    "new_session": {"cancelled": bool},
    "switch_session": {"cancelled": bool},
    "fork": {"cancelled": bool},
    "clone": {"cancelled": bool},
    "branch": {"text": str},
    "set_model": {"id": str, "provider": str},
    "export_html": {"path": str},
}
_MODES: Final = get_args(QueueMode)
_ARGUMENTS: Final[Mapping[str, tuple[str, Collection[str | bool]]]] = {
    command: (name, {True, False} if kind is bool else kind)
    for command in (*SETTINGS, *FLAGS, *MODES)
    for name, (kind, default, _) in COMMAND_TABLE[command].items()
    if default is ... and (kind is bool or isinstance(kind, frozenset))
}
"""The field of each setter that has one of few values, and these."""


class AnsweredOnce(Automaton):
    """Each command has one response."""

    id = "I-RSP-1"
    rules = ("R-RSP-01",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._answered_at_once = 0  # the newest answered command that is not a slow one

    def take(self, step: Step) -> None:
        """Count."""
        commands = self.fold.commands
        if (answered := commands.answered) is not None:
            self.armed += 1
            if answered.kind not in SLOW_COMMANDS:
                self._answered_at_once = max(self._answered_at_once, answered.number)
        elif (again := commands.again) is not None:
            self.armed += 1
            what = (
                f"record {step.number} answers record {again.number} again, which record {again.answered} had answered"
            )
            self.report(what, again.number, again.answered, step.number)

    def end(self, end: End) -> None:
        """Find commands that were never answered."""
        if end.how != "exit" or not self.fold.checks.has_inputs:
            return
        has_crashed = end.code not in ORDERLY
        for sent in self.fold.commands.open.values():
            is_deep = sent.kind == UNREADABLE and sent.is_extreme
            if sent.is_blank or is_deep:
                continue  # it need not be answered, or its answer may be as deep as itself
            # A command that a later one has overtaken was dropped; others may have been cut by the end of the process.
            is_forgotten = sent.kind not in SLOW_COMMANDS and sent.number < self._answered_at_once
            rules = ("R-RSP-01",) if is_forgotten or has_crashed else ("R-EOF-01",)
            self.report(f"record {sent.number} ({sent.kind}) is never answered", sent.number, rules=rules)
            if has_crashed:
                return  # other commands that were open then have the same cause


class ResponseShape(Automaton):
    """A response has its command, its success, and the fields that a client needs."""

    id = "I-RSP-2"
    rules = ("R-RSP-02",)

    def take(self, step: Step) -> None:
        """Check the envelope, then the data."""
        record = step.record
        if step.direction == "in" or record is None or edge.text(record, "type") != "response":
            return
        self.armed += 1
        command, success = record.get("command"), record.get("success")
        number = step.number
        sent = self.fold.commands.answered
        cause = sent.number if sent is not None else 0
        if not isinstance(command, str) or not isinstance(success, bool):
            # A line that is not a command has no type for a response.
            is_odd = not self.fold.checks.has_inputs or (sent is not None and sent.kind in {UNREADABLE, UNTYPED})
            rules = ("R-ERR-01",) if is_odd else self.rules
            if sent is not None and "\ufffd" in sent.lenient:
                rules = ("R-FRM-05",)
            self.report(f"record {number} is a response without command or success", cause, number, rules=rules)
            return
        if success == ("error" in record) or ("error" in record and not isinstance(record["error"], str)):
            what = "has an error" if success else "has no proper error"
            self.report(f"record {number} {what}, though success is {str(success).lower()}", cause, number)
        if sent is not None:
            self._compare(sent, command, success, step, record)

    def _compare(self, sent: Sent, command: str, success: bool, step: Step, record: Record) -> None:
        if sent.kind in {UNREADABLE, UNTYPED}:
            if success or (command != sent.kind and sent.kind == UNREADABLE):
                what = (
                    f"record {step.number} answers record {sent.number}, which is no command, as {edge.shown(command)}"
                )
                is_replaced = "\ufffd" in sent.lenient
                self.report(what, sent.number, step.number, rules=("R-FRM-05" if is_replaced else "R-ERR-01",))
        elif command != sent.kind and not (command == UNREADABLE and sent.is_extreme):
            what = f"record {step.number} names {edge.shown(command)}, record {sent.number} is {edge.shown(sent.kind)}"
            self.report(what, sent.number, step.number)
        elif success:
            self._check_argument(sent, step.number)
            self._look(command, edge.inner(record, "data"), step.number, sent.number)

    def _look(self, command: str, data: Record, number: int, cause: int) -> None:
        for name, wanted in _SHAPES.get(command, {}).items():
            value = data.get(name)
            is_wrong = not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))
            if is_wrong and not self._is_younger(command, name):
                self.report(f"record {number} answers {command} without a proper {name}", cause, number)
                return
        # The releases before the published protocol left it out.
        is_published = "queue_update" in self.fold.generation.records
        if command == "get_last_assistant_text" and "text" not in data and is_published:
            self.report(
                f"record {number} answers {command} without text, which is null where there is none", cause, number
            )
        if command == "get_state":
            for name in ("steeringMode", "followUpMode"):
                if name in data and data[name] not in _MODES:
                    what = f"record {number} shows a {name} that is none: {edge.shown(str(data[name]))}"
                    self.report(what, cause, number, rules=("R-ERR-03",))

    def _check_argument(self, sent: Sent, number: int) -> None:
        """Accepted values of settings are valid."""
        name, allowed = _ARGUMENTS.get(sent.kind, ("", ()))
        value = sent.record.get(name)
        # Booleans would count as numbers here.
        if name and not any(value is each or (isinstance(each, str) and value == each) for each in allowed):
            shown = "no" if value is None else f"the {edge.shown(str(value))}"
            what = f"record {number} accepts record {sent.number}, a {sent.kind} with {shown} {name}"
            self.report(what, sent.number, number, rules=("R-ERR-03",))

    def _is_younger(self, command: str, name: str) -> bool:
        """Return whether an answer may lack this in the agent's generation."""
        if self.fold.generation.has_two_queues:
            return False
        return command in {"get_session_stats", "new_session", "compact"} or name in {"isCompacting", "truncated"}


class DialogsUnanswered(Automaton):
    """Answers to dialogs and to requests for files get no response."""

    id = "I-RSP-3"
    rules = ("R-UI-01",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._last = 0

    def take(self, step: Step) -> None:
        """Wait for a response to one."""
        commands = self.fold.commands
        if commands.sent is not None and commands.sent.kind in CLIENT_ANSWERS:
            self.armed += 1
            self._last = step.number
        elif commands.is_stray and edge.text(edge.as_record(step.record), "command") in CLIENT_ANSWERS:
            is_dialog = edge.text(edge.as_record(step.record), "command") == CLIENT_ANSWERS[0]
            what = "answer to a dialog" if is_dialog else "answer to a request"
            rules = self.rules if is_dialog else ("R-FIL-02",)
            self.report(f"record {step.number} answers the {what}", self._last, step.number, rules=rules)


class CauseFirst(Automaton):
    """No response precedes its command, and none is without one."""

    id = "I-RSP-4"
    rules = ("R-RSP-01",)

    def take(self, step: Step) -> None:
        """Look for the command."""
        commands, checks = self.fold.commands, self.fold.checks
        if not checks.has_inputs or not checks.is_whole:
            return
        if commands.answered is not None:
            self.armed += 1
        elif commands.is_stray and edge.text(edge.as_record(step.record), "command") not in CLIENT_ANSWERS:
            self.armed += 1
            command = edge.text(edge.as_record(step.record), "command")
            if commands.blanks and "id" not in edge.as_record(step.record):
                blank = commands.blanks.popleft()
                what = f"record {step.number} answers record {blank}, which is blank"
                self.report(what, blank, step.number, rules=("R-FRM-04",))
                return
            name = edge.shown(command)
            self.report(f"record {step.number} answers a {name} that no client sent", step.number)


class NoInternals(Automaton):
    """An error text is not that of a runtime."""

    id = "I-RSP-5"
    rules = ("R-ERR-03",)

    def take(self, step: Step) -> None:
        """Read the error."""
        record = edge.as_record(step.record)
        if step.direction == "in" or edge.text(record, "type") != "response" or not edge.text(record, "error"):
            return
        self.armed += 1
        if found := _INTERNALS.search(edge.text(record, "error")):
            sent = self.fold.commands.answered
            what = f"record {step.number} shows the inside of the program: {edge.shown(found[0].strip())}"
            self.report(what, sent.number if sent is not None else 0, step.number)
