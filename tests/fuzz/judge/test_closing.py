"""The end of a run on the terminal: the verdict, the worst three findings, what to run next; at most a screen."""

from typing import Any

import pytest
from tests.fuzz.judge import html_reports as made
from tests.fuzz.judge.html_reports import HOSTILE, Json

from pinnace_fuzz.judge.html.reading import read_report
from pinnace_fuzz.judge.reports.closing import MAX_LINES, closing

RULES: Json = {
    "R-MUS-01": {"level": "MUST", "origin": "seed", "text": "The agent MUST do it."},
    "R-SHO-01": {"level": "SHOULD", "origin": "seed", "text": "The agent SHOULD do it."},
}


def end_of(*cases: Json, **summary: Any) -> list[str]:
    report: Json = {**made.report(*cases), "rules": RULES, "summary": {"exit_code": 1, "campaigns": {}, **summary}}
    return closing(read_report(report, 1)).splitlines()


def test_the_worst_findings_come_first_each_with_its_rule() -> None:
    """A requirement before a recommendation, and a crash before a failure."""
    bad = made.finding("expect", "R-MUS-01")
    lines = end_of(
        made.case("A/should", "CRASH", findings=(made.finding("expect", "R-SHO-01"),)),
        *(made.case(f"A/{at}", "FAIL", findings=(bad,)) for at in range(5)),
        made.case("B/crash", "CRASH", findings=(bad,), reproduction="printf x | agent\npinnace-conform --only B/crash"),
    )

    assert "NOT CONFORMANT: 7 findings; the worst 3:" == lines[0]
    assert "1. CRASH B/crash: expect: expect is broken" == lines[1]
    assert "   R-MUS-01 (MUST): The agent MUST do it." == lines[2]
    assert ["1", "2", "3"] == [each[0] for each in lines if each[1:2] == "."]
    assert "next: pinnace-conform --only B/crash" in lines
    assert "next: pinnace-conform --reproduce found -- agent --mode rpc   (a script for each finding)" in lines


@pytest.mark.parametrize(
    ("summary", "first", "following"),
    [
        ({"exit_code": 0}, "CONFORMANT, as far as it was judged", "--time 10m"),
        ({"exit_code": 0, "campaigns": {"framing": {"examples": 3}}}, "CONFORMANT, as far as", "--report json,sarif"),
        ({"exit_code": 5}, "NO VERDICT: the judge itself failed", "--time 10m"),
        ({"exit_code": 3}, "NO VERDICT: nothing was judged", "--time 10m"),
    ],
)
def test_a_run_without_findings_has_its_verdict_and_what_to_run_next(summary: Json, first: str, following: str) -> None:
    lines = end_of(made.case("A/a", "PASS"), **summary)

    assert lines[0].startswith(first)
    assert following in lines[1]


def test_what_the_baseline_expects_is_not_among_the_findings() -> None:
    known: Json = {"exit_code": 0, "baseline": {"known": ["A/a"], "stale": []}}
    lines = end_of(made.case("A/a", "FAIL", findings=(made.finding("expect", "R-MUS-01"),)), **known)

    assert "CONFORMANT BUT FOR 1 expected failures" == lines[0]


def test_no_text_of_an_agent_makes_it_longer_or_moves_the_cursor() -> None:
    cases = [
        made.case(f"A/{at}", "FAIL", findings=({**made.finding("expect"), "text": text * 50},), reproduction=text)
        for at, text in enumerate(HOSTILE)
    ]
    for case in cases:
        lines = end_of(case, *cases)
        assert len(lines) <= MAX_LINES
        assert all("\x1b" not in each and "\u202e" not in each for each in lines)
