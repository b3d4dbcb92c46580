"""Shows the trace of a process in two lanes: what the client wrote on the left, what the agent wrote on the right.

Records that prove a finding are marked and never left out. Long ones are folded, unimportant ones are gathered, and
what no page could hold is counted.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from pinnace_fuzz.judge.html.markup import EMPTY, Html, join, tag
from pinnace_fuzz.judge.html.path import Visit
from pinnace_fuzz.judge.html.reading import Process, TraceLine, word
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


def lanes(process: Process, proof: Collection[int], visited: Sequence[Visit], key: str) -> Html:
    """Show a trace.

    Args:
        process: The process that it is of.
        proof: Numbers of the lines that prove a finding.
        visited: The states that it went through.
        key: Begins the name of each line on the page.
    """
    writer = _Writer(proof, {visit.number: visit.state for visit in visited[1:]}, key)
    head = tag(
        "div",
        tag("b", "stdin ", tag("small", "client → agent")),
        tag("b", "stdout ", tag("small", "agent → client")),
        class_="lanehead",
        aria_hidden="true",
    )
    rows = tag("ol", *_rows(process, writer), class_="lanes")
    return tag("div", head, rows, _ending(process), class_="trace")


def _rows(process: Process, writer: "_Writer") -> Iterator[Html]:
    notes: dict[int, list[Html]] = {}
    for after, name in process.marks:
        notes.setdefault(after, []).append(_note("mark", f"mark {name}"))
    if process.script_end is not None and process.script_end < len(process.lines):
        notes.setdefault(process.script_end, []).append(_note("over", "script over; the tester ends the process"))
    yield from notes.pop(0, ())
    for kind, group in groupby(_kept(process.lines, writer.proof), lambda line: writer.gathered(line, notes)):
        lines = list(group)
        if kind and len(lines) >= _GATHERED:
            inner = tag("ol", *(writer.row(line) for line in lines), class_="lanes")
            title = tag("summary", f"{len(lines)} × {kind}")
            yield tag("li", tag("details", title, inner), class_=f"run {'mine' if kind == _KIT else ''}".strip())
            yield from notes.pop(lines[-1].number, ())
            continue
        for line in lines:
            if isinstance(line, int):
                yield _note("cut", f"{line} lines are left out here")
                continue
            yield writer.row(line)
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

    def __init__(self, proof: Collection[int], states: Mapping[int, str], key: str) -> None:
        self.proof = proof
        self._states = states
        self._key = key
        self._group = 0

    def gathered(self, line: Any, notes: Mapping[int, object]) -> str:
        """Name the heap that a line may go to; empty: it stands for itself."""
        if not isinstance(line, TraceLine) or line.record is None or line.number in self.proof:
            return ""
        if line.number in self._states or line.number in notes:
            return ""
        if is_of_kit(line.record):
            return _KIT
        kind = line.record.get("type")
        return kind if isinstance(kind, str) and kind in _QUIET and not line.is_in else ""

    def row(self, line: TraceLine) -> Html:
        """Write a line."""
        is_proof = line.number in self.proof
        is_joined = line.is_in and line.group > 0 and line.group == self._group
        self._group = line.group if line.is_in else 0
        kinds = ["in" if line.is_in else "out", "proof" if is_proof else "", "joined" if is_joined else ""]
        if line.record is not None and is_of_kit(line.record) and not is_proof:
            kinds.append("mine")
        number = tag("a", str(line.number), href=f"#{self._key}-{line.number}", class_="no")
        time = tag("span", f"{line.at:.3f}", class_="at", title=f"{line.at:.4f} s since the start")
        speaker = tag("span", "client: " if line.is_in else "agent: ", class_="hear")
        mark = tag("strong", "proof", class_="why") if is_proof else None
        state = self._states.get(line.number)
        come = (
            tag("span", f"→ {state}", class_="state", title="the chart's state, as the records show") if state else None
        )
        return tag(
            "li",
            tag("div", number, time, class_="when"),
            tag("div", speaker, tag("div", *_label(line), mark, come, class_="label"), _body(line), class_="rec"),
            class_=" ".join(filter(None, kinds)),
            id=f"{self._key}-{line.number}",
        )


def _label(line: TraceLine) -> Iterator[Html]:
    """Say what a record is, before it is shown as it was written."""
    record = line.record
    if record is None:
        yield tag("b", "no record" if line.characters == len(line.text) else "a long line", class_="odd")
        return
    kind = record.get("type")
    yield tag("b", kind[:80] if isinstance(kind, str) else "no type", class_=None if isinstance(kind, str) else "odd")
    if kind == "response":
        yield tag("span", str(record.get("command"))[:80])
        is_good = record.get("success") is True
        yield tag("span", "ok" if is_good else "refused", class_="yes" if is_good else "no-")
    for field in ("assistantMessageEvent", "message"):
        inner = as_object(record.get(field)) or {}
        if detail := word(inner, "type") or word(inner, "role"):
            yield tag("span", detail[:80])
            break
    if isinstance(record.get("id"), str):
        yield tag("span", f"id {record['id'][:40]}", class_="soft")


def _body(line: TraceLine) -> Html:
    if not line.text:
        return tag("code", "(an empty line)", class_="soft")
    if len(line.text) <= SHOWN_CHARACTERS:
        return tag("code", line.text)
    rest = line.characters - KEPT_CHARACTERS
    more = tag("p", f"{rest} more characters are in the stored trace.", class_="soft") if rest > 0 else None
    head = tag("code", line.text[:SHOWN_CHARACTERS], "…")
    size = tag("span", f"{line.characters} characters", class_="size")
    return tag("details", tag("summary", head, size), tag("code", line.text[:KEPT_CHARACTERS], class_="whole"), more)


def _note(kind: str, words: str) -> Html:
    return tag("li", tag("span", words), class_=f"note {kind}")


def _ending(process: Process) -> Html:
    says: Mapping[str, Callable[[], str]] = {
        "exit": lambda: f"exit {process.code} after {process.seconds:.2f} s",
        "killed": lambda: "killed by the tester",
        "hang": lambda: "did not end; killed by the tester",
        "open": lambda: "was still running",
    }
    words = says.get(process.how, lambda: process.how or "unknown end")()
    wrong = process.how == "hang" or (process.how == "exit" and process.code != 0)
    error = EMPTY
    if process.stderr.strip():
        error = tag("details", tag("summary", "stderr"), tag("pre", process.stderr, tabindex="0"), open=wrong)
    return join([tag("p", tag("b", "■ "), words, class_="ended bad" if wrong else "ended"), error])
