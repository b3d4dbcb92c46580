"""Runs the judge on each agent, as a user would start it, and keeps the reports.

Each agent has the same time, jobs and seed. An agent whose report with the same options is there is not judged again;
what was interrupted is begun again for that agent alone. An agent without a report has a reason instead.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.judged.catalogue import NODE, REPOSITORY, Agent

_SEEDED: Final = "--seed"
_LAST_LINES: Final = 3


class Outcome(NamedTuple):
    """What came of one agent."""

    agent: Agent
    folder: Path | None
    """Where its report is."""
    why: str = ""
    """Why there is none."""


def judge(agent: Agent, keep: Path, options: Sequence[str]) -> Outcome:
    """Judge one agent, unless its report with these options is there.

    Args:
        agent: Which one.
        keep: Where the reports of all agents are, one folder an agent.
        options: Those of `pinnace-conform` that all agents have in common; `--seed` goes to those that have campaigns.
    """
    folder = keep / agent.name.replace(" ", "-")
    used = [*_for(agent, options), "--adapter", agent.adapter]
    made_with = folder / "options.json"
    if (folder / "report.json").exists() and made_with.exists() and json.loads(made_with.read_text()) == used:
        _report(f"{agent.name}: judged already, in {folder}")
        return Outcome(agent, folder)
    if missing := [
        each for each in agent.command if "/" in each and "=" not in each and not (REPOSITORY / each).exists()
    ]:
        return _without(agent, f"not installed: {missing[0]} is missing")
    shutil.rmtree(folder, ignore_errors=True)
    program = [str(Path(sys.executable).with_name("pinnace-conform")), *(["acp"] if agent.protocol == "acp" else [])]
    command = [*program, *used, "--report", "json", "--out", str(folder), "--", *agent.command]
    _report(f"{agent.name}: begins")
    env = {**os.environ, "PATH": os.pathsep.join((str(NODE), os.environ.get("PATH", os.defpath)))}
    with tempfile.TemporaryFile() as shown:
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=shown,
            stderr=subprocess.PIPE,
            check=False,
        )
    if not (folder / "report.json").exists():
        last = done.stderr.decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
        return _without(agent, f"pinnace-conform ended with {done.returncode}: {' '.join(last)}")
    made_with.write_text(json.dumps(used))
    _report(f"{agent.name}: judged")
    return Outcome(agent, folder)


def judge_all(agents: Sequence[Agent], keep: Path, options: Sequence[str], at_once: int) -> list[Outcome]:
    """Judge agents, so many at a time; return what came of each, in the order of the agents."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(partial(judge, keep=keep, options=options), agents))


def _for(agent: Agent, options: Sequence[str]) -> list[str]:
    """Leave out the seed for agents of a protocol without campaigns."""
    if agent.protocol == "rpc" or _SEEDED not in options:
        return [*options]
    at = options.index(_SEEDED)
    return [*options[:at], *options[at + 2 :]]


def _without(agent: Agent, why: str) -> Outcome:
    _report(f"{agent.name}: not judged, {why}")
    return Outcome(agent, None, why)


def _report(text: str) -> None:
    sys.stderr.write(f"{text}\n")
