"""`pinnace-conform`: the command line of the judge.

Exit codes: 0 conformant, or only what the baseline expects; 1 violations; 2 the baseline expects what did not fail;
3 usage error, invalid adapter, missing package, or nothing was judged; 4 the agent did not start;
5 the tester itself failed; 130 interrupted. By a set of requirements also 6 and 7 (`requirements.outcome`).
"""

import dataclasses
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from pinnace_fuzz.harness.extras import MISSING_EXIT, missing_package
from pinnace_fuzz.harness.model_server.fake_llm import HarnessFault
from pinnace_fuzz.judge.adapter import AdapterError, adapter
from pinnace_fuzz.judge.fleet.sharding import WHOLE
from pinnace_fuzz.judge.options import FORMATS, JOBS_HELP, REPORT, Formats, Jobs, RepositoryFile, Seconds, ShardType
from pinnace_fuzz.judge.probing import NotStarted
from pinnace_fuzz.judge.progress import Progress
from pinnace_fuzz.judge.results import HARNESS_EXIT, NOTHING_JUDGED_EXIT, CaseResult
from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.files import ScenarioError, load
from pinnace_fuzz.judge.store import StoreError
from pinnace_fuzz.process_tree import ORPHANS
from pinnace_spec.nearest import nearest
from pinnace_spec.profiles.generations import GENERATIONS

USAGE_EXIT: Final = 3
START_EXIT: Final = 4
INTERRUPTED_EXIT: Final = 130
_NONE: Final = "none"
_SUBCOMMANDS: Final = ("replay", "observe", "list", "judge", "page", "acp", "merge", "compare", "requirements")


def _shared(command: Any) -> Any:
    """Add what every command has that starts an agent."""
    for option in (
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
        click.option(
            "--adapter",
            "adapter_name",
            default="pi",
            show_default=True,
            help="pi, attach, env, none, one of the supplied ones, or a TOML file.",
        ),
        click.option("--profile", type=click.Choice(["auto", *GENERATIONS]), default="auto", show_default=True),
        click.option("--strict", is_flag=True, help="Violations of recommendations (SHOULD) fail as well."),
        click.option("--out", type=click.Path(path_type=Path), default=Path(".conform"), show_default=True),
        click.option(
            "--patience",
            type=click.FloatRange(min=0, min_open=True, max=1000),
            default=1.0,
            help="Every deadline is multiplied by this.",
        ),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def program() -> None:
    """Judge any agent that speaks the protocol by its records alone.

    Without a subcommand it judges: pinnace-conform [OPTIONS] -- COMMAND…
    """


@program.command(context_settings={"ignore_unknown_options": False})
@_shared
@click.option("--only", multiple=True, metavar="PREFIX", help="Only scenarios whose id begins so; `none`: none.")
@click.option("--skip", multiple=True, metavar="PREFIX")
@click.option("--dryrun", is_flag=True, help="Say what would be run.")
@click.option("--seed", type=int, help="Of everything that is generated. Printed.")
@click.option("--shard", type=ShardType(), metavar="I/N", help="One of N parts of a run; needs --seed. See merge.")
@click.option(
    "--engine",
    metavar="ENGINE",
    help="Run all shards on processes, dask[:ADDRESS], ray[:ADDRESS], or MODULE:CALLABLE, and merge their reports.",
)
@click.option("--shards", type=click.IntRange(1, 100_000), help="How many, with --engine. Default: one a processor.")
@click.option(
    "--examples",
    "urls",
    multiple=True,
    metavar="URL",
    help="Share examples by a folder, redis://…, github:OWNER/REPOSITORY, or readonly:URL. Repeatable.",
)
@click.option("--time", "time_s", type=Seconds(), default="10m", show_default=True)
@click.option("--jobs", type=Jobs(), default="auto", show_default=True, help=JOBS_HELP)
@click.option("--campaign", "campaigns", multiple=True, help="Only these campaigns; `none` for scenarios alone.")
@click.option("--report", "formats", type=Formats(), default="", help=f"{','.join(FORMATS)}; into --out.")
@click.option("--requirements", default="", metavar="SET", help="Judge by a frozen set of requirements alone.")
@click.option("--location", type=RepositoryFile(), default="", help="Where SARIF shows findings: a file of the agent.")
@click.option("--reproduce", type=click.Path(path_type=Path, file_okay=False), help="Write a script for each finding.")
@click.option("--known", multiple=True, type=REPORT, help="A JSON report of a former state: only new findings fail.")
@click.option("--baseline", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-v", "--verbose", is_flag=True, help="Whole transcripts of everything.")
def judge(command: tuple[str, ...], adapter_name: str, formats: tuple[str, ...], **given: Any) -> int:
    """Play scenarios and campaigns against COMMAND."""
    from pinnace_fuzz.judge.session import JudgeOptions, NoSuchScenario, chosen, conduct

    if given["shard"] is not None and given["seed"] is None:
        raise click.UsageError("--shard needs --seed: all shards of a run have the same one")
    if given["shards"] is not None and given["engine"] is None:
        raise click.UsageError("--shards needs --engine, which runs them")
    _check_requirements(formats, given, ("only", "skip", "campaigns", "shard", "engine", "dryrun", "known"))
    former = _read_reports(given["known"])
    seed = given["seed"] if given["seed"] is not None else random.SystemRandom().randrange(2**32)
    if given["engine"] is not None and not given["dryrun"]:
        return _on_engine(command, adapter_name, formats, {**given, "seed": seed})
    options = JudgeOptions(
        command=command,
        adapter=adapter(adapter_name),
        profile=given["profile"],
        only=given["only"],
        skip=given["skip"],
        seed=seed,
        time_s=given["time_s"],
        jobs=given["jobs"],
        out=given["out"],
        baseline=given["baseline"],
        is_strict=given["strict"],
        campaigns=() if given["requirements"] else _campaigns(given["campaigns"], given["only"]),
        patience=given["patience"],
        shard=given["shard"] or WHOLE,
        examples=_examples(given["urls"]),
        requirements=given["requirements"],
    )
    try:
        if given["dryrun"]:
            return _dryrun(options, chosen(load(), options))
        _check_packages(options)
        with Progress(sys.stderr) as progress:
            run = conduct(dataclasses.replace(options, log=progress.log, watch=progress.watch))
    except NoSuchScenario as error:
        raise click.UsageError(str(error)) from None
    except BrokenPipeError as error:
        # To click that is a reader of the report that went away, and it would end without a word.
        raise HarnessFault(f"a pipe of the tester broke: {error}") from error
    if given["reproduce"] is not None:
        _reproductions(run, options.adapter, given["reproduce"])
    return _reported(run._replace(location=given["location"]), options.out, formats, former, is_whole=given["verbose"])


@program.command()
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--adapter",
    "adapter_name",
    default="pi",
    show_default=True,
    help="pi, env, none, one of the supplied ones, or a TOML file.",
)
@click.option("--only", multiple=True, metavar="PREFIX", help="Only scenarios whose id begins so.")
@click.option("--skip", multiple=True, metavar="PREFIX")
@click.option("--dryrun", is_flag=True, help="Say what would be run.")
@click.option(
    "--protocol-version", "versions", multiple=True, type=click.IntRange(1, 2), help="Only this one; else each."
)
@click.option("--strict", is_flag=True, help="The rules of this project's own bind every agent.")
@click.option("--time", "time_s", type=Seconds(), default=None, help="Begin no scenario after it. Default: play all.")
@click.option("--jobs", type=Jobs(), default="auto", show_default=True, help=JOBS_HELP)
@click.option("--patience", type=click.FloatRange(min=0, min_open=True, max=1000), default=1.0)
@click.option("--out", type=click.Path(path_type=Path), default=Path(".conform"), show_default=True)
@click.option("--report", "formats", type=Formats(), default="", help=f"{','.join(FORMATS)}; into --out.")
@click.option("--requirements", default="", metavar="SET", help="Judge by a frozen set of requirements alone.")
@click.option("--location", type=RepositoryFile(), default="", help="Where SARIF shows findings: a file of the agent.")
@click.option("--reproduce", type=click.Path(path_type=Path, file_okay=False), help="Write a script for each finding.")
@click.option("--known", multiple=True, type=REPORT, help="A JSON report of a former state: only new findings fail.")
@click.option("--baseline", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-v", "--verbose", is_flag=True, help="Whole transcripts of everything.")
def acp(command: tuple[str, ...], adapter_name: str, formats: tuple[str, ...], **given: Any) -> int:
    """Play scenarios against COMMAND, an agent of the Agent Client Protocol."""
    from pinnace_fuzz.acp.conduct import (
        VERSIONS,
        AcpOptions,
        chosen,
        conduct,
        editor_adapter,
        opened,
        reason_not_to_run,
    )
    from pinnace_fuzz.judge.session import NoSuchScenario

    _check_requirements(formats, given, ("only", "skip", "dryrun", "known"))
    versions = tuple(sorted(set(given["versions"]))) or VERSIONS
    former = _read_reports(given["known"])
    options = AcpOptions(
        command=command,
        adapter=editor_adapter(adapter_name),
        only=given["only"],
        skip=given["skip"],
        jobs=given["jobs"],
        baseline=given["baseline"],
        is_strict=given["strict"],
        patience=given["patience"],
        time_s=given["time_s"] or 0,
        versions=versions,
        requirements=given["requirements"],
    )
    try:
        if given["dryrun"]:
            with opened(options) as (kit, _):
                for scenario in chosen(options):
                    why = reason_not_to_run(scenario, kit)
                    click.echo(f"{scenario.id}{f'  NOT-RUN: {why}' if why else ''}")
            return 0
        with Progress(sys.stderr) as progress:
            run = conduct(dataclasses.replace(options, log=progress.log, watch=progress.watch))
    except NoSuchScenario as error:
        raise click.UsageError(str(error)) from None
    if given["reproduce"] is not None:
        from pinnace_fuzz.acp.reproducing import HELPERS, play_of

        _reproductions(run, options.adapter, given["reproduce"], play_of, HELPERS)
    return _reported(run._replace(location=given["location"]), given["out"], formats, former, is_whole=given["verbose"])


def _check_requirements(formats: tuple[str, ...], given: dict[str, Any], excluded: tuple[str, ...]) -> None:
    """Refuse options that contradict the choice of a set of requirements, before an agent is started."""
    from pinnace_fuzz.judge.reports.formats import OF_REQUIREMENTS
    from pinnace_fuzz.judge.requirements.sets import NoSuchSet, content

    if not given["requirements"]:
        for each in sorted(OF_REQUIREMENTS.intersection(formats)):
            raise click.UsageError(f"--report {each} needs --requirements: it shows what is kept of a set")
        return
    for name in excluded:
        # No campaign is what a set asks for.
        if given[name] and not (name == "campaigns" and given[name] == (_NONE,)):
            option = "campaign" if name == "campaigns" else name
            raise click.UsageError(f"--requirements goes with no --{option}: a set is judged as a whole")
    try:
        content(given["requirements"])
    except NoSuchSet as error:
        raise click.UsageError(str(error)) from None


def _examples(urls: tuple[str, ...]) -> Any:
    """Open the database of the run, before an agent is started; None without one."""
    if not urls:
        return None
    from pinnace_fuzz.judge.fleet.examples import ExamplesError, open_examples

    try:
        return open_examples(urls)
    except ExamplesError as error:
        raise click.UsageError(str(error)) from None


def _on_engine(command: tuple[str, ...], adapter_name: str, formats: tuple[str, ...], given: dict[str, Any]) -> int:
    """Run the shards of a run on an engine and report what they have found together."""
    from pinnace_engines.engines import EngineError, find_engine
    from pinnace_fuzz.judge.fleet.shards import ShardFailed, Work, conduct_shards
    from pinnace_fuzz.judge.html.page import of_files

    if given["shard"] is not None:
        raise click.UsageError("--engine runs all shards: it goes with no --shard")
    if given["verbose"] or not set(formats) <= {"json", "html"}:
        raise click.UsageError("--engine reports json, and html: it goes with no other --report, nor with --verbose")
    for name in ("reproduce", "location", "known"):
        if given[name]:
            raise click.UsageError(f"--engine judges in other processes: it goes with no --{name}")
    _examples(given["urls"])
    out: Path = given["out"]

    def log(text: str) -> None:
        click.echo(text, err=True)

    shards: int = given["shards"] or os.cpu_count() or 1
    work = Work(command, _words_of(adapter_name, given), _files_of(adapter_name, given), os.getcwd())
    try:
        log(f"{shards} shards on {given['engine']}; seed {given['seed']}")
        report = conduct_shards(find_engine(given["engine"], shards), work, shards, out, log)
    except EngineError as error:
        raise click.UsageError(str(error)) from None
    except ShardFailed as error:
        return _exit_with(str(error), error.code)
    click.echo(_verdicts(report))
    for case in report["cases"]:
        if case["counts"]:
            click.echo(f"{case['verdict']} {case['id']}: {case['title']}")
    log(str(out / "report.json"))
    if "html" in formats:
        (out / "report.html").write_text(of_files([str(out / "report.json")]), encoding="utf-8")
        log(str(out / "report.html"))
    code: int = report["summary"]["exit_code"]
    return code


def _words_of(adapter_name: str, given: dict[str, Any]) -> list[str]:
    """Return the options of a shard but those that name files, that it has been given or that it makes itself."""
    words = [
        "judge",
        "--profile",
        given["profile"],
        "--seed",
        str(given["seed"]),
        "--jobs",
        str(given["jobs"] or "auto"),
    ]
    words += ["--time", f"{given['time_s']:.3f}s", "--patience", str(given["patience"])]
    words += ["--strict"] if given["strict"] else []
    for option, values in (("--only", given["only"]), ("--skip", given["skip"]), ("--campaign", given["campaigns"])):
        words += [word for value in values for word in (option, value)]
    for url in given["urls"]:
        # A folder is relative to that of the user.
        words += ["--examples", url if ":" in url else str(Path(url).absolute())]
    if not Path(adapter_name).is_file():
        words += ["--adapter", adapter_name]
    return words


def _files_of(adapter_name: str, given: dict[str, Any]) -> dict[str, tuple[str, str]]:
    named = {"--adapter": Path(adapter_name) if Path(adapter_name).is_file() else None, "--baseline": given["baseline"]}
    return {option: (path.name, path.read_text(encoding="utf-8")) for option, path in named.items() if path is not None}


def _verdicts(report: dict[str, Any]) -> str:
    return " ".join(f"{name} {count}" for name, count in sorted(report["summary"]["verdicts"].items()))


def _read_reports(paths: Sequence[Path]) -> list[Any]:
    from pinnace_fuzz.judge.html.reading import NotAReport, read_file, read_report

    try:
        return [read_report(read_file(path), number) for number, path in enumerate(paths, 1)]
    except (NotAReport, OSError) as error:
        raise click.UsageError(str(error)) from None


def _reported(run: Any, out: Path, formats: tuple[str, ...], former: Sequence[Any], *, is_whole: bool) -> int:
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
        _whole(run.cases)
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


def _reproductions(run: Any, adapter_: Any, folder: Path, *reader: Any) -> None:
    from pinnace_fuzz.judge.html.reading import read_report
    from pinnace_fuzz.judge.reports.json_report import as_json
    from pinnace_fuzz.judge.reports.reproducing import write_reproductions

    for path in write_reproductions(read_report(as_json(run), 1), adapter_, folder, *reader):
        click.echo(str(path / "reproduce.sh"), err=True)


def _campaigns(named: tuple[str, ...], only: tuple[str, ...]) -> tuple[str, ...] | None:
    from pinnace_fuzz.judge.campaigns.schedule import CAMPAIGNS

    for each in named:
        if each not in (_NONE, *CAMPAIGNS):
            near = nearest(each, [_NONE, *CAMPAIGNS])
            hint = f"did you mean {near}?" if near else f"there are {', '.join(CAMPAIGNS)}, and {_NONE}"
            raise click.UsageError(f"no campaign is called {each!r}: {hint}")
    if _NONE in named and len(set(named)) > 1:
        raise click.UsageError(f"--campaign {_NONE} goes with no other campaign")
    if _NONE in only and len(set(only)) > 1:
        raise click.UsageError(f"--only {_NONE} goes with no prefix")
    if named:
        return tuple(each for each in named if each != _NONE)
    return () if only else None


def _check_packages(options: Any) -> None:
    """Refuse a run that needs a package which is missing, before an agent is started."""
    from pinnace_fuzz.judge.session import SMOKE_S

    has_sequences = options.time_s > SMOKE_S if options.campaigns is None else "sequences" in options.campaigns
    if has_sequences and find_spec("hypothesis") is None:
        raise click.UsageError(
            "the campaign sequences needs hypothesis, which `pinnace-conform` needs and which is not installed: "
            f"{sys.executable} -m pip install hypothesis, or name others with --campaign"
        )


def _dryrun(options: Any, scenarios: Sequence[Any]) -> int:
    from pinnace_fuzz.judge.session import not_run_reasons, opened

    with opened(options) as (kit, _):
        for scenario, why in not_run_reasons(scenarios, kit):
            click.echo(f"{scenario.id}{f'  NOT-RUN: {why}' if why else ''}")
    return 0


def _whole(cases: Sequence[CaseResult]) -> None:
    from pinnace_fuzz.judge.reports.transcript import said, transcript

    for case in cases:
        click.echo(f"\n{case.verdict} {case.scenario.id} ({case.scenario.place}, {case.seconds:.2f} s)")
        for finding in case.findings:
            click.echo(f"  {finding.level} {said(finding)}")
        for line in transcript(case, is_whole=True):
            click.echo(line)


@program.command("requirements")
def list_requirements() -> int:
    """Show every set of requirements: its hash, and how many scenarios each tier of each protocol has."""
    from pinnace_fuzz.judge.requirements.sets import TIERS, content, names

    for name in names():
        found = content(name)
        click.echo(f"{name}  sha256:{found['sha256']}")
        for protocol, tiers in found["protocols"].items():
            click.echo(f"  {protocol:<9} {'  '.join(f'{tier} {len(tiers[tier])}' for tier in TIERS)}")
    return 0


@program.command("list")
@click.option("--only", multiple=True, metavar="PREFIX")
def list_scenarios(only: tuple[str, ...]) -> int:
    """Show every scenario."""
    found = [scenario for scenario in load() if not only or scenario.id.startswith(only)]
    if not found:
        raise click.UsageError(f"no scenario begins with {' or '.join(only)}")
    for scenario in found:
        click.echo(f"{scenario.id:<50} {scenario.title}  ({', '.join(scenario.rules)})")
    return 0


@program.command()
@_shared
@click.option("--file", "files", multiple=True, type=click.Path(path_type=Path, exists=True))
@click.option("--times", type=click.IntRange(1, 100), default=3, show_default=True)
def replay(command: tuple[str, ...], adapter_name: str, files: tuple[Path, ...], times: int, **given: Any) -> int:
    """Play stored failures again: all, or files: replay [FILE…] -- COMMAND… Those that are FIXED are deleted."""
    from pinnace_fuzz.judge.session import JudgeOptions, replay_all

    options = JudgeOptions(
        command=command,
        adapter=adapter(adapter_name),
        profile=given["profile"],
        out=given["out"],
        is_strict=given["strict"],
        patience=given["patience"],
        log=click.echo,
    )
    return replay_all(options, files, times)


@program.command()
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


@program.command()
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


@program.command()
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
    click.echo(_verdicts(report))
    click.echo(str(output), err=True)
    code: int = report["summary"]["exit_code"]
    return code


@program.command()
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
    *old, new = _read_reports(reports)
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


def _arranged(arguments: Sequence[str]) -> list[str]:
    """Put `judge` first where no subcommand stands, and name the files of `replay`."""
    words = list(arguments)
    if words and words[0] == "replay" and "--" in words:
        at = words.index("--")
        before, after = words[1:at], words[at:]
        files = [each for each in before if Path(each).suffix == ".jsonl"]
        rest = [each for each in before if each not in files]
        return ["replay", *rest, *(part for each in files for part in ("--file", each)), *after]
    if words and (words[0] in _SUBCOMMANDS or words[0] in ("-h", "--help")):
        return words
    return ["judge", *words]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    words = _arranged(sys.argv[1:] if arguments is None else arguments)
    # As Ctrl-C: what the judge has started ends with it, a host of its own among it.
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ORPHANS.adopted():  # no process of a judged agent outlives the judge
            code = program.main(words, prog_name="pinnace-conform", standalone_mode=False)
        return int(code or 0)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return _exit_with("interrupted", INTERRUPTED_EXIT)
    except KeyboardInterrupt:
        return _exit_with("interrupted", INTERRUPTED_EXIT)
    except click.ClickException as error:
        error.show()
        return USAGE_EXIT
    except (AdapterError, ScenarioError, FieldError, StoreError) as error:
        return _exit_with(str(error), USAGE_EXIT)
    except NotStarted as error:
        return _exit_with(f"the agent does not start: {error}", START_EXIT)
    except Exception as fault:
        # The only place that catches everything: an unexpected error must not look like a verdict.
        return _exit_of(fault)
    finally:
        signal.signal(signal.SIGTERM, former)


def _exit_of(fault: Exception) -> int:
    """Report an error that says nothing of the agent, and return the exit code."""
    if _is_cut(fault):
        return _exit_with("interrupted", INTERRUPTED_EXIT)
    if (missing := missing_package(fault)) is not None:
        return _exit_with(missing, MISSING_EXIT)
    what = f" {fault}" if isinstance(fault, HarnessFault) else "\n" + "".join(traceback.format_exception(fault))
    return _exit_with(f"the judge itself failed, no verdict on the agent:{what}", HARNESS_EXIT)


def _is_cut(error: BaseException) -> bool:
    """Return whether an error came while an interrupt ended everything: what it cuts fails, as a model server does."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt | click.Abort):
        cause = cause.__context__
    return cause is not None


def _exit_with(text: str, code: int) -> int:
    click.echo(text, err=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
