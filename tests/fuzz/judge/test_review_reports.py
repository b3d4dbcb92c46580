"""Reports for where reviewers look: SARIF for code scanning, and Markdown for a comment on a pull request."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator
from tests.fuzz.judge import html_reports as made
from tests.fuzz.judge.html_reports import HOSTILE, Json

from pinnace_fuzz.judge.html.reading import read_report
from pinnace_fuzz.judge.reports.pull_request import MAX_CHARACTERS, page
from pinnace_fuzz.judge.reports.sarif import log

ROOT = Path(__file__).parents[3]
OFFICIAL = ROOT / ".tools" / "sarif" / "lib" / "schemas" / "sarif-2.1.0-rtm.5.json"
RULES: Json = {
    "R-MUS-01": {"level": "MUST", "origin": "seed", "text": "The agent MUST do it. It does so once."},
    "R-SHO-01": {"level": "SHOULD", "origin": "seed", "text": "The agent SHOULD do it."},
    "R-OUR-01": {"level": "MUST", "origin": "ours", "text": "The agent MUST do more."},
}


def report(*cases: Json, **more: Any) -> Json:
    return {**made.report(*cases), "rules": RULES, **more}


def result_of(source: Json, location: str = "") -> Json:
    found: Json = log(read_report(source, 1), location)["runs"][0]
    return found


MUST = made.case("A/must", "FAIL", findings=(made.finding("expect", "R-MUS-01"),), reproduction="printf x | agent")
SHOULD = made.case("A/should", "FAIL", findings=(made.finding("expect", "R-SHO-01"),))
OURS = made.case("A/ours", "NON-STRICT", findings=(made.finding("expect", "R-OUR-01", level="nonstrict"),))
INVARIANT = made.case("A/invariant", "CRASH", findings=(made.finding("I-CRASH"), made.finding("I-CRASH")))
GOOD = made.case("A/good", "PASS")


def hostile_report() -> Json:
    cases = [
        made.case(
            f"A/{at}", "FAIL", findings=({**made.finding("I-FRM-2"), "text": text},), title=text, reproduction=text
        )
        for at, text in enumerate(HOSTILE)
    ]
    agent = {**made.report()["agent"], "name": HOSTILE[1], "version": HOSTILE[-2]}
    return report(*cases, agent=agent)


def test_the_level_of_a_result_is_the_tier_of_its_rule_and_the_worst_comes_first() -> None:
    results = result_of(report(OURS, SHOULD, GOOD, MUST, INVARIANT))["results"]

    assert [("I-CRASH", "error"), ("R-MUS-01", "error"), ("R-SHO-01", "warning"), ("R-OUR-01", "note")] == [
        (each["ruleId"], each["level"]) for each in results
    ]
    assert 2 == results[0]["occurrenceCount"]


def test_a_rule_has_its_sentence_and_its_source_as_help() -> None:
    run = result_of(report(MUST, INVARIANT))
    rules = {each["id"]: each for each in run["tool"]["driver"]["rules"]}

    assert "The agent MUST do it." == rules["R-MUS-01"]["shortDescription"]["text"]
    assert (
        "R-MUS-01 (MUST): The agent MUST do it. It does so once. Source: the published protocol."
        == (rules["R-MUS-01"]["help"]["text"])
    )
    assert all(run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])


def test_a_finding_has_the_same_fingerprints_in_another_run() -> None:
    """With other values, in another order; and others than a finding of another scenario."""
    first = {**made.finding("I-STA-1"), "text": "record 3 counts 5 messages"}
    second = {**made.finding("I-STA-1"), "text": "record 8 counts 7 messages"}
    one = result_of(report(made.case("A/a", "FAIL", findings=(first,)), MUST))["results"]
    other = result_of(report(MUST, made.case("A/a", "FAIL", findings=(second,))))["results"]

    def prints(results: list[Json]) -> set[tuple[str, ...]]:
        return {tuple(each["partialFingerprints"].values()) for each in results}

    assert prints(one) == prints(other)
    assert 2 == len(prints(one))


def test_a_result_is_at_its_scenario_and_at_a_file_if_one_is_named() -> None:
    (bare,) = result_of(report(MUST))["results"][0]["locations"]
    (placed,) = result_of(report(MUST), "src/a b.py")["results"][0]["locations"]

    assert {"logicalLocations": [{"name": "A/must", "fullyQualifiedName": "A/must"}]} == bare
    assert {"uri": "src/a%20b.py", "uriBaseId": "%SRCROOT%"} == placed["physicalLocation"]["artifactLocation"]


def test_no_text_of_an_agent_is_a_link_and_all_of_it_is_unicode() -> None:
    text = json.dumps(log(read_report(hostile_report(), 1)), ensure_ascii=False)

    assert "](" not in text
    text.encode("utf-8")


def test_what_is_unconfirmed_or_not_scored_is_no_result() -> None:
    unsure = made.case("A/a", "INCONCLUSIVE", findings=(made.finding("expect", "R-MUS-01"),))
    unscored = made.case("A/b", "FAIL", findings=(made.finding("expect", "R-MUS-01"),), not_scored="why", counts=False)

    assert [] == result_of(report(unsure, unscored))["results"]


@pytest.fixture(scope="module")
def official() -> Any:
    """The schema of SARIF 2.1.0, as its makers publish it."""
    if not OFFICIAL.is_file():
        pytest.skip("no .tools/sarif: run scripts/peers")
    return Draft4Validator(json.loads(OFFICIAL.read_text(encoding="utf-8")))


@pytest.mark.peer
@pytest.mark.parametrize("source", [report(), report(MUST, SHOULD, OURS, INVARIANT, GOOD), hostile_report()])
def test_the_official_schema_finds_the_log_valid(official: Any, source: Json) -> None:
    found = log(read_report(source, 1), "src/main.py")

    assert [] == [f"{list(each.path)}: {each.message[:200]}" for each in official.iter_errors(found)]


@pytest.mark.peer
@pytest.mark.parametrize("name", ["message", "locations"])
def test_the_official_schema_finds_what_is_wrong(official: Any, name: str) -> None:
    found = copy.deepcopy(log(read_report(report(MUST), 1)))
    found["runs"][0]["results"][0][name] = 7

    assert list(official.iter_errors(found))


# Pull requests.


def test_a_comment_has_the_verdict_each_finding_its_rule_and_its_reproduction() -> None:
    text = page(read_report(report(MUST, SHOULD, OURS, GOOD), 1))

    assert text.startswith("### Conformance: 2 findings\n")
    assert "- **FAIL** `A/must` `expect`: `expect is broken`" in text
    assert "R-MUS-01 (MUST): The agent MUST do it." in text
    assert "```sh\n  printf x | agent\n  ```" in text
    assert "1 further findings concern recommendations" in text
    assert page(read_report(report(GOOD, summary={"exit_code": 0}), 1)).startswith("### Conformance: no finding\n")
    assert page(read_report(report(summary={"exit_code": 3}, cases=[]), 1)).startswith("### Conformance: nothing was")


def test_a_comment_is_short_enough_whatever_was_found() -> None:
    cases = [
        made.case(f"A/{at}", "FAIL", findings=({**made.finding("expect", "R-MUS-01"), "text": "`x" * 5000},))
        for at in range(300)
    ]
    text = page(read_report(report(*cases), 1))

    assert len(text) <= MAX_CHARACTERS + 200
    assert "more findings are in the report" in text


def test_what_an_agent_has_written_is_code_in_a_comment() -> None:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(page(read_report(hostile_report(), 1)))
    inline = [child for token in tokens for child in token.children or []]

    assert {"link_open", "image"}.isdisjoint(each.type for each in inline)
    html = [each.content for each in [*tokens, *inline] if each.type in ("html_inline", "html_block")]
    assert all(each.strip() in ("<br>", "<details><summary>Reproduce</summary>", "</details>") for each in html)


# The command.


def test_a_run_writes_both(tmp_path: Path) -> None:
    from tests.fuzz.judge.test_conform_cli import judge

    assert 1 == judge(tmp_path, "--report", "sarif,pr", "--location", "src/agent.py", faults="dies-of-null")
    run = json.loads((tmp_path / "report.sarif").read_text(encoding="utf-8"))["runs"][0]
    assert "src/agent.py" == (run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
    assert "ERR/no-object-null" in (tmp_path / "pull-request.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/file"])
def test_a_location_outside_of_a_repository_is_a_usage_error(
    tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.fuzz.judge.test_conform_cli import judge

    assert 3 == judge(tmp_path, "--location", path)
    assert "is not a path below the root of a repository" in capsys.readouterr().err
