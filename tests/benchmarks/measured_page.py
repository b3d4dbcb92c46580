"""Makes the page of measurements: aims, plots, tables, from samples alone.

Decides what is held against what. Must not measure.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from measured_plots import draw
from side_by_side import flat, number, ratio, table

US: Final = "pinnace"
PI: Final = "pi 1.5.2"
OURS_SEED: Final = "pinnace, seed"
OURS_PI: Final = "pinnace, pi"
SEED: Final = "pi 0.80.2"

COMMAND: Final = ".venv/bin/python tests/benchmarks/measure.py"
INTRODUCTION: Final = f"""\
This page is written by `{COMMAND}` from its
[raw samples](measurements/samples.json); do not edit it. The remarks are in `measurements/remarks.md`; another page
shows [how costs grow](measurements/growth.md) with sizes.

pinnace speaks `--protocol 1.5` here, as pi 1.5.2 does, except in the table of the cumulative profiles. Each figure is a
median with its range; the ratio is pinnace's median divided by the original's. Processes, pipes, files and the model
server are real, and the programs run alternately. Neither program is measured in the first run of its home, since both
keep compiled code. Private memory belongs to one process alone; the proportional share adds its part of shared memory.
`p50` and `p99` are percentiles within a run.
"""

Kind = Literal["ratio at most", "ratio at least", "at most"]


class Aim(NamedTuple):
    """What is wanted of a figure."""

    text: str
    group: str
    figure: str
    kind: Kind
    limit: float


IN_A_STREAM: Final = "get_state while an answer comes"
ONE_MORE: Final = "what it needs more"
AIMS: Final = (
    Aim("First answer after the start", "start", "start to the first answer, ms", "ratio at most", 0.6),
    Aim("Idle memory, private", "start", "idle: private, MiB", "ratio at most", 0.4),
    Aim("Idle memory, proportional share", "start", "idle: proportional share, MiB", "ratio at most", 0.4),
    Aim("Ten agents, private memory", "fleet", "10 agents idle: private, MiB", "ratio at most", 0.4),
    Aim("Ten agents, proportional share", "fleet", "10 agents idle: proportional share, MiB", "ratio at most", 0.4),
    Aim("Deltas a second, 10,000", "deltas", "10,000 deltas, framed: deltas/s", "ratio at least", 4),
    Aim("Deltas a second, 100,000", "deltas", "100,000 deltas, framed: deltas/s", "ratio at least", 4),
    Aim("Abort to settled, p99", "abort", "abort to settled, ms: p99", "ratio at most", 1),
    Aim("20,000 messages opened", "sessions", "20,000 messages: start to get_state, ms", "ratio at most", 0.5),
    Aim("20,000 messages read", "sessions", "20,000 messages: start to get_messages, ms", "ratio at most", 0.5),
    Aim("20,000 messages, memory", "sessions", "20,000 messages, opened: private, MiB", "ratio at most", 0.5),
    Aim("Round trip, 500 deltas a second, p99, ms", "reads", f"{IN_A_STREAM} (paced), ms: p99", "at most", 5),
    Aim("Round trip, deltas without end, p99, ms", "reads", f"{IN_A_STREAM} (flood), ms: p99", "at most", 5),
    Aim("An extension in TypeScript, processor, ms", "extensions", f"{ONE_MORE}: CPU, ms", "at most", 80),
    Aim("An extension in TypeScript, private, MiB", "extensions", f"{ONE_MORE}: private, MiB", "at most", 60),
    Aim("An event for it, with its prompt, p50, ms", "extensions", "prompt that it handles, ms: p50", "at most", 1),
)

TITLES: Final = {
    "floors": (
        "What the languages cost",
        "Processes that do nothing, or one thing alone: the limits below which no program of theirs comes.",
    ),
    "start": ("Start and idle memory", "From just before the process starts to its answer to `get_state`."),
    "prompt": ("A prompt", "The model answers at once."),
    "deltas": (
        "Long answers",
        "Of 8 characters a delta, to `agent_end`. Framed: each in an HTTP chunk of its own, as fast as it is taken; "
        "packed: as many as a packet holds; paced: one every 2 ms.",
    ),
    "cumulative": ("Long answers in the cumulative profiles", "The whole message stands twice in every update."),
    "abort": ("Abort", "Of answers that hang: to the response and `agent_settled`, whichever is later."),
    "reads": ("Round trips", "`get_state`, each sent when the one before was answered; the client does not parse."),
    "shell": ("Commands that print much", "The model's tool and the client's `bash`."),
    "sessions": ("Sessions", "Messages of about 1 KB, a quarter of them with tool calls."),
    "turns": ("A long conversation", "A prompt and an answer of a word, again and again, saved to a file."),
    "fleet": ("Ten agents at once", "Sums over the processes and their children."),
    "extensions": (
        "An extension in TypeScript",
        "One that handles prompts by `input`. Sums over the processes, a second after the first answer; what node has "
        "compiled is there. A prompt that it handles goes to the extension and back, and is answered.",
    ),
}


def write_page(data: Mapping[str, Any], page: Path) -> None:
    """Write the page and its plots."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, dict[str, dict[str, list[float]]]] = {
        name: flat(group["samples"]) for name, group in data["groups"].items()
    }
    plots = draw(data["groups"], groups, folder)
    parts = ["# Measurements\n", INTRODUCTION, *_conditions(data["groups"]), *_aims(groups), *_behind(groups)]
    if (remarks := folder / "remarks.md").exists():
        parts += ["", remarks.read_text()]
    for name, group in data["groups"].items():
        title, text = TITLES[name]
        parts += ["", f"## {title}", "", text, "", *table(group["samples"], _columns(group["samples"])), ""]
        parts += [f"![{title}: {plot.stem}]({folder.name}/{plot.name})\n" for plot in plots.get(name, ())]
    page.write_text("\n".join(parts).replace("\n\n\n", "\n\n").rstrip() + "\n")


def _columns(samples: Mapping[str, Mapping[str, object]]) -> list[str]:
    found = {name for columns in samples.values() for name in columns}
    return [name for name in (US, OURS_SEED, OURS_PI, PI, SEED) if name in found]


def _conditions(groups: Mapping[str, Any]) -> Iterator[str]:
    measured: dict[str, list[str]] = {}
    for name, group in groups.items():
        measured.setdefault(json.dumps(group["conditions"], sort_keys=True), []).append(TITLES[name][0])
    for text, titles in measured.items():
        said = json.loads(text)
        begin, end = said["load"]
        which = "" if len(measured) == 1 else f" ({'; '.join(titles)})"
        yield (
            f"- {said['day']}{which}: {said['machine']}; {said['versions']}; {said['runs']} runs, of long ones fewer; "
            f"load {begin} before and {end} after {said['minutes']} minutes."
        )
        if said["is_busy"]:
            yield "  **The machine was busy with other things: these figures say little.**"


def _aims(groups: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> Iterator[str]:
    yield from ("", "## Aims", "", "| aim | wanted | measured | |", "|---|---|---|---|")
    for text, group, figure, kind, limit in AIMS:
        values = groups.get(group, {}).get(figure, {})
        if kind == "at most":
            found = statistics.median(values[US]) if values.get(US) else None
        else:
            found = ratio(values, US, PI)
        wanted = f"{kind.removeprefix('ratio ')} {limit:g}{'' if kind == 'at most' else ' times'}"
        if found is None:
            yield f"| {text} | {wanted} | - | not measured |"
            continue
        is_met = found >= limit if kind == "ratio at least" else found <= limit
        yield f"| {text} | {wanted} | {number(found)} | {'met' if is_met else '**not met**'} |"


def is_more_better(figure: str) -> bool:
    """Tell which way a figure is good."""
    return figure.endswith("deltas/s")


def _behind(groups: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> Iterator[str]:
    """List the rows in which the original needs less."""
    found: list[str] = []
    count = 0
    for group, figures in groups.items():
        for figure, values in figures.items():
            columns = [name for name in (US, OURS_SEED, PI, SEED) if values.get(name)]
            quotient = ratio(values, columns[0], columns[-1]) if len(columns) > 1 else None
            if quotient is None or figure.endswith("records"):
                continue
            count += 1
            if quotient < 1 if is_more_better(figure) else quotient > 1:
                found.append(f"| {TITLES[group][0]} | {figure} | {quotient:.2f} |")
    yield from ("", "## Where the original needs less", "")
    if not found:
        yield f"In none of {count} rows."
        return
    yield from (f"In {len(found)} of {count} rows:", "", "| | figure | ratio |", "|---|---|---|", *found)
