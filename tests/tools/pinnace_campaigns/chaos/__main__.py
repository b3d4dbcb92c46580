"""The command line of chaos runs: so many steps from a seed, or a script again.

    python -P -m pinnace_campaigns.chaos --steps 10000 --seed 1
    python -P -m pinnace_campaigns.chaos --replay chaos-failure.jsonl

Prints the seed, what was played, which kinds of fault were left out, and the file with the smallest script of a
failure. Exit codes: 0 every invariant held, 1 one did not.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from pinnace_campaigns.chaos.machine import Course, replay, run_chaos, smaller
from pinnace_campaigns.chaos.moves import from_text, to_text
from pinnace_campaigns.chaos.world import World
from pinnace_spec.profiles.profiles import Profile

STEPS_EACH = 50
"""Steps of one script; then everything begins anew."""
SCRIPTS_EACH = 20
"""Scripts for one seed; then progress is logged, and the next number is the seed."""

SHRINKING_S = 180.0
"""A script takes some seconds."""


@click.command()
@click.option("--steps", type=click.IntRange(min=1), default=300, show_default=True, help="How many steps in all.")
@click.option("--seed", "first", type=int, help="The first number that moves are drawn from; by default a random one.")
@click.option(
    "--replay", "script", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Play this again."
)
@click.option("--failure", default=Path("chaos-failure.jsonl"), show_default=True, type=click.Path(path_type=Path))
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Shrink a failure.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(
    steps: int, first: int | None, script: Path | None, failure: Path, shrink: bool, command: tuple[str, ...]
) -> None:
    """Run agents (pinnace, or COMMAND after --) under faults of their surroundings; check their guarantees."""
    chosen = command or (sys.executable, "-P", "-m", "pinnace_rpc")
    # The agent of the checkout that this is run from.
    env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}

    def make(root: Path, protocol: Profile) -> World:
        return World(root, chosen, env, protocol)

    course = Course(make, Counter(), Counter(), [], [], set())
    if script is not None:
        moves = from_text(script.read_text(encoding="utf-8"))
        if not moves:
            raise click.UsageError(f"{script} has no steps to play")
        replay(course, moves)
        click.echo(f"{course.moves.total()} steps again: every invariant held")
        return
    number = random.SystemRandom().randrange(2**31) if first is None else first
    try:
        campaign(course, steps, number, is_shrinking=shrink, log=click.echo)
    except Failed as error:
        failure.write_text(error.script, encoding="utf-8")
        click.echo(f"{error}\nthe smallest script is in {failure}: --replay it")
        sys.exit(1)
    click.echo(summary(course))


class Failed(AssertionError):
    """An invariant did not hold; `script` is the smallest that shows it."""

    def __init__(self, text: str, script: str) -> None:
        super().__init__(text)
        self.script = script


def campaign(course: Course, steps: int, number: int, *, is_shrinking: bool, log: Callable[[str], None]) -> None:
    """Play so many steps, drawn from this number and those that follow.

    Raises:
        Failed: An invariant did not hold.
    """
    began_s = time.monotonic()
    while (done := course.moves.total()) < steps:
        # One more, since hypothesis' first does not count.
        scripts = 1 + min(SCRIPTS_EACH, -(-(steps - done) // STEPS_EACH))
        try:
            run_chaos(course, number=number, examples=scripts, steps=STEPS_EACH)
        except Exception as error:
            if not course.failures:
                raise
            moves, text = min(course.failures, key=lambda each: len(each[0]))
            if is_shrinking:
                moves = smaller(course, moves, SHRINKING_S)
            about = f"seed {number}: {text}"
            raise Failed(f"{about}\n{type(error).__name__}", to_text(moves, about=about.splitlines()[0])) from error
        log(f"seed {number}: {course.moves.total()} steps, {time.monotonic() - began_s:.0f} s")
        number += 1


def summary(course: Course) -> str:
    """Print a summary."""
    probes = sorted(course.probes_s)
    p99 = probes[int(len(probes) * 0.99)] if probes else 0.0
    worst = probes[-1] if probes else 0.0
    lines = [
        f"{course.moves.total()} steps, every invariant held",
        "moves: " + ", ".join(f"{name} {count}" for name, count in sorted(course.moves.items())),
        f"get_state answered: {len(probes)} times, p99 {p99 * 1000:.1f} ms, longest {worst * 1000:.0f} ms",
        f"invariants armed: {sum(count > 0 for count in course.armed.values())} of {len(course.armed)}",
    ]
    left_out = [what for name, what in _LEFT_OUT.items() if name in course.missing]
    return "\n".join([*lines, *(f"left out: {each}" for each in left_out)])


_LEFT_OUT = {
    "clock": "clock jumps: there is no C compiler (scripts/peers installs one)",
    "disk": "a disk that is really full: mounting is not allowed here; limits of file sizes stood in for it",
}

if __name__ == "__main__":
    main()
