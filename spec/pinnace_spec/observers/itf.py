"""Recorded runs in ITF: one state for each line that went in or out, and one for the end.

Nothing is lost, so `read_run` gives the trace again, and observers find the same in it. Pure: texts in, texts out.
"""

import json
from typing import Final, get_args

from pinnace_spec.observers import edge
from pinnace_spec.observers.trace_file import NotATrace, Trace, record_of, step_of
from pinnace_spec.observers.verdicts import End, Ending, Record, Step
from pinnace_spec.wire import itf

VARIABLES: Final = ("number", "direction", "name", "line", "atMicros", "writeGroup")
"""The number of a line; `in`, `out`, or `end`; the type of its record, empty if it is none; the line itself, of the end
how it came; when; and which lines were one write."""
_MICROS: Final = 1_000_000


def write_run(trace: Trace) -> str:
    """Write a recorded run."""
    states: list[itf.State] = [
        {
            "number": itf.integer(step.number),
            "direction": step.direction,
            "name": _name(step.record),
            "line": step.line,
            "atMicros": itf.integer(round(step.at * _MICROS)),
            "writeGroup": itf.integer(step.group),
        }
        for step in trace.steps
    ]
    end = {"number": itf.integer(len(states) + 1), "direction": "end", "name": trace.end.how, "line": _end(trace.end)}
    last = {**end, "atMicros": itf.integer(round(trace.end.seconds * _MICROS)), "writeGroup": itf.integer(0)}
    return itf.write(VARIABLES, [*states, last], {"source": "a recorded run", "head": json.dumps(trace.head)})


def read_run(text: str) -> Trace:
    """Read a recorded run.

    Raises:
        NotATrace: It is none in this format.
    """
    try:
        document = itf.read(text, VARIABLES)
        states = document.states
        if not states or states[-1].get("direction") != "end":
            raise NotATrace("the last state is not the end of a run")
        if (head := record_of(str(document.meta.get("head", "{}")))) is None:
            raise NotATrace("#meta.head is no JSON object")
        return Trace(head, tuple(_step(state, place) for place, state in enumerate(states[:-1])), _read_end(states[-1]))
    except itf.NotItf as error:
        raise NotATrace(str(error)) from None


def _step(state: itf.State, place: int) -> Step:
    direction, line = state.get("direction"), state.get("line")
    if direction not in ("in", "out") or not isinstance(line, str):
        raise NotATrace(f"state {place} has no direction in or out, or no line")
    number, at, group = (itf.number(state, name, place) for name in ("number", "atMicros", "writeGroup"))
    return step_of(number, direction, line, at / _MICROS, group)


def _name(record: Record | None) -> str:
    """Return the type of a record; of an answer with that of its command."""
    if record is None:
        return ""
    name = edge.text(record, "type")
    return f"{name}:{edge.text(record, 'command')}" if name == "response" else name


def _end(end: End) -> str:
    return json.dumps({name: value for name, value in end._asdict().items() if value is not None})


def _read_end(state: itf.State) -> End:
    fields = record_of(str(state.get("line")))
    how: Ending | None = next((each for each in get_args(Ending) if each == state.get("name")), None)
    if fields is None or how is None:
        raise NotATrace("the last state does not say how the run has ended")
    texts = {name: edge.text(fields, name) for name in ("stderr", "rest")}
    seconds = edge.number(fields, "seconds") or 0.0
    return End(how, edge.count(fields, "code"), seconds=seconds, after=edge.count(fields, "after"), **texts)
