"""Recorded runs in ITF: nothing is lost, and observers find in them what they find in the recording."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_campaigns.trials.trace_mutations import mutants
from pinnace_fuzz.judge.cli import main
from pinnace_spec.observers import End, judge
from pinnace_spec.observers.itf import VARIABLES, read_run, write_run
from pinnace_spec.observers.trace_file import NotATrace, Trace, read_trace, step_of, write_trace
from pinnace_spec.profiles.generations import generation
from pinnace_spec.wire.itf import is_itf

TRACES = sorted((Path(__file__).parents[2] / "data" / "traces").glob("*.jsonl"))
OURS = generation("pi")
HELD = 1_000
SHARE = 90
"""Of one recording, if it can be broken in so many ways."""
LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=()), max_size=20)
STEPS = st.lists(st.tuples(st.sampled_from(["in", "out"]), LINES, st.integers(0, 10**7), st.integers(0, 9)), max_size=9)


@given(STEPS, st.sampled_from([End("open"), End("exit", 0, "x\n", 1.5, "y", 3), End("hang")]))
def test_what_is_written_is_read(rows: list[tuple[str, str, int, int]], end: End) -> None:
    steps = tuple(
        step_of(number, "in" if direction == "in" else "out", line, micros / 10**6, group)
        for number, (direction, line, micros, group) in enumerate(rows, 1)
    )
    trace = Trace({"trace": 1, "generation": "pi"}, steps, end)
    text = write_run(trace)

    assert trace == read_run(text)
    assert text.isascii()
    assert is_itf(text)
    assert not is_itf("".join(write_trace(steps, end)))


def test_a_run_has_the_shape_of_the_format() -> None:
    document = json.loads(write_run(read_trace(TRACES[0].read_text())))

    assert ["#meta", "vars", "states"] == [*document]
    assert document["vars"] == [*VARIABLES]
    for index, state in enumerate(document["states"]):
        assert {"#meta", *VARIABLES} == state.keys()
        assert state["#meta"] == {"index": index}
        assert {"#bigint": str(index + 1)} == state["number"]
    assert document["states"][-1]["direction"] == "end"


def traces_of(path: Path) -> list[Trace]:
    """Return a recording, and some of what it is when it is broken in every way."""
    recorded = read_trace(path.read_text())
    broken = [recorded._replace(steps=tuple(each.steps)) for each in mutants(recorded.steps)]
    return [recorded, *broken[:: max(1, len(broken) // SHARE)]]


@pytest.mark.slow
def test_a_thousand_traces_are_held() -> None:
    assert sum(len(traces_of(path)) for path in TRACES) >= HELD


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_observers_find_in_it_what_they_find_in_the_recording(path: Path) -> None:
    for trace in traces_of(path):
        again = read_run(write_run(trace))
        assert again == trace
        assert judge(again.steps, again.end, OURS) == judge(trace.steps, trace.end, OURS)


def states_of(*states: object) -> str:
    return json.dumps({"#meta": {}, "vars": [*VARIABLES], "states": [*states]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is no JSON"),
        ("[]", "its variables are not number, direction"),
        (states_of(1), "state 0 is no object"),
        (states_of(), "the last state is not the end of a run"),
        (states_of({"direction": "up"}, {"direction": "end"}), "state 0 has no direction in or out"),
        (states_of({"direction": "in", "line": ""}, {"direction": "end"}), "state 0: number is no integer"),
        (states_of({"direction": "end", "name": "sleep", "line": "{}"}), "does not say how the run has ended"),
    ],
)
def test_what_is_no_run_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(NotATrace, match=message):
        read_run(text)


def test_the_judge_writes_runs_and_judges_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    itf = tmp_path / "run.itf.json"
    codes = [main(["observe", str(TRACES[0]), "--profile", "pi", "--itf", str(itf)])]
    first = capsys.readouterr().out
    codes.append(main(["observe", str(itf), "--profile", "pi"]))

    assert codes == [0, 0]
    assert first == capsys.readouterr().out
    assert read_run(itf.read_text()) == read_trace(TRACES[0].read_text())
    assert main(["observe", str(itf), "--follow", "--itf", str(itf)]) == 3
