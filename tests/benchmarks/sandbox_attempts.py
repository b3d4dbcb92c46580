"""Runs the attempts against the sandbox and others, and prints tables: `docs/sandbox-attempts.md` holds the latest.

    .venv/bin/python tests/benchmarks/sandbox_attempts.py [--mutants | --codex PROGRAM]

Runs the list under each mechanism and mode. `--mutants` drops each argument of bubblewrap alone and shows which
attempts find that; `--codex` adds the sandbox of codex (npm: @openai/codex). As root each is run as an ordinary user,
too. A sandbox that fails may harm the machine: use one that can be thrown away.
"""

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.agent.sandbox.attempts import INSIDE, OUTSIDE, Attempt
from tests.agent.sandbox.mechanisms import MECHANISMS, bubblewrap_of, mutated, refusal, sandbox
from tests.agent.sandbox.mutants import KNOWN_EQUIVALENT, units
from tests.agent.sandbox.world import NOBODY, Command, Outcome, World, Wrap, place_for_worlds, run_batch, world

from pinnace_agent.config.sandbox_settings import SandboxMode

ALL = (*INSIDE, *OUTSIDE)
MODES: tuple[SandboxMode, ...] = ("workspace-write", "read-only")
Found = Mapping[str, Outcome]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", action="store_true", help="drop each argument of bubblewrap alone")
    parser.add_argument("--codex", metavar="PROGRAM", help="also run the list under codex's sandbox")
    arguments = parser.parse_args()
    place = place_for_worlds()
    if place is None:
        parser.error("no folder outside of /tmp can be written")
    users = [None, NOBODY] if os.geteuid() == 0 else [None]
    if arguments.mutants:
        print_mutants(place, users)
        return
    columns: dict[str, Found] = {}
    for user in users:
        who = "user" if user or os.geteuid() else "root"
        for mechanism in MECHANISMS:
            for mode in MODES:
                with world(place, user) as made:
                    if reason := refusal(made, mechanism):
                        print(f"{mechanism} is left out: {reason}", file=sys.stderr)
                        continue
                    with sandbox(made, mechanism, mode) as wrap:
                        columns[f"{mechanism}, {mode}, {who}"] = run_batch(made, ALL, wrap)
        if arguments.codex:
            with world(place, user) as made:
                columns[f"codex, workspace-write, {who}"] = run_batch(made, ALL, partial(codex, arguments.codex))
    print_table(columns)


def codex(program: str, made: World, arguments: Sequence[str]) -> Command:
    """Return a command under codex's sandbox. Its folder must not lie below /tmp."""
    home = made.home.parent / "codex"
    home.mkdir(exist_ok=True)
    os.chown(home, made.user, made.user)
    command = [program, "sandbox", "-c", 'sandbox_mode="workspace-write"', "--", *arguments]
    return Command(made.as_user(command), {**made.env, "CODEX_HOME": str(home)})


def print_table(columns: Mapping[str, Found]) -> None:
    """Print what each sandbox does not stop, and what does not work in it."""
    names = list(dict.fromkeys(each.split(", ")[0] for each in columns))
    print("| Id | Attempt, or what must work | " + " | ".join(names) + " |")
    print("|---|---" + "|---" * len(names) + "|")
    for each in ALL:
        print(f"| {each.id} | {each.what} | " + " | ".join(cell(each, columns, name) for name in names) + " |")
    print()
    print("| Sandbox | As wanted |\n|---|---|")
    for name, found in columns.items():
        print(f"| {name} | {sum(is_as_wanted(each, found) for each in ALL)} of {len(ALL)} |")


def is_as_wanted(attempt: Attempt, found: Found) -> bool:
    """Return whether an attempt was stopped, or what must work has worked."""
    return attempt.id in found and found[attempt.id].has_succeeded == attempt.must_work


def cell(attempt: Attempt, columns: Mapping[str, Found], name: str) -> str:
    """Return the results of one sandbox: empty if all is well."""
    kinds = {kind: found for kind, found in columns.items() if kind.startswith(name)}
    wrong = [kind for kind, found in kinds.items() if not is_as_wanted(attempt, found)]
    if not wrong:
        return ""
    text = "does not work" if attempt.must_work else "**succeeds**"
    if len(wrong) == len(kinds):
        return text
    words = {kind: frozenset(kind.split(", ")[1:]) for kind in kinds}
    shared = frozenset.intersection(*(words[kind] for kind in wrong)) - frozenset.intersection(*words.values())
    return f"{text} ({', '.join(sorted(shared))})" if shared else text


def print_mutants(place: Path, users: Sequence[int | None]) -> None:
    """Print which attempts find the absence of each argument."""
    with world(place) as made, sandbox(made, "bubblewrap", "workspace-write") as wrap:
        options = named_options(made, wrap)
    print("| Without | Found by |\n|---|---|")
    for option in options:
        finders: dict[str, None] = {}
        for user in users:
            with world(place, user) as made, sandbox(made, "bubblewrap", "workspace-write") as wrap:
                places = named_options(made, wrap)[option]
                finders.update(dict.fromkeys(changed_by(made, mutated(wrap, places))))
        known = next((reason for name, reason in KNOWN_EQUIVALENT.items() if option.startswith(name)), None)
        print(f"| `{option}` | {', '.join(finders) or (f'none: {known}' if known else '**none**')} |", flush=True)


def named_options(made: World, wrap: Wrap) -> dict[str, range]:
    """Return the options of a sandbox by a text that is the same in every world."""
    command = wrap(made, ["true"])
    command.started()
    command.ended()
    found: dict[str, range] = {}
    for text, places in units(bubblewrap_of(command)):
        name = re.sub(rf"{re.escape(str(made.home))}", "~", text)
        name = re.sub(r"/[^ ]*/private-[^ ]*", "PRIVATE", name)
        name = re.sub(r"(--seccomp|--json-status-fd) \d+", r"\1 FD", name)
        number = sum(each.split(" (")[0] == name for each in found)
        found[name if not number else f"{name} ({number + 1})"] = places
    return found


def changed_by(made: World, wrap: Wrap) -> list[str]:
    """Return what goes another way in a sandbox."""
    try:
        found = run_batch(made, ALL, wrap)
    except AssertionError:
        return ["does not start"]
    return [each.id for each in ALL if not is_as_wanted(each, found)]


if __name__ == "__main__":
    main()
