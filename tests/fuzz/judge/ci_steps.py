"""Executes the steps of a composite action, a workflow, and a Containerfile on this machine, as far as they are shell.

Enough of GitHub's runner for what this repository has: inputs, outputs of steps, `if: always()`, the files for outputs
and the summary, bash with `-eo pipefail`. Of a Containerfile: COPY into a folder that stands for the root, RUN, WORKDIR
and ENTRYPOINT. What is anything else raises, so that nothing is left out silently.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
_ACTION_KEYS = {"name", "description", "inputs", "outputs", "runs"}
_STEP_KEYS = {"name", "id", "shell", "env", "run", "if"}


class Ran(NamedTuple):
    """What came of an action."""

    code: int
    """The exit code of the step that failed; 0: none did."""
    outputs: Mapping[str, str]
    summary: str
    text: str
    """What the steps wrote, to both streams."""


def read_yaml(text: str) -> Any:
    """Read YAML; `on` stays a word."""
    return yaml.load(text, Loader=yaml.BaseLoader)


def run_action(action: Path, given: Mapping[str, str], *, work: Path, temp: Path, env: Mapping[str, str]) -> Ran:
    """Execute the steps of the composite action in a folder."""
    source = read_yaml((action / "action.yml").read_text(encoding="utf-8"))
    assert _ACTION_KEYS >= source.keys()
    assert "composite" == source["runs"]["using"]
    assert given.keys() <= source["inputs"].keys()
    inputs = {name: given.get(name, each.get("default")) for name, each in source["inputs"].items()}
    missing = [name for name, value in inputs.items() if value is None]
    assert not missing, f"required: {missing}"
    values = {f"inputs.{name}": str(value) for name, value in inputs.items()}
    values["github.action_path"] = str(action)
    temp.mkdir()
    summary, text, code = temp / "summary", "", 0
    summary.touch()
    for number, step in enumerate(source["runs"]["steps"]):
        assert _STEP_KEYS >= step.keys()
        assert "bash" == step["shell"]
        # A script that held the text of an input would execute it.
        assert not _EXPRESSION.search(step["run"]), step["run"]
        if code and step.get("if") != "always()":
            continue
        output = temp / f"output-{number}"
        output.touch()
        script = temp / f"step-{number}.sh"
        script.write_text(step["run"], encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=work,
            env={
                **env,
                **{name: _filled(value, values) for name, value in step.get("env", {}).items()},
                "RUNNER_TEMP": str(temp),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
                "GITHUB_ACTION_PATH": str(action),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        text += done.stdout
        code = code or done.returncode
        for line in output.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step.get('id')}.outputs.{name}"] = value
    outputs = {name: _filled(each["value"], values) for name, each in source["outputs"].items()}
    return Ran(code, outputs, summary.read_text(encoding="utf-8"), text)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda found: values.get(found[1], ""), text)


class Image(NamedTuple):
    """What the steps of a Containerfile have made."""

    root: Path
    work: str
    entrypoint: tuple[str, ...]


def build(file: Path, root: Path, env: Mapping[str, str]) -> Image:
    """Execute the steps of a Containerfile, with `root` in the place of the image's root."""
    work, entrypoint, targets = "/", (), []
    for line in file.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        match name:
            case "" | "#" | "ARG" | "FROM":
                pass
            case "COPY":
                source, target = shlex.split(rest)
                targets.append(target)
                (root / target.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (file.parent / source).is_dir() else shutil.copy
                copy(file.parent / source, root / target.lstrip("/"))
            case "RUN":
                for target in targets:
                    parts = re.split(rf"(?<=\s){re.escape(target)}(?=/|\s|$)", rest)
                    rest = (shlex.quote(str(root)) + target).join(parts)
                subprocess.run(["sh", "-ec", rest], cwd=root, env=env, check=True, capture_output=True)
            case "WORKDIR":
                work = rest
            case "ENTRYPOINT":
                entrypoint = tuple(json.loads(rest))
            case _:
                raise AssertionError(f"{file}: {name} is not executed here")
    return Image(root, work, entrypoint)
