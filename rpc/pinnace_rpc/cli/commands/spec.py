"""`pinnace spec NAME`: prints a published file of the specification, as it is.

Works without a checkout: the files are part of the installation. Starts no agent. Must not be loaded by the start of an
agent.
"""

import sys
from collections.abc import Sequence
from typing import Final

from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, UsageError, parse
from pinnace_rpc.options.streams import echo

PUBLISHED: Final = {
    "schema": ("schema/{profile}.json", "every command and record as JSON Schema"),
    "asyncapi": ("asyncapi.yaml", "the same as AsyncAPI"),
    "typescript": ("typescript/protocol.ts", "the same as TypeScript"),
    "chart": ("chart.scxml", "the statechart as SCXML"),
    "drawing": ("chart.svg", "the statechart as a picture"),
    "mermaid": ("chart.mmd", "the statechart as Mermaid"),
    "matrix": ("matrix.md", "what each command does in each state"),
    "model": ("model/{model}", "the statechart as Promela"),
    "quint": ("chart.qnt", "the statechart in Quint, without its data"),
    "reference": ("reference.md", "the reference in Markdown"),
    "meta": ("meta.json", "all names as JSON"),
    "rules": ("rules.toml", "the numbered rules"),
    "deviations": ("deviations.toml", "the deviations of this program from the original"),
}
"""The published files by name, with a description."""


COMMAND: Final = Subcommand(
    "pinnace spec",
    "Print a file of the specification; without a name, list all names. NAME is one of: "
    f"{', '.join(f'{name} ({text})' for name, (_, text) in PUBLISHED.items())}.",
    [
        Option(("--profile",), "profile", "For schema: the generation. Default: pi.", "NAME"),
        Option(("--model",), "model", "For model: which one. Default: the first.", "NAME"),
    ],
    [Argument("name", "[NAME]", is_required=False, choices=tuple(PUBLISHED))],
)


def main(words: Sequence[str]) -> int:
    """Run `pinnace spec` with these words and return the exit code."""
    given = parse(COMMAND, words)
    name: str | None = given["name"]
    profile: str | None = given["profile"]
    model: str | None = given["model"]
    if name is None:
        for each, (_, text) in PUBLISHED.items():
            echo(f"{each:<12}{text}")
        return 0
    pattern = PUBLISHED[name][0]
    _refuse_unused(pattern, profile=profile, model=model)
    sys.stdout.write(_text(name, pattern, profile or "pi", model))
    sys.stdout.flush()
    return 0


def _refuse_unused(pattern: str, **given: str | None) -> None:
    for option, value in given.items():
        if value is not None and f"{{{option}}}" not in pattern:
            raise UsageError(f"--{option} has no meaning here")


def _text(name: str, pattern: str, profile: str, model: str | None) -> str:
    from pinnace_spec import data

    folder, _, last = pattern.rpartition("/")
    if "{" not in last:
        return _published(name, pattern)
    suffix = last.partition("}")[2]
    found = [each for each in data.names(folder) if each.endswith(suffix or ".pml")]
    stems = {each.removeprefix(f"{folder}/"): each for each in found}
    wanted = last.format(profile=profile, model=model or next(iter(stems), ""))
    if wanted not in stems and f"{wanted}.pml" in stems:
        wanted = f"{wanted}.pml"
    if wanted not in stems:
        known = ", ".join(each.removesuffix(suffix or ".pml") for each in stems) or "none"
        raise UsageError(f"unknown {name}; known are: {known}")
    return data.text(stems[wanted])


def _published(name: str, file: str) -> str:
    from pinnace_spec import data

    if not data.has(file):
        raise CommandError(f"{name} is not part of this installation")
    return data.text(file)
