"""Sets of requirements: frozen for good, judged tier by tier, shown by a badge."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pinnace_campaigns.requirements import made
from pinnace_fuzz.acp.schema import SCHEMAS
from pinnace_fuzz.judge.cli import main
from pinnace_fuzz.judge.confirming import not_run
from pinnace_fuzz.judge.requirements import badge
from pinnace_fuzz.judge.requirements.outcome import EXITS, Outcome, changed, outcome
from pinnace_fuzz.judge.requirements.sets import (
    TIERS,
    Requirement,
    RequirementSet,
    Tier,
    acp,
    content,
    digest,
    digest_of_scenario,
    names,
    requirement_set,
    rpc,
    tier_of,
)
from pinnace_fuzz.judge.results import CaseResult, Finding, Verdict
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_spec.observers.verdicts import Level
from pinnace_spec.profiles.generations import GENERATIONS

FROZEN = {"2026-12": "5931105ce280c23b6ef9af3f36a795d20dfccedc3b5f344467e4bc94a732c00e"}
"""The SHA-256 of the file of each set. A published set never changes: a further one is a further line."""

TINY = [sys.executable, str(Path(__file__).parent / "tiny_agent.py")]
RULEBOOK = {
    "R-A": {"level": "MUST", "origin": "seed"},
    "R-B": {"level": "SHOULD", "origin": "observed"},
    "R-C": {"level": "MUST", "origin": "ours"},
}


def test_a_frozen_set_never_changes() -> None:
    folder = files("pinnace_fuzz.judge.requirements")
    found = {each: hashlib.sha256((folder / f"{each}.json").read_bytes()).hexdigest() for each in names()}

    assert FROZEN == found


@pytest.mark.parametrize("name", FROZEN)
def test_a_set_is_whole(name: str) -> None:
    """Its hash is that of its content, and each protocol has scenarios, each of which is known and in one tier."""
    found = content(name)

    assert found["sha256"] == digest({key: value for key, value in found.items() if key != "sha256"})
    for protocol, tiers in found["protocols"].items():
        listed = [each for tier in TIERS for each in tiers[tier]]
        assert len(listed) == len(set(listed)) > 0
        assert set(listed) <= found["scenarios"][protocol.partition(" ")[0]].keys()
        assert requirement_set(name, protocol).scenarios.keys() == set(listed)


def test_the_next_set_has_every_generation_and_acp() -> None:
    found = made()
    wanted = [*map(rpc, GENERATIONS), *map(acp, SCHEMAS)]

    assert wanted == list(found["protocols"])
    assert digest({key: value for key, value in found.items() if key != "sha256"}) == found["sha256"]
    assert made() == found


def test_the_command_that_makes_a_set_leaves_one_that_is_there_as_it_is() -> None:
    words = [sys.executable, "-P", "-m", "pinnace_campaigns.requirements", names()[0]]
    made_again = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))

    assert 1 == made_again.returncode
    assert "FileExistsError" in made_again.stderr
    test_a_frozen_set_never_changes()


@pytest.mark.parametrize(
    ("rules", "tier"),
    [
        (["R-A"], "must"),
        (["I-QUE-1"], "must"),
        (["R-A", "R-B"], "should"),
        (["R-B", "R-C", "R-A"], "ours"),
        ([], "must"),
    ],
)
def test_what_rests_on_several_rules_is_of_the_weakest(rules: list[str], tier: Tier) -> None:
    assert tier == tier_of(rules, RULEBOOK)


def test_a_scenario_that_has_changed_or_is_gone_is_known() -> None:
    scenarios = {each.id: each.source for each in load()[:3]}
    first, second, third = scenarios
    required = required_of({id_: Requirement("must", digest_of_scenario(each), ()) for id_, each in scenarios.items()})
    other = {first: {**scenarios[first], "title": "Another title."}, second: {**scenarios[second], "rules": ["R-X"]}}

    assert not changed(required, scenarios)
    assert {second, third} == changed(required, other)


def required_of(scenarios: dict[str, Requirement]) -> RequirementSet:
    return RequirementSet("2000-01", "0", "rpc seed", scenarios, {})


def case(id_: str, verdict: Verdict, *findings: Finding) -> CaseResult:
    scenario = read_scenario({"id": id_, "title": "x", "rules": ["R-CMD-01"], "client": ["quiet"]})
    return not_run(scenario, "")._replace(verdict=verdict, findings=findings)


def found(source: str, *rules: str, level: Level = "violation") -> Finding:
    return Finding(source, rules, "x", level)


SET = required_of(
    {
        "AA/must": Requirement("must", "", ()),
        "AA/should": Requirement("should", "", ()),
        "AA/ours": Requirement("ours", "", ()),
    }
)
KEPT = [case("AA/must", "PASS"), case("AA/should", "INFORMATIONAL"), case("AA/ours", "PASS")]


def judged(*cases: CaseResult, expected: Sequence[str] = ()) -> Outcome:
    ids = {each.scenario.id for each in cases}
    return outcome(SET, [*(each for each in KEPT if each.scenario.id not in ids), *cases], RULEBOOK, (), expected)


@pytest.mark.parametrize(
    ("result", "tier"),
    [
        pytest.param(case("AA/must", "FAIL", found("expect", "R-A")), "must", id="a requirement"),
        pytest.param(case("AA/should", "FAIL", found("expect", "R-B")), "should", id="a recommendation"),
        pytest.param(case("AA/ours", "NON-STRICT", found("expect", "R-C", level="nonstrict")), "ours", id="ours"),
        pytest.param(case("AA/ours", "FAIL", found("expect", "R-C")), "ours", id="ours, of an agent that it binds"),
        pytest.param(
            case("AA/ours", "FAIL", found("I-QUE-1", "R-C", "R-A")), "must", id="an invariant of the protocol"
        ),
        pytest.param(case("AA/ours", "CRASH", found("crash", "R-C")), "must", id="a crash anywhere"),
        pytest.param(case("AA/must", "NON-STRICT", found("I-X", "R-A", level="nonstrict")), "should", id="SHOULD"),
    ],
)
def test_a_failure_breaks_the_gravest_tier_that_it_concerns(result: CaseResult, tier: Tier) -> None:
    kept = judged(result)

    assert {each: (result.scenario.id,) if each == tier else () for each in TIERS} == {
        each: kept.tiers[each].broken for each in TIERS
    }
    assert EXITS[tier] == kept.exit_code
    assert 3 == sum(each.scenarios for each in kept.tiers.values())


def test_each_tier_has_an_exit_code_and_the_gravest_counts() -> None:
    assert 0 == judged().exit_code
    assert 3 == len(set(EXITS.values()))
    should = case("AA/should", "FAIL", found("expect", "R-B"))
    assert EXITS["should"] == judged(should, case("AA/ours", "FAIL", found("expect", "R-C"))).exit_code


@pytest.mark.parametrize("verdict", ["NOT-RUN", "INCONCLUSIVE", "UNIMPLEMENTED"])
def test_what_was_not_judged_is_neither_kept_nor_broken(verdict: Verdict) -> None:
    tier = judged(case("AA/must", verdict)).tiers["must"]

    assert (0, (), 1) == tier
    assert (0, (), 1) == judged(case("AA/must", "FAIL", found("expect", "R-A")), expected=["AA/must"]).tiers["must"]


def run(out: Path, *words: str, faults: str = "") -> int:
    options = ["--adapter", "none", "--profile", "0.5x", "--out", str(out), "--patience", "0.5", *words]
    return main([*options, "--", *TINY, *faults.split()])


@pytest.mark.slow
def test_an_agent_is_judged_by_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--requirements", "2026-12", "--report", "json,badge,shield", "--time", "0.1s"]
    code = run(tmp_path, *words)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    requirements = report["requirements"]
    shield = json.loads((tmp_path / "badge.json").read_text(encoding="utf-8"))

    assert code == report["summary"]["exit_code"]
    assert content("2026-12")["sha256"] == requirements["sha256"]
    assert ("2026-12", "rpc 0.5x") == (requirements["set"], requirements["protocol"])
    assert len(content("2026-12")["protocols"]["rpc 0.5x"]["must"]) == requirements["tiers"]["must"]["scenarios"]
    assert "requirements 2026-12 of rpc 0.5x:" in capsys.readouterr().out
    assert {"schemaVersion", "label", "message", "color"} == shield.keys()
    assert "svg" in ElementTree.parse(tmp_path / "badge.svg").getroot().tag


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--requirements", "2026-21"], "no set of requirements is called '2026-21': there are 2026-12"),
        (["--requirements", "2026-12", "--only", "FRM/"], "--requirements goes with no --only"),
        (["--requirements", "2026-12", "--campaign", "framing"], "--requirements goes with no --campaign"),
        (["--requirements", "2026-12", "--shard", "1/2", "--seed", "1"], "--requirements goes with no --shard"),
        (["--report", "badge"], "--report badge needs --requirements"),
    ],
)
def test_a_choice_that_contradicts_a_set_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert 3 == run(tmp_path, *words)
    assert message in capsys.readouterr().err


def tiers(**kept: tuple[int, int, list[str]]) -> dict[str, Any]:
    return {
        "set": "2026-12",
        "protocol": "rpc 1.5",
        "tiers": {
            tier: dict(zip(("kept", "scenarios", "broken"), kept.get(tier, (0, 0, [])), strict=True)) for tier in TIERS
        },
    }


@pytest.mark.parametrize(
    ("requirements", "message", "colour"),
    [
        (tiers(must=(9, 9, []), ours=(0, 3, ["x"])), "must 9/9, ours 0/3", "#2e7d32"),
        (tiers(must=(9, 9, []), should=(0, 1, ["x"])), "must 9/9, should 0/1", "#9a6700"),
        (tiers(must=(8, 9, ["x"]), should=(0, 1, ["x"])), "must 8/9, should 0/1", "#b3261e"),
        (tiers(must=(0, 9, [])), "not judged", "#5f5f5f"),
    ],
)
def test_a_badge_names_the_set_and_what_is_kept(requirements: dict[str, Any], message: str, colour: str) -> None:
    drawn = ElementTree.fromstring(badge.svg(requirements))

    assert ("rpc 1.5, 2026-12", message, colour) == badge.words(requirements)
    assert f"rpc 1.5, 2026-12: {message}" == drawn.get("aria-label")
    assert ["rpc 1.5, 2026-12", message] == [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert json.loads(badge.endpoint(requirements))["message"] == message
