"""Traces as files: written and read again, and what else is read as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_campaigns.trials.short_trace import read_short
from pinnace_spec.observers import End
from pinnace_spec.observers.trace_file import NotATrace, read_trace, step_of, write_trace, write_transcript

LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=()), max_size=20)
STEPS = st.lists(st.tuples(st.sampled_from(["in", "out"]), LINES, st.integers(0, 9), st.integers(0, 9)), max_size=9)


@given(STEPS, st.sampled_from([None, End("exit", 0, "x\n", 1.5, "y", 3), End("hang")]))
def test_what_is_written_is_read(rows: list[tuple[str, str, int, int]], end: End | None) -> None:
    steps = tuple(
        step_of(number, "in" if direction == "in" else "out", line, at / 8, group)
        for number, (direction, line, at, group) in enumerate(rows, 1)
    )
    text = "".join(write_trace(steps, end, generation="pi", agent="x"))
    trace = read_trace(text)

    assert ({"trace": 1, "generation": "pi", "agent": "x"}, steps) == (trace.head, trace.steps)
    assert (End("open") if end is None else end) == trace.end
    assert text.isascii()


def test_bytes_that_are_no_text_survive() -> None:
    step = step_of(1, "out", b'{"type":"x","y":"\xff"}\n')

    assert step.line.encode("utf-8", "surrogateescape") == b'{"type":"x","y":"\xff"}'
    assert step.record is None
    assert (step,) == read_trace("".join(write_trace([step]))).steps


@pytest.mark.parametrize("line", ["[1]", "null", "", " ", "NaN", '{"x": NaN}', '{"x": 1e400}', '{"x": 1', "[" * 5000])
def test_what_is_no_record_is_none(line: str) -> None:
    assert step_of(1, "out", line).record is None


def test_a_carriage_return_at_the_end_belongs_to_the_line_and_not_to_the_record() -> None:
    step = step_of(1, "in", '{"type":"x"}\r\n')

    assert ('{"type":"x"}\r', {"type": "x"}) == (step.line, step.record)


def test_a_log_of_outputs_is_a_trace_without_inputs() -> None:
    trace = read_trace('{"type":"agent_start"}\nnoise\n{"type":"a\u2028b"}\n')

    assert ["out", "out", "out"] == [step.direction for step in trace.steps]
    assert [{"type": "agent_start"}, None, {"type": "a\u2028b"}] == [step.record for step in trace.steps]
    assert (False, False, End("open")) == (trace.checks.has_inputs, trace.checks.has_times, trace.end)


def test_a_transcript_for_people_is_a_trace() -> None:
    steps = read_short("> get_state a\n< state a").steps
    text = "# what it is about\n" + "".join(write_transcript(steps, End("exit", 0)))
    trace = read_trace(text)

    assert [step.line for step in steps] == [step.line for step in trace.steps]
    assert ["in", "out"] == [step.direction for step in trace.steps]
    assert (End("exit", 0), True) == (trace.end, trace.checks.has_inputs)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"trace": 2}', "version 2"),
        ('{"trace": 1}\n[]', "line 2 is not a JSON object"),
        ('{"trace": 1}\n{"dir": "up", "line": ""}', "line 2 has no proper dir"),
        ('{"trace": 1}\n{"end": {"how": "well"}}', "well is no way to end"),
        ("> {}\n{}", "line 2 begins with none of"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_the_line(text: str, reason: str) -> None:
    with pytest.raises(NotATrace, match=reason):
        read_trace(text)


def test_nothing_is_an_empty_trace() -> None:
    assert () == read_trace("").steps
    assert () == read_trace('{"trace": 1}').steps
