"""`python -P -m pinnace_rpc.cli.pi`: the program under the name of pi, which the files of `pinnace shim` start.

It differs in one answer: `--version` is the release of pi whose protocol the selected profile writes, since clients of
pi ask for it and refuse, or warn of, a release that they don't know. Rule R-CLI-03.
"""

import os
import sys
from collections.abc import Mapping, Sequence


def main(words: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the program and return its exit code."""
    if (release := _release(words, env)) is not None:
        from pinnace_rpc.options.streams import echo

        echo(release)
        return 0
    from pinnace_rpc.cli.main import main as run

    return run(words)


def _release(words: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Return the release to print; None: the command line requests something else, or an unknown profile."""
    if not {"-v", "--version"}.intersection(words) or not words[0].startswith("-"):
        return None  # without the tables: this is every start of a client's agent
    from pinnace_rpc.options.options import PROFILE_VARIABLE
    from pinnace_rpc.options.parser import VERSION, Scanner, UsageError
    from pinnace_rpc.options.table import OPTIONS
    from pinnace_spec.profiles.profiles import CLIENT_PROFILES, DEFAULT_PROFILE

    try:
        found = Scanner(OPTIONS, keeps_unknown=True).scan(words)
    except UsageError:
        return None
    wanted = found.values.get("protocol") or env.get(PROFILE_VARIABLE) or DEFAULT_PROFILE
    profile = next((each for each in CLIENT_PROFILES if each == wanted), None)
    if found.requests[:1] != [VERSION] or profile is None:
        return None
    from pinnace_spec.profiles.generations import generation

    return generation(profile).release


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
