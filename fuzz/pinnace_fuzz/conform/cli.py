"""`pinnace-conform`: the command line of the judge.

Exit codes: 0 conformant, or only what the baseline expects; 1 violations; 2 the baseline expects what did not fail;
3 a command line or adapter that makes no sense, a missing package, or nothing was judged; 4 the agent did not start;
5 the kit itself failed; 130 interrupted.
"""

import random
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from pinnace_fuzz.conform.adapter import AdapterError, adapter
from pinnace_fuzz.conform.fields import FieldError
from pinnace_fuzz.conform.probing import NotStarted
from pinnace_fuzz.conform.results import HARNESS_EXIT, NOTHING_JUDGED_EXIT, CaseResult
from pinnace_fuzz.conform.scenario_files import ScenarioError, load
from pinnace_fuzz.conform.store import StoreError
from pinnace_fuzz.extras import MISSING_EXIT, missing_package
from pinnace_fuzz.fake_llm import HarnessFault
from pinnace_fuzz.process_tree import ORPHANS
from pinnace_spec.generations import GENERATIONS

USAGE_EXIT: Final = 3
START_EXIT: Final = 4
INTERRUPTED_EXIT: Final = 130
FORMATS: Final = ("html", "junit", "json", "md")
_NONE: Final = "none"
_SUBCOMMANDS: Final = ("replay", "observe", "list", "judge", "page")
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Seconds(click.ParamType[Any]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", str(value))
        if found is None:
            self.fail(f"{value!r} is no time like 60s, 10m or 2h", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class _Formats(click.ParamType[Any]):
    name = "formats"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = tuple(each for each in str(value).split(",") if each)
        for each in names:
            if each not in FORMATS:
                self.fail(f"{each!r} is none of {', '.join(FORMATS)}", param, ctx)
        return names


def _shared(command: Any) -> Any:
    """Add what every command has that starts an agent."""
    for option in (
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
        click.option(
            "--adapter",
            "adapter_name",
            default="pi",
            show_default=True,
            help="pi, env, none, one that comes with the kit (aelix, omp), or a TOML file.",
        ),
        click.option("--profile", type=click.Choice(["auto", *GENERATIONS]), default="auto", show_default=True),
        click.option("--strict", is_flag=True, help="What is allowed but not recommended fails, too."),
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
@click.option("--time", "time_s", type=_Seconds(), default="10m", show_default=True)
@click.option("--jobs", type=click.IntRange(1, 16), default=2, show_default=True)
@click.option("--campaign", "campaigns", multiple=True, help="Only these campaigns; `none` for scenarios alone.")
@click.option("--report", "formats", type=_Formats(), default="", help="html,junit,json,md; into --out.")
@click.option("--baseline", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-v", "--verbose", is_flag=True, help="Whole transcripts of everything.")
def judge(command: tuple[str, ...], adapter_name: str, formats: tuple[str, ...], **given: Any) -> int:
    """Play scenarios and campaigns against COMMAND."""
    from pinnace_fuzz.conform.report_text import terminal
    from pinnace_fuzz.conform.reports import write_reports
    from pinnace_fuzz.conform.session import NoSuchScenario, Options, chosen, conduct

    seed = given["seed"] if given["seed"] is not None else random.SystemRandom().randrange(2**32)
    options = Options(
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
        campaigns=_campaigns(given["campaigns"], given["only"]),
        patience=given["patience"],
        told=lambda text: click.echo(text, err=True),
    )
    try:
        if given["dryrun"]:
            return _dryrun(options, chosen(load(), options))
        _check_packages(options)
        run = conduct(options)
    except NoSuchScenario as error:
        raise click.UsageError(str(error)) from None
    except BrokenPipeError as error:
        # To click that is a reader of the report that went away, and it would end without a word.
        raise HarnessFault(f"a pipe of the kit's broke: {error}") from error
    click.echo(terminal(run))
    if given["verbose"]:
        _whole(run.cases)
    for path in write_reports(run, options.out, formats):
        click.echo(str(path), err=True)
    if run.exit_code == NOTHING_JUDGED_EXIT:
        click.echo("nothing was judged, or every command was refused: nothing is said about the agent", err=True)
    return run.exit_code


def _campaigns(named: tuple[str, ...], only: tuple[str, ...]) -> tuple[str, ...] | None:
    from pinnace_fuzz.conform.campaigns import CAMPAIGNS

    for each in named:
        if each not in (_NONE, *CAMPAIGNS):
            near = get_close_matches(each, [_NONE, *CAMPAIGNS], 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CAMPAIGNS)}, and {_NONE}"
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
    from pinnace_fuzz.conform.session import SMOKE_S

    has_sequences = options.time_s > SMOKE_S if options.campaigns is None else "sequences" in options.campaigns
    if has_sequences and find_spec("hypothesis") is None:
        raise click.UsageError(
            "the campaign sequences needs hypothesis, which is not installed: pip install hypothesis (as the extra "
            "`judge` does), or name others "
            "with --campaign"
        )


def _dryrun(options: Any, scenarios: Sequence[Any]) -> int:
    from pinnace_fuzz.conform.session import not_run_reasons, opened

    with opened(options) as (kit, _):
        for scenario, why in not_run_reasons(scenarios, kit):
            click.echo(f"{scenario.id}{f'  NOT-RUN: {why}' if why else ''}")
    return 0


def _whole(cases: Sequence[CaseResult]) -> None:
    from pinnace_fuzz.conform.transcript import said, transcript

    for case in cases:
        click.echo(f"\n{case.verdict} {case.scenario.id} ({case.scenario.place}, {case.seconds:.2f} s)")
        for finding in case.findings:
            click.echo(f"  {finding.level} {said(finding)}")
        for line in transcript(case, is_whole=True):
            click.echo(line)


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
    from pinnace_fuzz.conform.replaying import replay_all
    from pinnace_fuzz.conform.session import Options

    options = Options(
        command=command,
        adapter=adapter(adapter_name),
        profile=given["profile"],
        out=given["out"],
        is_strict=given["strict"],
        patience=given["patience"],
        told=click.echo,
    )
    return replay_all(options, files, times)


@program.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--follow", is_flag=True, help="Wait for more, as a log grows.")
@click.option("--profile", type=click.Choice(["auto", *GENERATIONS]), default="auto", show_default=True)
@click.option("--ours", is_flag=True, help="Hold it to the rules of this project's own, too.")
def observe(file: Path, follow: bool, profile: str, ours: bool) -> int:
    """Judge a recorded trace, a transcript, or a log of records, also from production."""
    from pinnace_fuzz.conform.logs import observe_file

    return observe_file(file, profile, is_following=follow, is_ours=ours, told=click.echo)


@program.command()
@click.argument("reports", nargs=-1, required=True, metavar="[NAME=]REPORT.json…")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("page.html"), show_default=True)
def page(reports: tuple[str, ...], output: Path) -> int:
    """Make one page of the JSON reports of one or several agents."""
    from pinnace_fuzz.conform.html.page import of_files
    from pinnace_fuzz.conform.html.reading import NotAReport

    try:
        output.write_text(of_files(reports), encoding="utf-8")
    except (NotAReport, OSError) as error:
        raise click.UsageError(str(error)) from None
    return 0


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
    try:
        with ORPHANS.adopted():  # whatever a judged agent does, none of its processes outlives the judge
            code = program.main(words, prog_name="pinnace-conform", standalone_mode=False)
        return int(code or 0)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return _tell("interrupted", INTERRUPTED_EXIT)
    except KeyboardInterrupt:
        return _tell("interrupted", INTERRUPTED_EXIT)
    except click.ClickException as error:
        error.show()
        return USAGE_EXIT
    except (AdapterError, ScenarioError, FieldError, StoreError) as error:
        return _tell(str(error), USAGE_EXIT)
    except NotStarted as error:
        return _tell(f"the agent does not start: {error}", START_EXIT)
    except HarnessFault as error:
        return _tell(f"the judge itself failed, nothing is said about the agent: {error}", HARNESS_EXIT)
    except Exception as fault:
        if (missing := missing_package(fault)) is not None:
            return _tell(missing, MISSING_EXIT)
        # The one place that catches everything: what is not understood must not look like a verdict.
        return _tell(
            f"the judge itself failed, nothing is said about the agent:\n{traceback.format_exc()}", HARNESS_EXIT
        )


def _tell(text: str, code: int) -> int:
    click.echo(text, err=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
