"""The command line of runs against a host: so many moves from a seed, or a script again.

    python -P -m pinnace_campaigns.chaos.hosted --steps 10000 --seed 1
    python -P -m pinnace_campaigns.chaos.hosted --replay hosted-failure.jsonl
    python -P -m pinnace_campaigns.chaos.hosted --fault a-record-is-dropped

Prints the seed and what was played, and writes the smallest script of a failure to a file. Exit codes: 0 every
guarantee held, 1 one did not, 130 a signal has ended the run, which leaves no process, no mount and no file.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import click

from pinnace_campaigns.chaos.hosted.interrupts import ended_by_signals, uninterrupted
from pinnace_campaigns.chaos.hosted.moves import draw_script
from pinnace_campaigns.chaos.hosted.world import HostedWorld
from pinnace_campaigns.chaos.moves import Move, from_text, shrink, to_text
from pinnace_campaigns.chaos.run import Broken
from pinnace_campaigns.mutants.host_faults import HOST_MUTANTS
from pinnace_campaigns.mutants.trial import Copy

STEPS_EACH: Final = 50
"""Moves of one script; then everything begins anew."""
SHRINKING_S: Final = 300.0
"""A script takes some seconds."""
_INTERRUPTED_EXIT: Final = 130

MakeWorld = Callable[[], HostedWorld]


class Played(NamedTuple):
    """What a run of many scripts has done so far."""

    moves: Counter[str]
    found: Counter[str]


class Failed(AssertionError):
    """A guarantee did not hold; `script` is the smallest that shows it."""

    def __init__(self, text: str, script: str) -> None:
        super().__init__(text)
        self.script = script


@click.command()
@click.option("--steps", type=click.IntRange(min=1), default=300, show_default=True, help="How many moves in all.")
@click.option("--seed", "first", type=int, help="The first number that moves are drawn from; by default a random one.")
@click.option(
    "--replay", "script", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Play this again."
)
@click.option("--failure", default=Path("hosted-failure.jsonl"), show_default=True, type=click.Path(path_type=Path))
@click.option("--shrink/--no-shrink", "is_shrinking", default=True, show_default=True, help="Shrink a failure.")
@click.option(
    "--fault",
    type=click.Choice([each.name for each in HOST_MUTANTS]),
    help="Play with a copy of the program that has this fault, which is to be found.",
)
def main(
    steps: int, first: int | None, script: Path | None, failure: Path, is_shrinking: bool, fault: str | None
) -> None:
    """Run hosts, agents and clients under faults of each; check what the clients were promised."""
    # The program of the checkout that this is run from.
    env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    try:
        with ended_by_signals(), ExitStack() as stack:
            if fault is not None:
                env = {"PYTHONPATH": stack.enter_context(_program_with(fault))}
            _run(_Wanted(steps, first, script, failure, is_shrinking), env)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(_INTERRUPTED_EXIT)


class _Wanted(NamedTuple):
    steps: int
    first: int | None
    script: Path | None
    failure: Path
    is_shrinking: bool


@contextmanager
def _program_with(fault: str) -> Generator[str]:
    """Copy the program, seed a fault, and return the module path of the copy."""
    [mutant] = [each for each in HOST_MUTANTS if each.name == fault]
    with TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        with copy.with_fault(mutant):
            yield os.pathsep.join(str(copy.root / name) for name in ("spec", "statechart", "agent", "rpc"))


def _run(wanted: _Wanted, env: Mapping[str, str]) -> None:
    steps, first, script, failure, is_shrinking = wanted

    def make() -> HostedWorld:
        return HostedWorld([sys.executable, "-P", "-m", "pinnace_rpc"], env)

    played = Played(Counter(), Counter())
    number = random.SystemRandom().randrange(2**31) if first is None else first
    try:
        if script is not None:
            moves = from_text(script.read_text(encoding="utf-8"))
            if not moves:
                raise click.UsageError(f"{script} has no steps to play")
            _replay(make, moves, played)
        else:
            campaign(make, steps, number, played, is_shrinking=is_shrinking, log=click.echo)
    except Failed as error:
        failure.write_text(error.script, encoding="utf-8")
        click.echo(f"{error}\nthe smallest script is in {failure}: --replay it")
        sys.exit(1)
    click.echo(summary(played))


def campaign(
    make: MakeWorld, steps: int, number: int, played: Played, *, is_shrinking: bool, log: Callable[[str], None]
) -> None:
    """Play so many moves, drawn from this number and those that follow.

    Raises:
        Failed: A guarantee did not hold.
    """
    began_s = time.monotonic()
    while (left := steps - played.moves.total()) > 0:
        script = draw_script(number, min(left, STEPS_EACH))
        try:
            play(make, script, played)
        except Broken as error:
            if is_shrinking:
                script = shrink(script, lambda tried: _is_broken(make, tried), SHRINKING_S)
            text = f"seed {number}: {error}"
            raise Failed(text, to_text(script, about=text.splitlines()[0])) from error
        log(f"seed {number}: {played.moves.total()} moves, {time.monotonic() - began_s:.0f} s")
        number += 1


def _replay(make: MakeWorld, script: Sequence[Move], played: Played) -> None:
    try:
        play(make, script, played)
    except Broken as error:
        raise Failed(str(error), to_text(script, about=str(error).splitlines()[0])) from error


def play(make: MakeWorld, script: Sequence[Move], played: Played) -> None:
    """Play one script.

    Raises:
        Broken: A guarantee did not hold.
    """
    with ExitStack() as stack:
        with uninterrupted():
            world = make()
            stack.callback(world.discard)
        for move in script:
            getattr(world, move.name)(**move.drawn)
            played.moves[move.name] += 1
        world.close()
    played.found.update(world.found + world.seen)


def _is_broken(make: MakeWorld, script: Sequence[Move]) -> bool:
    try:
        play(make, script, Played(Counter(), Counter()))
    except Broken:
        return True
    return False


def summary(played: Played) -> str:
    """Print a summary."""
    return "\n".join(
        [
            f"{played.moves.total()} moves, every guarantee held",
            "moves: " + ", ".join(f"{name} {count}" for name, count in sorted(played.moves.items())),
            "found: " + ", ".join(f"{name} {count}" for name, count in sorted(played.found.items())),
        ]
    )


if __name__ == "__main__":
    main()
