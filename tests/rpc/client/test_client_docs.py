"""docs/client.md: every example runs as it stands there, and prints what stands below it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

DOCUMENT = (Path(__file__).parents[3] / "docs" / "client.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 60.0


class Example(NamedTuple):
    line: int
    code: str
    output: str


def examples() -> list[Example]:
    found: list[Example] = []
    for fence in FENCE.finditer(DOCUMENT):
        if fence[1] == "python":
            found.append(Example(DOCUMENT.count("\n", 0, fence.start()) + 1, fence[2], ""))
        else:
            assert fence[1] == "text"
            found[-1] = found[-1]._replace(output=fence[2])
    return found


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"line {example.line}")
def test_an_example_prints_what_it_says(example: Example, our_environment: dict[str, str], tmp_path: Path) -> None:
    command = tmp_path / "bin" / "pinnace"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m pinnace_rpc "$@"\n')
    command.chmod(0o755)
    env = {**our_environment, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}

    done = subprocess.run(
        [sys.executable, "-c", example.code],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert example.output == done.stdout


def test_there_are_examples() -> None:
    assert len(examples()) > 7
