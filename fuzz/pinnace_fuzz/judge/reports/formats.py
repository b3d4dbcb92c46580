"""Which reports there are, and where they go. A further format is one more row."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pinnace_fuzz.judge.reports import json_report as report_json
from pinnace_fuzz.judge.reports import text as report_text
from pinnace_fuzz.judge.reports.json_report import JudgedRun


def _page(run: JudgedRun) -> str:
    from pinnace_fuzz.judge.html.page import of_run

    return of_run(run)


def _sarif(run: JudgedRun) -> str:
    from pinnace_fuzz.judge.reports.sarif import text

    return text(run)


def _pull_request(run: JudgedRun) -> str:
    from pinnace_fuzz.judge.reports.pull_request import text

    return text(run)


def _badge(run: JudgedRun) -> str:
    from pinnace_fuzz.judge.requirements.badge import svg

    return svg(run.requirements or {})


def _shield(run: JudgedRun) -> str:
    from pinnace_fuzz.judge.requirements.badge import endpoint

    return endpoint(run.requirements or {})


OF_REQUIREMENTS = frozenset({"badge", "shield"})
"""Formats for runs that judge by a set of requirements."""

WRITERS: Mapping[str, tuple[str, Callable[[JudgedRun], str]]] = {
    "html": ("report.html", _page),
    "json": ("report.json", report_json.text),
    "junit": ("junit.xml", report_text.junit),
    "md": ("report.md", report_text.markdown),
    "sarif": ("report.sarif", _sarif),
    "pr": ("pull-request.md", _pull_request),
    "badge": ("badge.svg", _badge),
    "shield": ("badge.json", _shield),
}
"""Format -> file and what writes it."""


def write_reports(run: JudgedRun, out: Path, formats: Sequence[str]) -> list[Path]:
    """Write the reports that are wanted; return their files."""
    written: list[Path] = []
    for name in formats:
        file, write = WRITERS[name]
        out.mkdir(parents=True, exist_ok=True)
        (out / file).write_text(write(run), encoding="utf-8")
        written.append(out / file)
    return written
