"""The judge of agents of the Agent Client Protocol: each rule is broken by an agent, and named.

The agent is a stranger in one file; it reads the model's address from the environment.
"""

import dataclasses
import json
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from pinnace_fuzz.acp import observer, observer_v2
from pinnace_fuzz.acp.agent import LINE_RULE, SCHEMA_RULE
from pinnace_fuzz.acp.playing import AcpKit, play
from pinnace_fuzz.acp.reading import load, read_file
from pinnace_fuzz.acp.rules import rules
from pinnace_fuzz.acp.scenario import NEEDS, AcpScenario
from pinnace_fuzz.judge.adapter_names import adapter
from pinnace_fuzz.judge.cli import main
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.results import NOTHING_JUDGED_EXIT, CaseResult
from pinnace_fuzz.judge.scenarios.files import ScenarioError

TINY = (sys.executable, "-I", str(Path(__file__).parent / "tiny_acp_agent.py"))
TINY2 = (sys.executable, "-I", str(Path(__file__).parent / "tiny_acp_agent_v2.py"))
SCENARIOS = {scenario.id: scenario for scenario in load()}
FAULTS = {
    "chatty": ("R-ACP-01", "LIN/a-greeting"),
    "no-schema": ("R-ACP-02", "SES/its-name-before-its-updates"),
    "answers-twice": ("R-ACP-03", "PRM/an-answer"),
    "silent-about-no-json": ("R-ACP-04", "LIN/words"),
    "another-code-for-no-request": ("R-ACP-05", "LIN/null"),
    "knows-everything": ("R-ACP-06", "LIN/an-unknown-method"),
    "another-code-for-parameters": ("R-ACP-07", "LIN/a-session-without-a-folder"),
    "any-version": ("R-ACP-08", "LIN/a-version-that-does-not-exist"),
    "begins-early": ("R-ACP-09", "LIN/before-initialize"),
    "updates-first": ("R-ACP-10", "SES/its-name-before-its-updates"),
    "any-session": ("R-ACP-11", "SES/an-unknown-session"),
    "another-code": ("R-ACP-12", "SES/an-unknown-session"),
    "any-folder": ("R-ACP-13", "SES/a-relative-folder"),
    "late-text": ("R-ACP-14", "PRM/an-answer"),
    "unannounced": ("R-ACP-15", "PRM/equal-call-ids"),
    "goes-back": ("R-ACP-16", "PRM/a-tool-call"),
    "open-calls": ("R-ACP-17", "CAN/a-tool"),
    "one-message-id": ("R-ACP-18", "PRM/two-messages"),
    "cancelled-as-ended": ("R-ACP-19", "CAN/a-silent-model"),
    "slow-to-cancel": ("R-ACP-20", "CAN/a-silent-model"),
    "keeps-a-cancel": ("R-ACP-21", "CAN/nothing"),
    "one-prompt-alone": ("R-ACP-22", "PRM/one-after-the-other"),
    "no-replay": ("R-ACP-23", "SES/load"),
    "other-ids": ("R-ACP-24", "SES/load"),
    "resumes-with-history": ("R-ACP-25", "SES/resume"),
    "lists-nothing": ("R-ACP-26", "SES/list"),
    "closes-nothing": ("R-ACP-27", "SES/close"),
    "deletes-nothing": ("R-ACP-28", "SES/delete"),
    "stays": ("R-ACP-29", "END/while-the-model-is-silent"),
    "asks-for-files": ("R-ACP-30", "PRM/nothing-that-was-not-offered"),
    "one-session-at-a-time": ("R-ACP-31", "SES/a-new-one-while-another-runs"),
    "hides-errors": ("R-ACP-32", "PRM/a-failed-request"),
    "hides-the-limit": ("R-ACP-33", "PRM/the-limit-of-output"),
    "keeps-the-refused": ("R-ACP-34", "PRM/a-refusal"),
    "no-options": ("R-ACP-35", "SES/options"),
    "drops-links": ("R-ACP-36", "PRM/a-link"),
    "greets": ("R-ACP-37", "SES/its-name-before-its-updates"),
    "reads-the-disk": ("R-ACP-38", "FIL/an-unsaved-text"),
    "writes-anyway": ("R-ACP-39", "FIL/a-refused-write"),
    "relative-paths": ("R-ACP-40", "FIL/an-unsaved-text"),
    "assumes-consent": ("R-ACP-41", "FRM/declined"),
    "keeps-its-form": ("R-ACP-42", "FRM/cancelled"),
    "asks-another-server": ("R-ACP-88", "MCP/a-tool"),
    "asks-servers-by-one-id": ("R-ACP-88", "MCP/two-servers"),
    "hides-answers-of-servers": ("R-ACP-89", "MCP/a-tool"),
    "keeps-asking-servers": ("R-ACP-90", "MCP/a-cancelled-call"),
    "needs-every-server": ("R-ACP-91", "MCP/a-server-that-is-not-served"),
    "saves-at-its-end": ("R-ACP-43", "KIL/after-a-turn"),
    "stays-locked": ("R-ACP-44", "KIL/in-a-tool"),
    "shows-all-sub-agents": ("R-ACP-70", "SUB/not-offered"),
    "names-late": ("R-ACP-71", "SUB/a-session-of-its-own"),
    "works-on": ("R-ACP-72", "SUB/a-session-of-its-own"),
    "cancels-no-sub-agent": ("R-ACP-73", "SUB/cancelled-alone"),
    "opens-sub-agents": ("R-ACP-74", "SUB/a-session-of-its-own"),
    "forks-into-itself": ("R-ACP-75", "SES/fork"),
    "keeps-its-title": ("R-ACP-76", "SES/title"),
    "always-open": ("R-ACP-77", "SES/status"),
    "asks-for-a-login": ("R-ACP-78", "SES/auth-status"),
    "ignores-system-prompts": ("R-ACP-99", "SES/system-prompt"),
    "repeats-its-status": ("R-ACP-98", "SES/auth-status"),
    "forgets-messages": ("R-ACP-79", "SUB/given-a-message"),
    "logs-in-anyhow": ("R-ACP-80", "AUT/a-method-that-was-not-offered"),
    "hides-failed-logins": ("R-ACP-81", "AUT/no-server"),
    "leaves-its-code-open": ("R-ACP-82", "AUT/cancelled"),
    "needs-one-login": ("R-ACP-83", "AUT/a-session-needs-a-login-again"),
    "needs-no-login": ("R-ACP-92", "AUT/a-logout-without-a-login"),
    "shows-its-first-address": ("R-ACP-93", "PRO/listed"),
    "sets-any-provider": ("R-ACP-94", "PRO/set-an-unknown-provider"),
    "keeps-its-headers": ("R-ACP-95", "PRO/routed"),
    "lists-the-disabled": ("R-ACP-96", "PRO/disabled"),
    "disables-what-it-knows": ("R-ACP-97", "PRO/disabled"),
    "keeps-its-status": ("R-ACP-84", "AUT/in-and-out"),
    "offers-all-logins": ("R-ACP-85", "AUT/the-methods-offered"),
    "lists-the-archived": ("R-ACP-86", "SES/archive"),
    "knows-every-filter": ("R-ACP-87", "SES/archive-again"),
}
"""A fault of the tiny agent of version 1 -> the rule that it breaks, and the scenario that must show it."""
FAULTS_V2 = {
    "answers-twice": ("R-ACP-03", "LIN2/a-greeting"),
    "any-version": ("R-ACP-100", "LIN2/a-version-that-does-not-exist-yet"),
    "takes-old-versions": ("R-ACP-101", "LIN2/a-version-before-all"),
    "knows-everything": ("R-ACP-06", "LIN2/an-unknown-method"),
    "begins-early": ("R-ACP-09", "LIN2/before-initialize"),
    "logs-in-anyhow": ("R-ACP-80", "AUT2/an-unknown-method"),
    "has-no-login": ("R-ACP-129", "AUT2/both-methods"),
    "offers-terminals": ("R-ACP-130", "AUT2/no-terminal"),
    "echoes-nothing": ("R-ACP-102", "PRM2/its-message-is-shown"),
    "one-message-id": ("R-ACP-103", "PRM2/running-and-idle"),
    "never-runs": ("R-ACP-104", "PRM2/running-and-idle"),
    "says-it-twice": ("R-ACP-105", "PRM2/an-answer"),
    "gives-no-reason": ("R-ACP-106", "PRM2/an-answer"),
    "late-text": ("R-ACP-107", "PRM2/an-answer"),
    "drops-links": ("R-ACP-36", "PRM2/a-link"),
    "open-calls": ("R-ACP-108", "PRM2/a-tool-call"),
    "open-terminals": ("R-ACP-108", "CAN2/a-tool"),
    "goes-back": ("R-ACP-109", "PRM2/a-tool-call"),
    "untitled": ("R-ACP-110", "PRM2/a-tool-call"),
    "hides-the-limit": ("R-ACP-33", "PRM2/the-limit-of-output"),
    "hides-errors": ("R-ACP-128", "PRM2/a-failed-request"),
    "one-prompt-alone": ("R-ACP-22", "PRM2/one-after-the-other"),
    "asks-for-forms": ("R-ACP-30", "PRM2/nothing-that-was-not-offered"),
    "waits-for-ever": ("R-ACP-111", "PRM2/a-permission"),
    "waits-in-silence": ("R-ACP-112", "PRM2/a-permission-that-is-not-given"),
    "cancelled-as-ended": ("R-ACP-113", "CAN2/a-silent-model"),
    "slow-to-cancel": ("R-ACP-114", "CAN2/a-silent-model"),
    "keeps-a-cancel": ("R-ACP-21", "CAN2/nothing"),
    "accepts-what-is-cancelled": ("R-ACP-115", "CAN2/all-that-wait"),
    "cancels-nothing": ("R-ACP-116", "CAN2/one-call"),
    "cancels-anything": ("R-ACP-118", "CAN2/one-terminal"),
    "open-terminals-of-one": ("R-ACP-117", "CAN2/one-terminal"),
    "stays": ("R-ACP-29", "END2/while-the-model-is-silent"),
    "assumes-consent": ("R-ACP-41", "FRM2/declined"),
    "keeps-its-form": ("R-ACP-42", "FRM2/cancelled"),
    "names-no-session": ("R-ACP-127", "SES2/an-unknown-session"),
    "any-folder": ("R-ACP-13", "SES2/a-relative-folder"),
    "updates-first": ("R-ACP-10", "SES2/its-name-before-its-updates"),
    "one-session-at-a-time": ("R-ACP-31", "SES2/two-do-not-wait"),
    "lists-nothing": ("R-ACP-26", "SES2/list"),
    "no-replay": ("R-ACP-120", "SES2/resume-from-the-start"),
    "other-ids": ("R-ACP-121", "SES2/an-accepted-prompt-that-had-no-answer"),
    "resumes-without-a-state": ("R-ACP-119", "SES2/resume"),
    "resumes-with-history": ("R-ACP-122", "SES2/resume"),
    "replays-from-anywhere": ("R-ACP-123", "SES2/resume-from-elsewhere"),
    "closes-first": ("R-ACP-124", "SES2/close"),
    "closes-nothing": ("R-ACP-27", "SES2/close"),
    "speaks-of-the-closed": ("R-ACP-125", "SES2/close"),
    "closes-no-twice": ("R-ACP-126", "SES2/close-an-unknown-session"),
    "deletes-nothing": ("R-ACP-28", "SES2/delete"),
    "no-options": ("R-ACP-35", "SES2/options"),
    "lists-the-archived": ("R-ACP-86", "SES2/archive"),
    "knows-every-filter": ("R-ACP-87", "SES2/archive-again"),
    "forgets-the-background": ("R-ACP-131", "SES2/work-in-the-background"),
    "asks-another-server": ("R-ACP-88", "MCP2/a-tool"),
    "asks-servers-by-one-id": ("R-ACP-88", "MCP2/two-servers"),
    "hides-answers-of-servers": ("R-ACP-89", "MCP2/a-tool"),
    "keeps-asking-servers": ("R-ACP-90", "MCP2/a-cancelled-call"),
    "needs-every-server": ("R-ACP-91", "MCP2/a-server-that-is-not-served"),
    "keeps-its-headers": ("R-ACP-95", "PRO2/routed"),
    "lists-the-disabled": ("R-ACP-96", "PRO2/disabled"),
    "saves-at-its-end": ("R-ACP-43", "KIL2/after-a-turn"),
    "stays-locked": ("R-ACP-44", "KIL2/in-a-tool"),
    "accepts-before-it-saves": ("R-ACP-132", "KIL2/while-the-model-is-silent"),
}
"""Likewise of the tiny agent of version 2."""
AGENTS = {1: (TINY, FAULTS), 2: (TINY2, FAULTS_V2)}


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[AcpKit]:
    with LoadMeter() as meter:
        used = adapter("env")
        yield AcpKit((), used, dict.fromkeys(AGENTS, frozenset(NEEDS) - {"pinnace"}), tmp_path, meter, binds_ours=True)


def played(scenario: AcpScenario, kit: AcpKit, fault: str = "") -> CaseResult:
    agent, _ = AGENTS[scenario.version]
    command = (*agent, fault) if fault else agent
    return play(scenario, kit._replace(command=command), kit.root / f"{fault}-{scenario.id.replace('/', '-')}")


def broken(result: CaseResult) -> set[str]:
    return {rule for finding in result.findings for rule in finding.rules}


@pytest.mark.slow
@pytest.mark.parametrize("version", AGENTS)
def test_an_agent_without_fault_breaks_no_rule(kit: AcpKit, version: int) -> None:
    scenarios = [each for each in SCENARIOS.values() if each.version == version and "pinnace" not in each.needs]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(partial(played, kit=kit), scenarios))

    # A deadline on a machine that others use proves nothing.
    certain = [(each.scenario.id, found) for each in results for found in each.findings if found.source != "deadline"]
    assert [] == certain


@pytest.mark.slow
@pytest.mark.parametrize("version", AGENTS)
def test_each_rule_is_found_broken_by_an_agent_that_breaks_it(kit: AcpKit, version: int) -> None:
    hasty = kit._replace(patience=0.25)
    _, faults = AGENTS[version]

    def found(fault: str) -> set[str]:
        return broken(played(SCENARIOS[faults[fault][1]], hasty, fault))

    with ThreadPoolExecutor(3) as pool:
        results = dict(zip(faults, pool.map(found, faults), strict=True))

    assert {} == {fault: rules for fault, rules in results.items() if faults[fault][0] not in rules}


def test_each_rule_is_broken_by_a_tiny_agent() -> None:
    assert set(rules()) == {rule for _, faults in AGENTS.values() for rule, _ in faults.values()}


def test_each_rule_has_a_witness() -> None:
    cited = {rule for scenario in SCENARIOS.values() for rule in scenario.cited}

    assert set(rules()) == cited | {*observer.RULES, *observer_v2.RULES, LINE_RULE, SCHEMA_RULE}


def test_rules_of_this_project_bind_others_only_if_strict(kit: AcpKit) -> None:
    scenario = SCENARIOS["SES/a-relative-folder"]

    assert "FAIL" == played(scenario, kit, "any-folder").verdict
    assert "NON-STRICT" == played(scenario, kit._replace(binds_ours=False, root=kit.root / "b"), "any-folder").verdict


def test_a_step_that_fails_since_the_script_has_no_answer_left_accuses_no_agent_of_others(kit: AcpKit) -> None:
    scenario = dataclasses.replace(SCENARIOS["PRM/an-answer"], llm=())

    assert "FAIL" == played(scenario, kit).verdict
    result = played(scenario, kit._replace(binds_ours=False, root=kit.root / "b"))
    assert "NON-STRICT" == result.verdict
    assert "more often than the script has answers for" in result.findings[0].text


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("{wait: x}", "x.yaml:5: scenarios.0.client.0: expected a step: initialize, "),
        ("{quiet_ms: soon}", "x.yaml:5: scenarios.0.client.0.quiet_ms: expected a number, not 'soon'"),
        ("{result: {of: a, rules: R-ACP-199}}", "x.yaml:5: scenarios.0.client.0.result.rules: there is no rule"),
        ("{send: {as: a}}", "x.yaml:5: scenarios.0.client.0.send.0.method: is needed"),
    ],
)
def test_an_invalid_scenario_is_refused_with_its_line(tmp_path: Path, step: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"scenarios:\n  - id: ABC/x\n    title: X\n    rules: R-ACP-01\n    client: [{step}]\n")

    with pytest.raises(ScenarioError) as error:
        read_file(path)
    assert str(error.value).startswith(message)


def test_no_scenario_begins_after_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["acp", "--adapter", "none", "--only", "LIN/", "--time", "0s", "--out", str(tmp_path), "--", *TINY])

    assert code == 0  # no limit
    options = ["--time", "0.001s", "--report", "json", "--out", str(tmp_path)]
    assert main(["acp", "--adapter", "none", "--only", "LIN/", *options, "--", *TINY]) == NOTHING_JUDGED_EXIT
    cases = json.loads((tmp_path / "report.json").read_text())["cases"]
    assert "the time was over" in {case["why"] for case in cases}
    capsys.readouterr()


def test_the_command_line_judges_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["acp", "--adapter", "none", "--only", "LIN/a-number", "--only", "SES/list", "--out", str(tmp_path)]
    tiny = [*TINY]

    assert 0 == main([*options, "--", *tiny])
    out = capsys.readouterr().out
    assert "1 PASS" in out
    assert "1 NOT-RUN" in out

    fault = "another-code-for-no-request"
    assert 1 == main([*options, "--report", "json,junit,html,md", "--", *tiny, fault])
    out = capsys.readouterr().out
    assert "step (R-ACP-05): step 3: the line: code is -32603, not -32600" in out
    assert f"pinnace-conform acp --adapter none --only LIN/a-number -- {shlex.join(tiny)} {fault}" in out
    report = json.loads((tmp_path / "report.json").read_text())
    assert ["LIN/a-number"] == [case["id"] for case in report["cases"] if case["counts"]]
    assert report["rules"]["R-ACP-05"]["origin"] == "JSON-RPC"
    assert "R-ACP-05" in (tmp_path / "report.html").read_text()

    assert 3 == main(["acp", "--only", "NOSUCH/", "--", *tiny])
    assert 3 == main(["acp", "--adapter", "attach", "--", *tiny])
    assert 4 == main(["acp", "--adapter", "none", "--", "true"])


def test_an_agent_of_one_version_is_judged_by_that_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["acp", "--adapter", "none", "--only", "LIN2/a-greeting", "--only", "LIN/a-greeting"]
    options += ["--out", str(tmp_path), "--report", "json"]

    assert 0 == main([*options, "--", *TINY2])
    assert 0 == main([*options, "--", *TINY])
    report = json.loads((tmp_path / "report.json").read_text())
    assert ("ACP v1", ["LIN/a-greeting"]) == (
        report["agent"]["generation"],
        [case["id"] for case in report["cases"] if case["verdict"] == "PASS"],
    )
    assert "of version 2, which it does not speak" in capsys.readouterr().err
    assert 0 == main(["acp", "--adapter", "none", "--protocol-version", "2", "--dryrun", "--", *TINY2])
    assert "LIN/" not in capsys.readouterr().out


@pytest.mark.parametrize(("agent", "protocol"), [(TINY, "acp v1"), (TINY2, "acp v2")])
def test_a_set_of_requirements_is_that_of_the_newest_version_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: tuple[str, ...], protocol: str
) -> None:
    monkeypatch.setattr("pinnace_fuzz.acp.conduct.play_all", lambda cases, *rest, **more: [])
    main(
        [
            "acp",
            "--adapter",
            "none",
            "--requirements",
            "2026-12",
            "--out",
            str(tmp_path),
            "--report",
            "json",
            "--",
            *agent,
        ]
    )
    report = json.loads((tmp_path / "report.json").read_text())

    assert (protocol, protocol.upper().replace("V", "v")) == (
        report["requirements"]["protocol"],
        report["agent"]["generation"],
    )
