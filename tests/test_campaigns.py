"""The two tiers of `scripts/check`: together they are all tests, and a failing test fails each that has it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.campaigns import CAMPAIGNS, ROOT, is_campaign

CONFTEST = """
import pytest
from tests.campaigns import is_campaign

@pytest.hookimpl
def pytest_itemcollected(item):
    if is_campaign(item.path):
        item.add_marker("campaign")
"""


def test_each_path_of_the_table_holds_tests() -> None:
    empty = [name for name in CAMPAIGNS if not (name.endswith(".py") and (ROOT / name).is_file())]
    assert [name for name in empty if not list((ROOT / name).rglob("test_*.py"))] == []


def test_each_test_of_a_file_in_the_table_is_marked(request: pytest.FixtureRequest) -> None:
    """Of this process's tests, which may be a part."""
    unmarked = [
        item.nodeid
        for item in request.session.items
        if is_campaign(item.path) and item.get_closest_marker("campaign") is None
    ]
    assert unmarked == []


@pytest.mark.parametrize(
    ("arguments", "broken", "ran", "status"),
    [
        (["tests"], "", ["campaign", "ordinary"], 0),
        ([], "ordinary", ["ordinary"], 1),
        ([], "campaign", ["ordinary"], 0),
        (["all"], "ordinary", ["campaign", "ordinary"], 1),
        (["all"], "campaign", ["campaign", "ordinary"], 1),
    ],
)
def test_the_tiers_of_a_small_suite(
    arguments: list[str], broken: str, ran: list[str], status: int, tmp_path: Path
) -> None:
    """The script itself, with a test of each kind; programs that only read the code are stand-ins."""
    bin_folder = tmp_path / ".venv" / "bin"
    for folder in (bin_folder, tmp_path / "scripts", tmp_path / "tests" / "fuzz"):
        folder.mkdir(parents=True)
    shutil.copy(ROOT.parent / "scripts" / "check", tmp_path / "scripts")
    shutil.copy(ROOT / "campaigns.py", tmp_path / "tests")
    for name in ("ruff", "mypy", "pyright", "lint-imports", "python"):
        _program(bin_folder / name, "exit 0")
    _program(bin_folder / "pytest", f'exec "{sys.executable}" -m pytest -p no:cacheprovider "$@"')
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath=["."]\nmarkers=["campaign"]\n')
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    for kind, file in (("ordinary", "test_ordinary.py"), ("campaign", "fuzz/test_mutants.py")):
        text = f"def test_it():\n    open({str(tmp_path / kind)!r}, 'w')\n    assert {broken!r} != {kind!r}\n"
        (tmp_path / "tests" / file).write_text(text)

    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "TEST_"))}
    done = subprocess.run(
        [tmp_path / "scripts" / "check", *arguments],
        cwd=tmp_path, env=environ | {"TEST_PROCESSES": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, [kind for kind in ("campaign", "ordinary") if (tmp_path / kind).exists()]) == (
        status, ran,
    ), done.stdout + done.stderr  # fmt: skip
    assert f"[{len(ran)}/{len(ran)}]" in done.stdout


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
