"""Explains one name of the specification: a rule, an invariant, a deviation, a transition.

For a terminal: lines of text, no colours. Every answer names related ones: the rules of a transition, the transitions
of a rule.
"""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from pinnace_spec.generate.examples import examples
from pinnace_spec.generate.promela.properties import PROPERTIES
from pinnace_spec.generate.rulebook import ORIGINS, Deviation, Rule, row_name, row_text
from pinnace_spec.generate.source import Spec
from pinnace_spec.generate.witnesses import Invariant, invariants
from pinnace_spec.nearest import all_near
from pinnace_spec.rules.scenario_index import scenarios_of
from pinnace_spec.statechart.transitions import Transition

_WIDTH: Final = 100
_MAX_ROWS: Final = 24
_MAX_NEAR: Final = 5


def explain(name: str, spec: Spec) -> str | None:
    """Return the explanation of a name, in any case of letters; None: the specification has no such name."""
    wanted = name.strip().casefold()
    for rule in spec.rules.values():
        if rule.id.casefold() == wanted:
            return _text(_rule(rule, spec))
    for deviation in spec.deviations.values():
        if deviation.id.casefold() == wanted:
            return _text(_deviation(deviation, spec))
    for invariant in invariants().values():
        if invariant.id.casefold() == wanted:
            return _text(_invariant(invariant, spec))
    # A row, or the rows of a state, or of a state and a trigger.
    if rows := [row for row in spec.rows if _is_named(row, wanted)]:
        return _text(_rows(rows, spec))
    return None


def near(name: str, spec: Spec) -> list[str]:
    """Return similar names, the most similar first."""
    known = {each.casefold(): each for each in names(spec)}
    wanted = name.strip().casefold()
    begun = [known[each] for each in known if wanted and each.startswith(wanted)]
    alike = all_near(wanted, known.values(), _MAX_NEAR, 0.5)
    return list(dict.fromkeys([*begun, *alike]))[:_MAX_NEAR]


def names(spec: Spec) -> list[str]:
    """Return every name that can be explained."""
    return [*spec.rules, *invariants(), *spec.deviations, *(row_name(row) for row in spec.rows)]


def _is_named(row: Transition, wanted: str) -> bool:
    whole = row_name(row).casefold()
    return wanted in {whole, whole.partition("[")[0], f"{row.region}/{row.source}".casefold()}


def _rule(rule: Rule, spec: Spec) -> Iterable[str]:
    yield f"{rule.id}  {rule.level}"
    yield from _wrapped(rule.text, "  ")
    yield ""
    yield f"Origin       {rule.origin}: {ORIGINS[rule.origin]}"
    yield f"Generations  {', '.join(rule.generations) or 'all'}"
    for each in spec.deviations_of(rule.id):
        yield from ("", f"{each.id}  differs from the original", *_both(each))
    if rows := spec.rows_of(rule.id):
        yield from ("", f"Transitions ({len(rows)})", *_row_lines(rows))
    yield from _searched(rule)
    yield from _witnesses(rule)
    yield from _scenarios(rule.id)
    if shown := [f"  {each.title}" for each in examples() if rule.id in each.rules]:
        yield from ("", "Recorded conversations (pinnace spec reference)", *shown)


def _witnesses(rule: Rule) -> Iterable[str]:
    known = invariants()
    if found := rule.witnesses("invariant"):
        yield from ("", "Judged on every trace by")
        for name in found:
            text = known[name].text if name in known else ""
            yield from _wrapped(f"{name}  {text}", "  ")
    if found := rule.witnesses("schema"):
        yield from ("", "Schema", *(f"  {each}" for each in found))
    if found := rule.witnesses("test"):
        yield from ("", "Tests", *(f"  {each}" for each in found))


def _searched(rule: Rule) -> Iterable[str]:
    if found := [each for each in PROPERTIES if rule.id in each.rules]:
        yield from ("", "Properties of the models (pinnace spec model)")
        for each in found:
            yield from _wrapped(f"{each.name}  {each.text}", "  ")


def _scenarios(name: str) -> Iterable[str]:
    if found := scenarios_of(name):
        yield from ("", "Scenarios")
        for head in found:
            yield from _wrapped(f"{head.id}  {head.title}", "  ")


def _deviation(each: Deviation, spec: Spec) -> Iterable[str]:
    yield f"{each.id}  a difference from the original, on purpose"
    yield from _both(each)
    yield ""
    yield from _wrapped(f"Rule {each.rule}: {spec.rules[each.rule].text}" if each.rule in spec.rules else each.rule, "")


def _both(each: Deviation) -> Iterable[str]:
    yield from _wrapped(f"The original: {each.original}", "  ")
    yield from _wrapped(f"Here: {each.ours}", "  ")


def _invariant(each: Invariant, spec: Spec) -> Iterable[str]:
    yield f"{each.id}  judged on every trace, of any agent"
    yield from _wrapped(each.text, "  ")
    citing = [rule.id for rule in spec.rules.values() if each.id in rule.witness]
    yield from ("", "Rules")
    for name in dict.fromkeys([*each.rules, *citing]):
        yield from _wrapped(f"{name}  {spec.rules[name].text if name in spec.rules else ''}", "  ")
    yield from _scenarios(each.id)


def _rows(rows: Sequence[Transition], spec: Spec) -> Iterable[str]:
    """Report rows in the order in which they are tried, and their rules once."""
    yield "The first transition whose guard holds is taken." if len(rows) > 1 else "A transition of the statechart."
    yield ""
    yield from _row_lines(rows)
    yield from ("", "Rules")
    for name in dict.fromkeys(rule for row in rows for rule in row.rules):
        yield from _wrapped(f"{name}  {spec.rules[name].text if name in spec.rules else ''}", "  ")


def _row_lines(rows: Sequence[Transition]) -> Iterable[str]:
    for row in rows[:_MAX_ROWS]:
        yield from _wrapped(f"{row_name(row)}: {row_text(row)}", "  ")
    if len(rows) > _MAX_ROWS:
        yield f"  and {len(rows) - _MAX_ROWS} more (pinnace spec matrix)"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
