"""`pinnace spec NAME`: prints a published file of the specification, as it is.

Works where there is no checkout: the files are part of what is installed. Starts no agent. Must not be loaded by a
start that prints none.
"""

from collections.abc import Sequence
from typing import Final

import click

PUBLISHED: Final = {
    "schema": ("schema/{profile}.json", "every command and record as JSON Schema"),
    "asyncapi": ("asyncapi.yaml", "the same as AsyncAPI"),
    "typescript": ("typescript/protocol.ts", "the same as TypeScript"),
    "chart": ("chart.scxml", "the statechart as SCXML"),
    "drawing": ("chart.svg", "the statechart as a picture"),
    "mermaid": ("chart.mmd", "the statechart as Mermaid"),
    "matrix": ("matrix.md", "what each command does in each state"),
    "model": ("model/{model}", "the statechart as Promela"),
    "reference": ("reference.md", "all of it for people"),
    "meta": ("meta.json", "all names for programs"),
    "rules": ("rules.toml", "the numbered rules"),
    "deviations": ("deviations.toml", "where this program differs from the original"),
}
"""What can be asked for: its file, and what it is."""


def main(words: Sequence[str]) -> int:
    """Run `pinnace spec` with these words and return the exit code."""
    what = ", ".join(f"{name} ({text})" for name, (_, text) in PUBLISHED.items())
    command = click.Command(
        "pinnace spec",
        params=[
            click.Argument(["name"], required=False, type=click.Choice(tuple(PUBLISHED)), metavar="[NAME]"),
            click.Option(["--profile"], metavar="NAME", help="Of schema: a generation. Default: pi."),
            click.Option(["--model"], metavar="NAME", help="Of model: which one. Default: the first."),
        ],
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"Print a file of the specification; without a name, list what there is. NAME is one of: {what}.",
    )
    with command.make_context("pinnace spec", list(words)) as context:
        name: str | None = context.params["name"]
        profile: str | None = context.params["profile"]
        model: str | None = context.params["model"]
    if name is None:
        for each, (_, text) in PUBLISHED.items():
            click.echo(f"{each:<12}{text}")
        return 0
    pattern = PUBLISHED[name][0]
    _refuse_unused(pattern, profile=profile, model=model)
    click.echo(_text(name, pattern, profile or "pi", model), nl=False)
    return 0


def _refuse_unused(pattern: str, **given: str | None) -> None:
    for option, value in given.items():
        if value is not None and f"{{{option}}}" not in pattern:
            raise click.UsageError(f"--{option} means nothing here")


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
        raise click.UsageError(f"there is no such {name}; there are: {known}")
    return data.text(stems[wanted])


def _published(name: str, file: str) -> str:
    from pinnace_spec import data

    if not data.has(file):
        raise click.ClickException(f"{name} is not part of this installation")
    return data.text(file)
