"""Shows the statechart for people: drawn as Mermaid, and as the table of states and commands."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.statechart.names import CANCELLABLE, STOPPING
from pinnace_spec.statechart.transitions import ALWAYS, COMMANDS, INITIAL, REGIONS, STATES, Region, Transition

BEGIN: Final = "<!-- chart: generated -->"
END: Final = "<!-- chart: end -->"

_WORKING: Final = "working"


def mermaid(spec: Spec, region: Region = "run") -> str:
    """Draw a region.

    What every working state does alike is drawn once, from a box around them.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {INITIAL[region]}"]
    if region == "run":
        lines += [f"    state {_WORKING} {{", *(f"        {_name(state)}" for state in CANCELLABLE), "    }"]
        lines += [f"    {_name(state)}: {state}" for state in STATES[region] if "." in _drawn(state)]
    lines += [
        f"    {_name(source)} --> {_name(target)}: {', '.join(sorted(labels))}"
        for (source, target), labels in sorted(_ways(spec, region, _drawn).items())
    ]
    return "\n".join(lines) + "\n"


def ways(spec: Spec, region: Region) -> dict[tuple[str, str], set[str]]:
    """Return what moves a region from a state to another; what does so from every working state, from `working`."""
    return _ways(spec, region, str)


def _ways(spec: Spec, region: Region, drawn: Callable[[str], str]) -> dict[tuple[str, str], set[str]]:
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in spec.rows:
        if row.region == region and row.target is not None and row.target != row.source:
            edges[drawn(row.source), drawn(row.target)].add(_label(row))
    if region == "run":
        _hoist(edges)
    return {way: labels for way, labels in edges.items() if labels}


def mermaid_file(spec: Spec) -> str:
    """Return `chart.mmd`: region RUN."""
    return f"%% {NOTE}\n{mermaid(spec)}"


def with_drawing(page: str, spec: Spec) -> str:
    """Return a page with the drawing between its two marks made anew; without the marks, the page as it is."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n```mermaid\n{mermaid(spec)}```\n{END}{after}" if begin and end else page


def _hoist(edges: dict[tuple[str, str], set[str]]) -> None:
    targets = {target for source, target in edges if source in CANCELLABLE}
    for target in sorted(targets):
        sources = [state for state in CANCELLABLE if state != target]
        common = set[str].intersection(*(edges.get((state, target), set()) for state in sources))
        if common:
            edges[_WORKING, target] = common
            for state in sources:
                edges[state, target] -= common


def _label(row: Transition) -> str:
    if row.source in STOPPING:
        return "the job's end"
    trigger = "" if row.trigger == ALWAYS else row.trigger
    return f"{trigger} [{row.guard}]".strip() if row.guard else trigger


def _drawn(state: str) -> str:
    """Return the box that stands for a state in a small drawing: one for all in which a cancelled job unwinds."""
    return "stopping" if state in STOPPING else state


def _name(state: str) -> str:
    return state.replace(".", "_")


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
