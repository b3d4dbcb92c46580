"""Reports for people without a browser: the tree on the terminal, Markdown, JUnit."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as Xml

from pinnace_fuzz.judge.reports.json_report import JudgedRun
from pinnace_fuzz.judge.reports.transcript import said, transcript
from pinnace_fuzz.judge.results import BAD, ORDER, CaseResult

_QUIET = frozenset({"PASS", "NOT-RUN", "INFORMATIONAL"})
# XML knows no control characters, not even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def summary(run: JudgedRun) -> str:
    """Say in one line how it went."""
    counts = Counter(case.verdict for case in run.cases)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in reversed(ORDER) if counts[verdict])
    examples = sum(int(each.get("examples", 0)) for each in run.campaigns.values())
    return f"{words or 'nothing run'}; {examples} generated sequences"


def terminal(run: JudgedRun) -> str:
    """Write the tree: areas, cases that are not simply good, and a minimal transcript under each."""
    lines: list[str] = []
    areas: dict[str, list[CaseResult]] = defaultdict(list)
    for case in run.cases:
        areas[case.scenario.id.partition("/")[0]].append(case)
    for area, cases in sorted(areas.items()):
        counts = Counter(case.verdict for case in cases)
        lines.append(f"{area}  {'  '.join(f'{counts[each]} {each}' for each in reversed(ORDER) if counts[each])}")
        for case in sorted(cases, key=lambda case: ORDER.index(case.verdict)):
            if case.verdict not in _QUIET:
                lines += _case(case, run)
    lines.append("")
    if run.coverage:
        lines.append(_coverage(run.coverage))
    lines += [
        f"{run.agent.get('name', 'agent')}, generation {run.agent.get('generation')}, seed {run.kit.get('seed')}",
        summary(run),
    ]
    return "\n".join(lines)


def _coverage(cover: Mapping[str, Any]) -> str:
    return (
        f"cells {cover.get('cells_reached', 0)} of {cover.get('cells_all', 0)};"
        f" never written: {', '.join(cover.get('records_never', [])) or 'none'};"
        f" never armed: {', '.join(name for name, n in cover.get('armed', {}).items() if not n) or 'none'}"
    )


def _case(case: CaseResult, run: JudgedRun) -> Iterable[str]:
    again = f", came again in {case.reproduced[0]} of {case.reproduced[1]}" if case.reproduced[1] else ""
    yield f"  {case.verdict} {case.scenario.id}: {case.scenario.title} [{case.shutdown}{again}]"
    if case.why:
        yield f"      {case.why}"
    level = "violation" if case.verdict in BAD else None
    for finding in case.findings:
        if level is None or finding.level == level:
            yield f"      {said(finding)}"
    if case.verdict in BAD:
        yield from (f"    {line}" for line in transcript(case))
        yield from (f"      $ {line}" for line in run.reproduction(case).splitlines())


def markdown(run: JudgedRun) -> str:
    """Write a page."""
    lines = [
        f"# {run.agent.get('name', 'agent')}: conformance",
        "",
        f"Generation {run.agent.get('generation')}, adapter {run.agent.get('adapter')}, seed {run.kit.get('seed')}.",
        f"{summary(run)}.",
        "",
        "| Area | " + " | ".join(ORDER[::-1]) + " |",
        "|---|" + "---|" * len(ORDER),
    ]
    areas: dict[str, Counter[str]] = defaultdict(Counter)
    for case in run.cases:
        areas[case.scenario.id.partition("/")[0]][case.verdict] += 1
    lines += [
        f"| {area} | {' | '.join(str(counts[each] or '') for each in reversed(ORDER))} |"
        for area, counts in sorted(areas.items())
    ]
    for verdict in ORDER:
        cases = [case for case in run.cases if case.verdict == verdict and verdict not in _QUIET]
        if cases:
            lines += ["", f"## {verdict}"]
        for case in cases:
            lines += ["", f"### `{case.scenario.id}`", "", case.scenario.title, ""]
            lines += [f"- {said(each)}" for each in case.findings] or [f"- {case.why}"]
            lines += [
                "",
                "```",
                *transcript(case),
                "```",
                "",
                "```sh",
                run.reproduction(case),
                "```",
            ]
    return "\n".join(lines) + "\n"


def junit(run: JudgedRun) -> str:
    """Write JUnit's XML: a suite for each area, a case for each case."""
    root = Xml.Element("testsuites", name="pinnace-conform")
    suites: dict[str, Xml.Element] = {}
    for case in run.cases:
        area, _, name = case.scenario.id.partition("/")
        suite = suites.get(area)
        if suite is None:
            suite = suites[area] = Xml.SubElement(root, "testsuite", name=area)
        element = Xml.SubElement(suite, "testcase", classname=area, name=name, time=f"{case.seconds:.3f}")
        if case.is_bad:
            failure = Xml.SubElement(element, "failure", type=case.verdict, message=_xml(_first(case)))
            failure.text = _xml("\n".join([*(said(each) for each in case.findings), *transcript(case)]))
        elif case.verdict in ("NOT-RUN", "UNIMPLEMENTED", "INCONCLUSIVE"):
            Xml.SubElement(element, "skipped", message=_xml(f"{case.verdict}: {case.why}"))
        elif case.findings:
            Xml.SubElement(element, "system-out").text = _xml("\n".join(said(each) for each in case.findings))
    for suite in suites.values():
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _first(case: CaseResult) -> str:
    return said(case.findings[0]) if case.findings else case.why


def _xml(text: str) -> str:
    return _NO_XML.sub("�", text)
