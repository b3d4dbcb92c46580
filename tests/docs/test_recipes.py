"""The recipes of examples/recipes: read by the programs that they are for, where those are here, and executed."""

import configparser
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

import pytest
from ruamel.yaml import YAML
from tests.source_tree import PYTHONPATH, REPOSITORY

RECIPES: Final = REPOSITORY / "examples" / "recipes"
TIMEOUT_S: Final = 120


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment whose `pinnace` is this program."""
    program = tmp_path / "bin" / "pinnace"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -P -m pinnace_rpc "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": PYTHONPATH,
        "PINNACE_OFFLINE_DELAY_MS": "0",
    }


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments."""
    lines = (RECIPES / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    parts = (line.partition(" ") for line in lines if line.strip() and not line.startswith("#"))
    return [(name, rest.strip()) for name, _, rest in parts]


def seen_by_the_build(folder: Path) -> Path:
    """Copy what the ignore file lets through, as `COPY . /src` does."""
    patterns = (RECIPES / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for pattern in patterns:
        if pattern.startswith("!"):
            source, target = REPOSITORY / pattern[1:], folder / pattern[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
    return folder


def test_the_image_is_built_from_what_the_build_sees(tmp_path: Path) -> None:
    """The wheel of the second stage has the program, and none of what the ignore file leaves out is needed."""
    source = seen_by_the_build(tmp_path / "src")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "wheel")]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=TIMEOUT_S)
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        assert "pinnace_rpc/cli/main.py" in built.namelist()
    assert (source / "requirements.lock").is_file()


def test_the_image_runs_the_program_as_an_ordinary_user(env: dict[str, str], tmp_path: Path) -> None:
    found = instructions()
    assert {"FROM", "COPY", "WORKDIR", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"} == {name for name, _ in found}
    assert [] == [version for version in re.findall(r"python:3\.(\d+)", str(found)) if int(version) < 11]
    for name, text in found:
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", text], check=True, timeout=TIMEOUT_S)
    last = dict(found)
    assert "agent" == last["USER"]
    assert '["pinnace"]' == last["ENTRYPOINT"]
    words = ["pinnace", "-p", "--provider", "offline", "--no-session", "count to 3"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert "1 2 3 \n" == done.stdout


@pytest.fixture
def job() -> Mapping[str, Any]:
    workflow = YAML(typ="safe").load(RECIPES / "review.yml")
    assert {"name", "on", "permissions", "jobs"} == set(workflow)
    (found,) = workflow["jobs"].values()
    job: Mapping[str, Any] = {**found, "permissions": workflow["permissions"]}
    return job


def test_the_job_gives_strangers_nothing(job: Mapping[str, Any]) -> None:
    """Values of the event reach scripts as variables alone; tools only read; the token can change nothing."""
    scripts = [step["run"] for step in job["steps"] if "run" in step]

    assert {"contents": "read"} == job["permissions"]
    assert [] == [script for script in scripts if "${{" in script]
    assert "--no-approve" in scripts[-1]
    assert "--tools read,grep,find,ls " in scripts[-1]
    assert [False] == [step["with"]["persist-credentials"] for step in job["steps"] if "checkout" in str(step)]


def test_the_script_of_the_job_reviews_a_change(job: Mapping[str, Any], env: dict[str, str], tmp_path: Path) -> None:
    """Run as the runner runs it, with the offline model."""
    work = tmp_path / "work"
    work.mkdir()
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for text in ("one\n", "two\n"):
        (work / "file.txt").write_text(text)
        for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", text]):
            subprocess.run(["git", *words], cwd=work, env=env, check=True, timeout=TIMEOUT_S)
    script = next(step["run"] for step in job["steps"] if step.get("name") == "Review")
    summary = tmp_path / "summary.md"
    more = {"BASE": "HEAD~1", "MODEL": "offline/rehearsal", "RUNNER_TEMP": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=work,
        env={**env, **more, "GITHUB_STEP_SUMMARY": str(summary)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "changes.diff" in summary.read_text()
    assert '"reason":"completed"' in (tmp_path / "result.json").read_text()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = RECIPES / "pinnace-host.service"
    read = configparser.ConfigParser()
    read.read(unit)
    assert "/usr/bin/env pinnace host" == read["Service"]["ExecStart"]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "" == "".join(line for line in done.stderr.splitlines() if "pinnace-host" in line)
