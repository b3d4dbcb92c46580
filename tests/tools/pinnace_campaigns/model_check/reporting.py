"""What a search with Spin prints, its limits on the command line, and the exit codes of programs that search.

Must not know any model: the steps of a path are the caller's.
"""

import argparse
import sys
from collections.abc import Sequence

from pinnace_campaigns.model_check.spin import Limits, Verdict

HOLDS, FAILS, BROKEN, GAVE_UP = range(4)
"""Everything holds; something does not; Spin is missing or the model is broken; a limit was reached first."""


def report(what: str, verdict: Verdict, steps: Sequence[object]) -> None:
    """Print the line of a search, and the way to what does not hold; no steps: without it."""
    result = f"BROKEN: {verdict.property}" if verdict.errors else "holds" if verdict.is_complete else "gave up"
    sys.stdout.write(
        f"{what}: {result}; {verdict.states:,} states, depth {verdict.depth},"
        f" {verdict.seconds:.1f} s, {verdict.memory_mib:.0f} MiB\n"
    )
    if verdict.errors:
        sys.stdout.write("".join(f"    {step}\n" for step in steps))
    sys.stdout.flush()


def code_of(verdict: Verdict, before: int) -> int:
    """Return the exit code of searches that gave `before`, and then this verdict."""
    if verdict.errors:
        return FAILS
    return GAVE_UP if before == HOLDS and not verdict.is_complete else before


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options of `limits_of`."""
    parser.add_argument("--compact", action="store_true", help="keep hashes of states: smaller, not quite a proof")
    parser.add_argument("--memory", type=int, default=0, metavar="MIB", help="give up beyond it")
    parser.add_argument("--seconds", type=int, default=0, help="give up after them")


def limits_of(options: argparse.Namespace) -> Limits:
    """Return the limits that a command line sets."""
    return Limits(options.memory, options.seconds, options.compact)
