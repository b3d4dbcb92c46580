"""What the commands that judge share: options of requirements before a run, and what is written after it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from pinnace_fuzz.judge.results import NOTHING_JUDGED_EXIT, CaseResult

NO_CAMPAIGN: Final = "none"
"""The word for a run without campaigns."""


def check_requirements(formats: tuple[str, ...], given: dict[str, Any], excluded: tuple[str, ...]) -> None:
    """Refuse options that contradict the choice of a set of requirements, before an agent is started."""
    from pinnace_fuzz.judge.reports.formats import OF_REQUIREMENTS
    from pinnace_fuzz.judge.requirements.sets import NoSuchSet, content

    if not given["requirements"]:
        for each in sorted(OF_REQUIREMENTS.intersection(formats)):
            raise click.UsageError(f"--report {each} needs --requirements: it shows what is kept of a set")
        return
    for name in excluded:
        # No campaign is what a set asks for.
        if given[name] and not (name == "campaigns" and given[name] == (NO_CAMPAIGN,)):
            option = "campaign" if name == "campaigns" else name
            raise click.UsageError(f"--requirements goes with no --{option}: a set is judged as a whole")
    try:
        content(given["requirements"])
    except NoSuchSet as error:
        raise click.UsageError(str(error)) from None


def report_run(run: Any, out: Path, formats: tuple[str, ...], former: Sequence[Any], *, is_whole: bool) -> int:
    """Write the reports of a run and return its exit code; with reports of a former state, that of the comparison."""
    from pinnace_fuzz.judge.html.reading import read_report
    from pinnace_fuzz.judge.reports import compared_text
    from pinnace_fuzz.judge.reports.closing import closing
    from pinnace_fuzz.judge.reports.comparing import compare as compared
    from pinnace_fuzz.judge.reports.formats import write_reports
    from pinnace_fuzz.judge.reports.json_report import as_json
    from pinnace_fuzz.judge.reports.text import terminal

    click.echo(terminal(run))
    if is_whole:
        _show_whole(run.cases)
    for path in write_reports(run, out, formats):
        click.echo(str(path), err=True)
    report = read_report(as_json(run), len(former) + 1)
    click.echo(f"\n{closing(report)}")
    if run.exit_code == NOTHING_JUDGED_EXIT:
        click.echo("nothing was judged, or every command was refused: no verdict on the agent", err=True)
    if former:
        comparison = compared(former, report)
        click.echo(f"\n{compared_text.text(comparison)}")
        return comparison.exit_code
    code: int = run.exit_code
    return code


def write_scripts(run: Any, adapter_: Any, folder: Path, *reader: Any) -> None:
    """Write a script for each finding of a run, and name them on standard error."""
    from pinnace_fuzz.judge.html.reading import read_report
    from pinnace_fuzz.judge.reports.json_report import as_json
    from pinnace_fuzz.judge.reports.reproducing import write_reproductions

    for path in write_reproductions(read_report(as_json(run), 1), adapter_, folder, *reader):
        click.echo(str(path / "reproduce.sh"), err=True)


def _show_whole(cases: Sequence[CaseResult]) -> None:
    from pinnace_fuzz.judge.reports.transcript import said, transcript

    for case in cases:
        click.echo(f"\n{case.verdict} {case.scenario.id} ({case.scenario.place}, {case.seconds:.2f} s)")
        for finding in case.findings:
            click.echo(f"  {finding.level} {said(finding)}")
        for line in transcript(case, is_whole=True):
            click.echo(line)
