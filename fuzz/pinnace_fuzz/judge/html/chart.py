"""Puts the published drawing of the chart into the page, once, and lights up the path of each case by style alone.

Every state and every way of the drawing answers to a property of its own; a case sets those that it went. Nothing of
the drawing is hard-coded but its class names: it is generated, and changes with the chart.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from xml.etree import ElementTree as Xml

from pinnace_fuzz.judge.html.markup import EMPTY, Html, join, tag
from pinnace_fuzz.judge.html.path import Visit
from pinnace_spec import data

_SVG: Final = "{http://www.w3.org/2000/svg}"
_REGION: Final = "run"
_WAY: Final = re.compile(r"M(-?[\d.]+),(-?[\d.]+) H(-?[\d.]+)")
_MARGIN: Final = 14.0


class Way(NamedTuple):
    """A line from a state to another."""

    name: str
    sources: set[str]
    """Several if the drawing draws once what all of them do."""
    target: str


class Chart:
    """The drawing, taken apart."""

    def __init__(self, drawing: str) -> None:
        root = Xml.fromstring(drawing)
        region = next((each for each in root.iter(f"{_SVG}g") if each.get("id") == f"region-{_REGION}"), None)
        self._pieces: list[Html] = []
        self.ways: list[Way] = []
        self._centres: dict[float, str] = {}
        self._names: dict[str, str] = {}
        self._extent = (0.0, 0.0, 1.0, 1.0)
        if region is not None:
            self._take(region)

    @property
    def is_drawn(self) -> bool:
        """There is something to show."""
        return bool(self._names)

    def _take(self, region: Xml.Element) -> None:
        groups = [each for each in region if "state" in (each.get("class") or "").split()]
        for at, group in enumerate(groups):
            rect = next(group.iter(f"{_SVG}rect"))
            name = (group.findtext(f"{_SVG}title") or "").strip()
            self._names[name] = f"s{at}"
            self._centres[_number(rect, "x") + _number(rect, "width") / 2] = name
        xs = [_number(each, "x2") for each in region.iter(f"{_SVG}line")]
        ys = [_number(each, "y2") for each in region.iter(f"{_SVG}line")]
        texts = [_number(each, "y") for each in region.iter(f"{_SVG}text")]
        top = min(texts, default=0.0) + 2
        self._extent = (0.0, top, max(xs, default=0) + 80, max([*ys, *texts], default=0) - top + _MARGIN)
        open_way: list[Html] = []
        for each in region:
            if "way" in (each.get("class") or "").split():
                self._close(open_way)
                open_way = [self._way(each)]
            elif open_way and each.tag in (f"{_SVG}circle", f"{_SVG}text"):
                open_way.append(_copy(each))
                if source := self._centres.get(_number(each, "cx")):
                    self.ways[-1].sources.add(source)
            elif "state" in (each.get("class") or "").split():
                name = (each.findtext(f"{_SVG}title") or "").strip()
                parts = [_copy(inner) for inner in each if inner.tag != f"{_SVG}title"]
                self._pieces.append(tag("g", *parts, class_="state", id=self._names[name]))
            elif each.get("class") != "title":
                self._pieces.append(_copy(each))
        self._close(open_way)

    def _way(self, path: Xml.Element) -> Html:
        found = _WAY.fullmatch(path.get("d") or "")
        if found is None:
            self.ways.append(Way(f"w{len(self.ways)}", set(), ""))
            return _copy(path)
        x, y, to = float(found[1]), float(found[2]), float(found[3])
        self.ways.append(Way(f"w{len(self.ways)}", set(), self._centres.get(to, "")))
        back = 9 if to < x else -9
        tip = tag("path", class_="tip", d=f"M{to:g},{y:g} l{back},-5 v10 z")
        return join([tag("path", class_="way", d=f"M{x:g},{y:g} H{to:g}"), tip])

    def _close(self, parts: Sequence[Html]) -> None:
        if parts:
            self._pieces.append(tag("g", *parts, class_="move", id=self.ways[-1].name))

    def definition(self) -> Html:
        """Write the drawing, not to be seen where it stands."""
        if not self.is_drawn:
            return EMPTY
        symbol = tag("g", *self._pieces, id="chart")
        return tag("svg", tag("defs", symbol), width="0", height="0", class_="store", aria_hidden="true")

    def picture(self, key: str, label: str) -> Html:
        """Show the drawing with the path of a case."""
        x, y, width, height = self._extent
        return tag(
            "svg",
            tag("use", href="#chart"),
            class_="chart",
            id=f"{key}-chart",
            viewBox=f"{x:g} {y:g} {width:g} {height:g}",
            width=f"{width:g}",
            height=f"{height:g}",
            role="img",
            aria_label=label,
        )

    def style(self) -> str:
        """Return the style that lets a case light up states and ways."""
        rules = [
            f"#{name} rect{{fill:var(--{name},var(--card));stroke:var(--{name}e,var(--faint))}}"
            for name in self._names.values()
        ]
        rules += [
            f"#{way.name}{{opacity:var(--{way.name},.3);--go:var(--{way.name}c,var(--soft))}}" for way in self.ways
        ]
        return "\n".join(rules)

    def lit(self, key: str, visited: Sequence[Visit]) -> str:
        """Return the style of one case: the states that it came to, the ways that it may have gone between them."""
        names = dict.fromkeys(each.state for each in visited)
        known = [self._names[each] for each in names if each in self._names]
        lights = [f"--{name}:var(--hotbox);--{name}e:var(--hot)" for name in known]
        lights += [f"--{name}:1;--{name}c:var(--hot)" for name in self._gone(visited)]
        return f"#{key}-chart{{{';'.join(lights)}}}" if lights else ""

    def _gone(self, visited: Sequence[Visit]) -> Iterator[str]:
        pairs = {(before.state, after.state) for before, after in pairwise(visited)}
        for way in self.ways:
            if any(way.target == after and before in way.sources for before, after in pairs):
                yield way.name


def published() -> Chart:
    """Return the drawing of this specification."""
    return Chart(data.text("chart.svg"))


def _number(element: Xml.Element, name: str) -> float:
    try:
        return float(element.get(name) or 0)
    except ValueError:
        return 0.0


# The allowed elements and attributes of a drawing; others are left out of the page.
_ELEMENTS: Final = frozenset({"g", "path", "circle", "rect", "line", "text", "tspan", "polygon"})
_ATTRIBUTES: Final = frozenset(
    "class d x y x1 y1 x2 y2 cx cy r rx ry dx dy width height points text-anchor transform".split()
)


def _copy(element: Xml.Element) -> Html:
    name = element.tag.removeprefix(_SVG)
    inner = [element.text, *_inner(element)]
    if name not in _ELEMENTS:
        return join(inner)
    kept = {key.replace("-", "_"): value for key, value in element.items() if key in _ATTRIBUTES}
    return tag(name, *inner, **{f"{key}_" if key == "class" else key: value for key, value in kept.items()})


def _inner(element: Xml.Element) -> Iterable[str | None]:
    for each in element:
        yield _copy(each)
        yield each.tail
