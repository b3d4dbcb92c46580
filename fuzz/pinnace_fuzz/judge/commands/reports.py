"""The commands that start no agent: they show scenarios and sets, observe traces, and work on JSON reports."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pinnace_fuzz.judge.scenarios.files import load
from pinnace_spec.profiles.generations import GENERATIONS


def read_reports(paths: Sequence[Path]) -> list[Any]:
    """Read JSON reports; a file that is none is a usage error."""
    from pinnace_fuzz.judge.html.reading import NotAReport, read_file, read_report

    try:
        return [read_report(read_file(path), number) for number, path in enumerate(paths, 1)]
    except (NotAReport, OSError) as error:
        raise click.UsageError(str(error)) from None


def verdicts_text(report: dict[str, Any]) -> str:
    """Say how many cases of a JSON report have each verdict."""
    return " ".join(f"{name} {count}" for name, count in sorted(report["summary"]["verdicts"].items()))


@click.command("requirements")
def list_requirements() -> int:
    """Show every set of requirements: its hash, and how many scenarios each tier of each protocol has."""
    from pinnace_fuzz.judge.requirements.sets import TIERS, content, names

    for name in names():
        found = content(name)
        click.echo(f"{name}  sha256:{found['sha256']}")
        for protocol, tiers in found["protocols"].items():
            click.echo(f"  {protocol:<9} {'  '.join(f'{tier} {len(tiers[tier])}' for tier in TIERS)}")
    return 0


@click.command("list")
@click.option("--only", multiple=True, metavar="PREFIX")
def list_scenarios(only: tuple[str, ...]) -> int:
    """Show every scenario."""
    found = [scenario for scenario in load() if not only or scenario.id.startswith(only)]
    if not found:
        raise click.UsageError(f"no scenario begins with {' or '.join(only)}")
    for scenario in found:
        click.echo(f"{scenario.id:<50} {scenario.title}  ({', '.join(scenario.rules)})")
    return 0


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--follow", is_flag=True, help="Wait for more, as a log grows.")
@click.option("--profile", type=click.Choice(["auto", *GENERATIONS]), default="auto", show_default=True)
@click.option("--ours", is_flag=True, help="Hold it to the rules of this project's own, too.")
@click.option(
    "--itf", type=click.Path(path_type=Path, dir_okay=False), help="Write it for tools of TLA+ and Quint, too."
)
def observe(file: Path, follow: bool, profile: str, ours: bool, itf: Path | None) -> int:
    """Judge a recorded trace, also in ITF, a transcript, or a log of records, also from production."""
    from pinnace_fuzz.judge.logs import observe_file

    if follow and itf is not None:
        raise click.UsageError("--itf goes with no --follow: a run in ITF has its end")
    return observe_file(file, profile, is_following=follow, is_ours=ours, log=click.echo, itf=itf)


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="[NAME=]REPORT.json…")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("page.html"), show_default=True)
def page(reports: tuple[str, ...], output: Path) -> int:
    """Make one page of the JSON reports of one or several agents."""
    from pinnace_fuzz.judge.html.page import of_files
    from pinnace_fuzz.judge.html.reading import NotAReport

    try:
        output.write_text(of_files(reports), encoding="utf-8")
    except (NotAReport, OSError) as error:
        raise click.UsageError(str(error)) from None
    return 0


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT.json…", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("report.json"), show_default=True)
def merge(reports: tuple[Path, ...], output: Path) -> int:
    """Make the report of a run of the JSON reports of all of its shards; exit as that run would."""
    from pinnace_fuzz.judge.reports.json_report import VERSION
    from pinnace_fuzz.judge.reports.merging import NotOneRun, merged

    read: list[Any] = []
    try:
        for path in reports:
            try:
                read.append(json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, RecursionError) as error:
                raise click.UsageError(f"{path} is no JSON: {error}") from None
            if not isinstance(read[-1], dict) or ("conform", VERSION) not in read[-1].items():
                raise click.UsageError(f"{path} is no report of this release")
        report = merged(read)
        output.write_text(json.dumps(report, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")
    except (NotOneRun, OSError) as error:
        raise click.UsageError(str(error)) from None
    except (ValueError, TypeError, KeyError) as error:
        raise click.UsageError(f"a file is no report: {error!r}") from None
    click.echo(verdicts_text(report))
    click.echo(str(output), err=True)
    code: int = report["summary"]["exit_code"]
    return code


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="OLD.json… NEW.json", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["text", "json", "md"]), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file instead of standard output.")
def compare(reports: tuple[Path, ...], form: str, output: Path | None) -> int:
    """Compare the JSON reports of two states of an agent; exit with 1 only if a finding is new.

    Several OLD reports are of one state: what only some of them have found is flaky.
    """
    from pinnace_fuzz.judge.reports import compared_text
    from pinnace_fuzz.judge.reports.comparing import as_json
    from pinnace_fuzz.judge.reports.comparing import compare as compared

    if len(reports) < 2:
        raise click.UsageError("compare needs two reports: an old one and a new one")
    *old, new = read_reports(reports)
    comparison = compared(old, new)
    match form:
        case "json":
            written = json.dumps(as_json(comparison), ensure_ascii=True, indent=1) + "\n"
        case "md":
            written = compared_text.markdown(comparison)
        case _:
            written = compared_text.text(comparison) + "\n"
    if output is None:
        click.echo(written, nl=False)
    else:
        output.write_text(written, encoding="utf-8")
    return comparison.exit_code


COMMANDS = (list_requirements, list_scenarios, observe, page, merge, compare)
