"""`python -P -m pinnace_campaigns.mutants [--judge] [NAME…]`: tries the faults, all or the named ones.

Without `--judge` each is tried with the quick test that the catalogue names; with it `pinnace-conform` judges the
program with the fault in it. Exit code 1 if one is missed, 2 if there is no such fault, or none that can be tried so.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pinnace_campaigns.mutants.catalogue import AGENT_MUTANTS, AgentMutant
from pinnace_campaigns.mutants.seen_on_the_wire import WIRE_MUTANTS
from pinnace_campaigns.mutants.trial import Copy

ALL = (*AGENT_MUTANTS, *WIRE_MUTANTS)


def main(arguments: Sequence[str]) -> int:
    """Try faults and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -P -m pinnace_campaigns.mutants")
    parser.add_argument("--judge", action="store_true", help="let pinnace-conform find them")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    known = {mutant.name for mutant in ALL}
    if unknown := [name for name in options.names if name not in known]:
        sys.stderr.write(f"no such fault: {', '.join(unknown)} (there are: {', '.join(sorted(known))})\n")
        return 2
    wanted = [mutant for mutant in ALL if not options.names or mutant.name in options.names]
    if not any(mutant.judged if options.judge else mutant.check for mutant in wanted):
        sys.stderr.write(f"none of these can be tried {'with' if options.judge else 'without'} --judge\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="pinnace-mutants-") as folder:
        copy = Copy(Path(folder))
        return _judged(copy, wanted) if options.judge else _tried(copy, wanted)


def _tried(copy: Copy, mutants: Sequence[AgentMutant]) -> int:
    code = 0
    for mutant in mutants:
        if not mutant.check:
            continue
        trial = copy.attempt(mutant)
        _say(f"{'found ' if trial.is_found else 'MISSED'} {mutant.name} by {mutant.check}")
        if not trial.is_found:
            sys.stdout.write(trial.printed[-2000:])
            code = 1
    return code


def _judged(copy: Copy, mutants: Sequence[AgentMutant]) -> int:
    from pinnace_campaigns.mutants.judging import bench, judge, sound_verdicts

    begun_s = time.monotonic()
    places = {mutant.judged.by for mutant in mutants if mutant.judged is not None}
    found = missed = 0
    with bench(copy) as kit:
        for place, verdict in sound_verdicts(kit, places):
            if verdict not in ("PASS", "INFORMATIONAL"):
                _say(f"WRONG  {place} is {verdict} without any fault")
                missed += 1
        for mutant in mutants:
            if mutant.judged is None:
                _say(f"not seen by the judge: {mutant.name}")
                continue
            said = judge(kit, copy, mutant)
            found, missed = found + said.is_found, missed + (not said.is_found)
            _say(
                f"{'found ' if said.is_found else 'MISSED'} {mutant.name} by {mutant.judged.by} as"
                f" {mutant.judged.named}: {said.verdict} {said.reproduced[0]}/{said.reproduced[1]},"
                f" {said.seconds:.1f} s ({', '.join(said.named)})"
            )
    _say(f"{found} found, {missed} missed; {time.monotonic() - begun_s:.0f} s")
    return 1 if missed else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
