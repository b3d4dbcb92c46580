"""What the README and the manual tell people to type, typed."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from pinnace_fuzz.adapters import prepare_pi_home
from pinnace_fuzz.fake_llm import FakeLlm
from pinnace_rpc.command import COMMAND
from pinnace_rpc.not_here import ABSENCES

REPOSITORY = Path(__file__).parents[2]
ROOTS = os.pathsep.join(str(REPOSITORY / name) for name in ("spec", "statechart", "agent", "rpc"))
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
MANUAL = COMMAND.get_help(COMMAND.make_context("pinnace", [], resilient_parsing=True))
SETTINGS: Mapping[str, object] = {"defaultProvider": "fake", "defaultModel": "m1"}


def shell_lines() -> list[str]:
    """The commands of the README's section, and of the manual's."""
    [block] = re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    examples = MANUAL.partition("\nExamples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in (*block.splitlines(), *examples.splitlines())]


@pytest.mark.parametrize("line", shell_lines())
def test_an_example_works(line: str, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "pinnace"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m pinnace_rpc "$@"\n')
    program.chmod(0o755)
    picture = BytesIO()
    Image.new("RGB", (2, 2)).save(picture, "PNG")
    with FakeLlm([{"text": "the answer", "repeat": -1}]) as llm:
        env = {"PYTHONPATH": ROOTS}
        home = prepare_pi_home(tmp_path / "home", llm.base_url, settings=SETTINGS, env=env, path_first=program.parent)
        (home.work / "README.md").write_text("# A project\n")
        (home.work / "photo.png").write_bytes(picture.getvalue())
        subprocess.run(["git", "init", "-q"], cwd=home.work, env=home.env, check=True)
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=home.work,
            env=home.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        asked = len(llm.requests)

    assert (0, "") == (done.returncode, done.stderr)
    if "records.jsonl" in line:
        assert "the answer" in (home.work / "records.jsonl").read_text()
    elif "-p" in line:
        assert "the answer\n" == done.stdout
        assert line.count('" "') + 1 == asked


def test_what_is_not_here_stands_in_the_readme_as_the_program_says_it() -> None:
    section = README.partition("\n## Not here\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section, re.MULTILINE)

    assert [("Not here", "Instead"), *ABSENCES] == rows


@pytest.mark.parametrize("word", "install remove uninstall update list config mcp".split())
def test_a_command_of_pi_is_answered_with_the_nearest_way(word: str, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": ROOTS}
    command = [sys.executable, "-P", "-m", "pinnace_rpc", word, "--anything"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("pinnace: not here: ")
    assert any(absence.instead.replace("`", "") in done.stderr for absence in ABSENCES)
    assert 1 == done.stderr.count("\n")
