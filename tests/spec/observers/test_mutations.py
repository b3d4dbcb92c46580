"""Every fault of a recorded conversation is seen by an observer, or there is a reason why nobody can see it.

The traces are of our own agent. Each is broken in every place in every way; `-s` prints who saw what.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pinnace_campaigns.trials.trace_mutations import CHANGES, mutants
from pinnace_spec.observers import End, Step, judge
from pinnace_spec.observers.trace_file import Trace, read_trace
from pinnace_spec.profiles.generations import generation

TRACES = sorted((Path(__file__).parents[2] / "data" / "traces").glob("*.jsonl"))
OURS = generation("pi")

# What was done, to which kinds of records (patterns) -> why nothing need be wrong with a trace that is broken so.
REASONS: Final[Mapping[tuple[str, str], str]] = {
    ("drop|duplicate", "bash_execution_update"): (
        "the output in the answer may be shortened, so that the pieces need not add up to it"
    ),
    ("drop|duplicate", "tool_execution_update"): (
        "each update reports everything so far, and any number of them may be written"
    ),
    ("drop|duplicate", "message_update toolcall_delta"): "the delta is empty",
    ("drop", "message_update text_end"): "of a message that was aborted, blocks may stay open",
    ("duplicate", "queue_update"): "both queues are reported whole, so that telling them twice says the same",
    ("duplicate", "agent_settled"): (
        "while an abort or another session waits for its answer it may have been work of its own"
    ),
    ("lose a queued text", "queue_update"): "with the mode `all` the text is delivered with the next record",
    ("lose a message", "response get_messages"): "a failure whose retry was cancelled is in the context or not",
    ("change a mode", "response get_state"): "nothing has reported the mode before",
    ("count another message", "response get_state"): "nothing reports how many messages a compaction keeps",
    ("swap", ".*tool_execution_update.*"): "updates come when there is output, also between other records",
    ("swap", "tool_execution_end / tool_execution_end"): "ends come in the order of completion",
    ("swap", "tool_execution_end / message_start toolResult"): (
        "the two belong to different calls of an agent that executes one by one"
    ),
    (
        "swap",
        ("message_update toolcall_(delta|end) / message_update toolcall_(delta|end)"),
    ): "the deltas are empty, or of different blocks",
    ("swap", "agent_settled / response (abort_retry|new_session)"): (
        "which of the two comes first is said of `abort` alone"
    ),
    ("swap", "agent_settled / session_changed"): "a command that withdraws messages settles behind the announcement",
    ("swap", "auto_retry_end / turn_end"): "the bracket of a retry ends anywhere behind the answer that decides it",
    ("swap", "bash_execution_update / response bash"): "the last piece of output may be read late",
    ("swap", "(message_end user|turn_start) / queue_update"): "the queues may be reported anywhere before the delivery",
    ("swap", "response parse .* / response parse .*"): "neither has an id, so that they are the same",
}


class Seen(NamedTuple):
    """How many mutants of a class there were, and how often which observer saw one."""

    made: int
    missed: int
    by: Counter[str]


def violated(steps: list[Step], end: End) -> set[str]:
    return {verdict.invariant for verdict in judge(steps, end, OURS).violations}


def judge_mutants(trace: Trace) -> Mapping[tuple[str, str], Seen]:
    found: defaultdict[tuple[str, str], Seen] = defaultdict(lambda: Seen(0, 0, Counter()))
    for mutant in mutants(trace.steps):
        invariants = violated(list(mutant.steps), trace.end)
        seen = found[mutant.change, mutant.kind]
        seen.by.update(invariants)
        found[mutant.change, mutant.kind] = seen._replace(made=seen.made + 1, missed=seen.missed + (not invariants))
    return found


def reason(change: str, kind: str) -> str | None:
    for (changes, kinds), text in REASONS.items():
        if re.fullmatch(changes, change) and re.fullmatch(kinds, kind):
            return text
    return None


@pytest.fixture(scope="module")
def seen() -> Mapping[tuple[str, str], Seen]:
    total: defaultdict[tuple[str, str], Seen] = defaultdict(lambda: Seen(0, 0, Counter()))
    for path in TRACES:
        for key, (made, missed, by) in judge_mutants(read_trace(path.read_text())).items():
            former = total[key]
            total[key] = Seen(former.made + made, former.missed + missed, former.by + by)
    return total


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_nothing_is_said_of_what_was_recorded(path: Path) -> None:
    trace = read_trace(path.read_text())

    assert set() == violated(list(trace.steps), trace.end)


def test_a_fault_is_seen_or_can_not_be(seen: Mapping[tuple[str, str], Seen]) -> None:
    for (change, kind), (made, missed, by) in sorted(seen.items()):
        names = ", ".join(f"{name} {count}" for name, count in by.most_common(4))
        print(f"{change:26} {kind:64} {made - missed:4} of {made:4}  {names}")
        if missed:
            print(f"{'':26} {missed} unseen: {reason(change, kind)}")

    assert {} == {key: each for key, each in seen.items() if each.missed and reason(*key) is None}


def test_every_reason_is_needed(seen: Mapping[tuple[str, str], Seen]) -> None:
    missed = [key for key, each in seen.items() if each.missed]
    unneeded = {
        key for key in REASONS if not any(re.fullmatch(key[0], m[0]) and re.fullmatch(key[1], m[1]) for m in missed)
    }

    assert set() == unneeded


def test_every_way_to_break_a_record_is_used(seen: Mapping[tuple[str, str], Seen]) -> None:
    assert {"drop", "duplicate", "swap", *CHANGES} == {change for change, _ in seen}
