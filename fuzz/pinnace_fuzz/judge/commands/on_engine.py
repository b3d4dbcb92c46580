"""A run whose shards an engine plays: the options of each, and the report of all."""

import os
from pathlib import Path
from typing import Any

import click

from pinnace_fuzz.judge.commands.reports import verdicts_text


def open_examples_of(urls: tuple[str, ...]) -> Any:
    """Open the database of the run, before an agent is started; None without one."""
    if not urls:
        return None
    from pinnace_fuzz.judge.fleet.examples import ExamplesError, open_examples

    try:
        return open_examples(urls)
    except ExamplesError as error:
        raise click.UsageError(str(error)) from None


def run_on_engine(command: tuple[str, ...], adapter_name: str, formats: tuple[str, ...], given: dict[str, Any]) -> int:
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
    open_examples_of(given["urls"])
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
        click.echo(str(error), err=True)
        return error.code
    click.echo(verdicts_text(report))
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
