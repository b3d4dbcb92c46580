"""Comparisons of reports: only a new finding fails, whatever else differs between two runs."""

import json
import random
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.judge import html_reports as made
from tests.fuzz.judge.html_reports import Json

from pinnace_fuzz.judge.cli import main
from pinnace_fuzz.judge.html.reading import read_report
from pinnace_fuzz.judge.reports import compared_text
from pinnace_fuzz.judge.reports.comparing import Comparison, as_json, compare
from pinnace_fuzz.judge.reports.identity import Identity, identity

JUDGED: dict[str, list[Json]] = json.loads(
    (Path(__file__).parents[2] / "data" / "findings-of-judged-agents.json").read_text(encoding="utf-8")
)
"""Name of an agent -> what several runs with different seeds have found: reports without traces."""

REGRESSIONS = 100
TINY = [sys.executable, str(Path(__file__).parent / "tiny_agent.py")]


def report(*cases: Json, **summary: Any) -> Json:
    """Write a report of some cases."""
    return {
        "conform": 1,
        "agent": {"name": "agent", "version": "1", "generation": "seed", "adapter": "pi"},
        "kit": {"version": "kit 1", "strict": False, "only": [], "skip": [], "campaigns": None},
        "summary": {"exit_code": 1, "campaigns": {"framing": {"examples": 3}}, **summary},
        "cases": [*cases],
    }


def finding(source: str, text: str, *rules: str, level: str = "violation") -> Json:
    return {**made.finding(source, *rules, level=level), "text": text}


def compared(*reports: Json) -> Comparison:
    *old, new = [read_report(each, number) for number, each in enumerate(reports, 1)]
    return compare(old, new)


def statuses(comparison: Comparison) -> list[tuple[str, str]]:
    return [(each.status, each.identity.fault) for each in comparison.findings]


LOST = finding(
    "I-QUE-2", '"A 1", which record 4 accepted, is lost: by record 9 it is neither returned nor pending', "R-Q"
)
COUNTED = finding("I-STA-1", "record 8 counts 0 messages, the records before it report 2", "R-S")
STREAMS = finding("I-STA-1", "record 13 shows isStreaming false in the run of record 6", "R-S")


def test_only_what_is_new_fails() -> None:
    old = report(made.case("A/a", "FAIL", findings=(LOST,)), made.case("A/b", "FAIL", findings=(COUNTED,)))
    new = report(made.case("A/b", "FAIL", findings=(COUNTED,)), made.case("A/a", "PASS"))
    other = report(made.case("A/a", "FAIL", findings=(LOST,)), made.case("A/b", "FAIL", findings=(STREAMS, COUNTED)))

    assert [("still", "I-STA-1"), ("fixed", "I-QUE-2")] == statuses(compared(old, new))
    assert 0 == compared(old, new).exit_code
    assert [("new", "I-STA-1"), ("still", "I-QUE-2"), ("still", "I-STA-1")] == statuses(compared(old, other))
    assert 1 == compared(old, other).exit_code


def test_a_fault_at_another_place_is_new_but_not_another_input_of_a_campaign() -> None:
    old = report(made.case("A/a", "FAIL", findings=(LOST,)), made.case("A/b", "PASS"))

    assert 1 == compared(old, report(made.case("A/b", "FAIL", findings=(LOST,)))).exit_code
    generated = made.case("HUNT/sequences-0123456789", "FAIL", kind="sequences", findings=(LOST,))
    assert ("still", "I-QUE-2") in statuses(compared(old, report(generated)))
    again = made.case("HUNT/interleavings-aaaaaaaaaa", "FAIL", kind="interleavings", findings=(LOST,))
    assert [("still", "I-QUE-2")] == statuses(compared(report(generated), report(again)))
    crash = finding("I-CRASH", 'the process ends with 1 behind record 2: "TypeError: no"')
    other = made.case("HUNT/framing-0123456789", "CRASH", kind="framing", findings=(crash,))
    assert 1 == compared(report(generated), report(other)).exit_code


def test_a_finding_that_does_not_come_every_time_fails_nothing() -> None:
    """In some of the old reports, or inconclusive in the old one or the new one."""
    has = report(made.case("A/a", "FAIL", findings=(LOST,)))
    lacks = report(made.case("A/a", "PASS"))
    unsure = report(made.case("A/a", "INCONCLUSIVE", findings=(LOST,)))

    assert [("flaky", "I-QUE-2")] == statuses(compared(has, lacks, has))
    assert [("flaky", "I-QUE-2")] == statuses(compared(has, lacks, lacks))
    assert [("flaky", "I-QUE-2")] == statuses(compared(unsure, has))
    assert [("flaky", "I-QUE-2")] == statuses(compared(lacks, unsure))
    assert [("still", "I-QUE-2")] == statuses(compared(has, has, has))
    assert (1, 2) == compared(has, lacks, has).findings[0].seen


@pytest.mark.parametrize(
    "case",
    [
        made.case("A/a", "NOT-RUN"),
        made.case("A/a", "UNIMPLEMENTED"),
        made.case(
            "A/a", "CRASH", findings=(finding("crash", "step 1: the process ended with 1: KeyError: 'x'", "R-E"),)
        ),
        made.case("A/b", "PASS"),
    ],
)
def test_what_was_not_judged_to_the_end_again_is_not_fixed(case: Json) -> None:
    old = report(made.case("A/a", "FAIL", findings=(LOST,)))

    assert "open" in [each.status for each in compared(old, report(case)).findings]


def test_a_generated_case_that_is_not_found_again_is_not_fixed() -> None:
    """A search that lasts a while draws other cases."""
    old = report(made.case("HUNT/framing-0123456789", "FAIL", kind="framing", findings=(COUNTED,)))

    assert [("open", "I-STA-1")] == statuses(compared(old, report()))


def test_what_no_old_run_judged_fails_nothing() -> None:
    """But a command that the agent did not know was not wrong before."""
    new = report(made.case("A/a", "FAIL", findings=(LOST,)))

    assert [("first", "I-QUE-2")] == statuses(compared(report(made.case("A/a", "NOT-RUN")), new))
    assert [("first", "I-QUE-2")] == statuses(compared(report(), new))
    assert 0 == compared(report(), new).exit_code
    assert 1 == compared(report(made.case("A/a", "UNIMPLEMENTED")), new).exit_code
    generated = report(made.case("HUNT/framing-0123456789", "FAIL", kind="framing", findings=(LOST,)))
    assert 0 == compared(report(campaigns={}), generated).exit_code


def test_observations_and_cases_that_are_not_scored_are_left_out() -> None:
    seen = finding("I-MSG-9", "record 3 is odd", level="information")
    unscored = made.case("A/c", "FAIL", findings=(COUNTED,), counts=False, not_scored="why")
    cases = (made.case("A/a", "FAIL", findings=(LOST, seen)), made.case("A/b", "INFORMATIONAL", findings=(seen,)))

    assert [("still", "I-QUE-2")] == statuses(compared(report(*cases), report(*cases)))
    assert 0 == compared(report(), report(unscored)).exit_code


@pytest.mark.parametrize("code", [3, 5])
def test_a_new_run_without_a_verdict_is_no_success(code: int) -> None:
    assert code == compared(report(), report(exit_code=code)).exit_code


def test_what_the_runs_differ_in_is_reported() -> None:
    strict = report()
    strict["kit"]["strict"] = True

    assert ["kit.strict: False, then True"] == list(compared(report(), strict).differs)


DIFFERENT = [
    (("I-STA-1", "record 8 counts 0 messages, the records before it report 2"), ("I-STA-1", STREAMS["text"])),
    (
        ("expect", "expected a ... b; behind line 3 (b) wanted c"),
        ("expect", "expected a ... c; behind line 3 (b) wanted c"),
    ),
    (("state", "get_state: data.cost is 0, not 1"), ("state", "get_state: data.text is 0, not 1")),
    (("step", "step 3: data.path is missing in {}"), ("step", "step 4: data.path is missing in {}")),
    (("I-CRASH", 'ends with 1: "KeyError: 1"'), ("I-CRASH", 'ends with 1: "ValueError: 1"')),
    (("I-RSP-1", "record 2 (get_state) is never answered"), ("I-RSP-1", "record 2 (prompt) is never answered")),
]
SAME = [
    (("expect", "expected a; behind line 3 (b) wanted c"), ("expect", "expected a; from the beginning wanted c or d")),
    (("state", 'get_state: data.text is "x: 1", not "y"'), ("state", "get_state: data.text is null, not 3")),
    (
        ("step", 'step 3: data.path is missing in {"a": 1}'),
        ("step", "step 3: data.path is missing in {"),
    ),
    (("step", "step 3: no response within 10 s to c2, c1"), ("step", "step 3: no response within 15 s to c1")),
    (("hang", "step 3: no response within 10 s to c2"), ("hang", "behind the last step: still busy after 15 s")),
    (("crash", "step 1: the process ended with 1: KeyError: 'a'; x"), ("crash", "behind the last step: KeyError: 7")),
    (("I-QUE-2", LOST["text"]), ("I-QUE-2", '"B: \\"2", which record 14 accepted, is lost: 1.5 s later nothing works')),
    (("I-EVT-6", "record 3 reports 'it\\'s', which runs"), ("I-EVT-6", "record 9 reports 'no', which runs")),
]


@pytest.mark.parametrize("pair", DIFFERENT)
def test_different_faults_of_a_case_have_different_identities(pair: tuple[tuple[str, str], tuple[str, str]]) -> None:
    first, second = (identity("A/a", source, ["R-1"], text) for source, text in pair)

    assert first.digest != second.digest


@pytest.mark.parametrize("pair", SAME)
def test_values_and_times_are_not_part_of_an_identity(pair: tuple[tuple[str, str], tuple[str, str]]) -> None:
    first, second = (identity("A/a", source, ["R-1"], text) for source, text in pair)

    assert first == second


# What real agents have done, and what chance changes of it.


def _value(random_: random.Random) -> str:
    words = ["a", "7", "it's", "x: y, z", "record 3", "tmp/x-12/y", "\u2026", '\\"', "(b)", "is", "not"]
    return '"' + " ".join(random_.sample(words, random_.randrange(4))) + '"'


def another(text: str, random_: random.Random) -> str:
    """Return what a finding of the same fault may say another time: other values, and records elsewhere."""
    expected, mark, rest = text.partition("; behind line ")
    if mark:
        return (
            f"{expected}{mark}{random_.randrange(900)} (x) wanted {'a or b' if random_.random() < 0.5 else rest[-1:]}"
        )
    if text.startswith("expected "):
        return text
    text = re.sub(r'"(\w+Error: )?(?:[^"\\]|\\.)*"', lambda found: f'"{found[1] or ""}{_value(random_)[1:]}', text)
    return re.sub(r"(?<=record )\d+|(?<=behind line )\d+|(?<=within )\d+", lambda _: str(random_.randrange(900)), text)


def repeated(found: Json, random_: random.Random) -> Json:
    """Return a report of another run of an agent that has not changed."""
    cases = [
        {
            **case,
            "id": re.sub(r"(?<=-)[0-9a-f]{10}$", f"{random_.randrange(16**10):010x}", case["id"]),
            "seconds": random_.random(),
            "findings": [
                {**each, "text": another(each["text"], random_), "steps": [random_.randrange(99)]}
                for each in random_.sample(case["findings"], len(case["findings"]))
            ],
        }
        for case in random_.sample(found["cases"], len(found["cases"]))
    ]
    unsure = random_.choice(cases)
    if unsure["verdict"] == "FAIL":
        unsure |= {"verdict": "INCONCLUSIVE", "counts": False}
    return {**found, "cases": cases}


@pytest.mark.parametrize("repeats", [100, 1000])
def test_repeats_of_unchanged_agents_have_no_new_finding(repeats: int) -> None:
    """Reordered, with other inputs, values and records, and with one failure that did not recur every time."""
    random_ = random.Random(42)
    runs = [found for each in JUDGED.values() for found in each]
    read = [read_report(found, 1) for found in runs]
    for number in range(repeats):
        at = number % len(runs)
        result = compare([read[at]], read_report(repeated(runs[at], random_), 2))
        assert [] == result.of("new")
        assert 0 == result.exit_code


def test_runs_of_an_unchanged_agent_with_other_seeds_have_no_new_finding_in_a_scenario() -> None:
    """These are whole runs, minutes each. What a search of a minute has found may be new to another one."""
    for runs in JUDGED.values():
        for at, found in enumerate(runs):
            others = [each for number, each in enumerate(runs) if number != at]
            assert [] == [each for each in compared(*others, found).of("new") if not each.identity.is_generated]


def test_a_hundred_seeded_regressions_are_found() -> None:
    """Each finding of a real run, where the run before had everything else; and the same in a scenario that passed."""
    random_ = random.Random(7)
    seeded = 0
    for found in (each for runs in JUDGED.values() for each in runs):
        nothing = _without(found, lambda _name: True)
        for name in sorted({each.identity for each in compared(nothing, found).of("new")}):
            before = _without(found, partial(_is_alike, other=name))
            result = compared(before, repeated_surely(found, random_))
            assert name in {each.identity for each in result.of("new")}
            assert all(_is_alike(each.identity, name) for each in result.of("new"))
            moved = compared(found, repeated_surely(_moved(found, name, random_), random_)).of("new")
            assert [name.anywhere] == [each.identity.anywhere for each in moved]
            seeded += 2
    assert seeded >= REGRESSIONS


def _is_alike(name: Identity, other: Identity) -> bool:
    return name == other or (other.is_generated and name.anywhere == other.anywhere)


def _moved(found: Json, name: Identity, random_: random.Random) -> Json:
    """Return a report that has a finding also in a scenario that passed."""
    (seen, *_) = [
        each
        for case in found["cases"]
        for each in case["findings"]
        if identity(case["id"], each["source"], each["rules"], each["text"]) == name
    ]
    place = random_.choice([case["id"] for case in found["cases"] if case["verdict"] == "PASS"])
    added = {"verdict": "FAIL", "counts": True, "findings": [seen]}
    return {**found, "cases": [{**case, **added} if case["id"] == place else case for case in found["cases"]]}


def repeated_surely(found: Json, random_: random.Random) -> Json:
    """Return a report of another run in which everything recurred every time."""
    result = repeated(found, random_)
    for case in result["cases"]:
        if case["verdict"] == "INCONCLUSIVE":
            case |= {"verdict": "FAIL", "counts": True}
    return result


def _without(found: Json, is_left_out: Callable[[Any], bool]) -> Json:
    cases: list[Json] = []
    for case in found["cases"]:
        left = [
            each
            for each in case["findings"]
            if not is_left_out(identity(case["id"], each["source"], each["rules"], each["text"]))
        ]
        is_bad = any(each["level"] == "violation" for each in left)
        cases.append({**case, "findings": left, **({} if is_bad else {"verdict": "PASS", "counts": False})})
    return {**found, "cases": cases}


# The command.


def written(folder: Path, *reports: Json) -> list[str]:
    paths = [folder / f"{number}.json" for number in range(len(reports))]
    for path, each in zip(paths, reports, strict=True):
        path.write_text(json.dumps(each), encoding="utf-8")
    return [str(path) for path in paths]


def test_the_command_lists_what_is_new_first_and_exits_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = report(made.case("A/a", "FAIL", findings=(LOST,)), made.case("A/b", "PASS"))
    new = report(made.case("A/a", "FAIL", findings=(LOST,)), made.case("A/b", "FAIL", findings=(COUNTED,)))
    files = written(tmp_path, old, new)

    assert 1 == main(["compare", *files])
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "NEW    A/b I-STA-1 (R-S): record 8 counts 0 messages, the records before it report 2"
    assert second.startswith("STILL  A/a I-QUE-2 (R-Q): ")
    assert last == "agent 1 → agent 1: 1 new, 1 still there"
    assert 0 == main(["compare", files[1], files[0]])


def test_the_command_writes_json_and_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = finding("I-FRM-2", 'record 3 is no object: "``` @all <b>x</b>\\n# y | [z](http://evil.invalid)"')
    old = report(made.case("A/a", "PASS"))
    files = written(tmp_path, old, report(made.case("A/a", "FAIL", findings=(hostile,))))

    assert 1 == main(["compare", *files, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert (1, 1, "new") == (found["exit_code"], found["counts"]["new"], found["findings"][0]["status"])
    assert found == as_json(compared(*(json.loads(Path(each).read_text()) for each in files)))
    assert 1 == main(["compare", *files, "--format", "md", "-o", str(tmp_path / "out.md")])
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert f"- `A/a` `I-FRM-2`: ````{hostile['text']}````" in text.splitlines()
    assert text.startswith("### Conformance: new findings\n")


def test_every_status_is_in_the_markdown_once() -> None:
    old = report(*(made.case(f"A/{name}", "FAIL", findings=(LOST,)) for name in "abc"))
    new = report(
        made.case("A/a", "FAIL", findings=(LOST, COUNTED)), made.case("A/b", "PASS"), made.case("A/c", "NOT-RUN")
    )
    text = compared_text.markdown(compared(old, new))

    assert ["New (1)", "Still there (1)", "Fixed (1)", "Not judged again (1)"] == re.findall(
        r"[A-Z][a-z ]+ \(1\)", text
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report.json"], "needs two reports"),
        (["report.json", "none.json"], "none.json"),
        (["bad", "bad"], "not a report"),
    ],
)
def test_files_that_are_no_reports_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report.json").write_text(json.dumps(report()))
    Path("bad").write_text('{"conform": 0}')

    assert 3 == main(["compare", *words])
    assert message in capsys.readouterr().err


# Whole agents.


def judged(out: Path, *words: str, faults: str = "", seed: int = 1) -> str:
    options = ["--adapter", "none", "--only", "ERR/no-", "--only", "FRM/", "--campaign", "framing", "--time", "2s"]
    options += ["--patience", "0.3", "--seed", str(seed), "--report", "json", "--out", str(out), *words]
    assert main([*options, "--", *TINY, *faults.split()]) in (0, 1)
    return str(out / "report.json")


@pytest.fixture(scope="module")
def without_fault(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two reports of an agent without a fault."""
    folder = tmp_path_factory.mktemp("right")
    return judged(folder / "right"), judged(folder / "again", seed=3)


@pytest.mark.parametrize("fault", ["dies-of-null", "closes-stdin"])
def test_a_fault_of_a_whole_agent_is_new_and_its_repeat_with_another_seed_is_not(
    tmp_path: Path, fault: str, without_fault: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In another order, too: two cases at a time."""
    right, again = without_fault
    first = judged(tmp_path / "first", faults=fault)
    second = judged(tmp_path / "second", "--jobs", "1", faults=fault, seed=2)
    capsys.readouterr()

    assert 0 == main(["compare", right, again])
    assert 1 == main(["compare", right, first])
    assert 0 == main(["compare", second, right])
    capsys.readouterr()
    assert 0 == main(["compare", first, second]), capsys.readouterr().out
