"""Writes the statechart as SCXML: parallel regions, with transitions in the order in which they are tried.

Guards are calls by name. Effects are raised as events `effect.NAME`, which no transition waits for: the program that
executes the statechart implements them. `read` is the inverse, so a test can show that nothing is lost.
"""

from collections.abc import Iterable
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.statechart.transitions import ALWAYS, INITIAL, REGIONS, STATES, Region, Transition

NAMESPACE: Final = "http://www.w3.org/2005/07/scxml"
# Names what SCXML has no place for. A name, no address.
RULES_NAMESPACE: Final = "urn:pinnace:spec"
_EFFECT: Final = "effect."


def scxml(spec: Spec) -> str:
    """Return `chart.scxml`."""
    return "\n".join(_document(spec)) + "\n"


def _document(spec: Spec) -> Iterable[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<!-- {NOTE} -->"
    yield (
        f'<scxml xmlns="{NAMESPACE}" xmlns:p="{RULES_NAMESPACE}" version="1.0" datamodel="ecmascript" '
        'name="pinnace" initial="agent">'
    )
    yield '  <parallel id="agent">'
    for region in REGIONS:
        yield f"    <state id={quoteattr(region)} initial={quoteattr(_id(region, INITIAL[region]))}>"
        for state in STATES[region]:
            rows = [row for row in spec.rows if (row.region, row.source) == (region, state)]
            yield f"      <state id={quoteattr(_id(region, state))}{'>' if rows else '/>'}"
            for row in rows:
                yield from _transition(row)
            if rows:
                yield "      </state>"
        yield "    </state>"
    yield "  </parallel>"
    yield "</scxml>"


def _id(region: str, state: str) -> str:
    return f"{region}.{state}"


def _transition(row: Transition) -> Iterable[str]:
    attributes = {
        "event": None if row.trigger == ALWAYS else row.trigger,
        "cond": f"{row.guard}()" if row.guard else None,
        "target": None if row.target is None else _id(row.region, row.target),
        "p:rules": " ".join(row.rules),
    }
    text = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items() if value is not None)
    yield f"        <transition{text}{'>' if row.effects else '/>'}"
    for effect in row.effects:
        yield f"          <raise event={quoteattr(_EFFECT + effect)}/>"
    if row.effects:
        yield "        </transition>"


def read(document: str) -> list[Transition]:
    """Return the rows that a chart in this form has, region by region and state by state.

    Raises:
        ValueError: It is no chart in this form.
    """
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
    rows: list[Transition] = []
    for region in REGIONS:
        parent = root.find(f"{{*}}parallel/{{*}}state[@id='{region}']")
        if parent is None:
            raise ValueError(f"no region {region}")
        for state in parent:
            rows += [_row(region, state.get("id", ""), each) for each in state]
    return rows


def _row(region: Region, state: str, transition: ElementTree.Element) -> Transition:
    target = transition.get("target")
    return Transition(
        region,
        state.removeprefix(f"{region}."),
        transition.get("event", ALWAYS),
        transition.get("cond", "").removesuffix("()"),
        None if target is None else target.removeprefix(f"{region}."),
        tuple(each.get("event", "").removeprefix(_EFFECT) for each in transition),
        tuple(transition.get(f"{{{RULES_NAMESPACE}}}rules", "").split()),
    )
