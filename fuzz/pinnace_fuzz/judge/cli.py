"""`pinnace-conform`: the command line of the judge.

Exit codes: 0 conformant, or only what the baseline expects; 1 violations; 2 the baseline expects what did not fail;
3 usage error, invalid adapter, missing package, or nothing was judged; 4 the agent did not start;
5 the tester itself failed; 130 interrupted. By a set of requirements also 6 and 7 (`requirements.outcome`).
"""

import dataclasses
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
from pinnace_fuzz.judge.adapter import AdapterError
from pinnace_fuzz.judge.adapter_names import BUILT_IN, DEFAULT, adapter
from pinnace_fuzz.judge.commands.on_engine import open_examples_of, run_on_engine
from pinnace_fuzz.judge.commands.reports import COMMANDS, read_reports
from pinnace_fuzz.judge.commands.runs import NO_CAMPAIGN, check_requirements, report_run, write_scripts
from pinnace_fuzz.judge.fleet.sharding import WHOLE
from pinnace_fuzz.judge.options import FORMATS, JOBS_HELP, REPORT, Formats, Jobs, RepositoryFile, Seconds, ShardType
from pinnace_fuzz.judge.probing import NotStarted
from pinnace_fuzz.judge.progress import Progress
from pinnace_fuzz.judge.results import HARNESS_EXIT
from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.files import ScenarioError, load
from pinnace_fuzz.judge.store import StoreError
from pinnace_fuzz.process_tree import ORPHANS
from pinnace_spec.nearest import nearest
from pinnace_spec.profiles.generations import GENERATIONS

USAGE_EXIT: Final = 3
START_EXIT: Final = 4
INTERRUPTED_EXIT: Final = 130
_SUBCOMMANDS: Final = ("replay", "observe", "list", "judge", "page", "acp", "merge", "compare", "requirements")


def _shared(command: Any) -> Any:
    """Add what every command has that starts an agent."""
    for option in (
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
        click.option(
            "--adapter",
            "adapter_name",
            default=DEFAULT,
            show_default=True,
            help=f"{', '.join(BUILT_IN)}, one of the supplied ones, or a TOML file.",
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
    check_requirements(formats, given, ("only", "skip", "campaigns", "shard", "engine", "dryrun", "known"))
    former = read_reports(given["known"])
    seed = given["seed"] if given["seed"] is not None else random.SystemRandom().randrange(2**32)
    if given["engine"] is not None and not given["dryrun"]:
        return run_on_engine(command, adapter_name, formats, {**given, "seed": seed})
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
        examples=open_examples_of(given["urls"]),
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
        write_scripts(run, options.adapter, given["reproduce"])
    return report_run(run._replace(location=given["location"]), options.out, formats, former, is_whole=given["verbose"])


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

    check_requirements(formats, given, ("only", "skip", "dryrun", "known"))
    versions = tuple(sorted(set(given["versions"]))) or VERSIONS
    former = read_reports(given["known"])
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

        write_scripts(run, options.adapter, given["reproduce"], play_of, HELPERS)
    return report_run(
        run._replace(location=given["location"]), given["out"], formats, former, is_whole=given["verbose"]
    )


def _campaigns(named: tuple[str, ...], only: tuple[str, ...]) -> tuple[str, ...] | None:
    from pinnace_fuzz.judge.campaigns.schedule import CAMPAIGNS

    for each in named:
        if each not in (NO_CAMPAIGN, *CAMPAIGNS):
            near = nearest(each, [NO_CAMPAIGN, *CAMPAIGNS])
            hint = f"did you mean {near}?" if near else f"there are {', '.join(CAMPAIGNS)}, and {NO_CAMPAIGN}"
            raise click.UsageError(f"no campaign is called {each!r}: {hint}")
    if NO_CAMPAIGN in named and len(set(named)) > 1:
        raise click.UsageError(f"--campaign {NO_CAMPAIGN} goes with no other campaign")
    if NO_CAMPAIGN in only and len(set(only)) > 1:
        raise click.UsageError(f"--only {NO_CAMPAIGN} goes with no prefix")
    if named:
        return tuple(each for each in named if each != NO_CAMPAIGN)
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


for _command in COMMANDS:
    program.add_command(_command)


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
