"""Puts the published drawing of the chart into the page, once, and lights up the path of each case by style alone.

Every state and every way of the drawing answers to a property of its own; a case sets those that it went. Nothing of
the drawing is hard-coded but its class names: it is generated, and changes with the chart.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from xml.etree import ElementTree as Xml

from markupsafe import Markup

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
        self._drawn = Xml.Element("g", id="chart")
        self.ways: list[Way] = []
        self._centres: dict[float, str] = {}
        self._names: dict[str, str] = {}
        self.extent = ("0", "0", "1", "1")
        """The corner of the drawing, its width and its height."""
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
        width, height = max(xs, default=0) + 80, max([*ys, *texts], default=0) - top + _MARGIN
        self.extent = ("0", f"{top:g}", f"{width:g}", f"{height:g}")
        for group in region.iter(f"{_SVG}g"):
            for each in group:
                each.tail = None  # indentation
        way: Xml.Element | None = None
        for each in region:
            classes = (each.get("class") or "").split()
            if "way" in classes:
                way = Xml.SubElement(self._drawn, "g", {"class": "move", "id": f"w{len(self.ways)}"})
                way.extend(self._way(each))
            elif way is not None and each.tag in (f"{_SVG}circle", f"{_SVG}text"):
                way.extend(_copies(each))
                if source := self._centres.get(_number(each, "cx")):
                    self.ways[-1].sources.add(source)
            elif "state" in classes:
                name = (each.findtext(f"{_SVG}title") or "").strip()
                state = Xml.SubElement(self._drawn, "g", {"class": "state", "id": self._names[name]})
                state.extend(copy for inner in each if inner.tag != f"{_SVG}title" for copy in _copies(inner))
            elif each.get("class") != "title":
                self._drawn.extend(_copies(each))

    def _way(self, path: Xml.Element) -> Iterator[Xml.Element]:
        found = _WAY.fullmatch(path.get("d") or "")
        if found is None:
            self.ways.append(Way(f"w{len(self.ways)}", set(), ""))
            yield from _copies(path)
            return
        x, y, to = float(found[1]), float(found[2]), float(found[3])
        self.ways.append(Way(f"w{len(self.ways)}", set(), self._centres.get(to, "")))
        back = 9 if to < x else -9
        yield Xml.Element("path", {"class": "way", "d": f"M{x:g},{y:g} H{to:g}"})
        yield Xml.Element("path", {"class": "tip", "d": f"M{to:g},{y:g} l{back},-5 v10 z"})

    @property
    def drawing(self) -> Markup:
        """The drawing, as an element that can be shown several times."""
        return Markup(Xml.tostring(self._drawn, "unicode", method="html"))

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


def _copies(element: Xml.Element) -> Iterator[Xml.Element]:
    """Copy what may be on the page: the element, or what it holds."""
    inner = [copy for each in element for copy in _copies(each)]
    name = element.tag.removeprefix(_SVG)
    if name not in _ELEMENTS:
        yield from inner
        return
    kept = Xml.Element(name, {key: value for key, value in element.items() if key in _ATTRIBUTES})
    kept.text, kept.tail = element.text, element.tail
    kept.extend(inner)
    yield kept
