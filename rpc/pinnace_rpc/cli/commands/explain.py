"""`pinnace explain NAME`: the definition of a rule, an invariant, a deviation or a transition.

Exit codes: 0 printed, 2 unknown name. Starts no agent. Must not be loaded by the start of an agent.
"""

from collections.abc import Sequence
from typing import Final

from pinnace_rpc.options.parser import Argument, Subcommand, UsageError, parse
from pinnace_rpc.options.streams import echo

COMMAND: Final = Subcommand(
    "pinnace explain",
    "Explain a name of the specification: a rule (R-QUE-07, C-9), an invariant (I-QUE-2), a deviation "
    "(D-02), a transition or a state of the statechart (run/idle/prompt, run/idle).",
    arguments=[Argument("names", "NAME...", repeats=True)],
)


def main(words: Sequence[str]) -> int:
    """Run `pinnace explain` with these words and return the exit code."""
    names: tuple[str, ...] = parse(COMMAND, words)["names"]
    from pinnace_spec.generate import explain
    from pinnace_spec.generate.source import load

    spec = load()
    texts: list[str] = []
    for name in names:
        text = explain.explain(name, spec)
        if text is None:
            alike = explain.near(name, spec)
            hint = f"; did you mean {', '.join(alike)}?" if alike else "; `pinnace spec rules` lists all rules"
            raise UsageError(f"the specification has no {_shown(name)}{hint}")
        texts.append(text)
    echo("\n".join(texts).removesuffix("\n"))
    return 0


def _shown(name: str) -> str:
    """Return a word of the command line for output: short, and without control sequences."""
    return "".join(each if each.isprintable() else "?" for each in name[:80])
