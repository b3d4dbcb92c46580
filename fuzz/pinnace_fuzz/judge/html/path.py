"""Reads from a trace which states an agent went through, for people: it decides no verdict.

Only records count, in the words of every generation, so a state that no record shows is not among them. The states are
those of the chart's region RUN.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from pinnace_fuzz.judge.html.reading import TraceLine
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_spec.observers.verdicts import Record
from pinnace_spec.statechart.names import SESSION_COMMANDS, STOPPING, STOPPING_OF

IDLE: Final = "idle"
_SWITCHES: Final = frozenset(SESSION_COMMANDS)
_COMPACTIONS: Final = frozenset({"manual", "threshold", "overflow"})


class Visit(NamedTuple):
    """The agent comes to a state with a record."""

    state: str
    number: int


def visits(lines: Iterable[TraceLine]) -> list[Visit]:
    """Return the states, each with the number of the record that shows it; the first is the initial state."""
    found = [Visit(IDLE, 0)]
    for line in lines:
        if line.record is None:
            continue
        read = _sent if line.is_in else _written
        after = read(line.record, found[-1].state)
        if after is not None and after != found[-1].state:
            if (found[-1].state, after) == ("preflight", "llm"):
                found.append(Visit("persisting", line.number))
            found.append(Visit(after, line.number))
    return found


def _sent(record: Record, state: str) -> str | None:
    kind = record.get("type")
    if kind == "prompt":
        return "preflight" if state == IDLE else None
    if kind == "compact":
        return "compacting.manual" if state == IDLE else STOPPING_OF.get(state)
    if kind in ("abort", "abort_retry"):
        return STOPPING_OF.get(state)
    return "switching" if isinstance(kind, str) and kind in _SWITCHES and state == IDLE else None


def _written(record: Record, state: str) -> str | None:
    kind = record.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    return None if reader is None else reader(record, state)


def _response(record: Record, state: str) -> str | None:
    command = record.get("command")
    is_refused = record.get("success") is False
    if (state, command) in (("preflight", "prompt"), ("compacting.manual", "compact")):
        return IDLE if is_refused or command == "compact" else None
    if state == "switching" and isinstance(command, str) and command in _SWITCHES:
        return IDLE
    return IDLE if state in STOPPING and command == "abort" else None


def _message(record: Record, state: str) -> str | None:
    is_answer = (as_object(record.get("message")) or {}).get("role") == "assistant"
    return "llm" if is_answer and state not in (*STOPPING, "llm") else None


def _compaction(record: Record, _: str) -> str | None:
    reason = record.get("reason")
    return f"compacting.{reason}" if isinstance(reason, str) and reason in _COMPACTIONS else "compacting.threshold"


def _compacted(record: Record, state: str) -> str | None:
    if not state.startswith("compacting"):
        return None
    return "llm" if record.get("willRetry") is True else IDLE


def _to(target: str) -> Callable[[Record, str], str | None]:
    return lambda _, state: target if state not in STOPPING or target == IDLE else None


_READERS: Final[Mapping[str, Callable[[Record, str], str | None]]] = {
    "response": _response,
    "agent_start": _to("llm"),
    "message_start": _message,
    "tool_execution_start": _to("tools"),
    "auto_retry_start": _to("retrying"),
    "compaction_start": _compaction,
    "auto_compaction_start": _compaction,
    "compaction_end": _compacted,
    "auto_compaction_end": _compacted,
    "agent_end": _to(IDLE),
    "agent_settled": _to(IDLE),
}
