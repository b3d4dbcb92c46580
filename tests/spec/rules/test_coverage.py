"""The table of what was reached counts what there is, and leaves nothing out in silence."""

import json
from collections import Counter
from pathlib import Path

import pytest

from pinnace_spec import coverage
from pinnace_spec.coverage import CELLS, ERRORS, METHODS, RECORDS, REQUIRED, ROWS, SUCCESSES, Seen
from pinnace_spec.generate.source import load
from pinnace_spec.observers.trace_file import step_of, write_trace
from pinnace_spec.rules.errors import ErrorCode

SPEC = load()
TARGETS = coverage.targets(SPEC)
ALL: Seen = Counter((kind, name) for kind, names in TARGETS.items() for name in names)


def write(folder: Path, seen: Seen) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps([kind, name, count]) for (kind, name), count in seen.items())
    (folder / "1.seen").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("kind", TARGETS)
def test_there_is_something_to_reach_of_each_kind(kind: str) -> None:
    assert len(TARGETS[kind]) == len(set(TARGETS[kind])) >= 9


def test_who_has_reached_everything_is_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, ALL)

    assert coverage.main([str(tmp_path)]) == 0
    assert "not reached" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", REQUIRED)
def test_what_was_not_reached_is_named_and_an_error(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = TARGETS[kind][0]
    rows = {(ROWS, row) for row in TARGETS[ROWS] if row.partition("[")[0] == name} if kind == CELLS else set()
    write(tmp_path, Counter({each: 1 for each in ALL if each != (kind, name) and each not in rows}))

    assert coverage.main([str(tmp_path)]) == 1
    assert name in capsys.readouterr().out.partition("not reached: ")[2]


def test_a_cell_is_reached_by_any_of_its_rows() -> None:
    lines = {line.kind: line for line in coverage.table(Counter({(ROWS, "run/idle/prompt[barrier]"): 1}), SPEC)}

    assert (1, 1) == (lines[ROWS].reached, lines[CELLS].reached)
    assert "run/idle/prompt" not in lines[CELLS].missing


def test_an_invariant_that_was_never_armed_is_reported_and_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, Counter({each: 1 for each in ALL if each != (coverage.ARMED, "I-QUE-2")}))

    assert coverage.main([str(tmp_path)]) == 0
    assert "never armed: I-QUE-2\n" in capsys.readouterr().out


def test_a_recorded_trace_counts_too(tmp_path: Path) -> None:
    """Of any agent, and by the observers that it has armed."""
    records: list[dict[str, object]] = [
        {"type": "agent_start"},
        {"type": "agent_end", "messages": []},
        {"type": "response", "command": "prompt", "success": False, "error": "e", "errorCode": "no_model"},
    ]
    steps = [step_of(number, "out", json.dumps(record)) for number, record in enumerate(records, 1)]
    (tmp_path / "a.jsonl").write_text("".join(write_trace(steps, generation="seed")), encoding="utf-8")
    seen = coverage.read([tmp_path])

    assert {(RECORDS, "agent_start"), (RECORDS, "agent_end"), (ERRORS, "no_model"), (coverage.ARMED, "I-EVT-1")} <= set(
        seen
    )


def test_a_record_reaches_what_it_says() -> None:
    failure = {"type": "response", "command": "x", "success": False, "error": "e", "errorCode": "busy"}
    success = {"type": "response", "command": "abort", "success": True}
    dialog = {"type": "extension_ui_request", "method": "confirm"}

    assert {(RECORDS, "response"), (ERRORS, "busy")} == set(coverage.seen_in_record(failure))
    assert {(RECORDS, "response"), (SUCCESSES, "abort")} == set(coverage.seen_in_record(success))
    assert {(RECORDS, "extension_ui_request"), (METHODS, "confirm")} == set(coverage.seen_in_record(dialog))
    assert set() == set(coverage.seen_in_record({"type": 1}))


def test_what_can_not_be_reached_is_a_code_and_has_a_reason() -> None:
    assert set(coverage.UNREACHABLE) <= {code.value for code in ErrorCode}
    assert all(coverage.UNREACHABLE.values())


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_a_command_line_that_makes_no_sense_is_refused(words: list[str]) -> None:
    assert coverage.main(words) == 2


def test_a_file_that_is_no_trace_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.seen").write_text("poem", encoding="utf-8")

    assert coverage.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err
