"""The two tiers of `scripts/check`: together they are all tests, and a failing test fails each that has it."""

import ast
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.campaigns import FILES, ROOT, TABLE, TABLES, TESTS
from tests.conftest import pytest_ignore_collect

CONFTEST = """
import pytest
from tests.campaigns import Tiers

tiers = Tiers()

@pytest.hookimpl
def pytest_itemcollected(item):
    if tiers.is_campaign(item):
        item.add_marker("campaign")
"""
STACKED = """
import pytest

@pytest.mark.parametrize("second", ["a", "b"])
@pytest.mark.parametrize("first", [[1], [2]], ids=["1", "2"])
def test_it(first, second):
    pass
"""


def test_each_path_of_the_table_holds_tests() -> None:
    empty = [path for path in FILES if not (path.suffix == ".py" and path.is_file())]
    assert [path for path in empty if not list(path.rglob("test_*.py"))] == []


def test_each_test_of_the_table_is_in_its_file() -> None:
    named = [(path, name) for entries in (TESTS, TABLES) for path, names in entries.items() for name in names]
    found = {path: names_in(path) for path in {*TESTS, *TABLES}}
    assert [(path.name, name) for path, name in named if name not in found[path]] == []


def test_a_file_that_the_table_names_in_part_keeps_a_test() -> None:
    """A whole file has an entry of its own, which its reader sees at once."""
    assert [path.name for path, names in TESTS.items() if names_in(path) <= set(names)] == []


def test_each_entry_is_there_once() -> None:
    entries = [
        (file, name)
        for group in TABLE.values()
        for kind in ("tests", "tables")
        for file, names in group.get(kind, {}).items()
        for name in names
    ]
    files = [name for group in TABLE.values() for name in group.get("files", ())]
    assert len(entries) == len(set(entries))
    assert len(files) == len(set(files))
    assert FILES.isdisjoint({*TESTS, *TABLES})
    # A file has one list of each kind: a second one, in another group, would take the place of the first.
    assert sum(len(names) for kind in (TESTS, TABLES) for names in kind.values()) == len(entries)


@pytest.mark.parametrize(
    ("chosen", "file", "is_ignored"),
    [
        ("not campaign", "fuzz/model_check", True),
        ("not campaign", "fuzz/test_mutants.py", True),
        ("not campaign", "test_campaigns.py", None),
        ("", "fuzz/test_mutants.py", None),
        ("campaign", "fuzz/test_mutants.py", None),
    ],
)
def test_only_the_quick_tier_leaves_files_unread(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config, chosen: str, file: str, is_ignored: bool | None
) -> None:
    monkeypatch.setattr(pytestconfig.option, "markexpr", chosen)
    assert is_ignored is pytest_ignore_collect(ROOT / file, pytestconfig)
    assert '-m "not campaign"' in (ROOT.parent / "scripts" / "check").read_text()


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [
        ("", ["1-a"]),
        ("@first", ["1-a", "2-a"]),
        ("@second", ["1-a", "1-b"]),
        ("@first second", ["1-a", "1-b", "2-a", "2-b"]),
    ],
)
def test_a_table_keeps_a_case_of_each_value(parameters: str, kept: list[str], tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "campaigns.py", tmp_path / "tests")
    (tmp_path / "tests" / "campaigns.toml").write_text(f'[a.tables]\n"test_table.py" = ["test_it{parameters}"]\n')
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests" / "test_table.py").write_text(STACKED)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath=.\nmarkers=campaign\n")

    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-m", "not campaign"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert kept == re.findall(r"test_it\[(.+)\]", collected.stdout), collected.stdout


@cache
def names_in(path: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(path.read_bytes()))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


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
    for name in ("campaigns.py", "campaigns.toml"):
        shutil.copy(ROOT / name, tmp_path / "tests")
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
