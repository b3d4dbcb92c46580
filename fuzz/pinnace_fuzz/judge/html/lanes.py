"""The trace of a process in two lanes: what the client wrote on the left, what the agent wrote on the right.

Records that prove a finding are marked and never left out. Long ones are folded, unimportant ones are gathered, and
what no page could hold is counted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from pinnace_fuzz.judge.html.cases import Transcript
from pinnace_fuzz.judge.html.reading import Process, TraceLine, word
from pinnace_fuzz.judge.html.verdicts import counted
from pinnace_fuzz.judge.playing.recording import is_of_kit
from pinnace_fuzz.judge.scenarios.shapes import as_object

# What is longer shows its beginning; the rest is a click away.
SHOWN_CHARACTERS: Final = 240
# What is longer even there is in the stored trace.
KEPT_CHARACTERS: Final = 4_000
# Of a longer trace the beginning, the end, and what proves something.
KEPT_LINES: Final = 400
_NEAR: Final = 3
# Gathering fewer would not be worth the click.
_GATHERED: Final = 3
_QUIET: Final = frozenset(
    "message_update tool_execution_update bash_execution_update entry_appended extension_ui_request".split()
)
_KIT: Final = "of the tester itself"


class Row(NamedTuple):
    """A line of the trace."""

    line: TraceLine
    kind: str
    """Its classes."""
    labels: Sequence[tuple[str, str]]
    """What the record is, before it is shown as it was written: words, each with its class."""
    is_proof: bool
    state: str
    """What the agent comes to with it."""


class Item(NamedTuple):
    """A line of the trace; or with `words` and no lines a note, with both what is gathered behind them."""

    kind: str = ""
    words: str = ""
    rows: Sequence[Row] = ()


def lanes(transcript: Transcript) -> Iterator[Item]:
    """Yield what is shown of a trace."""
    process = transcript.process
    writer = _Writer(transcript.proof, {visit.number: visit.state for visit in transcript.visited[1:]})
    notes: dict[int, list[Item]] = {}
    for after, name in process.marks:
        notes.setdefault(after, []).append(Item("note mark", f"mark {name}"))
    if process.script_end is not None and process.script_end < len(process.lines):
        notes.setdefault(process.script_end, []).append(Item("note over", "script over; the tester ends the process"))
    yield from notes.pop(0, ())
    for kind, group in groupby(_kept(process.lines, transcript.proof), lambda line: writer.gathered(line, notes)):
        lines = list(group)
        if kind and len(lines) >= _GATHERED:
            rows = [writer.row(line) for line in lines]
            yield Item("run mine" if kind == _KIT else "run", f"{len(lines)} × {kind}", rows)
            yield from notes.pop(lines[-1].number, ())
            continue
        for line in lines:
            if isinstance(line, int):
                yield Item("note cut", f"{counted(line, 'line')} left out here")
                continue
            yield Item(rows=[writer.row(line)])
            yield from notes.pop(line.number, ())
    for left in notes.values():
        yield from left


def _kept(lines: Sequence[TraceLine], proof: Collection[int]) -> Iterator[Any]:
    """Yield lines, and in the place of those that are left out how many these are."""
    if len(lines) <= KEPT_LINES:
        yield from lines
        return
    half = KEPT_LINES // 2
    wanted = {at for at in range(len(lines)) if at < half or at >= len(lines) - half}
    for at, line in enumerate(lines):
        if line.number in proof:
            wanted.update(range(max(0, at - _NEAR), min(len(lines), at + _NEAR + 1)))
    left_out = 0
    for at, line in enumerate(lines):
        if at not in wanted:
            left_out += 1
            continue
        if left_out:
            yield left_out
            left_out = 0
        yield line


class _Writer:
    """Writes the lines of one trace."""

    def __init__(self, proof: Collection[int], states: Mapping[int, str]) -> None:
        self._proof = proof
        self._states = states
        self._group = 0

    def gathered(self, line: Any, notes: Mapping[int, object]) -> str:
        """Name the heap that a line may go to; empty: it stands for itself."""
        if not isinstance(line, TraceLine) or line.record is None or line.number in self._proof:
            return ""
        if line.number in self._states or line.number in notes:
            return ""
        if is_of_kit(line.record):
            return _KIT
        kind = line.record.get("type")
        return kind if isinstance(kind, str) and kind in _QUIET and not line.is_in else ""

    def row(self, line: TraceLine) -> Row:
        """Write a line."""
        is_proof = line.number in self._proof
        is_joined = line.is_in and line.group > 0 and line.group == self._group
        self._group = line.group if line.is_in else 0
        kinds = ["in" if line.is_in else "out", "proof" if is_proof else "", "joined" if is_joined else ""]
        if line.record is not None and is_of_kit(line.record) and not is_proof:
            kinds.append("mine")
        kind = " ".join(filter(None, kinds))
        return Row(line, kind, list(_labels(line)), is_proof, self._states.get(line.number, ""))


def _labels(line: TraceLine) -> Iterator[tuple[str, str]]:
    record = line.record
    if record is None:
        yield "no record" if line.characters == len(line.text) else "a long line", "odd"
        return
    kind = record.get("type")
    yield (kind[:80], "") if isinstance(kind, str) else ("no type", "odd")
    if kind == "response":
        yield str(record.get("command"))[:80], ""
        yield ("ok", "yes") if record.get("success") is True else ("refused", "no-")
    for field in ("assistantMessageEvent", "message"):
        inner = as_object(record.get(field)) or {}
        if detail := word(inner, "type") or word(inner, "role"):
            yield detail[:80], ""
            break
    if isinstance(record.get("id"), str):
        yield f"id {record['id'][:40]}", "soft"


def end_of(process: Process) -> str:
    """Say how a process ended."""
    match process.how:
        case "exit":
            return f"exit {process.code} after {process.seconds:.2f} s"
        case "killed":
            return "killed by the tester"
        case "hang":
            return "did not end; killed by the tester"
        case "open":
            return "was still running"
        case how:
            return how or "unknown end"
