"""Measures pinnace beside two releases of the original agent, and writes a page with tables and plots.

    .venv/bin/python tests/benchmarks/measure.py [--runs 7] [--only start,deltas] [--quick] [--busy]
                                                 [--out docs/measurements.md] [--from docs/measurements/samples.json]

Everything is real: processes, pipes, files, a model server in a process of its own. The programs take turns, each time
another one first, so that a busy moment of the machine hits all. Raw samples are kept beside the page, which can be
made anew from them (`--from`). With `--only` the other groups keep the samples that are there. A machine that has
other things to do is refused, unless `--busy` says that the figures are not meant seriously; the page says so then.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import against_original as work
import long_session
import node_extension
import sessions
import shell_output
from floors import PYTHON, echo, floor, parsed, synced
from measured_page import OURS_PI, OURS_SEED, PI, SEED, US, write_page
from side_by_side import (
    NODE,
    ORIGINAL,
    OURS,
    REPOSITORY,
    TOOLS,
    Item,
    Program,
    Samples,
    install_product,
    model_server,
    run,
)

from pinnace_fuzz.harness.adapters import prepare_pi_home

SEED_ORIGINAL: Final = [
    NODE,
    TOOLS / "pi-0.80.2" / "node_modules" / "@earendil-works" / "pi-coding-agent" / "dist" / "cli.js",
]
BUSY_LOAD: Final = 0.7
"""Of a machine with nothing else to do, a minute's mean is below this."""
MAIN: Final = (US, PI)
CUMULATIVE: Final = (OURS_SEED, OURS_PI, SEED)


class Work(NamedTuple):
    """An item and how it is measured."""

    group: str
    item: Item
    programs: Sequence[str] = MAIN
    is_long: bool = False
    """Left out of a quick run."""
    most_runs: int = 1_000
    has_session: bool = False


def _streams() -> list[Work]:
    found = [Work("deltas", Item("", work.streamed("framed", size))) for size in (1_000, 10_000)]
    found += [
        Work("deltas", Item("", work.streamed("framed", 100_000)), is_long=True, most_runs=5),
        Work("deltas", Item("", work.streamed("packed", 10_000))),
        Work("deltas", Item("", work.streamed("paced", work.PACED))),
        Work("cumulative", Item("", work.streamed("framed", 1_000)), CUMULATIVE),
        Work("cumulative", Item("", work.streamed("framed", 5_000)), CUMULATIVE, is_long=True, most_runs=3),
        # A minute and six gigabytes of the original's.
        Work("cumulative", Item("", work.streamed("framed", 20_000)), CUMULATIVE, is_long=True, most_runs=1),
    ]
    return found


def _sessions() -> list[Work]:
    def kept(item: Item, size: int = 0) -> Work:
        is_long = size > 20_000 or item.group == "turns"
        most_runs = 2 if item.group == "turns" else 3 if is_long else 5
        return Work("turns" if item.group == "turns" else "sessions", item, MAIN, is_long, most_runs, True)

    opened = [kept(Item("open", sessions.open_of(size)), size) for size in sessions.SIZES]
    lists = [kept(Item("find", sessions.list_long(size), is_ours_only=True), size) for size in sessions.SIZES]
    prompts = kept(Item("append", long_session.appended))
    return [*opened, prompts, *(kept(item) for item in sessions.LIGHT), *lists]


WORK: Final = (
    *(Work("floors", Item("", floor(name))) for name in PYTHON),
    Work("floors", Item("", echo)),
    Work("floors", Item("", parsed, is_ours_only=True), has_session=True),
    Work("floors", Item("", synced, is_ours_only=True), has_session=True),
    Work("start", Item("", work.start)),
    Work("start", Item("", work.first_start)),
    Work("prompt", Item("", work.first_delta)),
    *_streams(),
    Work("abort", Item("", work.abort)),
    Work("reads", Item("", work.reads)),
    Work("reads", Item("", work.read_while("paced"))),
    Work("reads", Item("", work.read_while("flood"))),
    *(Work("shell", item, most_runs=5) for item in shell_output.ITEMS),
    *_sessions(),
    Work("fleet", Item("", work.fleet), most_runs=5),
    Work("extensions", Item("", node_extension.costs)),
)
ORDER: Final = list(dict.fromkeys(each.group for each in WORK))


def programs(root: Path, address: str, *, has_session: bool) -> dict[str, Program]:
    """Lay out a home for each program."""
    commands: Mapping[str, Sequence[object]] = {
        US: [*OURS, "--protocol", "1.5"],
        PI: ORIGINAL,
        OURS_SEED: [*OURS, "--protocol", "seed"],
        OURS_PI: [*OURS, "--protocol", "pi"],
        SEED: SEED_ORIGINAL,
    }
    found: dict[str, Program] = {}
    for name, command in commands.items():
        folder = root / f"{'kept' if has_session else 'unkept'}-{name.replace(' ', '-')}"
        # The bundle of the original lacks the loader of extensions, which an older release of it brings.
        env = {"PINNACE_NODE": str(NODE), "NODE_PATH": str(SEED_ORIGINAL[1].parents[3])}
        home = prepare_pi_home(folder, address, has_session=has_session, env=env)
        found[name] = Program(name, [*map(str, command)], home)
    return found


def measured(wanted: Sequence[Work], runs: int) -> Iterator[tuple[str, Samples]]:
    """Measure; give each item's samples when they are there, with its group."""
    root = Path(tempfile.mkdtemp(prefix="pinnace-bench-"))
    try:
        with model_server() as address:
            homes = {is_kept: programs(root, address, has_session=is_kept) for is_kept in (False, True)}
            for name in dict.fromkeys(name for each in wanted for name in each.programs):
                for is_kept in (False, True):  # the first start of a home compiles and caches
                    work.start(homes[is_kept][name])
            for each in wanted:
                chosen = [homes[each.has_session][name] for name in each.programs]
                item = each.item._replace(group=each.group)
                yield each.group, run([item], chosen, min(runs, each.most_runs))
    finally:
        shutil.rmtree(root)


def machine() -> dict[str, object]:
    """Say what is measured on, and what."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), platform.machine())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    node = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    commit = subprocess.run(
        ["git", "-C", REPOSITORY, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{os.cpu_count()} cores ({model}), {pages / 2**30:.0f} GiB, Linux {platform.release()}",
        "versions": f"pinnace {commit}, CPython {platform.python_version()}, Node {node}",
    }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="of each item and program; of long ones fewer")
    parser.add_argument("--only", type=lambda text: text.split(","), default=ORDER, help=f"some of {','.join(ORDER)}")
    parser.add_argument("--quick", action="store_true", help="without what takes minutes")
    parser.add_argument("--busy", action="store_true", help="measure although the machine has other things to do")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "measurements.md")
    parser.add_argument("--from", dest="samples", type=Path, help="make the page from samples; measure nothing")
    given = parser.parse_args()
    if unknown := set(given.only) - set(ORDER):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    if given.samples is None:
        if missing := [str(path) for path in (*ORIGINAL, *SEED_ORIGINAL) if not path.exists()]:
            parser.error(f"{', '.join(missing)} not there: scripts/peers installs them")
        if os.getloadavg()[0] > BUSY_LOAD and not given.busy:
            parser.error(f"load {os.getloadavg()[0]:.1f}: the machine has other things to do; wait, or give --busy")
    return given


def main() -> None:
    """Measure and write the page."""
    given = arguments()
    if given.samples is not None:
        write_page(json.loads(given.samples.read_text()), given.out)
        return
    kept = given.out.with_suffix("") / "samples.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    groups: dict[str, Any] = json.loads(kept.read_text())["groups"] if kept.exists() else {}
    load = os.getloadavg()[0]
    install_product()
    said = {**machine(), "runs": given.runs, "is_busy": load > BUSY_LOAD}
    begun_s = time.monotonic()
    wanted = [each for each in WORK if each.group in given.only and not (given.quick and each.is_long)]
    fresh: dict[str, Any] = {}
    for group, samples in measured(wanted, given.runs):
        said["load"] = [round(load, 2), round(os.getloadavg()[0], 2)]
        said["minutes"] = round((time.monotonic() - begun_s) / 60, 1)
        fresh.setdefault(group, {"conditions": said, "samples": {}})["samples"] |= samples
        together = groups | fresh
        data = {"groups": {name: together[name] for name in ORDER if name in together}}
        kept.write_text(json.dumps(data, indent=1) + "\n")
    write_page(json.loads(kept.read_text()), given.out)
    sys.stderr.write(f"{given.out}\n")


if __name__ == "__main__":
    main()
