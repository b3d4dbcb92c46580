"""Chooses what is plotted of the measurements, for whoever writes the page. Must not measure."""

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import plots
from side_by_side import percentile

Columns = Mapping[str, Sequence[float]]
Groups = Mapping[str, Mapping[str, Columns]]

# What most people ask first: group, figure, and how a row is called.
HEADLINES: Final = (
    ("start", "start to the first answer, ms", "start to the first answer"),
    ("start", "idle: private, MiB", "idle memory, private"),
    ("start", "idle: proportional share, MiB", "idle memory, proportional"),
    ("prompt", "prompt to first delta, first prompt, ms", "first prompt to delta"),
    ("prompt", "prompt to first delta, later prompts, ms", "later prompt to delta"),
    ("deltas", "10,000 deltas, framed: wall, ms", "10,000 deltas"),
    ("deltas", "100,000 deltas, framed: wall, ms", "100,000 deltas"),
    ("deltas", "1,000 deltas, paced: CPU a delta, us", "CPU a delta, paced"),
    ("abort", "abort to settled, ms: p50", "abort, p50"),
    ("abort", "abort to settled, ms: p99", "abort, p99"),
    ("reads", "get_state while an answer comes (paced), ms: p99", "round trip, p99, paced"),
    ("shell", "lines (50 MB): wall, ms", "50 MB of output"),
    ("sessions", "20,000 messages: start to get_state, ms", "20,000 messages opened"),
    ("sessions", "20,000 messages, opened: private, MiB", "memory then"),
    ("turns", "after 2,000 turns: private, MiB", "memory after 2,000 turns"),
    ("fleet", "10 agents: start until all have answered, ms", "ten agents start"),
    ("fleet", "10 agents idle: proportional share, MiB", "memory of ten agents"),
)
SLOWEST_OF: Final = (2, 5, 10, 20, 50, 100, 200)


def draw(raw: Mapping[str, Any], groups: Groups, folder: Path) -> dict[str, list[Path]]:
    """Draw what there are samples of; return the files by group."""
    found: dict[str, list[Path]] = {}

    def path(group: str, name: str) -> Path:
        file = folder / f"{name}.svg"
        found.setdefault(group, []).append(file)
        return file

    if rows := _ratios(groups):
        labels = [label for label, _ in rows]
        series = {"pinnace / pi 1.5.2": [value for _, value in rows]}
        plots.bars(path(next(iter(groups)), "ratios"), "Part of what pi 1.5.2 needs (1: as much)", labels, series)
    for group, name, title, wanted in (
        ("start", "start", "Start to the first answer, ms", r"(start .*), ms$"),
        ("start", "memory", "Memory of an idle process, MiB", r"idle: (.*), MiB$"),
        ("fleet", "fleet", "Memory of ten agents, MiB", r"10 agents (.*), MiB$"),
    ):
        if group in groups:
            _bars(path(group, name), title, groups[group], wanted)
    sized = r"([\d,]+) deltas, framed: {}$"
    speeds: dict[str, plots.Points] = {}
    for group in ("deltas", "cumulative"):
        if group in groups:
            speeds |= _sized(groups[group], sized.format("deltas/s"))
    if speeds:
        file = path("cumulative" if "cumulative" in groups else "deltas", "deltas")
        plots.lines(file, "Deltas a second", ("deltas of the answer", ""), speeds, is_log=True)
    if "cumulative" in groups:
        sizes = _sized(groups["cumulative"], sized.format("stdout, MB"))
        plots.lines(path("cumulative", "stdout"), "Written to stdout, MB", ("deltas", ""), sizes, is_log=True)
    if "sessions" in groups:
        for name, title, figure in (
            ("open", "Start to get_state with a session, ms", r"([\d,]+) messages: start to get_state, ms$"),
            ("open-memory", "Private memory with a session, MiB", r"([\d,]+) messages, opened: private, MiB$"),
        ):
            plots.lines(
                path("sessions", name), title, ("messages", ""), _sized(groups["sessions"], figure), is_log=True
            )
    if "turns" in groups:
        points = _sized(groups["turns"], r"a turn at ([\d,]+), ms$")
        plots.lines(path("turns", "turns"), "A turn, ms", ("turns before it", ""), points)
    for group, name, title in (("reads", "reads", "get_state, ms"), ("abort", "abort", "Abort to settled, ms")):
        if group in raw:
            curves = _curves(raw[group]["samples"])
            plots.lines(path(group, name), title, ("of so many, one is slower", ""), curves, is_log=True)
    return found


def _ratios(groups: Groups) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for group, figure, label in HEADLINES:
        values = groups.get(group, {}).get(figure, {})
        if values.get("pinnace") and values.get("pi 1.5.2"):
            quotient = statistics.median(values["pinnace"]) / statistics.median(values["pi 1.5.2"])
            found.append((label, round(quotient, 3)))
    return found


def _bars(path: Path, title: str, figures: Mapping[str, Columns], wanted: str) -> None:
    rows = {match[1]: columns for figure, columns in figures.items() if (match := re.match(wanted, figure))}
    programs = dict.fromkeys(name for columns in rows.values() for name in columns)
    series: dict[str, list[float | None]] = {
        program: [statistics.median(columns[program]) if program in columns else None for columns in rows.values()]
        for program in programs
    }
    plots.bars(path, title, [*rows], series)


def _sized(figures: Mapping[str, Columns], wanted: str) -> dict[str, plots.Points]:
    """Collect figures that have their size in their name, by program."""
    found: dict[str, list[tuple[float, float]]] = {}
    for figure, columns in figures.items():
        if match := re.match(wanted, figure):
            for program, values in columns.items():
                found.setdefault(program, []).append((float(match[1].replace(",", "")), statistics.median(values)))
    return {program: sorted(points) for program, points in found.items()}


def _curves(samples: Mapping[str, Mapping[str, Sequence[float | Sequence[float]]]]) -> dict[str, plots.Points]:
    """Make a curve of all that was measured of each figure that is many numbers."""
    found: dict[str, plots.Points] = {}
    for figure, columns in samples.items():
        name = re.sub(r"^(get_state|abort to settled)( while an answer comes)?|, ms$", "", figure).strip(" ()")
        for program, runs in columns.items():
            pooled = [value for run in runs if not isinstance(run, float | int) for value in run]
            if pooled:
                found[f"{program}, {name}".strip(", ")] = [
                    (count, percentile(pooled, 1 - 1 / count)) for count in SLOWEST_OF
                ]
    return found
