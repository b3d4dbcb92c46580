"""Draws the statechart as Mermaid: its states, and what moves it from one to another."""

from collections import defaultdict
from typing import Final

from pinnace_spec.chart import ALWAYS, INITIAL, STATES, Region, Row
from pinnace_spec.chart_names import CANCELLABLE
from pinnace_spec.publish.source import NOTE, Spec

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
        lines += [f"    {_name(state)}: {state}" for state in STATES[region] if "." in state]
    lines += [
        f"    {_name(source)} --> {_name(target)}: {', '.join(sorted(labels))}"
        for (source, target), labels in sorted(ways(spec, region).items())
    ]
    return "\n".join(lines) + "\n"


def ways(spec: Spec, region: Region) -> dict[tuple[str, str], set[str]]:
    """Return what moves a region from a state to another; what does so from every working state, from `working`."""
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in spec.rows:
        if row.region == region and row.target is not None and row.target != row.source:
            edges[row.source, row.target].add(_label(row))
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


def _label(row: Row) -> str:
    if row.source == "aborting":
        return "the job's end"
    trigger = "" if row.trigger == ALWAYS else row.trigger
    return f"{trigger} [{row.guard}]".strip() if row.guard else trigger


def _name(state: str) -> str:
    return state.replace(".", "_")
