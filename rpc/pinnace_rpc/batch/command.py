"""`pinnace batch TASKS.jsonl --out DIR`: an agent for each task, on this machine or on an engine of many.

Checks everything before anything starts: the tasks, the agent's flags, the engine, the folder.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pinnace_rpc.options import values
from pinnace_rpc.options.arguments import parse_arguments, unknown_option
from pinnace_rpc.options.extension_hints import may_find_extensions
from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, UsageError, parse
from pinnace_rpc.options.streams import echo
from pinnace_rpc.options.table import OPTIONS

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130
COMMAND: Final = Subcommand(
    "pinnace batch",
    "Run an agent for each line of TASKS, and keep the results in a folder. Run it again with the same folder to "
    "run the tasks that have no result. Other options are passed to each agent.",
    [
        Option(("--out",), "out", "The folder of the results.", "FOLDER", read=values.not_empty),
        Option(
            ("--engine",),
            "engine",
            "processes (default), dask[:ADDRESS], ray[:ADDRESS], or MODULE:CALLABLE that returns an Executor.",
            "ENGINE",
            read=values.not_empty,
        ),
        Option(("--workers",), "workers", "Agents at a time. Default: one per processor.", "NUMBER", read=values.count),
        Option(("--work",), "work", "The folder of workspaces on the workers. Default: `work` in --out.", "FOLDER"),
        Option(("--retry",), "retries", "Also run tasks again whose result is retryable."),
        Option(("--no-pages",), "has_no_pages", "Do not write a page of each session."),
    ],
    [Argument("tasks", "TASKS"), Argument("flags", "[AGENT FLAGS]", is_required=False)],
)
# What the worker gives to each agent, or what no agent of a batch can have.
_REFUSED: Final = frozenset(
    "--print -p --mode --session --session-id --session-dir --continue -c --fork --no-session --message-id "
    "--result-file --export --export-branch --format --list-models --login --api-key-fd --help --version".split()
)


def main(words: Sequence[str]) -> int:
    """Run `pinnace batch` with these words and return the exit code."""
    own, flags = split_words(words)
    _check_flags(flags)
    given = parse(COMMAND, own)
    if (word := given["flags"]) is not None:
        raise UsageError(f"Got unexpected extra argument ({word}); an option of an extension has its value behind =")
    if given["out"] is None:
        raise UsageError("--out is missing: the folder of the results")
    from pinnace_engines.engines import EngineError, MissingEngine, find_engine
    from pinnace_rpc.batch.records import BatchFolder, BatchFolderError
    from pinnace_rpc.batch.task_file import TaskFile, TaskFileError

    workers: int = given["workers"] or os.cpu_count() or 1
    try:
        tasks = TaskFile(Path(given["tasks"]))
        engine = find_engine(given["engine"] or "processes", workers)
        folder = BatchFolder(Path(given["out"]).absolute(), work=given["work"] and Path(given["work"]).absolute())
    except TaskFileError as error:
        raise UsageError(str(error)) from None
    except MissingEngine as error:
        from pinnace_agent.core.installing import how_to_install

        raise CommandError(f"{error}. Install it with: {how_to_install(error.extra)}") from None
    except (EngineError, BatchFolderError) as error:
        raise CommandError(str(error)) from None
    from pinnace_engines.calls import Call
    from pinnace_rpc.batch.coordinator import Coordinator
    from pinnace_rpc.batch.progress import BatchProgress
    from pinnace_rpc.batch.span import batch_span
    from pinnace_rpc.batch.summary import write_summary

    own_folders = [str(folder.path), str(folder.work)]
    done = folder.done
    wanted = [each for each in tasks.ids if each not in done or (given["retries"] and done[each].is_retryable)]

    def calls() -> Iterator[Call[int]]:
        for task in tasks.tasks(iter(wanted)):
            former = done.get(task["id"])
            attempt = 1 if former is None else former.attempt + 1
            yield Call(
                attempt,
                {
                    "task": task,
                    "place": str(folder.work / task["id"] / str(attempt)),
                    "command": [sys.executable, "-P", "-m", "pinnace_rpc"],
                    "flags": flags,
                    "trace": span.variables,
                    "not_copied": own_folders,
                },
            )

    def forget(call: Call[int]) -> None:
        place = Path(call.arguments["place"])
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # another attempt's folder, or not on this machine
            place.parent.rmdir()

    progress = BatchProgress(len(tasks.ids), len(tasks.ids) - len(wanted))
    with batch_span(len(wanted)) as span:
        try:
            is_complete = Coordinator(engine, folder, progress, workers).run(calls(), forget=forget)
        except (EngineError, BatchFolderError) as error:
            raise CommandError(str(error)) from None
        span.end(passed=progress.passed, failed=progress.failed, is_interrupted=not is_complete)
        progress.show(0, is_last=True)
        if not given["has_no_pages"]:
            _write_pages(folder.path)
        chosen = set(tasks.ids)
        lines = (line for line in folder.lines() if line["id"] in chosen)
        try:
            summary = write_summary(folder.path, len(chosen), lines)
        except OSError as error:
            text = f"{folder.path}: the summary can't be written, all results are there: {error.strerror or error}"
            raise CommandError(text) from None
    echo(folder.path / "index.html")
    if not is_complete:
        return EXIT_INTERRUPTED
    return 0 if summary.passed == summary.tasks else EXIT_FAILED


def _write_pages(folder: Path) -> None:
    """Write the pages of sessions by a program of its own; the summary does not link to one that is missing."""
    from pinnace_engines.programs import run_program

    command = [sys.executable, "-P", "-m", "pinnace_rpc.batch.pages", str(folder)]
    with tempfile.TemporaryFile() as output:
        sys.stderr.write(run_program(command, cwd=str(folder), env=os.environ, output=output).output)


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of `pinnace batch` itself, and those of its agents."""
    mine = {name: option for option in COMMAND.options for name in option.names}
    theirs: dict[str, Any] = {name: option for option in OPTIONS for name in option.names}
    own: list[str] = []
    flags: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name = word.partition("=")[0]
        is_own = not word.startswith("-") or name in mine or word in {"--help", "-h"}
        target, option = (own, mine.get(name)) if is_own else (flags, theirs.get(name))
        target.append(word)
        if option is not None and option.takes_value() and "=" not in word and rest:
            target.append(rest.pop(0))
    return own, flags


def _check_flags(flags: Sequence[str]) -> None:
    for word in flags:
        if word == "--":
            raise UsageError("-- is not supported in a batch: the prompts are those of the tasks")
        if (name := word.partition("=")[0]) in _REFUSED:
            raise UsageError(f"{name} is not supported in a batch: the worker gives each agent its own")
    options = parse_arguments(["-p", *flags], os.environ)
    if options.extension_flags and not options.extensions and not may_find_extensions(os.environ):
        raise unknown_option(options.extension_flags[0][0])
