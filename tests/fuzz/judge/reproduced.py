"""Writes the scripts of findings, and runs them in an environment that has nothing of the project."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.judge import html_reports as made
from tests.fuzz.judge.html_reports import Json

from pinnace_fuzz.judge.adapter import Adapter
from pinnace_fuzz.judge.html.reading import read_report
from pinnace_fuzz.judge.reports.reproducing import write_reproductions

TIMEOUT_S = 120


def written_scripts(
    folder: Path, cases: Sequence[Json], rule: tuple[str, Json], adapter: Adapter, *reader: Any, **agent: Any
) -> list[Path]:
    """Write the scripts of cases that have broken one rule, and return their folders."""
    report = {**made.report(*cases), "rules": dict([rule])}
    report["agent"] = {**report["agent"], **agent}
    return write_reproductions(read_report(report, 1), adapter, folder, *reader)


def run(folder: Path, *agent: str) -> str:
    """Run a script and return what it prints."""
    found = subprocess.run(
        ["/bin/sh", str(folder / "reproduce.sh"), *agent],
        check=False,
        env={"PATH": os.environ.get("PATH", os.defpath), "PAUSE": "2"},  # the machine has other things to do
        cwd="/",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return found.stdout + found.stderr
