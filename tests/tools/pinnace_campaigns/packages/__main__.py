"""The command line of the comparison of packages.

    python -P -m pinnace_campaigns.packages FOLDER [NAME…] --report report.json

Each package is installed by npm into a folder of its own below FOLDER, if it is not there, with npm's scripts off, and
is then run by both programs (`course`). A step whose outcomes differ is played anew, and differs if no outcome of one
program is one of the other: packages that show times or draw lots are not blamed. Prints a row of a table for each.
The original is installed there too, since the one of
scripts/peers has none of its dependencies, which it needs to read TypeScript. Needs the registry of npm, and
`.tools/node22` (scripts/peers). Exit codes: 0 all compared, 1 some could not be run.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from pinnace_campaigns.packages.catalogue import PACKAGES
from pinnace_campaigns.packages.course import Course, Outcome
from pinnace_fuzz.trials.workbench import AgentStarter

_TOOLS: Final = Path(__file__).parents[4] / ".tools"
_ORIGINAL: Final = "@earendil-works/pi-coding-agent"
_RELEASE: Final = "1.5.2"
_SETTINGS: Final = {"compaction": {"keepRecentTokens": 3}, "retry": {"baseDelayMs": 5}}
_INSTALLED_WITHIN_S: Final = 300
_ROUNDS: Final = 3


class Comparison(NamedTuple):
    """What both programs do with a package."""

    name: str
    version: str
    tools: int
    commands: int
    steps: int
    differing: dict[str, list[object]]
    """Of each step that differs, the outcome of the original and ours."""


class NotInstalled(Exception):
    """Npm can't install a package."""


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("names", nargs=-1)
@click.option("--with-pi", is_flag=True, help="Let our agent find the installation of pi, for what it lacks itself.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write all differences as JSON.")
def main(folder: Path, names: Sequence[str], with_pi: bool, report: Path | None) -> None:
    """Compare what both programs do with packages of npm, installed below FOLDER; by default all of the catalogue."""
    compared: list[Comparison] = []
    is_failed = False
    try:
        original = install(folder, _ORIGINAL, _RELEASE)
    except NotInstalled as error:
        raise click.ClickException(f"{_ORIGINAL}: {error}") from None
    click.echo("| Package | Version | Tools | Commands | Steps | Equal |\n|---|---|---|---|---|---|")
    for name in names or PACKAGES:
        try:
            compared.append(compare(install(folder, name), name, original, with_pi=with_pi))
        except NotInstalled as error:
            is_failed = True
            click.echo(f"{name}: {error}", err=True)
            continue
        each = compared[-1]
        row = (name, each.version, each.tools, each.commands, each.steps, each.steps - len(each.differing))
        click.echo(f"| {' | '.join(map(str, row))} |")
        for step in each.differing:
            click.echo(f"{name}: {step} differs", err=True)
        if report is not None:
            report.write_text(json.dumps([each._asdict() for each in compared], indent=1, ensure_ascii=False))
    sys.exit(is_failed)


def install(folder: Path, name: str, version: str = "latest") -> Path:
    """Install a package, unless it is there in whatever version; return its folder.

    Raises:
        NotInstalled: Npm says no, or is not done within minutes.
    """
    place = (folder / name.replace("/", "+")).resolve()
    package = place / "node_modules" / name
    if not package.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps"]
        try:
            done = subprocess.run(
                [*npm, "--prefix", str(place), f"{name}@{version}"],
                capture_output=True,
                check=False,
                text=True,
                timeout=_INSTALLED_WITHIN_S,
                env={**os.environ, "npm_config_update_notifier": "false"},
            )
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"npm is not done after {_INSTALLED_WITHIN_S} s") from None
        if done.returncode or not package.is_dir():
            raise NotInstalled(done.stderr.strip() or f"npm has ended with {done.returncode}")
    return package


def compare(package: Path, name: str, original: Path, *, with_pi: bool = False) -> Comparison:
    """Run the course with both programs until no step differs, or for some rounds."""
    node = str(_TOOLS / "node22" / "bin" / "node")
    programs = [
        (node, str(original / "dist" / "bundle" / "cli.js")),
        (sys.executable, "-P", "-m", "pinnace_rpc"),
    ]
    outcomes: list[dict[str, list[Outcome]]] = [{}, {}]
    differing: set[str] = set()
    for _ in range(_ROUNDS):
        for command, mine in zip(programs, outcomes, strict=True):
            # The folder of npm's links has the program `pi`, by which an installation is found.
            first = original.parents[1] / ".bin" if with_pi else Path(node).parent
            for each in _played(command, package, node, first):
                mine.setdefault(each.step, []).append(each)
        differing = {step for step in outcomes[0].keys() | outcomes[1].keys() if not _agree(step, outcomes)}
        if not differing:
            break
    ours = outcomes[1]
    return Comparison(
        name=name,
        version=json.loads((package / "package.json").read_text())["version"],
        tools=sum(step.startswith("tool ") for step in ours),
        commands=sum(step.startswith("/") for step in ours),
        steps=len(outcomes[0].keys() | ours.keys()),
        differing={
            step: [mine[step][-1].seen if step in mine else None for mine in outcomes] for step in sorted(differing)
        },
    )


def _agree(step: str, outcomes: Sequence[dict[str, list[Outcome]]]) -> bool:
    theirs, ours = (mine.get(step, []) for mine in outcomes)
    return any(each in theirs for each in ours)


def _played(command: Sequence[str], package: Path, node: str, first: Path) -> list[Outcome]:
    env = {"PINNACE_NODE": node}
    # In the same folder each time: packages make names of it.
    root = Path(tempfile.gettempdir()) / "pinnace-packages"
    shutil.rmtree(root, ignore_errors=True)
    with AgentStarter(command, root, env) as starter:
        agent = starter(
            (), "-e", str(package), settings=_SETTINGS, has_session=True, is_checked=False, path_first=first
        )
        return list(Course(agent).play())


if __name__ == "__main__":
    main()
