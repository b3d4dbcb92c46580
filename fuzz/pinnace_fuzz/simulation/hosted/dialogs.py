"""Dialogs of an extension in a history of a host, as all its clients know them together.

Each client that gets a request may answer it: at once, late, never, behind another one, or when it has come again in a
replay; or it is gone before. The prompt that opens a dialog is executed once, also when it is sent again, or a process
has crashed (R-QUE-14); and the outcome is one of the answers that were sent, or what stands for none, after a time
limit or a command that ends dialogs. Another session does not know which commands its former one has executed, nor does
one that a disk which fails did not take.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pinnace_fuzz.records import Record
from pinnace_fuzz.simulation.dialogs import METHODS, NONE, draw_answer

_LIMITS_S: Final = (0.0, 0.5, 5.0)


@dataclass(slots=True)
class _Dialog:
    request: str
    """Its id."""
    method: str
    may_be_none: bool
    answers: set[str] = field(default_factory=set[str])
    """As the extension reports them."""
    outcome: str | None = None


class SharedDialogs:
    """The dialogs of a history."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        """Know none."""
        self._report = report
        self._count = 0
        self._lapses = 0
        """How often a session may have forgotten what it has executed."""
        self._lapses_before: dict[str, int] = {}
        """How many there were when a command was drawn, by the title of its dialog."""
        self._replacing: set[tuple[str, str]] = set()
        """The commands that replace the session and are not answered, by client and id."""
        self._former: set[str] = set()
        """The requests in whose place another one of the same title has come."""
        self._leaving: set[tuple[str, str]] = set()
        """The commands that end dialogs and are not answered, by client and id."""
        self._by_title: dict[str, _Dialog] = {}

    def command(self, draws: random.Random) -> Record:
        """Draw a command that opens a dialog."""
        self._count += 1
        self._lapses_before[f"ask {self._count}"] = self._lapses
        return {"type": "prompt", "message": f"/ask {self._count} {draws.choice(METHODS)} {draws.choice(_LIMITS_S)}"}

    def take(self, record: Record, draws: random.Random) -> tuple[float, Record] | None:
        """Take a request, live or in a replay; return after how many seconds which answer a client sends, if any."""
        method = record["method"]
        if method == "notify":
            self._end(*record["message"].split("=", 1))
        if method not in METHODS:
            return None
        title = record["title"]
        made = _Dialog(record["id"], method, "timeout" in record or bool(self._leaving))
        dialog = self._by_title.setdefault(title, made)
        if dialog.request != record["id"] and record["id"] not in self._former:
            # Each process counts its calls of tools.
            if self._is_known(title):
                self._report("dialogs", f"the command that opens {title!r} was executed twice")
            self._former.add(dialog.request)
            self._by_title[title] = made
        return draw_answer(record, draws)

    def answered(self, response: Record) -> None:
        """An answer is sent."""
        for dialog in self._by_title.values():
            if dialog.request == response["id"]:
                dialog.answers.add(str(response.get("confirmed", response.get("value"))))

    def send(self, client: str, command: Record) -> None:
        """A command is sent that ends dialogs: an abort, or one that replaces the session."""
        self._leaving.add((client, command["id"]))
        self._leave()
        if command["type"] != "abort":
            self._replacing.add((client, command["id"]))

    def settle(self, client: str, command: Record) -> None:
        """It is answered."""
        self._leaving.discard((client, command["id"]))
        self._leave()
        if command["type"] != "abort":
            self._replacing.discard((client, command["id"]))
            self.forget()

    def forget(self) -> None:
        """Let the session have forgotten what it has executed: it is another one, or a disk that fails has lost it."""
        self._lapses += 1

    def _is_known(self, title: str) -> bool:
        """Whether the session knows the command of a dialog once it has executed it; not for calls of tools."""
        return not self._replacing and self._lapses_before.get(title) == self._lapses

    def _leave(self) -> None:
        """Let all dialogs end without an answer."""
        for dialog in self._by_title.values():
            dialog.may_be_none = True

    def _end(self, title: str, value: str) -> None:
        dialog = self._by_title.get(title)
        if dialog is None or not self._is_known(title):
            return  # the request is in records that a client without a cursor has not got
        if dialog.outcome not in (None, value):
            self._report("dialogs", f"the outcome of {title!r} is {value}, and was {dialog.outcome}")
        dialog.outcome = value
        if value not in dialog.answers and not (dialog.may_be_none and value == NONE[dialog.method]):
            self._report(
                "dialogs", f"the outcome of {title!r} is {value}, and the answers were {sorted(dialog.answers)}"
            )
