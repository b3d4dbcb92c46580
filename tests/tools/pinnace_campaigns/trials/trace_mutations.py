"""Breaks traces, each time in one place and one way, to find out which observers notice.

Pure. A mutation is named by what it does and to what kind of record, so that a table can show which kinds of faults are
seen by whom, and which by none.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pinnace_spec.observers import Step
from pinnace_spec.observers.trace_file import step_of

Fields = dict[str, Any]


class Mutant(NamedTuple):
    """A trace that is wrong in one place."""

    change: str
    """What was done: `drop`, `swap`, …"""
    kind: str
    """To which kind of record: its type, with what distinguishes such records."""
    steps: Sequence[Step]


def mutants(steps: Sequence[Step]) -> Iterator[Mutant]:
    """Break a trace at every place in every way."""
    for place, step in enumerate(steps):
        if step.record is None or step.direction == "in":
            continue
        kind = kind_of(step)
        yield Mutant("drop", kind, _numbered([*steps[:place], *steps[place + 1 :]]))
        yield Mutant("duplicate", kind, _numbered([*steps[:place], step, *steps[place:]]))
        if place + 1 < len(steps) and steps[place + 1].direction == "out" and steps[place + 1].record is not None:
            other = kind_of(steps[place + 1])
            swapped = [*steps[:place], steps[place + 1], step, *steps[place + 2 :]]
            yield Mutant("swap", f"{kind} / {other}", _numbered(swapped))
        for change, alter in CHANGES.items():
            record = copy.deepcopy(cast("Fields", step.record))
            if alter(record):
                changed = step_of(step.number, "out", json.dumps(record), step.at, step.group)
                yield Mutant(change, kind, [*steps[:place], changed, *steps[place + 1 :]])


def kind_of(step: Step) -> str:
    """Name what kind of record this is."""
    record = step.record or {}
    kind = str(record.get("type"))
    match kind:
        case "response":
            return f"response {record.get('command')}{'' if record.get('success') else ' (error)'}"
        case "message_start" | "message_end":
            return f"{kind} {_inner(record, 'message').get('role')}"
        case "message_update":
            return f"{kind} {_inner(record, 'assistantMessageEvent').get('type')}"
        case _:
            return kind


def _numbered(steps: Sequence[Step]) -> list[Step]:
    return [step._replace(number=number) for number, step in enumerate(steps, 1)]


def _inner(record: Mapping[str, Any], key: str) -> Fields:
    value = record.get(key)
    return cast("Fields", value) if isinstance(value, dict) else {}


def _change_delta(record: Fields) -> bool:
    event = _inner(record, "assistantMessageEvent")
    if event.get("delta"):
        event["delta"] += "x"
        return True
    return False


def _rename_call(record: Fields) -> bool:
    holder = _inner(record, "message") if record.get("type") == "message_end" else record
    if isinstance(holder.get("toolCallId"), str):
        holder["toolCallId"] += "-other"
        return True
    return False


def _lose_queued(record: Fields) -> bool:
    for queue in ("steering", "followUp"):
        if record.get("type") == "queue_update" and record[queue]:
            record[queue].pop()
            return True
    return False


def _invent_queued(record: Fields) -> bool:
    if record.get("type") != "queue_update":
        return False
    record["steering"].append("a text that no client sent")
    return True


def _change_text(record: Fields) -> bool:
    blocks: object = _inner(record, "message").get("content") if record.get("type") == "message_end" else None
    for block in cast("list[Fields]", blocks) if isinstance(blocks, list) else []:
        if block.get("type") == "text":
            block["text"] += "x"
            return True
    return False


def _change_id(record: Fields) -> bool:
    if record.get("type") != "response" or "id" not in record:
        return False
    record["id"] = f"{record['id']}-other"
    return True


def _add_id(record: Fields) -> bool:
    if record.get("type") in {"response", "bash_execution_update"}:
        return False
    record["id"] = "x"
    return True


def _flip_success(record: Fields) -> bool:
    if record.get("type") != "response":
        return False
    record["success"] = not record["success"]
    return True


def _in_state(name: str, change: Callable[[Any], Any]) -> Callable[[Fields], bool]:
    def alter(record: Fields) -> bool:
        data = _inner(record, "data")
        if record.get("command") != "get_state" or name not in data:
            return False
        data[name] = change(data[name])
        return True

    return alter


def _lose_message(record: Fields) -> bool:
    holder = _inner(record, "data") if record.get("type") == "response" else record
    if isinstance(holder.get("messages"), list) and holder["messages"]:
        holder["messages"].pop()
        return True
    return False


def _lose_result(record: Fields) -> bool:
    if record.get("type") == "turn_end" and record["toolResults"]:
        record["toolResults"].pop()
        return True
    return False


def _change_attempt(record: Fields) -> bool:
    if "attempt" not in record:
        return False
    record["attempt"] += 1
    return True


def _change_reason(record: Fields) -> bool:
    if record.get("type") not in {"compaction_start", "compaction_end"}:
        return False
    record["reason"] = "manual" if record["reason"] != "manual" else "threshold"
    return True


def _change_stop(record: Fields) -> bool:
    message = _inner(record, "message")
    if record.get("type") != "message_end" or "stopReason" not in message:
        return False
    message["stopReason"] = "error" if message["stopReason"] != "error" else "stop"
    return True


def _flip_retry(record: Fields) -> bool:
    if "willRetry" not in record:
        return False
    record["willRetry"] = not record["willRetry"]
    return True


CHANGES: Final[Mapping[str, Callable[[Fields], bool]]] = {
    "change a delta": _change_delta,
    "rename a call": _rename_call,
    "lose a queued text": _lose_queued,
    "invent a queued text": _invent_queued,
    "change a text": _change_text,
    "change an id": _change_id,
    "add an id": _add_id,
    "flip success": _flip_success,
    "flip isStreaming": _in_state("isStreaming", lambda value: not value),
    "flip isCompacting": _in_state("isCompacting", lambda value: not value),
    "count another message": _in_state("messageCount", lambda value: value + 1),
    "count another queued text": _in_state("pendingMessageCount", lambda value: value + 1),
    "change a mode": _in_state("steeringMode", lambda value: "all" if value != "all" else "one-at-a-time"),
    "lose a message": _lose_message,
    "lose a result": _lose_result,
    "count another attempt": _change_attempt,
    "change a reason": _change_reason,
    "change a stop reason": _change_stop,
    "flip willRetry": _flip_retry,
}
"""What is changed inside of a record: name -> a function that changes it, and says whether there was something."""
