"""Surfaces of extensions: I-UI-2.

They are opened once, drawn while they are open and of a known size, and not while none is drawn; an editor takes what
is sent to it in order.

Pure. Sources: R-UI-09, R-UI-10, R-UI-13, R-UI-40.
"""

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step


class SurfacesOpen(Automaton):
    """A surface is opened once, and not without an offer; drawn on while it is open and has a size; and closed once."""

    id = "I-UI-2"
    rules = ("R-UI-10",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._is_withdrawn = False
        """Whether the client draws no more; whether it ever did may be in its command line."""
        self._opened: dict[str, int] = {}
        self._closed: dict[str, int] = {}
        self._sized: set[str] = set()
        self._numbers: dict[tuple[str, str], int] = {}
        """The newest input of each client for a surface."""
        self._taken: dict[tuple[str, str], int] = {}

    def take(self, step: Step) -> None:
        """Follow offers, sizes and records of surfaces."""
        record, number = edge.as_record(step.record), step.number
        if step.direction == "in":
            if edge.text(record, "type") == "ui_surface_input":
                self._take_input(step.number, record)
            if record.get("surfaces") is True:  # its answer may be behind what it has caused
                self._is_withdrawn = False
            return
        answered = self.fold.commands.answered
        if answered is not None and answered.kind == "hello" and answered.record.get("surfaces") is False:
            self._is_withdrawn = answered.is_success
        match self.fold.kind:
            case "ui_surface_open":
                self._open(number, record)
            case "ui_surface_draw":
                self._draw(number, edge.text(record, "surface"))
            case "ui_input":
                self._input(number, record)
            case "ui_surface_close":
                self._close(number, edge.text(record, "surface"))
            case _:
                pass

    def _take_input(self, number: int, record: Record) -> None:
        name = edge.text(record, "surface")
        if "columns" in record:
            self._sized.add(name)
        sent = record.get("number")
        if isinstance(sent, int):
            self._numbers[name, edge.text(record, "by")] = sent
        if record.get("item") is not None:  # on a surface that the client names, again after its end
            self._opened.setdefault(name, number)
            self._closed.pop(name, None)

    def _open(self, number: int, record: Record) -> None:
        self.armed += 1
        name = edge.text(record, "surface")
        if before := self._opened.get(name):
            self.report(f"record {number} opens the surface of record {before} again", before, number)
        if self._is_withdrawn:
            what = f"record {number} opens a surface, and the client draws no more"
            self.report(what, number, rules=("R-UI-09",))
        self._opened[name] = number

    def _draw(self, number: int, name: str) -> None:
        self.armed += 1
        if name not in self._opened or name in self._closed:
            self.report(f"record {number} draws on {edge.shown(name)}, which is not open", number)
        elif name not in self._sized and self.fold.checks.has_inputs and self.fold.checks.is_whole:
            what = f"record {number} draws on {edge.shown(name)}, whose size is unknown"
            self.report(what, self._opened[name], number)

    def _input(self, number: int, record: Record) -> None:
        self.armed += 1
        name, taken = edge.text(record, "surface"), record.get("taken")
        key = name, edge.text(record, "by")
        rules = ("R-UI-40",)
        if name not in self._opened or name in self._closed:
            what = f"record {number} is of the editor {edge.shown(name)}, which is not open"
            self.report(what, number, rules=rules)
        elif not isinstance(taken, int) or taken < self._taken.get(key, taken):
            self.report(f"record {number} takes an input of {edge.shown(name)} back", number, rules=rules)
        elif self.fold.checks.has_inputs and self.fold.checks.is_whole and taken > self._numbers.get(key, taken - 1):
            what = f"record {number} takes the input {taken} of {edge.shown(name)}, which was not sent"
            self.report(what, number, rules=rules)
        else:
            self._taken[key] = taken

    def _close(self, number: int, name: str) -> None:
        self.armed += 1
        if name not in self._opened or name in self._closed:
            self.report(f"record {number} closes {edge.shown(name)}, which is not open", number)
        self._closed[name] = number
