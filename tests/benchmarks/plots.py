"""Draws measurements as SVG files, for pages that are light or dark.

Decides how a plot looks, not what it shows. Nothing in a file runs or loads anything.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pygal  # type: ignore[import-untyped]
from pygal.style import Style  # type: ignore[import-untyped]

Points = Sequence[tuple[float, float]]

# Told apart without colours by order and marks too; readable on white and on black.
COLOURS: Final = ("#2f7ed8", "#d9762b", "#2a9d6f", "#b14fc4", "#c9a400", "#d64545", "#5f7f95", "#8c6d46")
# Text and lines change with the page; the ground is the page's own.
TONES: Final = """
.axis .guide, .axis .major.guide { stroke: #c4c4c4 !important; stroke-dasharray: 2,4 !important; }
@media (prefers-color-scheme: dark) {
  .title, .legend text, .axis text, .axis .major text, .no_data { fill: #e6e6e6 !important; }
  .axis .line, .axis path { stroke: #8a8a8a !important; }
  .axis .guide, .axis .major.guide { stroke: #474747 !important; }
}
"""
WIDTH: Final = 860
ROW_PIXELS: Final = 24
LEGEND_PIXELS: Final = 22
LEGEND_COLUMNS: Final = 3


def _style() -> Style:
    return Style(
        background="transparent",
        plot_background="transparent",
        foreground="#333333",
        foreground_strong="#222222",
        foreground_subtle="#777777",
        opacity=".9",
        colors=COLOURS,
        font_family="system-ui, sans-serif",
        title_font_size=17,
        label_font_size=13,
        major_label_font_size=13,
        legend_font_size=13,
    )


def _common(title: str, height: int, series: int) -> dict[str, Any]:
    # What the library leaves for a legend is too little for several lines.
    legend = LEGEND_PIXELS * max(2, math.ceil(series / LEGEND_COLUMNS))
    return {
        "title": title,
        "style": _style(),
        "width": WIDTH,
        "height": height + 2 * legend,
        "margin_bottom": legend,
        "truncate_legend": -1,
        "js": (),
        "css": ["file://style.css", "file://graph.css", f"inline:{TONES}"],
        "legend_at_bottom": True,
        "legend_at_bottom_columns": LEGEND_COLUMNS,
        "explicit_size": True,
        "show_x_guides": True,
        "disable_xml_declaration": True,
    }


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1_000:g}k" if value >= 1_000 else f"{value:g}"


def _save(chart: Any, path: Path) -> None:
    text: str = chart.render(is_unicode=True)
    # Made anew from the same samples, a file is the same.
    text = text.replace(chart.uuid, path.stem)
    text = re.sub(r"<script.*?</script>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<desc[^>]*>.*?</desc>", "", text, flags=re.DOTALL)
    path.write_text("\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n")


def bars(path: Path, title: str, labels: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> None:
    """Draw rows, each with a bar for each program."""
    height = 120 + ROW_PIXELS * len(labels) * len(series)
    chart = pygal.HorizontalBar(**_common(title, height, len(series)), print_values=True, truncate_label=-1)
    chart.config.style.value_font_size = 11
    chart.value_formatter = lambda value: "" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    # The first row is the lowest.
    chart.x_labels = labels[::-1]
    for name, values in series.items():
        chart.add(name, values[::-1])
    _save(chart, path)


def _ticks(values: Sequence[float]) -> list[float]:
    """Return powers of ten, with twos and fives where there are few, around values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    return [step * 10.0**power for power in range(low, high + 1) for step in steps if power < high or step == 1]


def lines(
    path: Path,
    title: str,
    axes: tuple[str, str],
    series: Mapping[str, Points],
    *,
    is_log: bool = False,
    height: int = 420,
) -> None:
    """Draw points, joined; with logarithms of both axes a slope is an exponent."""
    shown = {name: points for name, points in series.items() if points}
    if not shown:
        return
    chart = pygal.XY(
        **_common(title, height, len(shown)),
        x_title=axes[0],
        y_title=axes[1],
        logarithmic=is_log,
        dots_size=3,
        show_y_guides=True,
    )
    chart.value_formatter = chart.config.x_value_formatter = _short
    chart.x_value_formatter = _short
    if is_log:
        chart.x_labels = _ticks([x for points in shown.values() for x, _ in points])
        chart.y_labels = _ticks([y for points in shown.values() for _, y in points])
    for name, points in shown.items():
        chart.add(name, [*points])
    _save(chart, path)
