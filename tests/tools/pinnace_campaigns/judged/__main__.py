"""The command line: docs/judged.md from one command.

    python -P -m pinnace_campaigns.judged [--time 4m] [--at-once 2] [--only pp,omp] [--installed]

Installs what is missing (`scripts/peers judged`), judges every agent of the catalogue with the same time, jobs and
seed, and writes docs/judged.md and build/judged.html, the page of every case with the records that prove each finding.
The reports stay in `--keep`; a second run judges only agents that have none with these options. `--at-once` judges so
many agents beside each other, so the machine needs a processor for each. Exit codes: 0 the page is written, 1 nothing
was judged.
"""

import subprocess
import sys
from pathlib import Path

import click

from pinnace_campaigns.judged.catalogue import AGENTS, REPOSITORY
from pinnace_campaigns.judged.page import shipped, write
from pinnace_campaigns.judged.runs import judge_all


@click.command()
@click.option("--time", "time_text", default="4m", show_default=True, help="For each agent.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--at-once", type=click.IntRange(1), default=2, show_default=True, help="So many agents at a time.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Cases of an agent at a time.")
@click.option("--only", default="", help="Agents, by their names or the first words of these, separated by commas.")
@click.option("--installed", is_flag=True, help="Install nothing.")
@click.option(
    "--keep", type=click.Path(path_type=Path), default=REPOSITORY / ".conform" / "agents", help="Where reports stay."
)
@click.option("--out", type=click.Path(path_type=Path), default=REPOSITORY / "docs", help="The folder of judged.md.")
def main(time_text: str, seed: int, at_once: int, jobs: int, only: str, installed: bool, keep: Path, out: Path) -> None:
    """Judge ours and other agents, and write the page."""
    if not installed:
        # What is missing after it is shown on the page with its reason.
        subprocess.run([REPOSITORY / "scripts" / "peers", "judged"], stdin=subprocess.DEVNULL, check=False)
    wanted = only.split(",") if only else []
    agents = [each for each in AGENTS if not wanted or each.name in wanted or each.name.split()[0] in wanted]
    options = ["--time", time_text, "--seed", str(seed), "--jobs", str(jobs)]
    outcomes = judge_all(agents, keep.resolve(), options, at_once)
    reports = {
        each.agent.name: shipped((each.folder / "report.json").read_text(encoding="utf-8"), each.folder)
        for each in outcomes
        if each.folder is not None
    }
    if not reports:
        sys.stderr.write("nothing was judged: no page is written\n")
        sys.exit(1)
    absent = {each.agent.name: each.why for each in outcomes if each.folder is None}
    write(reports, absent, out / "judged.md", REPOSITORY / "build" / "judged.html")


if __name__ == "__main__":
    main()
