"""The report as JSON: what every other report, and the page, is made of. `docs/conformance.md` documents its shape."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from pinnace_fuzz.judge.reports.identity import identity
from pinnace_fuzz.judge.reports.transcript import lines_of, reproduction, transcript
from pinnace_fuzz.judge.results import CaseResult, Finding
from pinnace_spec import data

VERSION = 1
# A line of megabytes belongs into the stored case, not into the report.
MAX_LINE_CHARACTERS = 20_000


class JudgedRun(NamedTuple):
    """A whole run: what every report is about."""

    agent: Mapping[str, Any]
    kit: Mapping[str, Any]
    command: tuple[str, ...]
    cases: Sequence[CaseResult]
    campaigns: Mapping[str, Mapping[str, Any]]
    coverage: Mapping[str, Any]
    stored: Mapping[str, str]
    """Id of a case -> file."""
    baseline: Mapping[str, Sequence[str]]
    """`known`: bad cases that were expected; `stale`: expected ones that did not fail."""
    exit_code: int
    rulebook: Mapping[str, Any] | None = None
    """Id of a rule -> its level, origin and text; None: the rules of the specification."""
    location: str = ""
    """The file of the agent's repository at which code scanning shows findings; empty: none."""
    requirements: Mapping[str, Any] | None = None
    """What the agent keeps of a set of requirements; None: it was not judged by one."""

    def reproduction(self, case: CaseResult) -> str:
        """Write the commands for a shell that play a case again."""
        return reproduction(case, self.command, self.stored.get(case.scenario.id, ""), self.agent["adapter"])


def as_json(run: JudgedRun) -> dict[str, Any]:
    """Write a run."""
    rules = data.table("rules.toml") if run.rulebook is None else run.rulebook
    cited = sorted({rule for case in run.cases for finding in case.findings for rule in finding.rules})
    cited += sorted({rule for case in run.cases for rule in case.scenario.rules} - set(cited))
    return {
        "conform": VERSION,
        "agent": dict(run.agent),
        "kit": dict(run.kit),
        "summary": {
            "exit_code": run.exit_code,
            "verdicts": dict(Counter(case.verdict for case in run.cases)),
            "shutdown": dict(Counter(case.shutdown for case in run.cases)),
            "campaigns": {name: dict(value) for name, value in run.campaigns.items()},
            "baseline": {name: list(value) for name, value in run.baseline.items()},
        },
        **({} if run.requirements is None else {"requirements": dict(run.requirements)}),
        "cases": [_case(case, run) for case in run.cases],
        "coverage": dict(run.coverage),
        "rules": {
            rule: _rule(cast("Mapping[str, Any]", rules[rule])) for rule in dict.fromkeys(cited) if rule in rules
        },
    }


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {name: rule[name] for name in ("level", "origin", "text") if name in rule}


def _case(case: CaseResult, run: JudgedRun) -> dict[str, Any]:
    scenario = case.scenario
    is_interesting = case.verdict not in ("PASS", "NOT-RUN")
    return {
        "id": scenario.id,
        "title": scenario.title,
        "kind": case.kind,
        "place": scenario.place,
        "rules": list(scenario.rules),
        "verdict": case.verdict,
        "counts": case.is_bad,
        "not_scored": scenario.not_scored,
        "why": case.why,
        "shutdown": {"verdict": case.shutdown, "text": case.shutdown_text},
        "seconds": round(case.seconds, 3),
        "reproduced": list(case.reproduced),
        "cells": [{"state": cell.state, "command": cell.command} for cell in case.cells],
        "findings": [_finding(each, scenario.id) for each in case.findings],
        "scenario": scenario.source if is_interesting else {},
        "processes": [
            {
                "end": {
                    "how": log.end.how,
                    "code": log.end.code,
                    "seconds": round(log.end.seconds, 3),
                    "stderr": log.end.stderr[-2000:],
                },
                "marks": [{"after": at, "name": name} for at, name in log.marks],
                "script_end": log.script_end,
                "steps": [_line(line) for line in lines_of(log)],
            }
            for log in (case.logs if is_interesting else ())
        ],
        "transcript": transcript(case) if is_interesting else [],
        "reproduction": run.reproduction(case) if is_interesting else "",
        "stored": run.stored.get(scenario.id, ""),
    }


def _line(line: Mapping[str, Any]) -> dict[str, Any]:
    text = str(line["line"])
    if len(text) > MAX_LINE_CHARACTERS:
        return {**line, "line": text[:MAX_LINE_CHARACTERS], "characters": len(text)}
    return dict(line)


def _finding(finding: Finding, case: str) -> dict[str, Any]:
    return {
        "identity": identity(case, finding.source, finding.rules, finding.text).digest,
        "source": finding.source,
        "rules": list(finding.rules),
        "level": finding.level,
        "text": finding.text,
        "process": finding.process,
        "steps": list(finding.steps),
    }


def text(run: JudgedRun) -> str:
    """Write a run as text; lone surrogates, which represent bytes that are not UTF-8, are escaped."""
    return json.dumps(as_json(run), ensure_ascii=True, indent=1) + "\n"
