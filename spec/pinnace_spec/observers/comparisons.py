"""Invariants that one trace can't show: I-FRM-3, I-FRM-4, I-ABT-2, I-LLM-1, I-PER-1, as functions over several things.

Pure. They compare traces, lists of processes, requests to a model server, and lines of session files. The verdicts are
those of observers; numbers of steps are those of the first trace. Sources: R-FRM-01, R-FRM-02, R-BSH-04, R-PRM-02,
R-QUE-03, R-TOL-01, R-SES-07.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pinnace_spec.observers import edge
from pinnace_spec.observers.levels import level_of
from pinnace_spec.observers.trace_file import record_of
from pinnace_spec.observers.verdicts import Record, Step, Verdict

# Fields that differ in every run.
_TIME_KEYS: Final = frozenset(
    {"timestamp", "durationMs", "delayMs", "labelTimestamp", "pid", "sessionId", "sessionFile"}
)
_ID: Final = re.compile(r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8})\b")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?Z?")
# Reported in pieces of any size.
_GROWING: Final = frozenset({"message_update", "tool_execution_update", "bash_execution_update"})


def _verdict(invariant: str, rules: tuple[str, ...], steps: Iterable[int], text: str, *, is_ours: bool) -> Verdict:
    numbers = tuple(sorted({step for step in steps if step}))
    return Verdict(invariant, rules, numbers, text, level_of(rules, is_ours=is_ours))


def same_however_cut(whole: Sequence[Step], cut: Sequence[Step], *, is_ours: bool = True) -> list[Verdict]:
    """Compare what was written for the same input, whole and cut at any bytes (I-FRM-3)."""
    return _same("I-FRM-3", ("R-FRM-01", "R-FRM-08"), whole, cut, is_ours=is_ours)


def same_with_cr(plain: Sequence[Step], with_cr: Sequence[Step], *, is_ours: bool = True) -> list[Verdict]:
    """Compare what was written for the same lines, ended by LF and by CRLF (I-FRM-4)."""
    return _same("I-FRM-4", ("R-FRM-02",), plain, with_cr, is_ours=is_ours)


def _same(
    invariant: str, rules: tuple[str, ...], first: Sequence[Step], second: Sequence[Step], *, is_ours: bool
) -> list[Verdict]:
    """Compare two traces but for ids, times, the sizes of pieces, and the order of answers among events."""
    (answers, events), (other_answers, other_events) = _lanes(first), _lanes(second)
    found: list[Verdict] = []
    for key in dict.fromkeys([*answers, *other_answers]):
        here, there = answers.get(key), other_answers.get(key)
        if here is None or there is None or here[1] != there[1]:
            number = here[0] if here is not None else 0
            what = f"record {number} answers {key}" if number else f"nothing answers {key}"
            found.append(_verdict(invariant, rules, [number], f"{what}; in the other trace otherwise", is_ours=is_ours))
    for (number, event), (_, other) in zip(events, other_events, strict=False):
        if event != other:
            what = f"record {number} is {event[:80]}; in the other trace it is {other[:80]}"
            found.append(_verdict(invariant, rules, [number], what, is_ours=is_ours))
            break
    else:
        if len(events) != len(other_events):
            number = events[-1][0] if events else 0
            what = f"record {number} is event {len(events)} and the last, the other trace has {len(other_events)}"
            found.append(_verdict(invariant, rules, [number], what, is_ours=is_ours))
    return found


def _lanes(steps: Sequence[Step]) -> tuple[dict[str, tuple[int, str]], list[tuple[int, str]]]:
    """Take apart answers, by id or by count, and events, in order."""
    names: dict[str, str] = {}
    answers: dict[str, tuple[int, str]] = {}
    events: list[tuple[int, str]] = []
    counts: Counter[str] = Counter()
    for step in steps:
        if step.direction == "in" or step.record is None:
            continue
        kind = edge.out_kind(step)
        if kind in _GROWING:
            continue
        text = _normal_text(step.record, names)
        if kind == "response":
            name = f"{step.record.get('command')} {edge.id_key(step.record.get('id'))}"
            counts[name] += 1
            answers[f"{name} #{counts[name]}"] = (step.number, text)
        else:
            events.append((step.number, text))
    return answers, events


def _normal_text(record: Record, names: dict[str, str]) -> str:
    try:
        text = json.dumps(_without_times(record), sort_keys=True)
    except (RecursionError, TypeError, ValueError):
        return ""
    text = _TIME.sub("<time>", text)
    return _ID.sub(lambda found: names.setdefault(found[0], f"<id {len(names) + 1}>"), text)


def _without_times(value: object) -> object:
    if edge.is_object(value):
        return {key: _without_times(each) for key, each in edge.as_record(value).items() if key not in _TIME_KEYS}
    if isinstance(value, list):
        return [_without_times(each) for each in edge.items({"list": value}, "list")]
    return value


class Process(NamedTuple):
    """A process that an agent has started, as in a list of processes."""

    pid: int
    started: float
    """Distinguishes it from a later process with the same number."""
    command: str
    is_shell_of_client: bool = False
    """It belongs to a `bash` of the client, which an abort leaves alone."""


def left_behind(
    step: int, before: Sequence[Process], after: Sequence[Process], *, is_end: bool = False, is_ours: bool = True
) -> list[Verdict]:
    """Find processes of tools that outlive an abort, or any that outlive the agent (I-ABT-2).

    Args:
        step: The response of the abort, or of `abort_bash`; the last step at the end.
        before: The processes before it.
        after: The processes after it.
        is_end: The agent has ended: then a shell of the client must have ended as well.
        is_ours: The agent claims to follow the rules of origin `ours`.
    """
    old = {(process.pid, process.started) for process in before}
    rules = ("R-BSH-04",) if is_end else ("R-BSH-04", "R-ABT-01")
    return [
        _verdict(
            "I-ABT-2",
            rules,
            [step],
            f"process {each.pid} ({each.command[:60]}) outlives record {step}",
            is_ours=is_ours,
        )
        for each in after
        if (each.pid, each.started) in old and (is_end or not each.is_shell_of_client)
    ]


class Delivery(NamedTuple):
    """A user's text that a trace has delivered."""

    step: int
    words: str
    requests_before: int
    """How many requests the server had received by then."""


def requests_hold(
    requests: Sequence[Mapping[str, Any]], deliveries: Sequence[Delivery], *, is_ours: bool = True
) -> list[Verdict]:
    """Find each delivered message in the next request, once, in order; and results after their calls (I-LLM-1).

    Args:
        requests: Bodies in the order of arrival: OpenAI's completions or Anthropic's messages. No summaries.
        deliveries: In the order of the trace; each text once, or equal ones as often as they were delivered. One
            without words (images alone) leaves no text in a request.
        is_ours: The agent claims to follow the rules of origin `ours`.
    """
    found: list[Verdict] = []
    deliveries = [each for each in deliveries if each.words]
    for number, body in enumerate(requests):
        messages = [edge.as_record(each) for each in edge.items(body, "messages")]
        found += [
            _verdict("I-LLM-1", ("R-TOL-01",), [], f"request {number + 1}: {fault}", is_ours=is_ours)
            for fault in _call_faults(messages)
        ]
        known = [each for each in deliveries if each.requests_before <= number]
        next_ones = [each for each in known if each.requests_before == number]
        said = Counter(_user_texts(messages))
        wanted = Counter(each.words for each in known)
        for each in next_ones:
            if said[each.words] != wanted[each.words]:
                times = f"{said[each.words]} times instead of {wanted[each.words]}"
                what = f"request {number + 1} holds {edge.shown(each.words)} of record {each.step} {times}"
                found.append(_verdict("I-LLM-1", ("R-PRM-02", "R-QUE-03"), [each.step], what, is_ours=is_ours))
        order = [text for text in _user_texts(messages) if text in wanted]
        reported = [each.words for each in known if each.words in said]
        if order != reported and Counter(order) == Counter(reported):
            steps = [each.step for each in next_ones]
            what = f"request {number + 1} holds the texts in another order than they were delivered"
            found.append(_verdict("I-LLM-1", ("R-PRM-02", "R-QUE-03"), steps, what, is_ours=is_ours))
    return found


def _user_texts(messages: Sequence[Record]) -> list[str]:
    """List the texts of users: each block by itself, since APIs that need turns to alternate merge messages."""
    users = (message for message in messages if message.get("role") == "user")
    return [edge.text(block, "text") for message in users for block in edge.blocks(message) if "text" in block]


def _call_faults(messages: Sequence[Record]) -> list[str]:
    """Return the calls without a result directly after them, and the results without a call."""
    faults: list[str] = []
    waiting: list[str] = []
    for message in messages:
        results = _results(message)
        for call in results:
            if call in waiting:
                waiting.remove(call)
            else:
                faults.append(f"a result of {edge.shown(call)}, which is not called right before it")
        if not results and waiting:
            faults.append(f"no result of {edge.shown(waiting[0])} behind its call")
            waiting = []
        waiting += _called(message)
    return faults + [f"no result of {edge.shown(call)} behind its call" for call in waiting]


def _called(message: Record) -> list[str]:
    if message.get("role") != "assistant":
        return []
    blocks = [block for block in edge.blocks(message) if block.get("type") == "tool_use"]
    return [edge.text(edge.as_record(call), "id") for call in (*edge.items(message, "tool_calls"), *blocks)]


def _results(message: Record) -> list[str]:
    if message.get("role") == "tool":
        return [edge.text(message, "tool_call_id")]
    if message.get("role") != "user":
        return []
    return [edge.text(block, "tool_use_id") for block in edge.blocks(message) if block.get("type") == "tool_result"]


def file_is_entries(
    lines: Sequence[str],
    entries: Sequence[object],
    *,
    inherited: Sequence[str] = (),
    step: int = 0,
    is_ours: bool = True,
) -> list[Verdict]:
    """Compare the lines of a session file, its header first, with what `get_entries` shows (I-PER-1).

    Args:
        lines: Without their LF; blank ones do not count.
        entries: As the response has them.
        inherited: The lines that were there when the process began. A damaged one of them may stay in its place and be
            skipped: files are never rewritten.
        step: The response.
        is_ours: The agent claims to follow the rules of origin `ours`.
    """
    damaged = {line for line in inherited if record_of(line) is None}
    records = [record_of(line) for line in lines if line.strip() and line not in damaged]
    found: list[Verdict] = []

    def report(text: str) -> None:
        found.append(_verdict("I-PER-1", ("R-SES-07",), [step], text, is_ours=is_ours))

    if not records or records[0] is None or records[0].get("type") != "session":
        report("the first line of the session file is no header")
        return found
    kept = records[1:]
    for place, (kept_entry, entry) in enumerate(zip(kept, entries, strict=False), 2):
        if kept_entry is None:
            report(f"line {place} of the session file is not a JSON object")
            return found
        if not edge.is_equal(kept_entry, entry):
            report(f"line {place} of the session file is not what record {step} shows in its place")
            return found
    if len(kept) != len(entries):
        report(f"the session file holds {len(kept)} entries, record {step} shows {len(entries)}")
    return found


def resumed_is_prefix(
    before: Sequence[str], after: Sequence[object], *, step: int = 0, is_ours: bool = True
) -> list[Verdict]:
    """Compare what a killed process left in its file with what the next one shows of it (I-PER-1).

    Every entry that can be read is shown, in order; a torn last line is dropped; new entries follow.

    Args:
        before: The lines of the file as they were left, its header first.
        after: The entries that the next process shows.
        step: The response with them.
        is_ours: The agent claims to follow the rules of origin `ours`.
    """
    records = [record_of(line) for line in before if line.strip()]
    kept = [record for record in records[1:] if record is not None]
    for place, entry in enumerate(kept):
        shown = after[place] if place < len(after) else None
        if not edge.is_equal(entry, shown):
            name = edge.shown(edge.text(entry, "id"))
            what = f"record {step} does not show the entry {name} in its place, which was in the file"
            return [_verdict("I-PER-1", ("R-SES-07",), [step], what, is_ours=is_ours)]
    return []
