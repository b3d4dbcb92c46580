"""Chooses paths of the model to play against agents, and writes them.

    python -P -m pinnace_campaigns.model_check.trails            write spec/trails from the chosen paths (no Spin)
    python -P -m pinnace_campaigns.model_check.trails --check    exit code 1 if that would change a file
    python -P -m pinnace_campaigns.model_check.trails --walk 60  walk anew, 60 times for each set and number, and choose

A path is chosen if it takes a row of the chart that none before it takes, or two rows one after the other that none
has; the shortest come first. `spec/trails/paths.txt` holds what the model outputs, the YAML files are made of it.
"""

import argparse
import itertools
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.model_check.leads import variants
from pinnace_campaigns.model_check.paths import ModelPath, read_path
from pinnace_campaigns.model_check.scenario import scenario_file
from pinnace_campaigns.model_check.script import NotPlayable, script_of
from pinnace_campaigns.model_check.spin import ModelBroken, SpinMissing, walk
from pinnace_spec import data
from pinnace_spec.generate.promela.names import EXCLUDED, state_name, variable
from pinnace_spec.generate.promela.promela import model_text, sets_of
from pinnace_spec.statechart.transitions import ALWAYS, CHART, REGIONS, STATES, Region

FOLDER: Final = data.FOLDER / "trails"
PATHS: Final = "paths.txt"
# Of each set of commands: at most so many of them. The first ones let stdin end while something is at work.
WALKS: Final[Mapping[str, tuple[int, ...]]] = {
    "core": (2, 4, 6),
    "barriers": (3, 5, 6),
    "queues": (3, 5, 6),
    "retries": (3, 5, 6),
    "shells": (3, 5),
    "settings": (4, 6),
    "all": (3, 5),
}
MOST: Final = 150
# Of walks to a state, and what is sent there.
STATES_SET: Final = "states"
_SECTION: Final = re.compile(r"inline (offer|eventless)_(\w+)\(\) \{")
_GUARD: Final = re.compile(r":: g_(\w+) -> d_step \{ fired\+\+")
_FIRES: Final = "d_step { fired++"


class TakenRow(NamedTuple):
    """The part of a transition that distinguishes it from others."""

    region: Region
    source: str
    trigger: str
    guard: str


# Inlines, since Spin limits the text of the inline that they are used in.
_REPORTS: Final = (
    'inline took(place, state) { SAY("row %e %d\\n", state, place) }',
    'inline took_by(place, state) { took(place, state); SAY("by %e\\n", t) }',
)


class Trail(NamedTuple):
    """A path with its name and the rows that it takes."""

    name: str
    path: ModelPath
    rows: tuple[TakenRow, ...]
    lines: tuple[str, ...]


def all_rows() -> frozenset[TakenRow]:
    """Return the rows that the models know."""
    return frozenset(
        TakenRow(row.region, row.source, row.trigger, row.guard) for row in CHART if row.trigger not in EXCLUDED
    )


def instrumented(text: str) -> tuple[str, Sequence[tuple[Region, str]]]:
    """Let a model report its transitions; return it with the region and the guard of each place that reports."""
    places: list[tuple[Region, str]] = []
    region: Region | None = None
    is_always = False
    lines: list[str] = []
    for line in text.split("\n"):
        if found := _SECTION.match(line):
            is_always = found[1] == "eventless"
            region = next(each for each in REGIONS if each == found[2])
        elif line.startswith("active "):
            region = None
        if region is not None and _FIRES in line:
            guard = _GUARD.search(line)
            took = "took" if is_always else "took_by"
            outputs = f"d_step {{ {took}({len(places)}, {variable(region)}); fired++"
            places.append((region, guard[1] if guard else ""))
            line = line.replace(_FIRES, outputs)
        lines.append(line)
    first = next(at for at, line in enumerate(lines) if line.startswith("inline "))
    lines[first:first] = _REPORTS
    # Else most walks would end before the client has sent what it may.
    changed = "\n".join(lines).replace(
        ":: IO == io_open && CALM -> t = t_stop", ":: sent == N && IO == io_open && CALM -> t = t_stop"
    )
    return changed, places


def read_walk(lines: Iterable[str], places: Sequence[tuple[Region, str]]) -> tuple[list[str], list[TakenRow]]:
    """Divide the output of an instrumented model into its own lines and the transitions."""
    own: list[str] = []
    rows: list[TakenRow] = []
    states = {state_name(region, state): state for region in REGIONS for state in STATES[region]}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "row":
            name, number = rest.split()
            region, guard = places[int(number)]
            rows.append(TakenRow(region, states[name], ALWAYS, guard))
        elif word == "by":
            rows[-1] = rows[-1]._replace(trigger=rest.removeprefix("t_"))
        else:
            own.append(line)
    return own, rows


def walks(count: int, folder: Path) -> Iterator[Trail]:
    """Walk through the model, with all the sets and numbers of commands; only what a client can bring about."""
    text, places = instrumented(model_text("run", CHART))
    for chosen, numbers in WALKS.items():
        for commands in numbers:
            values = {"N": commands, "SET": list(sets_of("run")).index(chosen), "REPLAY": 1}
            for seed in range(1, count + 1):
                yield from _playable(chosen, walk(text, folder, values, [seed])[0], places)
    for seed in range(1, max(1, count // 20) + 1):
        for variant, commands in variants(text):
            outputs = walk(variant, folder, {"N": commands, "SET": 1, "REPLAY": 1}, [seed])[0]
            yield from _playable(STATES_SET, outputs, places)


def _playable(name: str, outputs: Sequence[str], places: Sequence[tuple[Region, str]]) -> Iterator[Trail]:
    lines, rows = read_walk(outputs, places)
    path = read_path(lines)
    with suppress(NotPlayable):
        script_of(path, has_shells=True)
        yield Trail(name, path, tuple(rows), tuple(lines))


def is_race(path: ModelPath) -> bool:
    """Say whether what happens depends on what is faster.

    Without extensions no extension is asked about a session command, and it is over before the next line is read, or is
    not. What a command has returned from the queue is on the disk before its response, and the end of a run does not
    wait for that.
    """
    is_asking = False
    for step in path.steps:
        if is_asking and not step.trigger.startswith("ask_"):
            return True
        is_asking = (is_asking or "job ask" in step.outputs) and not step.trigger.startswith("ask_")
        words = [output.partition(" ")[0] for output in step.outputs]
        if "return_queued" in words and "settled" in words:
            between = words[words.index("return_queued") : words.index("settled")]
            if "ok" in between:
                return True
    return False


def choose(found: Sequence[Trail], most: int = MOST) -> list[Trail]:
    """Choose those that take what none before takes: single rows first, then pairs."""
    found = list({trail.lines: trail for trail in found if not is_race(trail.path)}.values())
    chosen: list[Trail] = []
    seen: set[object] = set()
    sorted_found = sorted(found, key=lambda trail: (len(trail.path.steps), trail.lines))
    for measure in (_rows_of, _pairs_of):
        left = [trail for trail in sorted_found if trail not in chosen]
        while left and len(chosen) < most:
            # The one with most that is new for its length; few steps make a case that can be read.
            best = max(left, key=lambda trail: len(measure(trail) - seen) / (4 + len(trail.path.steps)))
            if not measure(best) - seen:
                break
            chosen.append(best)
            left.remove(best)
            seen |= measure(best)
    numbers: dict[str, int] = {}
    named: list[Trail] = []
    for trail in sorted(chosen, key=lambda trail: (trail.name, len(trail.path.steps), trail.lines)):
        numbers[trail.name] = numbers.get(trail.name, 0) + 1
        named.append(trail._replace(name=f"{trail.name}-{numbers[trail.name]}"))
    return named


def _rows_of(trail: Trail) -> set[object]:
    return set(trail.rows)


def _pairs_of(trail: Trail) -> set[object]:
    outputs = [row for row in trail.rows if row.trigger != ALWAYS]
    return set(itertools.pairwise(outputs))


def paths_text(trails: Sequence[Trail]) -> str:
    """Print trails as the committed file holds them."""
    parts = [
        "# Paths of model `run`, as it printed them, and the transitions that each takes:"
        " `python -P -m pinnace_campaigns.model_check.trails`."
    ]
    for trail in trails:
        parts.append(f"\n= {trail.name}")
        parts += trail.lines
        parts += [f"| {' '.join(row[:3])} {row.guard}".rstrip() for row in dict.fromkeys(trail.rows)]
    return "\n".join(parts) + "\n"


def read_paths(text: str) -> list[Trail]:
    """Read the committed file."""
    trails: list[Trail] = []
    for block in text.split("\n= ")[1:]:
        name, *rest = block.rstrip("\n").split("\n")
        lines = tuple(line for line in rest if not line.startswith("| "))
        rows = tuple(_row(line) for line in rest if line.startswith("| "))
        trails.append(Trail(name, read_path(lines), rows, lines))
    return trails


def _row(line: str) -> TakenRow:
    _, region, source, trigger, *guard = line.split(" ")
    return TakenRow(next(each for each in REGIONS if each == region), source, trigger, guard[0] if guard else "")


def committed() -> list[Trail]:
    """Return the trails that the specification has."""
    return read_paths((FOLDER / PATHS).read_text(encoding="utf-8"))


def files(trails: Sequence[Trail]) -> dict[str, str]:
    """Return the scenario files that follow from trails, by name: one for each set of commands."""
    rules = {TakenRow(row.region, row.source, row.trigger, row.guard): row.rules for row in CHART}
    groups: dict[str, list[tuple[str, ModelPath, Sequence[str]]]] = {}
    for trail in trails:
        cited = sorted({rule for row in trail.rows for rule in rules.get(row, ())})
        groups.setdefault(trail.name.rpartition("-")[0], []).append((trail.name, trail.path, cited))
    return {f"{name}.yaml": scenario_file(name, group) for name, group in groups.items()}


def coverage(trails: Sequence[Trail]) -> str:
    """Say how much of the chart trails take."""
    rows = all_rows()
    taken = {row for trail in trails for row in trail.rows} & rows
    lines = [f"{len(trails)} trails take {len(taken)} of {len(rows)} rows of the models"]
    for region in REGIONS:
        of_region = {row for row in rows if row.region == region}
        lines.append(f"  {region}: {len(of_region & taken)} of {len(of_region)}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -P -m pinnace_campaigns.model_check.trails")
    parser.add_argument("--walk", type=int, default=0, metavar="COUNT", help="walk through the model, and choose anew")
    parser.add_argument("--more", action="store_true", help="choose from the trails that there are, too")
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--missing", action="store_true", help="print the rows that no trail takes")
    options = parser.parse_args(arguments)
    if options.walk:
        FOLDER.mkdir(exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(prefix="pinnace-trails-") as folder:
                known = (
                    [each._replace(name=each.name.rpartition("-")[0]) for each in committed()] if options.more else []
                )
                trails = choose([*known, *walks(options.walk, Path(folder))])
        except (SpinMissing, ModelBroken) as error:
            sys.stderr.write(f"{error}\n")
            return 2
        (FOLDER / PATHS).write_text(paths_text(trails), encoding="utf-8")
    trails = committed()
    wanted = files(trails)
    stale = [
        name for name, text in wanted.items() if not (FOLDER / name).is_file() or (FOLDER / name).read_text() != text
    ]
    stale += [path.name for path in FOLDER.glob("*.yaml") if path.name not in wanted]
    if not options.check:
        for path in FOLDER.glob("*.yaml"):
            path.unlink()
        for name, text in wanted.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{coverage(trails)}\n")
    if options.missing:
        for row in sorted(all_rows() - {row for trail in trails for row in trail.rows}):
            sys.stdout.write(f"  {' '.join(row)}\n")
    if options.check and stale:
        sys.stdout.write(f"not up to date: {', '.join(stale)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
