"""Runs the attempts against the sandbox and others, and writes the tables of `docs/sandbox-attempts.md`.

    .venv/bin/python tests/benchmarks/sandbox_attempts.py [--write] [--codex PROGRAM] [--srt PROGRAM]

Runs the list under each mechanism and mode, then drops each argument of bubblewrap alone and shows which attempts find
that. `--codex` adds the sandbox of codex (npm: @openai/codex), `--srt` that of @anthropic-ai/sandbox-runtime, which
needs ripgrep and socat. As root each is run as an ordinary user, too. `--write` puts the tables into the page, whose
text is otherwise by hand; without it they are printed. A sandbox that fails may harm the machine: use one that can be
thrown away.
"""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.agent.sandbox.attempts import INSIDE, OUTSIDE, Attempt
from tests.agent.sandbox.mechanisms import (
    MECHANISMS,
    bubblewrap_of,
    mutated,
    outlives_its_parent,
    refusal,
    sandbox,
)
from tests.agent.sandbox.mutants import KNOWN_EQUIVALENT, units
from tests.agent.sandbox.world import NOBODY, Command, Outcome, World, Wrap, place_for_worlds, run_batch, world

from pinnace_agent.config.sandbox_settings import SandboxMode
from pinnace_agent.files.places_of_keys import keys_at_home
from pinnace_agent.sandbox.landlock_program import landlock_abi
from pinnace_agent.sandbox.probe import find_bubblewrap

ALL = (*INSIDE, *OUTSIDE)
MODES: tuple[SandboxMode, ...] = ("workspace-write", "read-only")
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/sandbox-attempts.md"
Found = Mapping[str, Outcome]


def main() -> None:
    """Write or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/sandbox-attempts.md")
    parser.add_argument("--codex", metavar="PROGRAM", help="also run the list under codex's sandbox")
    parser.add_argument("--srt", metavar="PROGRAM", help="also run the list under the sandbox of sandbox-runtime")
    arguments = parser.parse_args()
    place = place_for_worlds()
    if place is None:
        parser.error("no folder outside of /tmp can be written")
    users = [None, NOBODY] if os.geteuid() == 0 else [None]
    others: dict[str, Callable[[World, Sequence[str]], Command]] = {}
    if arguments.codex:
        others["codex"] = partial(codex, arguments.codex)
    if arguments.srt:
        others["srt"] = partial(srt, arguments.srt)
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
        for name, wrap in others.items():
            with world(place, user) as made:
                try:
                    columns[f"{name}, workspace-write, {who}"] = run_batch(made, ALL, wrap)
                except AssertionError as error:
                    print(f"{name} is left out for {who}: {error}", file=sys.stderr)
    sections = {
        "versions": versions(arguments.codex, arguments.srt),
        "results": "\n".join(results(columns)),
        "mutants": "\n".join(mutants(place, users)),
    }
    if not arguments.write:
        print("\n\n".join(sections.values()))
        return
    text = PAGE.read_text(encoding="utf-8")
    for name, section in sections.items():
        begin, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{section}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, encoding="utf-8")


def versions(codex: str | None, srt: str | None) -> str:
    """Return the sentences on what was run, and on how much of the list succeeds without a sandbox."""
    programs = [f"bubblewrap {find_bubblewrap(os.environ).version}", f"Landlock ABI {landlock_abi()}"]
    for name, program in (("codex", codex), ("srt", srt)):
        if program:
            shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            version = re.search(r"[0-9.]{3,}[0-9]", shown)
            programs.append(f"{name} {version[0] if version else ''}".strip())
    kernel = ".".join(platform.release().split(".")[:2])
    counts = {who: sum(each.off in ("anybody", who) for each in OUTSIDE) for who in ("root", "user")}
    return (
        f"Run on Linux {kernel} with {', '.join(programs)}: {len(OUTSIDE)} attempts and {len(INSIDE)} things that must "
        f"work.\nWithout a sandbox {counts['root']} of the attempts succeed as root and {counts['user']} as an "
        "ordinary user; the others would harm the machine, or need a device or a setting that it may not have."
    )


def codex(program: str, made: World, arguments: Sequence[str]) -> Command:
    """Return a command under codex's sandbox. Its folder must not lie below /tmp."""
    home = made.home.parent / "codex"
    home.mkdir(exist_ok=True)
    os.chown(home, made.user, made.user)
    command = [program, "sandbox", "-c", 'sandbox_mode="workspace-write"', "--", *arguments]
    return Command(made.as_user(command), {**made.env, "CODEX_HOME": str(home)})


def srt(program: str, made: World, arguments: Sequence[str]) -> Command:
    """Return a command under the sandbox of sandbox-runtime, told to hide the keys and sessions of the world."""
    hidden = [made.home / ".ssh", made.home / ".bash_history", made.agent / "auth.json"]
    hidden.append(made.session.with_name("other.jsonl"))
    hidden += (made.home / each for each in keys_at_home())
    settings = {
        "filesystem": {
            "denyRead": [str(each) for each in hidden],
            "allowWrite": [str(made.project), "/tmp"],
            "denyWrite": [],
        },
        "network": {"allowedDomains": [], "deniedDomains": []},
    }
    file = made.home.parent / "srt.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    script = made.home.parent / "srt.sh"  # the whole list is too long for an argument of the shell
    script.write_text(f"exec {shlex.join(arguments)}\n", encoding="utf-8")
    return Command(made.as_user([program, "--settings", str(file), "-c", f"sh {shlex.quote(str(script))}"]), made.env)


def results(columns: Mapping[str, Found]) -> list[str]:
    """Return the tables of what each sandbox does not stop, and what does not work in it."""
    names = list(dict.fromkeys(each.split(", ")[0] for each in columns))
    lines = ["| Sandbox | As wanted |", "|---|---|"]
    for name, found in columns.items():
        lines.append(f"| {name} | {sum(is_as_wanted(each, found) for each in ALL)} of {len(ALL)} |")
    lines += [
        "",
        "| Id | Attempt, or what must work | " + " | ".join(names) + " |",
        "|---|---" + "|---" * len(names) + "|",
    ]
    for each in ALL:
        lines.append(f"| {each.id} | {each.what} | " + " | ".join(cell(each, columns, name) for name in names) + " |")
    return lines


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


def mutants(place: Path, users: Sequence[int | None]) -> list[str]:
    """Return the table of which attempts find the absence of each argument."""
    with world(place) as made, sandbox(made, "bubblewrap", "workspace-write", verifies=False) as wrap:
        options = named_options(made, wrap)
    lines = ["| Without | Found by |", "|---|---|"]
    for option in options:
        finders: dict[str, list[str]] = {}
        for user in users:
            who = "user" if user or os.geteuid() else "root"
            with world(place, user) as made, sandbox(made, "bubblewrap", "workspace-write", verifies=False) as wrap:
                less = mutated(wrap, named_options(made, wrap)[option])
                found = changed_by(made, less)
                if not found and outlives_its_parent(made, less):
                    found = ["P03"]
                for each in found:
                    finders.setdefault(each, []).append(who)
        shown = [each if len(by) == len(users) else f"{each} ({by[0]})" for each, by in finders.items()]
        known = next((reason for name, reason in KNOWN_EQUIVALENT.items() if option.startswith(name)), None)
        lines.append(f"| `{option}` | {', '.join(shown) or (f'none: {known}' if known else '**none**')} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def named_options(made: World, wrap: Wrap) -> dict[str, range]:
    """Return the options of a sandbox by a text that is the same in every world."""
    command = wrap(made, ["true"])
    command.started(None)
    command.ended()
    found: dict[str, range] = {}
    for text, places in units(bubblewrap_of(command)):
        name = re.sub(rf"{re.escape(str(made.home))}", "~", text)
        name = re.sub(r"/[^ ]*/private-[^ ]*", "PRIVATE", name)
        name = re.sub(r"/[^ ]*/sandboxes-[^ ]*", "OF-OTHER-PROCESSES", name)
        name = re.sub(r"(--seccomp|--json-status-fd) \d+", r"\1 FD", name)
        number = sum(each.split(" (")[0] == name for each in found)
        found[name if not number else f"{name} ({number + 1})"] = places
    return found


def changed_by(made: World, wrap: Wrap) -> list[str]:
    """Return what goes another way in a sandbox."""
    try:
        found = run_batch(made, ALL, wrap)
    except (AssertionError, OSError):  # also: it is not what it was meant to be
        return ["does not start"]
    return [each.id for each in ALL if not is_as_wanted(each, found)]


if __name__ == "__main__":
    main()
