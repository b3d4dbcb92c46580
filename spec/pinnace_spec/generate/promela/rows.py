"""Turns rows into Promela: for each region, what a trigger does in each state, in the order in which rows are tried.

Rows that differ in nothing but their state or trigger share one branch. A name without a body is an error here, so that
the chart can't grow past its model. Must not know what a guard or an effect means.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_spec.generate.promela.names import EXCLUDED, state_name, trigger_name, variable
from pinnace_spec.statechart.transitions import ALWAYS, REGIONS, STATES, Region, Transition


class PromelaError(Exception):
    """The rows say something that the model has no words for."""


class Bodies(NamedTuple):
    """Promela text by the names that rows use."""

    guards: Mapping[str, str]
    actions: Mapping[str, str]


# What is done in a state: the rows' guard, target and effects, in order.
_Doing = tuple[tuple[str, str | None, tuple[str, ...]], ...]
INDENT: Final = "   "


def triggers_of(rows: Iterable[Transition]) -> tuple[str, ...]:
    """Return every trigger that the rows know, in their order, without the eventless one."""
    return tuple(dict.fromkeys(row.trigger for row in rows if row.trigger != ALWAYS))


def check_names(rows: Sequence[Transition], bodies: Bodies) -> None:
    """Compare what rows name with what has a body, and what is excluded with what there is.

    Raises:
        PromelaError: A guard or effect without a body, or an exclusion of nothing.
    """
    guards = {row.guard for row in rows if row.guard}
    effects = {effect for row in rows for effect in row.effects}
    problems = [f"guard {name} has no Promela body" for name in sorted(guards - bodies.guards.keys())]
    problems += [f"effect {name} has no Promela body" for name in sorted(effects - bodies.actions.keys())]
    problems += [
        f"{name} is excluded, and no row knows it" for name in sorted(EXCLUDED.keys() - set(triggers_of(rows)))
    ]
    if problems:
        raise PromelaError("; ".join(problems) + " (pinnace_spec.generate.promela.actions, promela_names)")


def definitions(rows: Sequence[Transition], bodies: Bodies) -> str:
    """Print the bodies that the rows use: guards as macros, actions as inlines."""
    used = {effect for row in rows for effect in row.effects}
    guards = {row.guard for row in rows if row.guard} | {"barrier"}
    lines = ["/* Guards. */"]
    lines += [f"#define g_{name} {bodies.guards[name]}" for name in sorted(guards, key=lambda n: (n != "barrier", n))]
    lines += ["", "/* Actions. */"]
    for name in sorted(used):
        body = bodies.actions[name].replace("\n", f"\n{INDENT}")
        lines.append(f"inline a_{name}() {{\n{INDENT}{body} }}")
    return "\n".join(lines) + "\n"


def dispatch(rows: Sequence[Transition]) -> str:
    """Print, for each region, what it does with a trigger, and without one."""
    parts = [_offer(region, rows) for region in REGIONS]
    parts += [_eventless(region, rows) for region in REGIONS]
    return "\n".join(parts)


def table(rows: Iterable[Transition], region: Region) -> dict[str, dict[str, _Doing]]:
    """Return what a region does, by trigger and state."""
    found: dict[str, dict[str, list[tuple[str, str | None, tuple[str, ...]]]]] = {}
    for row in rows:
        if row.region == region and row.trigger not in EXCLUDED:
            target = None if row.target == row.source else row.target
            found.setdefault(row.trigger, {}).setdefault(row.source, []).append((row.guard, target, row.effects))
    return {trigger: {state: _reachable(doing) for state, doing in states.items()} for trigger, states in found.items()}


def _reachable(doing: list[tuple[str, str | None, tuple[str, ...]]]) -> _Doing:
    """Leave out what comes after a row without a guard."""
    for index, (guard, _, _) in enumerate(doing):
        if not guard:
            return tuple(doing[: index + 1])
    return tuple(doing)


def _offer(region: Region, rows: Sequence[Transition]) -> str:
    alike: dict[tuple[tuple[str, _Doing], ...], list[str]] = {}
    for trigger, states in table(rows, region).items():
        if trigger != ALWAYS:
            alike.setdefault(tuple(states.items()), []).append(trigger)
    lines = [f"inline offer_{region}() {{"]
    lines.append("if")
    for doing, triggers in alike.items():
        condition = " || ".join(f"t == {trigger_name(trigger)}" for trigger in triggers)
        lines.append(f":: {condition} ->")
        lines += [INDENT + line for line in _by_state(region, dict(doing))]
    lines += [":: else", "fi }", ""]
    return "\n".join(lines)


def _eventless(region: Region, rows: Sequence[Transition]) -> str:
    states = table(rows, region).get(ALWAYS, {})
    body = _by_state(region, states) if states else ["skip"]
    return "\n".join([f"inline eventless_{region}() {{", *body, "}", ""])


def _by_state(region: Region, states: Mapping[str, _Doing]) -> list[str]:
    alike: dict[_Doing, list[str]] = {}
    for state, doing in states.items():
        alike.setdefault(doing, []).append(state)
    lines = ["if"]
    for doing, sources in alike.items():
        if set(sources) == set(STATES[region]):
            lines.append(":: true ->")
        else:
            lines.append(":: " + " || ".join(f"{variable(region)} == {state_name(region, s)}" for s in sources) + " ->")
        lines += [INDENT + line for line in _rows(region, doing)]
    if set().union(*alike.values()) != set(STATES[region]):
        lines.append(":: else")
    lines.append("fi")
    return lines


def _rows(region: Region, doing: _Doing) -> list[str]:
    guard, target, effects = doing[0]
    does = ["fired++", *(f"a_{effect}()" for effect in effects)]
    if target is not None:
        does.append(f"{variable(region)} = {state_name(region, target)}")
    # One transition of the search a row: nothing looks in between.
    step = f"d_step {{ {'; '.join(does)} }}"
    if not guard:
        return [step]
    lines = ["if", f":: g_{guard} -> {step}"]
    if len(doing) == 1:
        lines.append(":: else")
    else:
        lines += [":: else ->", *(INDENT + line for line in _rows(region, doing[1:]))]
    return [*lines, "fi"]
