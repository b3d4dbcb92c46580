"""What the page makes of reports: verdicts on rules, states from records, the path through the drawing."""

from typing import Any

import pytest
from tests.fuzz.judge.html_reports import case, failure, finding, line, report

from pinnace_fuzz.judge.html.chart import Chart, published
from pinnace_fuzz.judge.html.matrix import rows
from pinnace_fuzz.judge.html.page import page
from pinnace_fuzz.judge.html.path import Visit, visits
from pinnace_fuzz.judge.html.reading import read_report
from pinnace_fuzz.judge.html.verdicts import LOOKS
from pinnace_fuzz.judge.results import ORDER
from pinnace_spec.statechart.names import STATES


def verdicts(*cases: dict[str, Any]) -> dict[str, str]:
    return {row.name: row.cells[0].verdict for row in rows([read_report(report(*cases), 1)])}


def test_every_verdict_has_a_letter_of_its_own() -> None:
    assert set(ORDER) == set(LOOKS)
    assert len(LOOKS) == len({look.letter for look in LOOKS.values()}) == len({look.kind for look in LOOKS.values()})


def test_a_finding_fails_the_rules_that_it_names_and_no_other_rule_of_the_case() -> None:
    bad = case("A/a", "FAIL", "R-A-1", "R-A-2", "I-A-1", findings=(finding("I-B-1", "R-B-1", "I-B-1"),))

    assert {"R-A-1": "NOT-RUN", "R-A-2": "NOT-RUN", "R-B-1": "FAIL"} == verdicts(bad)
    assert {"R-A-1": "PASS", "R-A-2": "NOT-RUN", "R-B-1": "FAIL"} == verdicts(bad, case("A/b", "PASS", "R-A-1"))


def test_a_failure_that_names_no_rule_is_not_lost() -> None:
    assert {"R-A-1": "FAIL"} == verdicts(case("A/a", "FAIL", "R-A-1", findings=(finding("expect"),)))
    assert {"expect": "FAIL"} == verdicts(case("A/a", "FAIL", findings=(finding("expect"),)))
    assert {"A/a": "FAIL"} == verdicts(case("A/a", "FAIL"))


def test_the_worst_case_counts_and_what_was_not_run_counts_least() -> None:
    cases = [case(f"A/{verdict}", verdict, "R-A-1") for verdict in ORDER]

    for at, verdict in enumerate(ORDER):
        left = [each for each in cases[at:] if each["verdict"] not in ("NOT-RUN",)]
        if verdict != "NOT-RUN":
            assert {"R-A-1": verdict} == verdicts(*left, cases[ORDER.index("NOT-RUN")])


def test_a_crash_is_shown_as_a_crash_and_other_findings_of_its_case_as_they_are() -> None:
    findings = (
        finding("I-CRASH", "R-ERR-02"),
        finding("I-RSP-1", "R-RSP-01"),
        finding("I-EVT-1", "R-EVT-01", level="nonstrict"),
    )

    assert {"R-ERR-02": "CRASH", "R-RSP-01": "FAIL", "R-EVT-01": "NON-STRICT"} == verdicts(
        case("A/a", "CRASH", findings=findings)
    )


def test_a_case_without_a_verdict_is_no_evidence_against_an_agent() -> None:
    assert {"R-A-1": "INCONCLUSIVE"} == verdicts(
        case("A/a", "INCONCLUSIVE", "R-A-1", findings=(finding("I-A-1", "R-A-1"),))
    )


def test_what_is_expected_or_not_scored_stands_in_brackets() -> None:
    source = report(case("A/a", "FAIL", "R-A-1"), case("A/b", "FAIL", "R-A-2", counts=False, not_scored="new"))
    source["summary"]["baseline"]["known"] = ["A/a"]
    text = page([source])

    assert 2 == text.count('class="cell fail off"')
    assert ">expected<" in text
    assert ">not scored<" in text


def test_rules_that_an_agent_breaks_come_first_and_the_matrix_before_the_agents() -> None:
    good = report(case("A/a", "PASS", "R-QUE-01"), case("A/b", "NON-STRICT", "R-ABT-01"))
    bad = report(case("A/a", "CRASH", "R-QUE-01"), case("A/b", "FAIL", "R-TOL-01"), name="beta")
    text = page([good, bad])
    places = [text.index(f'id="r-R-{name}"') for name in ("QUE-01", "TOL-01", "ABT-01")]

    assert places == sorted(places)
    assert text.index('id="matrix"') < text.index('class="cards"') < text.index('id="cases"')
    assert "breaks 0 of 2" in text
    assert "breaks 2 of 2" in text


def test_names_are_explained_on_the_page() -> None:
    text = page([report(case("A/a", "PASS", "R-QUE-01"))])
    legend = text[text.index('id="legend"') : text.index('id="controls"')]

    assert "<dt><code>QUE</code></dt><dd>Queues</dd>" in legend
    assert all(verdict in legend for verdict in LOOKS)


def test_rules_stand_in_the_order_of_their_numbers() -> None:
    names = ["C-2", "C-10", "R-A-2", "R-A-10"]
    found = verdicts(*(case(f"A/{name}", "PASS", name) for name in reversed(names)))

    assert ["R-A-2", "R-A-10", "C-2", "C-10"] == list(found)


def test_the_matrix_has_two_columns_for_each_agent_and_marks_where_they_differ() -> None:
    text = page([report(), report(case("Q/x", "PASS", "R-QUE-03"), name="beta")])

    assert 'data-v="FAIL PASS" data-differs' in text
    assert 2 == text.count('scope="colgroup" colspan="2"')
    assert text.count('<td class="how">') == 3


def test_an_agent_that_was_not_judged_differs_from_no_one() -> None:
    """R-PRM-01 passes for one and was not run for the other; R-QUE-03 fails for one and has no case for the other."""
    text = page([report(), report(case("PRM/y", "NOT-RUN", "R-PRM-01"), name="beta")])

    assert "data-differs" not in text.partition("<script>")[0]
    assert "On 0 rules the agents differ." in text


def path(*lines: dict[str, Any]) -> list[str]:
    process = read_report(report(case("A/a", "FAIL", processes=[{"steps": list(lines)}])), 1).cases[0].processes[0]
    return [visit.state for visit in visits(process.lines)]


SAID = [line(1, {"type": "prompt", "message": "x"}, way="in"), line(2, {"type": "agent_start"})]


@pytest.mark.parametrize(
    ("records", "states"),
    [
        ([{"type": "tool_execution_start"}, {"type": "agent_end"}], "preflight persisting llm tools idle"),
        ([{"type": "auto_retry_start"}, {"type": "agent_start"}], "preflight persisting llm retrying llm"),
        (
            [{"type": "compaction_start", "reason": "overflow"}, {"type": "compaction_end", "willRetry": True}],
            "preflight persisting llm compacting.overflow llm",
        ),
        ([{"type": "auto_compaction_start", "reason": ["x"]}], "preflight persisting llm compacting.threshold"),
        ([{"type": ["no"]}, {"type": None}, "no record", {}], "preflight persisting llm"),
    ],
)
def test_states_are_read_from_records(records: list[Any], states: str) -> None:
    found = path(*SAID, *(line(at, record) for at, record in enumerate(records, 3)))

    assert ["idle", *states.split()] == found
    assert set(found) <= set(STATES["run"])


def test_an_abort_and_a_refusal_lead_back() -> None:
    late = ({"type": "message_start", "message": {"role": "assistant"}}, {"type": "tool_execution_start"})
    abort = [line(3, {"type": "abort"}, way="in"), *(line(4, each) for each in late)]
    refused = line(2, {"type": "response", "command": "prompt", "success": False})

    assert ["idle", "preflight", "persisting", "llm", "stopping.run", "idle"] == path(
        *SAID, *abort, line(5, {"type": "agent_end"})
    )
    assert ["idle", "preflight", "idle"] == path(SAID[0], refused)


def test_the_drawing_lights_up_the_states_and_the_ways_of_a_path() -> None:
    chart = published()
    text = chart.drawing
    lit = chart.lit(
        "k",
        [Visit("idle", 0), Visit("preflight", 1), Visit("persisting", 2), Visit("llm", 2), Visit("stopping.run", 3)],
    )
    gone = {(source, way.target) for way in chart.ways if f"--{way.name}:1;" in lit for source in way.sources}
    short = chart.lit("k", [Visit("idle", 0), Visit("preflight", 1)])
    first = [way.sources for way in chart.ways if f"--{way.name}:1;" in short]

    assert len(STATES["run"]) == text.count('class="state"')
    assert {("idle", "preflight"), ("persisting", "llm"), ("llm", "stopping.run")} <= gone
    assert {target for _, target in gone} == {"preflight", "persisting", "llm", "stopping.run"}
    assert 5 == lit.count("--hotbox")
    assert [{"idle"}] == first
    assert 1 < sum(way.target == "preflight" for way in chart.ways)
    assert all(way.sources and way.target for way in chart.ways)


def test_without_a_drawing_there_is_none() -> None:
    chart = Chart('<svg xmlns="http://www.w3.org/2000/svg"><g id="other"/></svg>')

    assert not chart.is_drawn
    assert "class" not in chart.drawing


def test_nothing_that_could_act_gets_from_the_drawing_into_the_page() -> None:
    chart = Chart(
        '<svg xmlns="http://www.w3.org/2000/svg"><g id="region-run"><a href="x:y"><text onload="x" y="3">hi</text></a>'
        '<g class="state"><title>idle</title><rect x="0" width="2"/><script>x</script></g></g></svg>'
    )

    assert '<text y="3">hi</text>' in chart.drawing
    assert "script" not in chart.drawing
    assert "x:y" not in chart.drawing


def test_the_case_has_its_path_as_links_to_the_records() -> None:
    text = page([report(failure())])

    assert '<a href="#a1-1-0-1">preflight</a>' in text
    assert 'id="a1-1-0-chart"' in text
    assert "#a1-1-0-chart{--" in text
