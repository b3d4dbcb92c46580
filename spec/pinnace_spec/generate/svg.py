"""Draws the statechart as lanes: a state is a column, a way from one to another an arrow in a row of its own.

So no arrow crosses a text, however many there are, and every trigger and guard can be read. Regions stand one below the
other. What leaves a state as it is (answers, refusals, queueing) is not drawn; the matrix has it. Colours follow the
reader's choice of light or dark. Reads rows only; a page may make the states links.
"""

import textwrap
from collections.abc import Callable, Iterable
from html import escape
from typing import Final, NamedTuple

from pinnace_spec.generate.drawing import ways
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.statechart.names import CANCELLABLE
from pinnace_spec.statechart.transitions import INITIAL, STATES, Region

WORKING: Final = "working"
_ORDER: Final[tuple[Region, ...]] = ("run", "session", "shell", "ui", "io")
"""The one that everybody looks for first."""

_COLUMN: Final = 118
_LEFT: Final = 20
_HEAD: Final = 34
_LINE: Final = 15
_GAP: Final = 13
_TITLE: Final = 44
_CHARACTERS: Final = 34  # of a label's line
_STYLE: Final = """
svg { color-scheme: light dark; background: var(--page); font: 12px ui-sans-serif, system-ui, sans-serif;
  --page: #fff; --ink: #1c2430; --faint: #c9d1dc; --box: #e8eef7; --edge: #2f5fa8; --band: #f5f8fc }
@media (prefers-color-scheme: dark) { svg { --page: #12161c; --ink: #e3e8f0; --faint: #39424f; --box: #223047;
  --edge: #8db7f5; --band: #171d26 } }
.title { font-size: 15px; font-weight: 600; fill: var(--ink) } .note { font-size: 12px; font-weight: 400; opacity: .75 }
.state rect { fill: var(--box); stroke: var(--edge) } .state text { fill: var(--ink); text-anchor: middle }
.initial rect { stroke-width: 2.5 } a:hover rect { stroke-width: 3 } a:focus rect { stroke-width: 3 }
.lane { stroke: var(--faint); stroke-dasharray: 2 4 } .band { fill: var(--band); stroke: var(--faint) }
.way { stroke: var(--edge); stroke-width: 1.5; fill: none } .from { fill: var(--edge) }
.label { fill: var(--ink); stroke: var(--page); stroke-width: 4px; paint-order: stroke; stroke-linejoin: round }
""".strip()

Link = Callable[[Region, str], str]
"""Where a state's name leads."""


class _Way(NamedTuple):
    source: str
    target: str
    lines: tuple[str, ...]


def svg_file(spec: Spec) -> str:
    """Return `chart.svg`."""
    return f"<!-- {NOTE} -->\n{svg(spec)}"


def svg(spec: Spec, link: Link | None = None) -> str:
    """Return the drawing as an element that can stand alone or in a page."""
    parts: list[str] = []
    top, width = 0, 0
    for region in _ORDER:
        found = [_Way(source, target, _lines(labels)) for (source, target), labels in ways(spec, region).items()]
        if not found:
            continue
        lines, height, right = _panel(region, _in_order(region, found), top, link)
        parts += lines
        top, width = top + height, max(width, right)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
            'role="img" aria-label="The statechart: states and what moves it from one to another">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
            'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="var(--edge)"/></marker></defs>',
            *parts,
            "</svg>",
            "",
        )
    )


def _lines(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(textwrap.wrap(", ".join(sorted(labels)), _CHARACTERS, break_long_words=False))


def _in_order(region: Region, found: list[_Way]) -> list[_Way]:
    """Sort ways as a conversation goes: by where they begin, then by where they lead."""
    order = [*STATES[region], WORKING]
    return sorted(found, key=lambda way: (order.index(way.source), order.index(way.target)))


def _panel(region: Region, found: list[_Way], top: int, link: Link | None) -> tuple[list[str], int, int]:
    """Return what is drawn of a region, its height and its width."""
    states = STATES[region]
    middle = {state: _LEFT + _COLUMN * place + _COLUMN // 2 for place, state in enumerate(states)}
    right = max(_LEFT + _COLUMN * len(states) + 20, 620)
    head = top + _TITLE
    y = head + _HEAD + 12
    drawn: list[str] = []
    for way in found:
        y += _LINE * len(way.lines) + 6
        drawn += _arrow(way, y, middle, right)
        y += _GAP
    bottom = y + 6
    note = "a thick frame: where it begins. What leaves a state as it is stands in the matrix."
    lines = [
        f'<g id="region-{region}">',
        f'<text class="title" x="{_LEFT}" y="{top + 28}">Region {region.upper()}'
        f'<tspan class="note" dx="12">{note if region == _ORDER[0] else ""}</tspan></text>',
    ]
    if any(way.source == WORKING for way in found):
        inside = [middle[state] for state in CANCELLABLE]
        x, end = min(inside) - _COLUMN // 2 + 2, max(inside) + _COLUMN // 2 - 2
        lines.append(
            f'<rect class="band" x="{x}" y="{head - 12}" width="{end - x}" height="{bottom - head + 10}" rx="8"/>'
        )
    for state in states:
        lines.append(
            f'<line class="lane" x1="{middle[state]}" y1="{head + _HEAD}" x2="{middle[state]}" y2="{bottom}"/>'
        )
    for state in states:
        lines.append(_state(region, state, middle[state], head, link))
    return [*lines, *drawn, "</g>"], bottom - top + 14, right


def _state(region: Region, state: str, x: int, y: int, link: Link | None) -> str:
    width = _COLUMN - 14
    kind = "state initial" if INITIAL[region] == state else "state"
    words = state.split(".")
    text = "".join(
        f'<text x="{x}" y="{y + 21 + 13 * place - 6 * (len(words) - 1)}">{escape(word)}</text>'
        for place, word in enumerate(words)
    )
    box = (
        f'<g class="{kind}" id="state-{region}-{state}"><title>{escape(state)}</title>'
        f'<rect x="{x - width // 2}" y="{y}" width="{width}" height="{_HEAD}" rx="7"/>{text}</g>'
    )
    return f'<a href="{escape(link(region, state))}">{box}</a>' if link else box


def _arrow(way: _Way, y: int, middle: dict[str, int], right: int) -> Iterable[str]:
    """Draw one way with its label above it, inside of the drawing."""
    end = middle[way.target]
    if way.source == WORKING:
        inside = [middle[state] for state in CANCELLABLE if state != way.target]
        begin = max(inside) if end > max(inside) else min(inside)
        dots = "".join(f'<circle class="from" cx="{x}" cy="{y}" r="3.5"/>' for x in inside)
        first = min(inside) if end > max(inside) else max(inside)
    else:
        begin = first = middle[way.source]
        dots = f'<circle class="from" cx="{begin}" cy="{y}" r="3.5"/>'
    yield f'<path class="way" d="M{first},{y} H{end}" marker-end="url(#tip)"/>{dots}'
    longest = max(map(len, way.lines), default=0) * 6.4
    x = min(max((begin + end) / 2, 8 + longest / 2), right - 8 - longest / 2)
    for place, line in enumerate(way.lines):
        at = y - 6 - _LINE * (len(way.lines) - 1 - place)
        yield f'<text class="label" x="{x:.0f}" y="{at}" text-anchor="middle">{escape(line)}</text>'
