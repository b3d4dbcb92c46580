"""Writes the statechart as a Quint specification: one action for the transitions that differ in their source alone.

A step is one transition, and what it depends on beside the states of the regions is left open: guards that speak of
queues or jobs may hold or not, and any trigger may come. So the specification allows every run of the statechart, and
more; what it proves of all its runs holds for each of the agent's. Guards that speak of the regions are in it
(`KNOWN`). Its variables are those of the runs of `statechart.chart_runs`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.statechart.chart_runs import STATE_OF, VARIABLES
from pinnace_spec.statechart.transitions import INITIAL, REGIONS, STATES, Region, Transition

_QUIET: Final[Mapping[Region, str]] = {"run": "idle", "session": "quiet", "shell": "quiet"}
KNOWN: Final[Mapping[str, str]] = {
    "quiescent": " and ".join(f'{STATE_OF[region]} == "{state}"' for region, state in _QUIET.items()),
    "input_open": 'ioState == "open"',
    "closing": 'ioState == "closing"',
}
"""Guards, and what they require of the regions."""
_Group = tuple[Region, str, str, str | None, tuple[str, ...]]


def quint(spec: Spec) -> str:
    """Return `chart.qnt`."""
    return "\n".join(_module(spec.rows)) + "\n"


def _module(rows: Sequence[Transition]) -> Iterable[str]:
    yield f"// {NOTE}"
    yield "// The statechart of an agent, without its data: guards that speak of data are left open."
    yield "module chart {"
    for name in VARIABLES:
        yield f"  var {name}: {'List[str]' if name == 'doneEffects' else 'str'}"
    yield ""
    yield "  action init = all {"
    for region in REGIONS:
        yield f"    {STATE_OF[region]}' = {_text(INITIAL[region])},"
    yield '    takenTrigger\' = "",'
    yield '    takenGuard\' = "",'
    yield "    doneEffects' = [],"
    yield "  }"
    for region in REGIONS:
        yield from _action(region)
    yield ""
    yield "  action step = any {"
    for group, sources in _groups(rows).items():
        yield f"    {_taking(group, sources)},"
    yield "  }"
    yield ""
    yield "  // Each region is in one of its states."
    yield "  val known = and {"
    for region in REGIONS:
        yield f"    {STATE_OF[region]}.in({_set(STATES[region])}),"
    yield "  }"
    yield ""
    yield "  // The process leaves when nothing is to be done any more."
    quiet = " and ".join(f"{STATE_OF[region]} == {_text(state)}" for region, state in _QUIET.items())
    yield f'  val closedIsQuiet = takenGuard == "quiescent" implies (ioState == "closed" and {quiet})'
    yield "}"


def _action(region: Region) -> Iterable[str]:
    own = STATE_OF[region]
    yield ""
    yield f"  // A transition of region {region}; without a target its state stays."
    yield f"  action {region}Takes(sources: Set[str], name: str, guard: str, holds: bool, target: str,"
    yield "      effects: List[str]): bool = all {"
    yield f"    {own}.in(sources),"
    yield "    holds,"
    for each in REGIONS:
        name = STATE_OF[each]
        moved = f'if (target == "") {name} else target'
        yield f"    {name}' = {moved if name == own else name},"
    yield "    takenTrigger' = name,"
    yield "    takenGuard' = guard,"
    yield "    doneEffects' = effects,"
    yield "  }"


def _groups(rows: Sequence[Transition]) -> Mapping[_Group, Sequence[str]]:
    """Return the sources of the transitions that differ in nothing else, in the order of the table."""
    found: dict[_Group, list[str]] = {}
    for row in rows:
        found.setdefault((row.region, row.trigger, row.guard, row.target, row.effects), []).append(row.source)
    return found


def _taking(group: _Group, sources: Sequence[str]) -> str:
    region, trigger, guard, target, effects = group
    words = [_set(sources), _text(trigger), _text(guard), KNOWN.get(guard, "true"), _text(target or "")]
    return f"{region}Takes({', '.join(words)}, [{', '.join(map(_text, effects))}])"


def _set(texts: Iterable[str]) -> str:
    return f"Set({', '.join(map(_text, texts))})"


def _text(text: str) -> str:
    return json.dumps(text)
