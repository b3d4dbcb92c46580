"""The report as SARIF 2.1.0 (OASIS, errata 01), for code scanning: a result for each finding, a rule for each rule.

A violation of a requirement is an error, one of a recommendation a warning, and what only this project asks for a note.
Results of different runs are the same alert by the finding's identity. The judge knows no source of the agent: a result
is at the scenario (a logical location), and at a file only if the user names one. Texts of agents contain no links.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from pinnace_fuzz.judge.html.reading import AgentReport, amount, inner, read_report, whole, word
from pinnace_fuzz.judge.reports.found import ORIGINS, Found, findings
from pinnace_fuzz.judge.reports.json_report import JudgedRun, as_json
from pinnace_fuzz.judge.results import HARNESS_EXIT
from pinnace_spec.printable import printable_lines

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT: Final = "conformIdentity/v1"

# GitHub's code scanning reads no other fingerprint, and would make this one of the line, which all results share.
_LINE_FINGERPRINT: Final = "primaryLocationLineHash"
_LEVELS: Final[Mapping[str, str]] = {"must": "error", "should": "warning", "ours": "note"}


def text(run: JudgedRun) -> str:
    """Write a run."""
    return json.dumps(log(read_report(as_json(run), 1), run.location), ensure_ascii=True, indent=1) + "\n"


def log(report: AgentReport, location: str = "") -> dict[str, Any]:
    """Return the log of one run.

    Args:
        report: The report.
        location: A file of the agent's repository, relative to its root, at which results are shown; empty: none.
    """
    found = findings(report)
    rules = list({each.rule: each for each in reversed(found)}.values())[::-1]
    places = {each.rule: at for at, each in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "pinnace-conform",
                        "version": word(report.kit, "version").rpartition(" ")[2] or "0",
                        "rules": [_rule(each) for each in rules],
                    }
                },
                "automationDetails": {"id": f"conformance/{_plain(report.name)}/{word(report.agent, 'generation')}/"},
                "invocations": [_invocation(report)],
                "results": [_result(each, places[each.rule], location) for each in found],
                "properties": {
                    "agent": _plain(f"{report.name} {report.version}".strip()),
                    "seed": whole(report.kit, "seed") or 0,
                    "seconds": amount(report.kit, "seconds"),
                },
            }
        ],
    }


def _invocation(report: AgentReport) -> dict[str, Any]:
    code = whole(report.summary, "exit_code") or 0
    faults = [
        word(inner(inner(report.summary, "campaigns"), name), "fault") for name in inner(report.summary, "campaigns")
    ]
    return {
        "executionSuccessful": code != HARNESS_EXIT,
        "exitCode": code,
        "toolExecutionNotifications": [
            {"level": "error", "message": {"text": _plain(each)}} for each in faults if each
        ],
    }


def _rule(found: Found) -> dict[str, Any]:
    cited = found.cited
    sentence = cited.text if cited is not None else f"The invariant {found.rule} of the specification holds."
    origin = ORIGINS.get(cited.origin, cited.origin) if cited is not None else "the specification of this project"
    level = cited.level if cited is not None else "MUST"
    help_text = f"{found.rule} ({level}): {sentence} Source: {origin}."
    return {
        "id": found.rule,
        "shortDescription": {"text": _first_sentence(sentence)},
        "fullDescription": {"text": sentence},
        "help": {"text": help_text, "markdown": f"**{found.rule}** ({level}): {sentence}\n\nSource: {origin}."},
        "defaultConfiguration": {"level": "error" if level == "MUST" else "warning"},
        "properties": {"tags": ["conformance", found.rule.rpartition("-")[0] or found.rule], "precision": "very-high"},
    }


def _first_sentence(text: str) -> str:
    return f"{text.partition('. ')[0].rstrip('.')}."


def _result(found: Found, place: int, location: str) -> dict[str, Any]:
    case, finding = found.case, found.finding
    at: dict[str, Any] = {"logicalLocations": [{"name": case.id, "fullyQualifiedName": case.id}]}
    if location:
        at["physicalLocation"] = {
            "artifactLocation": {"uri": quote(location), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 1},
        }
    return {
        "ruleId": found.rule,
        "ruleIndex": place,
        "level": _LEVELS[found.tier],
        "message": {"text": _plain(f"{case.id}: {finding.source}: {finding.text}")},
        "locations": [at],
        "partialFingerprints": {
            FINGERPRINT: found.identity.digest,
            _LINE_FINGERPRINT: f"{found.identity.digest[:16]}:1",
        },
        "occurrenceCount": found.occurrences,
        "properties": {
            "title": _plain(case.title),
            "verdict": case.verdict,
            "tier": found.tier,
            "rules": list(finding.rules),
            "confirmed": list(case.reproduced),
            "reproduction": _plain(case.reproduction),
        },
    }


def _plain(text: str) -> str:
    """Return a text as a message may have it: `[words](target)` would be a link."""
    return printable_lines(text).replace("](", "] (")
