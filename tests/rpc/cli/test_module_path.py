"""No module of the folder that a process is started in is imported: it may belong to somebody else's project."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT
from tests.source_tree import REPOSITORY
from tests.test_layout import MODULES

TIMEOUT_S = 60
HOSTILE = "raise SystemExit('a module of the project was loaded')"


def run(folder: Path, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **ENVIRONMENT, "HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder / "agent")}
    env.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        command, cwd=folder, env=env, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a module for each that might be looked for in it."""
    for module in ("click", "trio", "pinnace_spec", "signal", "orjson", "argparse", "json", "collections", "functools"):
        (tmp_path / f"{module}.py").write_text(HOSTILE, encoding="utf-8")
    for package in ("pinnace_rpc", "pinnace_agent"):
        (tmp_path / package).mkdir()
        for name in ("__init__", "__main__"):
            (tmp_path / package / f"{name}.py").write_text(HOSTILE, encoding="utf-8")
    return tmp_path


def test_a_module_of_the_users_project_is_never_loaded(project: Path) -> None:
    flags = ("--mode", "rpc", "--no-session", "--provider", "offline")
    ended = run(project, *COMMAND, *flags, stdin='{"id":"s","type":"get_state"}\n')
    assert (0, "") == (ended.returncode, ended.stderr)
    assert '"success":true' in ended.stdout


def test_the_program_refuses_to_be_run_by_name_without_a_safe_path(tmp_path: Path) -> None:
    ended = run(tmp_path, sys.executable, "-m", "pinnace_rpc", "--version")
    assert (2, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith("pinnace: `python -m pinnace_rpc` imports modules of the current folder")
    assert ended.stderr.endswith("run `pinnace`, or `python -P -m pinnace_rpc`\n")


def test_a_judge_refuses_to_be_run_by_name_without_a_safe_path(tmp_path: Path) -> None:
    ended = run(tmp_path, sys.executable, "-m", "pinnace_fuzz.judge.cli", "--help")
    assert (1, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.endswith("run `python -P -m`\n")


def _commands_of_python(tree: ast.AST) -> Iterator[ast.List | ast.Tuple]:
    """Find the lists and tuples that begin with `sys.executable`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple) and node.elts and ast.unparse(node.elts[0]) == "sys.executable":
            yield node


def test_every_python_that_the_program_starts_has_a_safe_path() -> None:
    examples = sorted((REPOSITORY / "examples").rglob("*.py"))
    tests_runner = "'-m', 'pytest'"  # which imports the tests of the checkout it runs in
    unsafe = [
        f"{module.relative_to(REPOSITORY)}: {ast.unparse(command)}"
        for module in (*MODULES, *examples)
        for command in _commands_of_python(ast.parse(module.read_text(encoding="utf-8")))
        if len(command.elts) > 1 and ast.unparse(command.elts[1]) not in ("'-P'", "'-I'")
        if tests_runner not in ast.unparse(command)
    ]
    assert [] == unsafe
