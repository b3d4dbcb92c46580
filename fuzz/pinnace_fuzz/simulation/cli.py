"""`pinnace-simulate`: plays the histories of one seed after another, and prints each that breaks a rule.

Exit codes: 0, nothing was found; 1, a history breaks a rule, or is another one when it is repeated; 2, a usage error.
"""

import gc
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final

import click

from pinnace_fuzz.simulation.editors.history import Programs, simulate_editors
from pinnace_fuzz.simulation.history import simulate
from pinnace_fuzz.simulation.hosted.history import simulate_hosted
from pinnace_fuzz.simulation.parts import shrink as shrunk
from pinnace_fuzz.simulation.program import (
    DEFAULT_ADAPTER,
    DEFAULT_HOST,
    DEFAULT_PROGRAM,
    UnknownProgram,
    load_adapter,
    load_host,
    load_program,
)
from pinnace_fuzz.simulation.results import History
from pinnace_fuzz.simulation.scheduling import UnsupportedTrio, check_trio

_FOUND: Final = 1
_USAGE: Final = 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Play the following seeds too, until so many scheduling steps are done.",
)
@click.option(
    "--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write the trace of the last history here."
)
@click.option("--agent", default=DEFAULT_PROGRAM, show_default=True, help="The agent's entry point, module:function.")
@click.option("--hosted", is_flag=True, help="Simulate a durable host with its agent, and clients that attach.")
@click.option("--editors", is_flag=True, help="Simulate editors with their adapters, and mostly a durable host.")
@click.option("--adapter", default=DEFAULT_ADAPTER, show_default=True, help="The adapter's, module:function.")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="The host's entry point, module:function.")
@click.option("--shrink", is_flag=True, help="Leave out of a history that breaks a rule what that does not need.")
@click.option("--without", default="", metavar="PARTS", help="Leave out these parts, as --shrink prints them.")
@click.option("--keep-going", is_flag=True, help="Go on behind a history that breaks a rule.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Play each history so often, and compare the traces.",
)
@click.option("--digests", is_flag=True, help="Print a line for each history, with the checksum of its trace.")
def main(  # noqa: PLR0913 - one for each option
    seed: int,
    steps: int,
    trace: Path | None,
    agent: str,
    *,
    hosted: bool,
    editors: bool,
    adapter: str,
    host: str,
    shrink: bool,
    without: str,
    keep_going: bool,
    repeat: int,
    digests: bool,
) -> None:
    """Simulate the whole agent: one seed decides scheduling, time, disk, streams, crashes, model and client.

    A history that breaks a rule is printed with its seed; `--seed N --steps 1` plays it again, the same to the byte.
    """
    if hosted and editors:
        raise click.UsageError("--hosted and --editors are two kinds of histories: give one of them")
    try:
        check_trio()
        program = load_program(agent)
        host_program = load_host(host) if hosted or editors else None
        adapter_program = load_adapter(adapter) if editors else None
    except (UnknownProgram, UnsupportedTrio) as error:
        click.echo(f"pinnace-simulate: {error}", err=True)
        sys.exit(_USAGE)
    began_s, done, number, found = time.process_time(), 0, seed, 0
    with _without_collection():
        while done < steps:
            if host_program is None:
                play = partial(simulate, number, program)
            elif adapter_program is None:
                play = partial(simulate_hosted, number, program, host_program)
            else:
                play = partial(simulate_editors, number, Programs(program, host_program, adapter_program))
            history = play([part for part in without.split(",") if part])
            done += history.steps
            _collect()
            for _ in range(repeat - 1):
                again = play(without.split(","))
                done += again.steps
                if again.trace.lines != history.trace.lines:
                    _report_difference(history, again)
                    sys.exit(_FOUND)
            number += 1
            if digests:
                click.echo(f"{history.seed} {history.steps} {history.lives} {history.trace.digest}")
            if trace is not None:
                _write(trace, history)
            if history.findings:
                found += 1
                if shrink:
                    history = shrunk(history, play)
                    if trace is not None:
                        _write(trace, history)
                _report(
                    history,
                    [
                        *(["--hosted"] if hosted else []),
                        *(["--editors"] if editors else []),
                        *_other("--agent", agent, DEFAULT_PROGRAM),
                        *_other("--host", host, DEFAULT_HOST),
                        *_other("--adapter", adapter, DEFAULT_ADAPTER),
                    ],
                )
                if not keep_going:
                    break
    passed_s = time.process_time() - began_s
    click.echo(
        f"{number - seed} histories, {done} scheduling steps, {done / passed_s * 60:,.0f} a minute of processor time;"
        f" {found} break a rule",
        err=True,
    )
    sys.exit(_FOUND if found else 0)


@contextmanager
def _without_collection() -> Generator[None]:
    """Collect no garbage by itself: that of each history is collected once, behind it."""
    had_gc = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if had_gc:
            gc.enable()


def _collect() -> None:
    """Collect garbage. What is loaded stays: each history collects its own, and not what earlier ones have loaded."""
    gc.collect()
    gc.freeze()


def _report_difference(history: History, again: History) -> None:
    pairs = enumerate(zip_longest(history.trace.lines, again.trace.lines), 1)
    number, (one, other) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
    click.echo(f"seed {history.seed}: its traces differ in line {number}:\n  {one}\n  {other}")


def _other(option: str, entry: str, default: str) -> list[str]:
    return [] if entry == default else [f"{option} {entry}"]


def _write(path: Path, history: History) -> None:
    path.write_text("".join(f"{line}\n" for line in history.trace.lines), encoding="utf-8")


def _report(history: History, options: Sequence[str]) -> None:
    click.echo(f"seed {history.seed}: life {history.lives}, step {history.steps}")
    for finding in history.findings:
        click.echo(f"  step {finding.step}: {finding.source}: {finding.text}")
    if left_out := history.parts.left_out:
        click.echo(f"  played: {', '.join(history.parts.played)}")
        options = [*options, f"--without {','.join(left_out)}"]
    words = " ".join(["pinnace-simulate", f"--seed {history.seed} --steps 1", *options, "--trace trace.txt"])
    click.echo(f"  replay: {words}")
