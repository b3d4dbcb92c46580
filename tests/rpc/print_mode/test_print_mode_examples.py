"""Executes the examples of docs/command-line.md and of the manual, and compares the features that are not supported."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from shlex import quote

import pytest
from PIL import Image
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_rpc.options.help import manual
from pinnace_rpc.options.unsupported import ABSENCES

COMMAND_LINE = (REPOSITORY / "docs" / "command-line.md").read_text(encoding="utf-8")
MIGRATING = (REPOSITORY / "docs" / "migrating-from-pi.md").read_text(encoding="utf-8")
MANUAL = manual(["-ne"])
SETTINGS: Mapping[str, object] = {"defaultProvider": "fake", "defaultModel": "m1"}


def shell_lines() -> list[str]:
    """The commands of the page, and of the manual."""
    section = COMMAND_LINE.partition("\n## Print and JSON mode\n")[2]
    block = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)[0]
    examples = MANUAL.partition("\nExamples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in (*block.splitlines(), *examples.splitlines())]


@pytest.mark.parametrize("line", shell_lines())
def test_an_example_works(line: str, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "pinnace"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -P -m pinnace_rpc "$@"\n')
    program.chmod(0o755)
    picture = BytesIO()
    Image.new("RGB", (2, 2)).save(picture, "PNG")
    with FakeLlm([{"text": "the answer", "repeat": -1}]) as llm:
        env = {"PYTHONPATH": PYTHONPATH}
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


def test_the_page_lists_the_unsupported_features_in_the_words_of_the_program() -> None:
    section = MIGRATING.partition("\n## Features that are not supported\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section, re.MULTILINE)

    assert [("Feature", "Alternative"), *ABSENCES] == rows


@pytest.mark.parametrize("word", ["config", "update --self", "update --models"])
def test_a_command_of_pi_is_answered_with_the_nearest_way(word: str, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-P", "-m", "pinnace_rpc", *word.split()]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("pinnace: not supported: ")
    assert any(absence.instead.replace("`", "") in done.stderr for absence in ABSENCES)
    assert 1 == done.stderr.count("\n")
