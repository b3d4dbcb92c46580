"""`python -m pinnace_fuzz.mutants [NAME…]`: tries the faults, all or the named ones; exit code 1 if one is missed."""

import sys
import tempfile
from pathlib import Path

from pinnace_fuzz.mutants.catalogue import AGENT_MUTANTS
from pinnace_fuzz.mutants.trial import Copy


def main(names: list[str]) -> int:
    """Try faults and print a line for each."""
    known = {mutant.name for mutant in AGENT_MUTANTS}
    if unknown := [name for name in names if name not in known]:
        sys.stderr.write(f"no such fault: {', '.join(unknown)} (there are: {', '.join(sorted(known))})\n")
        return 2
    code = 0
    with tempfile.TemporaryDirectory(prefix="pinnace-mutants-") as folder:
        copy = Copy(Path(folder))
        for mutant in AGENT_MUTANTS:
            if names and mutant.name not in names:
                continue
            trial = copy.attempt(mutant)
            sys.stdout.write(f"{'found ' if trial.is_found else 'MISSED'} {mutant.name} by {mutant.check}\n")
            sys.stdout.flush()
            if not trial.is_found:
                sys.stdout.write(trial.printed[-2000:])
                code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
