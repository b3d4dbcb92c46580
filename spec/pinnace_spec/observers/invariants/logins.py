"""Logins: I-KEY-1 (each is announced and ended once, before its answer, and no key is said).

Pure. Sources: R-KEY-02, R-KEY-03.
"""

import json
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import End, Record, Step

# A shorter one may be part of any text.
_MIN_KEY_CHARS: Final = 12


class LoginsEnd(Automaton):
    """A login that waits for its user is announced and ended once, before its answer; no record has a key."""

    id = "I-KEY-1"
    rules = ("R-KEY-03",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._waiting: dict[str, int] = {}
        """By provider: the step that announced it."""
        self._keys: dict[str, int] = {}
        """Keys that were given, with the step."""

    def take(self, step: Step) -> None:
        """Follow the records of logins, and look for keys."""
        record, number = edge.as_record(step.record), step.number
        if step.direction == "in":
            key = edge.text(record, "key")
            if edge.text(record, "type") == "login" and len(key) >= _MIN_KEY_CHARS and key.isalnum():
                self._keys.setdefault(key, number)
            return
        if self._keys:
            self._look(number, record)
        provider = edge.text(record, "provider")
        match self.fold.kind:
            case "login_start":
                self.armed += 1
                if former := self._waiting.get(provider):
                    self.report(f"record {number} announces a login again, which waits since {former}", former, number)
                self._waiting[provider] = number
            case "login_end":
                if self._waiting.pop(provider, 0) == 0:
                    self.report(f"record {number} ends a login that was not announced", number)
            case _:
                self._answer(number)

    def _answer(self, number: int) -> None:
        answered = self.fold.commands.answered
        if answered is None or answered.kind != "login" or not answered.is_success:
            return
        if began := self._waiting.get(edge.text(edge.as_record(answered.record), "provider")):
            self.report(f"record {number} answers a login that was announced and has not ended", began, number)

    def _look(self, number: int, record: Record) -> None:
        self.armed += 1
        said = json.dumps(record)
        for key, given in self._keys.items():
            if key in said:
                self.report(
                    f"record {number} has the key of the login of line {given}", given, number, rules=("R-KEY-02",)
                )

    def end(self, end: End) -> None:
        """Judge what is open when the process has ended in order."""
        if end.how == "exit" and end.code == 0:
            for provider, began in self._waiting.items():
                self.report(f"the login of {edge.shown(provider)} of record {began} has not ended", began)
