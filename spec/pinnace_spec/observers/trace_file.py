"""Recorded traces: the file format of traces, and other formats that are read as traces.

The format is JSON lines. The first is the head, `{"trace": 1, "generation": …}`; then a line for each step, `{"n":
number, "at": seconds, "dir": "in" or "out", "line": the raw line, "group": number}`; the last may be the end, `{"end":
{"how", "code", …}}`. Bytes that are not UTF-8 are lone surrogates in a line, escaped. Also read: logs of outputs alone;
and transcripts for people, where `> ` precedes input, `< ` output, `# ` a comment, and `$ ` the end, as in the format
above.

Pure: texts in, texts out. Source: R-FRM-01.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn, cast, get_args

from pinnace_spec.observers import edge
from pinnace_spec.observers.verdicts import Checks, Direction, End, Ending, Record, Step

VERSION: Final = 1
_SENT: Final = "> "
_WRITTEN: Final = "< "
_SAID: Final = "# "
_ENDED: Final = "$ "
_ENDINGS: Final = get_args(Ending)
_ESCAPED_BYTE: Final = re.compile("[\udc80-\udcff]")
"""What stands for a byte that is not UTF-8."""


class Trace(NamedTuple):
    """A recorded trace."""

    head: Mapping[str, Any]
    """`generation`, and further facts of the recorder; empty for a log."""
    steps: tuple[Step, ...]
    end: End
    """`open` if the file has no end."""

    @property
    def has_inputs(self) -> bool:
        """The trace contains the input."""
        return any(step.direction == "in" for step in self.steps)

    @property
    def checks(self) -> Checks:
        """The facts about the trace that the recording itself shows."""
        return Checks(has_inputs=self.has_inputs, has_times=any(step.at for step in self.steps))


class NotATrace(ValueError):
    """A text has none of these formats. The error text has the place and the reason."""


def step_of(number: int, direction: Direction, line: str | bytes, at: float = 0.0, group: int = 0) -> Step:
    """Make a step from a raw line, with or without its LF."""
    text = line if isinstance(line, str) else line.decode("utf-8", "surrogateescape")
    text = text.removesuffix("\n")
    return Step(number, direction, text, record_of(text), at, group)


def record_of(line: str) -> Record | None:
    """Parse a line as a JSON object, as strictly as the protocol requires; None: it is not one."""
    text = line.removesuffix("\r")
    if not text.isascii() and _ESCAPED_BYTE.search(text):
        return None
    try:
        value: object = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return cast(Record, value) if isinstance(value, dict) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _read_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is outside the range of a double")
    return value


# As `json.loads` makes one for each text.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_read_float)


def steps_of(records: Iterable[Record], direction: Direction = "out") -> Iterator[Step]:
    """Make steps of records that were read already, from 1."""
    for number, record in enumerate(records, 1):
        # The original line of a parsed record is unknown; it is encoded again.
        yield Step(number, direction, "", record, 0.0, 0)


def write_trace(steps: Iterable[Step], end: End | None = None, **head: object) -> Iterator[str]:
    """Write a trace, line by line, each with its LF.

    Args:
        steps: In order.
        end: None: not known (yet).
        head: `generation`, and further facts.
    """
    yield _line({"trace": VERSION, **head})
    for step in steps:
        yield write_step(step)
    if end is not None:
        yield _line({"end": end._asdict()})


def write_step(step: Step) -> str:
    """Write one step, with its LF."""
    row = {"n": step.number, "at": round(step.at, 6), "dir": step.direction, "line": step.line, "group": step.group}
    return _line(row)


def _line(value: Mapping[str, object]) -> str:
    # ASCII: lone surrogates survive, and no reader of lines splits at anything else than LF.
    return json.dumps(value, separators=(",", ":")) + "\n"


def read_trace(text: str) -> Trace:
    """Read a trace, a transcript or a log, whichever it is.

    Raises:
        NotATrace: A line of a trace or a transcript is invalid. Logs may hold anything.
    """
    # Not splitlines: it splits at characters that a line may hold.
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    first = next((line for line in lines if line.strip()), "")
    if first.startswith((_SENT, _WRITTEN, _SAID, _ENDED)):
        return _read_transcript(lines)
    head = record_of(first)
    if head is not None and "trace" in head:
        return _read_lines(lines)
    return _read_log(lines)


def _read_lines(lines: list[str]) -> Trace:
    head: Record | None = None
    steps: list[Step] = []
    end = End("open")
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = record_of(line)
        if row is None:
            raise NotATrace(f"line {place} is not a JSON object")
        if head is None:
            if row.get("trace") != VERSION:
                raise NotATrace(f"line {place}: a trace of version {row.get('trace')}, known is {VERSION}")
            head = row
        elif "end" in row:
            end = _end_of(edge.inner(row, "end"), place)
        else:
            steps.append(_step_of_row(row, len(steps) + 1, place))
    return Trace(head or {}, tuple(steps), end)


def _step_of_row(row: Record, number: int, place: int) -> Step:
    direction, line = row.get("dir"), row.get("line")
    if direction not in ("in", "out") or not isinstance(line, str):
        raise NotATrace(f"line {place} has no proper dir or line")
    number = edge.count(row, "n") or number
    return step_of(number, direction, line, edge.number(row, "at") or 0.0, edge.count(row, "group") or 0)


def _end_of(row: Record, place: int) -> End:
    how: Ending | None = next((each for each in _ENDINGS if each == row.get("how")), None)
    if how is None:
        raise NotATrace(f"line {place}: {row.get('how')} is no way to end, known are {', '.join(_ENDINGS)}")
    seconds = edge.number(row, "seconds") or 0.0
    texts = {name: edge.text(row, name) for name in ("stderr", "rest")}
    return End(how, edge.count(row, "code"), seconds=seconds, after=edge.count(row, "after"), **texts)


def _read_transcript(lines: list[str]) -> Trace:
    steps: list[Step] = []
    end = End("open")
    for place, line in enumerate(lines, 1):
        kind, rest = line[:2], line[2:]
        if kind == _SENT:
            steps.append(step_of(len(steps) + 1, "in", rest))
        elif kind == _WRITTEN:
            steps.append(step_of(len(steps) + 1, "out", rest))
        elif kind == _ENDED:
            end = _end_of(edge.as_record(record_of(rest)), place)
        elif line.strip() and not line.startswith("#"):
            raise NotATrace(f"line {place} begins with none of > < # $")
    return Trace({}, tuple(steps), end)


def _read_log(lines: list[str]) -> Trace:
    steps = tuple(step_of(number, "out", line) for number, line in enumerate(lines, 1))
    return Trace({}, steps, End("open"))


def write_transcript(steps: Iterable[Step], end: End | None = None) -> Iterator[str]:
    """Write a transcript for people, which `read_trace` reads again but for times and groups."""
    for step in steps:
        yield f"{_SENT if step.direction == 'in' else _WRITTEN}{step.line}\n"
    if end is not None:
        yield _ENDED + _line({name: value for name, value in end._asdict().items() if value not in (None, "")})
