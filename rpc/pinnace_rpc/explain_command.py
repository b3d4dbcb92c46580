"""`pinnace explain NAME`: what the specification says of a rule, an invariant, a deviation or a row of the chart.

Exit codes: 0 said, 2 there is no such name. Starts no agent. Must not be loaded by a start that explains nothing.
"""

from collections.abc import Sequence

import click


def main(words: Sequence[str]) -> int:
    """Run `pinnace explain` with these words and return the exit code."""
    command = click.Command(
        "pinnace explain",
        params=[click.Argument(["names"], nargs=-1, required=True, metavar="NAME...")],
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Say what a name of the specification means: a rule (R-QUE-07, C-9), an invariant (I-QUE-2), a deviation "
        "(D-02), a row or a state of the chart (run/idle/prompt, run/idle).",
    )
    with command.make_context("pinnace explain", list(words)) as context:
        names: tuple[str, ...] = context.params["names"]
    from pinnace_spec.publish import explain
    from pinnace_spec.publish.source import load

    spec = load()
    texts: list[str] = []
    for name in names:
        text = explain.explain(name, spec)
        if text is None:
            alike = explain.near(name, spec)
            hint = f"; did you mean {', '.join(alike)}?" if alike else "; `pinnace spec rules` has them all"
            raise click.UsageError(f"the specification has no {_shown(name)}{hint}")
        texts.append(text)
    click.echo("\n".join(texts), nl=False)
    return 0


def _shown(name: str) -> str:
    """Return a word of the command line as it can be shown: short, and nothing that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in name[:80])
