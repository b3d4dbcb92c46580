"""The recipes of docs/fleet.md at work: the batch, an engine of one's own, and the commands of arrays of jobs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from tests.docs.test_pages import BLOCKS, TIMEOUT_S
from tests.source_tree import DATA, PYTHONPATH, REPOSITORY

from pinnace_spec.batch.results import DETAILED_EXIT_CODES
from pinnace_spec.batch.tasks import Task, TaskLimits

PAGE = "docs/fleet.md"
TEXTS = [each.text for each in BLOCKS if each.page == PAGE]


def block(start: str) -> str:
    (found,) = [each for each in TEXTS if each.startswith(start)]
    return found


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user for whom the offline model stands in for every other one."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pinnace"
    program.write_text(
        f'#!/bin/sh\nfirst=$1; shift\nexec {quote(sys.executable)} -P -m pinnace_rpc "$first" --provider offline "$@"\n'
    )
    program.chmod(0o755)
    (tmp_path / "prompts.txt").write_text("first\nsecond\n")
    return {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([PYTHONPATH, str(tmp_path)]),
        "HOME": str(tmp_path),
        "PINNACE_OFFLINE_DELAY_MS": "0",
    }


def shell(command: str, env: dict[str, str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=env["HOME"], env=env, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert 0 == done.returncode, done.stderr


def test_the_batch_of_the_page_runs(env: dict[str, str], tmp_path: Path) -> None:
    Task.model_validate_json(block('{"id": "fix-1"'))
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "x"}\n')
    (tmp_path / "own_engine.py").write_text(block("# own_engine.py"))
    shell(block("pinnace batch").replace("--model opus", ""), env)
    shell("pinnace batch tasks.jsonl --out own --engine own_engine:make", env)

    for folder in ("results", "own"):
        [line] = [json.loads(line) for line in (tmp_path / folder / "results.jsonl").read_text().splitlines()]
        assert ("a", "completed") == (line["id"], line["reason"])


def test_the_manifest_of_the_page_is_a_job_of_kubernetes() -> None:
    """By the schema that its servers publish, in which no field is unknown."""
    schema = json.loads((DATA / "kubernetes-job.schema.json").read_text(encoding="utf-8"))
    job: Any = YAML(typ="safe").load(block("apiVersion: batch/v1"))

    assert [] == [error.message for error in Draft202012Validator(schema).iter_errors(job)]
    job["spec"]["completionmode"] = job["spec"].pop("completionMode")
    assert not Draft202012Validator(schema).is_valid(job)


def test_the_array_of_the_page_is_a_script_of_the_shell() -> None:
    checked = subprocess.run(
        ["bash", "-n"], input=block("#!/bin/sh\n#SBATCH"), capture_output=True, text=True, check=False
    )

    assert (0, "") == (checked.returncode, checked.stderr)


@pytest.mark.parametrize("kind", ["slurm", "kubernetes"])
def test_the_command_of_an_array_can_be_repeated(kind: str, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    if kind == "slurm":
        command, number = block("#!/bin/sh\n#SBATCH"), {"SLURM_ARRAY_TASK_ID": "2"}
    else:
        job: Any = YAML(typ="safe").load(block("apiVersion: batch/v1"))
        [container] = job["spec"]["template"]["spec"]["containers"]
        [rule] = job["spec"]["podFailurePolicy"]["rules"]
        assert set(rule["onExitCodes"]["values"]) <= set(DETAILED_EXIT_CODES.values())
        command, number = container["args"][0], {"JOB_COMPLETION_INDEX": "1"}
    turns = []
    for _ in range(2):
        shell(command, env | number)
        result = json.loads((tmp_path / "results" / "2.json").read_text())
        assert ("completed", "job-2") == (result["reason"], result["session"]["id"])
        assert 'You said: "second"' in result["text"]
        turns.append(result["turns"])

    assert [1, 0] == turns


def test_every_field_of_a_task_is_described() -> None:
    text = (REPOSITORY / PAGE).read_text(encoding="utf-8")
    for name in (*Task.model_fields, *TaskLimits.model_fields):
        assert f"`{name}`" in text
