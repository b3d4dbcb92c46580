"""Observers judge anything that anybody writes, in time linear in it, and never raise."""

import json
import time
from collections.abc import Mapping
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from pinnace_campaigns.trials.short_trace import read_short
from pinnace_spec import data
from pinnace_spec.observers import INVARIANTS, Checks, End, Judge, Observer, Step, armed_table, judge, never_armed
from pinnace_spec.observers import observers as make_observers
from pinnace_spec.observers.judge import OBSERVERS
from pinnace_spec.observers.trace_file import step_of
from pinnace_spec.observers.verdicts import Ending
from pinnace_spec.profiles.generations import GENERATIONS, generation

TYPES = sorted(generation("pi").written | generation("0.18").written | {"response", "x"})
COMMANDS = sorted(generation("pi").commands | generation("0.18").commands | {"bogus"})
KEYS = (
    "id message messages assistantMessageEvent contentIndex delta content partial role stopReason toolCallId toolName "
    "toolCall partialResult details isError willRetry attempt maxAttempts delayMs success error data command reason "
    "result steering followUp timestamp queue mode name entry isStreaming isCompacting pendingMessageCount cleared"
).split()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "user"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


def typed(kind: object, fields: Mapping[str, object]) -> dict[str, object]:
    return {**fields, "type": kind}


RECORDS: st.SearchStrategy[dict[str, object]] = st.builds(
    typed,
    st.sampled_from(TYPES) | VALUES,
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
)
SENT: st.SearchStrategy[dict[str, object]] = st.builds(
    typed,
    st.sampled_from(COMMANDS) | VALUES,
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
)
LINES = st.tuples(st.just("out"), RECORDS.map(json.dumps)) | st.tuples(st.just("in"), SENT.map(json.dumps))
ENDINGS = st.sampled_from(get_args(Ending))
ENDS = st.tuples(ENDINGS, st.none() | st.integers(-15, 143)).map(lambda pair: End(*pair))
SWITCHES = ("has_inputs", "is_whole", "is_fresh", "has_times", "has_extensions", "is_reading")
CHECKS = st.lists(st.sampled_from(SWITCHES)).map(lambda names: Checks()._replace(**dict.fromkeys(names, False)))


@given(st.lists(LINES | st.tuples(st.sampled_from(["in", "out"]), st.text()), max_size=40), ENDS, CHECKS)
def test_no_observer_ever_raises(lines: list[tuple[Any, str]], end: End, checks: Checks) -> None:
    steps = [step_of(number, direction, line, number / 10) for number, (direction, line) in enumerate(lines, 1)]
    for name in GENERATIONS:
        report = judge(steps, end, generation(name), checks)

        numbers = {step.number for step in steps}
        assert all(set(verdict.steps) <= numbers for verdict in report.verdicts)
        assert not any("\n" in verdict.text for verdict in report.verdicts)


def test_what_is_nested_beyond_measure_is_judged_as_well() -> None:
    deep = "[" * 900 + "]" * 900
    lines = [f'{{"type": "{kind}", "message": {deep}, "messages": {deep}}}' for kind in TYPES]
    steps = [step_of(number, "out", line) for number, line in enumerate([*lines, *lines], 1)]
    commands = [step_of(number, "in", f'{{"type": "prompt", "id": {deep}}}') for number in (101, 102)]

    assert judge([*commands, *steps], End("exit", 0), generation("pi"), Checks()).steps == len(steps) + 2


def test_records_of_another_kind_of_mapping_are_taken() -> None:
    """Whoever has read a line hands over what he has."""
    step = Step(1, "out", "", {"type": "agent_start", "x": (1, 2)}, 0.0, 0)

    assert judge([step], End("open"), generation("pi"), Checks()).violations == ()


def turns(count: int) -> list[Step]:
    """A conversation with a queue that never gets shorter, and commands that are never answered."""
    text = "> prompt a hi\n< ok a / agent_start / turn_start / user hi / says x / turn_end\n"
    text += "".join(
        f'> steer s{n} "text {n}"\n> bash b{n}\n< queue "text {n}" | / ok s{n} / turn_start / queue | '
        f'/ user "text {n}" '
        f"/ says {n} / turn_end / state g{n}\n"
        for n in range(count)
    )
    return read_short(text).steps


def seconds(steps: list[Step]) -> float:
    begun = time.process_time()
    judge(steps, End("open"), generation("pi"), Checks())
    return time.process_time() - begun


def test_judging_is_linear_in_the_trace() -> None:
    """Eight times the records take about eight times the time; squared it would be 64 times."""
    few, many = turns(60), turns(480)
    seconds(few)
    ratio = min(seconds(many) for _ in range(2)) / min(seconds(few) for _ in range(3))

    assert ratio < 24


def test_a_trace_can_be_judged_record_by_record() -> None:
    trace = read_short("> get_state a\n< turn_start / ok a\n$ exit 1")
    judging = Judge(generation("pi"))
    found = [[verdict.invariant for verdict in judging.feed(step)] for step in trace.steps]
    at_end = [verdict.invariant for verdict in judging.finish(trace.end)]

    assert [[], ["I-EVT-1"], ["I-RSP-2"]] == found
    assert ["I-EOF-1", "I-CRASH"] == at_end
    assert judging.report == judge(trace.steps, trace.end, generation("pi"))


def test_an_observer_alone_feeds_the_fold_itself() -> None:
    trace = read_short('> steer b B\n< queue B | / ok b\n> get_state s\n< state s {"pendingMessageCount": 1}')
    for made in (make_observers(generation("pi"), checks=Checks()), make_observers(generation("pi"), checks=Checks())):
        [stranded] = [each for each in made if each.id == "I-QUE-5"]
        assert isinstance(stranded, Observer)
        found = [verdict.steps for step in trace.steps for verdict in stranded.feed(step)]

        assert [(2, 5)] == found


def test_what_is_never_armed_is_reported() -> None:
    trace = read_short("> get_state a\n< state a\n$ exit 0")
    report = judge(trace.steps, trace.end, generation("pi"))
    missing = never_armed([report, report])

    assert {"I-EVT-1", "I-QUE-3"} <= set(missing)
    assert not {"I-FRM-1", "I-STA-1", "I-EOF-1"} & set(missing)
    assert "I-QUE-3           0  never armed\n" in armed_table([report])


def test_every_invariant_has_one_observer() -> None:
    assert len(INVARIANTS) == len(set(INVARIANTS))
    assert 46 == len(INVARIANTS)


def test_every_rule_that_is_cited_exists() -> None:
    assert {rule for each in OBSERVERS for rule in each.rules} <= set(data.table("rules.toml"))
