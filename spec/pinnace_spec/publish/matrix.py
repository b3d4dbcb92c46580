"""Prints the statechart as a table: which effects a command has in which state."""

from collections.abc import Iterable

from pinnace_spec.chart import COMMANDS, REGIONS, STATES, Region
from pinnace_spec.publish.source import NOTE, Spec


def matrix(spec: Spec) -> str:
    """Return `matrix.md`: command x state, guard by guard, one table a region."""
    intro = "A cell lists the rows of a state in the order in which they are tried."
    parts = ["# Command x state", "", NOTE, "", intro]
    for region in REGIONS:
        if COMMANDS[region]:
            parts += ["", f"## Region {region}", "", *_table(spec, region)]
    return "\n".join(parts) + "\n"


def _table(spec: Spec, region: Region) -> Iterable[str]:
    states = STATES[region]
    yield f"| command | {' | '.join(states)} |"
    yield f"|---|{'---|' * len(states)}"
    for command in COMMANDS[region]:
        yield f"| `{command}` | {' | '.join(_cell(spec, region, state, command) for state in states)} |"


def _cell(spec: Spec, region: Region, state: str, command: str) -> str:
    rows = [row for row in spec.rows if (row.region, row.source, row.trigger) == (region, state, command)]
    return "<br>".join(
        f"{f'[{row.guard}] ' if row.guard else ''}{' '.join(row.effects) or 'nothing'}"
        f"{f' → **{row.target}**' if row.target not in {None, state} else ''}"
        for row in rows
    )
